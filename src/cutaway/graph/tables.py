"""The columns behind a trace.

A trace of 20,000 operations holds no 20,000 objects: it holds these lists, and hands out an `Op` for a
row when somebody asks for one. Parents always stand before their children.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from cutaway.core.events import GroupEvent, Ref, TensorMeta

if TYPE_CHECKING:
    from cutaway.graph.stored_facts import Known

OP: Final = "op"
INPUT: Final = "input"
PARAMETER: Final = "parameter"
BUFFER: Final = "buffer"
CONSTANT: Final = "constant"

INPLACE: Final = 1
IDENTITY: Final = 2
OPAQUE: Final = 4
ALIAS: Final = 8
NEEDS_GRAD: Final = 16
"""Set where the value is our own copy, which cannot tell."""
LEFT_TORCH: Final = 32
"""Its result is no tensor: a number or an array that the program went on with."""


@dataclass(frozen=True, slots=True, eq=False)
class Unsaved:
    """Stands where there is no value: it was not kept, or could not be written when the trace was saved."""

    reason: str = ""
    """Why it could not be written."""


UNSAVED: Final = Unsaved()
"""The value was not kept. Of traces that were read from disk there are others besides."""


@dataclass(slots=True)
class Nodes:
    """One row for each tensor that came into being: results of operations, and sources (inputs, parameters…)."""

    kind: list[str] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    event: list[tuple[Any, ...] | None] = field(default_factory=list)
    """The `OpEvent` as a bare tuple; results of one call share it. None for sources."""
    parents: list[tuple[int, ...]] = field(default_factory=list)
    """One entry for each tensor among the arguments, in the order of the walk over them."""
    call: list[int] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    """Place among the results of the call, "" for a single one; for sources their address or path."""
    value: list[Any] = field(default_factory=list)
    version: list[int | None] = field(default_factory=list)
    """The version counter at which a value kept by reference is right; None where it is our own copy."""
    meta: list[TensorMeta | None] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    writes: dict[int, list[str]] = field(default_factory=dict)
    """Node → addresses of the buffers or parameters it overwrote."""
    grads: dict[int, dict[int, Any]] = field(default_factory=dict)
    """Node → backward pass → gradient."""

    def __len__(self) -> int:
        return len(self.kind)

    def add(
        self, kind: str, name: str, event: tuple[Any, ...] | None, parents: tuple[int, ...], call: int, path: str
    ) -> int:
        """Append a row without a value and return its number."""
        self.kind.append(kind)
        self.name.append(name)
        self.event.append(event)
        self.parents.append(parents)
        self.call.append(call)
        self.path.append(path)
        self.value.append(UNSAVED)
        self.version.append(None)
        self.meta.append(None)
        self.flags.append(0)
        return len(self.kind) - 1

    def add_op(self, name: str, event: tuple[Any, ...], parents: tuple[int, ...], value: Any, version: Any) -> int:
        """Append the single result of an operation, with its value. Most rows are made here, so it is written flat."""
        self.kind.append(OP)
        self.name.append(name)
        self.event.append(event)
        self.parents.append(parents)
        self.call.append(event[4])
        self.path.append("")
        self.value.append(value)
        self.version.append(version)
        self.meta.append(None)
        self.flags.append(0)
        return len(self.kind) - 1

    def meta_of(self, node: int) -> TensorMeta | None:
        """Shape, dtype and device; read off the value the first time."""
        meta = self.meta[node]
        if meta is None:
            value = self.value[node]
            if hasattr(value, "dtype") and hasattr(value, "device"):
                meta = self.meta[node] = describe(value)
        return meta


def describe(tensor: Any) -> TensorMeta:
    """The metadata of anything that has a shape, a dtype and a device; equal ones are one object."""
    try:
        shape = tensor.shape
        if not _INTEGERS.issuperset(map(type, shape)):
            shape = tuple(map(int, shape))
    except (RuntimeError, TypeError, ValueError, AttributeError):  # nested tensors have no dense shape
        shape = None
    return _meta(shape, tensor.dtype, getattr(tensor, "device", "cpu"))


_INTEGERS = frozenset({int})


@lru_cache(maxsize=4096)
def _meta(shape: tuple[int, ...] | None, dtype: Any, device: Any) -> TensorMeta:
    return TensorMeta(None if shape is None else tuple(shape), str(dtype).removeprefix("torch."), str(device))


@dataclass(slots=True)
class CallRow:
    """One run of a module's forward."""

    module: int
    """Row in the table of modules; -1 for the world outside all modules."""
    parent: int
    pass_: int
    training: bool
    seconds: float
    code: CodeType | None
    instruction: int
    inputs: list[tuple[str, int]] = field(default_factory=list)
    """(path, node) of every tensor handed in."""
    outputs: list[tuple[str, int]] = field(default_factory=list)
    is_finished: bool = False
    is_root: bool = False
    first_node: int = 0


@dataclass(slots=True)
class ModuleRow:
    """One module of the model, called or not."""

    addresses: tuple[str, ...]
    class_name: str
    parameters: tuple[int, ...]
    """Rows in the table of parameters that belong to it directly."""
    children: tuple[int, ...] = ()
    calls: list[int] = field(default_factory=list)
    has_forward: bool = True
    """False for mere containers, such as a `ModuleList`."""


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One parameter or buffer of the model, used or not."""

    addresses: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    numel: int
    is_buffer: bool
    requires_grad: bool
    node: int
    """Its node in the graph; -1 if nothing read it."""


@dataclass(frozen=True, slots=True)
class FailedOp:
    """The operation that ended a trace: it has no row of its own, because it made nothing."""

    function: str
    """Its name, as an op would have it: `linear`, `matmul`."""
    parents: tuple[int, ...]
    """The nodes of the tensors among its arguments, each once; those that nothing before it had used have none."""
    call: int
    """Number of the module call it ran in; 0 outside all modules."""
    source: str
    """The user's line that led to it: `model.py:12 in Net.forward`; "" where there is none."""
    text: str
    """That line itself, where its file is at hand."""


@dataclass(slots=True)
class Tables:
    """Everything capture found out, before anybody asks."""

    nodes: Nodes
    calls: list[CallRow]
    modules: list[ModuleRow]
    parameters: list[ParameterRow]
    groups: dict[int, GroupEvent]
    inputs: list[tuple[str, int]] = field(default_factory=list)
    outputs: list[tuple[str, int]] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)
    """User-given names → nodes (`$memory`)."""
    is_tensor: Callable[[Any], bool] = lambda value: isinstance(value, Ref)
    """Tells what among the arguments of an event stands for a tensor."""
    n_backwards: int = 0
    model_name: str = ""
    compiled: bool = False
    seconds: float = 0.0
    saved_all: bool = True
    error: BaseException | None = None
    failed: str | None = None
    """The operation that raised the error, in words."""
    failed_op: FailedOp | None = None
    """The same as data; None also in a trace that an older Cutaway saved."""
    recipe: Any = None
    """How to run the model again, as capture knows it; None where it does not."""
    is_transformed: bool = False
    """Whether something else than the values themselves was saved."""
    is_replay: bool = False
    """Whether these are the values of a replay, which nobody saw."""
    recomputed: tuple[int, ...] = ()
    """In a replay: the nodes whose values are other than in the original."""
    read_from: str = ""
    """Where the trace was read from; "" if it was made in this process."""
    known: Known | None = None
    """What was worked out when it was saved; None if it was made in this process."""
