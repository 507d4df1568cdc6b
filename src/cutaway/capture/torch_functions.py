"""Name, category and overwritten arguments of each torch function.

Each function is classified once, on its first call, and cached.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from cutaway.capture.patches.composites import is_composite, open_composite

SKIP: Final = 0
"""Reads a property or configures torch: called, but not recorded."""
LEAF: Final = 1
"""An operation."""
COMPOSITE: Final = 2
"""Python code that calls other operations: its inner calls are recorded."""
WRITER: Final = 3
"""An operation that overwrites some of its arguments."""
ESCAPE: Final = 4
"""An operation that exposes memory to code that capture cannot see (`numpy`)."""
BACKWARD: Final = 5
"""Runs the autograd engine: nothing inside it is recorded."""
PYTHON: Final = 6
"""Python code that does not dispatch to modes itself: the function that dispatched in its name is opened."""
RANDOM: Final = 7
"""An operation that may use random numbers."""


LINK: Final = "link"
"""Marks an event that says which tensors an `autograd.Function` was given and returned."""


@dataclass(frozen=True, slots=True)
class Function:
    """How capture handles one torch function."""

    name: str
    role: int
    writes: tuple[int | str, ...] = ()
    """Positions and names of the arguments it overwrites."""
    body: Any = None
    """For composites: the copy whose inner calls reach the function mode."""
    is_opaque: bool = False
    """Whether it runs code whose inner calls cannot be captured."""
    moves: bool = False
    """Whether it may change the memory or shape of the tensors it overwrites."""
    is_random: bool = False
    """Whether it may use random numbers."""
    is_simple: bool = field(init=False, default=False)
    """Whether a call is fully described by its arguments and its result."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_simple", self.role in (LEAF, RANDOM) and not self.is_opaque)


class Opaque:
    """Represents code whose inner calls cannot be captured (a ScriptModule, a vmapped function) as one function."""

    __slots__ = ("__name__", "target")

    def __init__(self, target: Any, name: str | None = None) -> None:
        self.target = target
        target_name = getattr(target, "original_name", None) or getattr(target, "name", None)
        self.__name__ = name or str(target_name or type(target).__name__)

    def __call__(self, *args: Any, closure: Any = None, **kwargs: Any) -> Any:
        """Runs it; `closure` lists the tensors it reads besides its arguments, and is only recorded."""
        return self.target(*args, **kwargs)


class Collective(Opaque):
    """Represents a collective of `torch.distributed`: it overwrites the tensors in its first argument.

    Args:
        ranks: the processes that take part.
    """

    __slots__ = ("ranks",)

    def __init__(self, name: str, ranks: tuple[int, ...]) -> None:
        super().__init__(None, name)
        self.ranks = ranks


class EditFunction:
    """Represents an edit in a trace: one operation that can be replayed."""

    __slots__ = ("__name__", "target")

    def __init__(self, target: Any) -> None:
        self.target = target
        self.__name__ = "edit"

    def __call__(self, value: Any, *others: Any) -> Any:
        return self.target(value, *others)


# Properties that return tensors are ops; all others (`shape`, `dtype`) only describe a tensor.
_GETTERS_OF_TENSORS = frozenset({"T", "mT", "H", "mH", "real", "imag", "data", "grad", "_grad"})

_SKIPPED = frozenset(
    [
        "size",
        "dim",
        "ndimension",
        "numel",
        "nelement",
        "stride",
        "storage_offset",
        "is_contiguous",
        "is_floating_point",
        "is_complex",
        "is_signed",
        "is_same_size",
        "is_set_to",
        "element_size",
        "get_device",
        "has_names",
        "is_conj",
        "is_neg",
        "is_inference",
        "is_pinned",
        "is_shared",
        "is_coalesced",
        "sparse_dim",
        "dense_dim",
        "data_ptr",
        "untyped_storage",
        "storage",
        "_typed_storage",
        "storage_type",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "retain_grad",
        "requires_grad_",
        "__len__",
        "__hash__",
        "__repr__",
        "__format__",
        "__dir__",
        "__reduce_ex__",
        "__setstate__",
        "__deepcopy__",
        "dim_order",
        "qscheme",
        "q_scale",
        "q_zero_point",
        "result_type",
        "can_cast",
        "promote_types",
        "get_default_dtype",
        "set_default_dtype",
        "is_tensor",
        "is_storage",
        "_set_grad_enabled",
        "set_grad_enabled",
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "_is_view",
        "_is_zerotensor",
        "is_distributed",
        "is_autocast_enabled",
        "set_autocast_enabled",
        "get_autocast_dtype",
        "set_autocast_dtype",
        "autocast_increment_nesting",
        "autocast_decrement_nesting",
        "clear_autocast_cache",
        "is_autocast_cache_enabled",
        "set_autocast_cache_enabled",
        "is_autocast_available",
        "_assert_async",
        "_functional_assert_async",
        "module_load",
        "align_as",
        "align_to",
        "refine_names",
        "rename",
        "rename_",
        "names",
        "_nested_tensor_size",
        "_nested_tensor_strides",
        "_nested_tensor_storage_offsets",
        "manual_seed",
        "seed",
        "initial_seed",
        "get_rng_state",
        "set_rng_state",
        "default_generator",
        "set_default_device",
        "get_default_device",
        "set_flush_denormal",
        "compiled_with_cxx11_abi",
        "get_num_threads",
        "are_deterministic_algorithms_enabled",
        "use_deterministic_algorithms",
        "is_warn_always_enabled",
        "share_memory_",
        "vmap_increment_nesting",
    ]
)

_FIRST: tuple[int | str, ...] = (0, "input", "self", "tensor")
"""Arguments that a function overwrites if its name ends in an underscore."""
_WRITERS: dict[str, tuple[int | str, ...]] = {
    "__setitem__": _FIRST,
    "batch_norm": (3, 4, "running_mean", "running_var"),
    "instance_norm": (3, 4, "running_mean", "running_var"),
    "_batch_norm_impl_index": (3, 4),
    "native_batch_norm": (3, 4),
    "set_": (0,),
    "swap_tensors": (0, 1),
}
_MOVERS = frozenset({"set_", "resize_", "resize_as_", "swap_tensors", "t_", "transpose_", "squeeze_", "unsqueeze_",
                     "swapaxes_", "swapdims_", "as_strided_", "resize_as_sparse_", "sparse_resize_"})  # fmt: skip
"""Functions that change the memory or shape of a tensor, not (only) its elements."""
_ESCAPES = frozenset({"numpy", "__array__", "__dlpack__", "to_dlpack", "tolist"})
# Names that end in an underscore but leave the elements alone.
_NOT_WRITERS = frozenset({"requires_grad_", "retain_grad_", "detach_", "names_", "share_memory_"})
_DUNDERS = {
    "__radd__": "add",
    "__rmul__": "mul",
    "__rmatmul__": "matmul",
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__rtruediv__": "div",
    "__floordiv__": "floor_divide",
    "__idiv__": "div_",
    "__div__": "div",
    "__mod__": "remainder",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}

_NOT_REPLAYABLE = ("quantized::", "c10d::", "_c10d_functional::")
"""Operators that need packed weights or other processes: they cannot be replayed alone."""

_FORWARD_AD = frozenset({"make_dual", "_make_dual", "unpack_dual", "_unpack_dual"})
"""Functions that need the level of forward-mode AD in which they ran: they cannot be replayed outside it."""

_EDIT = Function("edit", LEAF)
_known: dict[Any, Function] = {}
_MAX_KNOWN = 20_000


def known_functions() -> dict[Any, Function]:
    """The cache of classified functions; the function mode reads it directly."""
    return _known


def function_of(func: Any) -> Function:
    """How capture handles `func`; classifies it on its first use."""
    function = _known.get(func)
    if function is None:
        if type(func) is Opaque:
            return Function(func.__name__, LEAF, is_opaque=True)
        if type(func) is Collective:
            return Function(func.__name__, WRITER, writes=_FIRST, is_opaque=True)
        if type(func) is EditFunction:
            return _EDIT
        if len(_known) > _MAX_KNOWN:
            _known.clear()
        function = _known[func] = _classify(func)
    return function


def name_of(func: Any) -> str:
    """The name of a torch function as users know it.

    >>> name_of(torch.Tensor.__add__), name_of(torch.Tensor.__iadd__), name_of(torch.Tensor.T.__get__)
    ('add', 'add_', 'T')
    """
    name = getattr(func, "__name__", None) or type(func).__name__
    if name in ("__get__", "__set__", "__delete__"):
        return str(getattr(func.__self__, "__name__", name))
    if isinstance(func, torch._ops.OpOverload):
        name = func._schema.name
    name = str(name).split("::")[-1].split(".")[0]
    if name in _DUNDERS:
        return _DUNDERS[name]
    if name.startswith("__") and name.endswith("__"):
        bare = name[2:-2]
        # `__iadd__` is in place; `__invert__`, `__int__` and `__index__` only begin with the same letter.
        if bare.startswith("i") and hasattr(Tensor, f"__{bare[1:]}__") and bare not in ("invert", "int", "index"):
            return f"{bare[1:]}_"
        return bare
    return name


def written_tensors(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[Tensor]:
    """The tensors that this call overwrites."""
    if function.writes is _FIRST and args and type(args[0]) is Tensor and not (kwargs and "out" in kwargs):
        return [args[0]]
    targets: list[Tensor] = []
    for place in function.writes:
        if isinstance(place, int):
            value = args[place] if place < len(args) else None
        else:
            value = kwargs.get(place) if kwargs else None
        _add_tensors(value, targets)
    if kwargs and "out" in kwargs:
        _add_tensors(kwargs["out"], targets)
    # In eval mode they only read their running statistics.
    if function.name in ("batch_norm", "instance_norm") and not _updates_statistics(args, kwargs):
        return []
    return targets


def _updates_statistics(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> bool:
    if len(args) > 5:
        return bool(args[5])
    return bool(kwargs and (kwargs.get("training") or kwargs.get("use_input_stats")))


def _add_tensors(value: Any, targets: list[Tensor]) -> None:
    if isinstance(value, Tensor):
        targets.append(value)
    elif isinstance(value, (list, tuple)):
        targets.extend(item for item in value if isinstance(item, Tensor))


def _classify(func: Any) -> Function:
    raw = getattr(func, "__name__", "") or ""
    name = name_of(func)
    if raw == "__get__":
        # The value of `.grad` depends on backward passes, which are not replayed.
        return Function(name, LEAF if name in _GETTERS_OF_TENSORS else SKIP, is_opaque=name in ("grad", "_grad"))
    if raw == "__set__":
        return Function("set_data", WRITER, (0,), moves=True) if name == "data" else Function(name, SKIP)
    if raw == "__delete__" or raw in _SKIPPED:
        return Function(name, SKIP)
    if func in (Tensor.backward, torch.autograd.backward, torch.autograd.grad):
        return Function(name, BACKWARD, is_opaque=True)
    if isinstance(func, torch._ops.HigherOrderOperator):
        return Function(name, LEAF, is_opaque=True)
    if raw in _ESCAPES:
        return Function(name, ESCAPE)
    if name in _FORWARD_AD:
        return Function(name, LEAF, is_opaque=True)
    if isinstance(func, torch._ops.OpOverload):
        return _by_schema(name, [func._schema])
    if isinstance(func, torch._ops.OpOverloadPacket):
        return _by_schema(name, [getattr(func, overload)._schema for overload in func.overloads()])
    writes: tuple[int | str, ...] = ()
    # Torch's convention: a trailing underscore means in place.
    if name.endswith("_") and not name.endswith("__") and raw not in _NOT_WRITERS:
        writes = _FIRST
    if isinstance(func, types.FunctionType):
        # Python code without inner torch calls (the initializers of `nn.init`) does not declare whether it is random.
        if is_composite(func):
            return Function(name, COMPOSITE, writes, open_composite(func), is_random=bool(writes))
        return Function(name, PYTHON, writes, is_random=True)
    writes = _WRITERS.get(raw) or writes or _written_by_schema(raw)
    is_random = _may_be_random(raw)
    return Function(name, _role(writes, is_random), writes, moves=raw in _MOVERS, is_random=is_random)


def _by_schema(name: str, schemas: list[Any]) -> Function:
    """Classifies an operator by its schemas."""
    places = _written_places(schemas)
    is_opaque = any(schema.name.startswith(_NOT_REPLAYABLE) for schema in schemas)
    is_random = _may_be_random(name)
    return Function(name, _role(places, is_random), places, is_opaque=is_opaque, is_random=is_random)


def _written_places(schemas: list[Any]) -> tuple[int | str, ...]:
    """Positions and names of the arguments that the schemas of an operator mark as overwritten."""
    places: dict[int | str, None] = {}
    for schema in schemas:
        for i, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                if not argument.kwarg_only:
                    places[i] = None
                places[argument.name] = None
    return tuple(places)


def _written_by_schema(name: str) -> tuple[int | str, ...]:
    """What a function of C overwrites though its name has no underscore (`fused_moving_avg_obs_fake_quant`).

    The schemas do not mark the running statistics of `batch_norm`, hence `_WRITERS`. Every `out=` counts by itself.
    """
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return ()
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    return _written_places([schema for schema in schemas if not _has_out(schema)])


def _has_out(schema: Any) -> bool:
    return any(argument.is_out for argument in schema.arguments)


def _role(writes: tuple[int | str, ...], is_random: bool) -> int:
    return WRITER if writes else RANDOM if is_random else LEAF


def _may_be_random(name: str) -> bool:
    """Whether torch tags its operator of this name as using a seeded generator."""
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return False
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, o).tags for o in packet.overloads())
