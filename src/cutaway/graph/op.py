"""One op of a trace: a lightweight view of a row of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutaway.core.arrays import Array, as_array
from cutaway.core.errors import NotSavedError, StaleValueError
from cutaway.core.pytree import leaves, replace
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.analysis.flops import flops_of
from cutaway.graph.control_flow.source import Source, stack_of, users_line
from cutaway.graph.tables import (
    ALIAS,
    BUFFER,
    CONSTANT,
    IDENTITY,
    INPLACE,
    INPUT,
    OP,
    OPAQUE,
    PARAMETER,
    Unsaved,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from cutaway.graph.control_flow.conditionals import Conditional
    from cutaway.graph.modules import ModuleCall
    from cutaway.graph.trace import Trace


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor argument of an op."""

    parent: Op
    argument: str
    """`"0"`, `"0.2"` (third tensor of a list), or a keyword name."""


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One tensor of the graph: the result of an operation, or a source such as an input.

    An operation with several results has several ops, which share a call and differ in `output_path`.
    """

    trace: Trace
    node: int
    unit: int | None = None
    address: str = ""
    """For a tied parameter, the address by which it was looked up, which decides its units."""

    # Ops are created on access, so two objects can stand for one row.
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Op) and (self.trace is other.trace) and (self.node, self.unit) == (other.node, other.unit)
        )

    def __hash__(self) -> int:
        return hash((id(self.trace), self.node, self.unit))

    # names

    @property
    def label(self) -> str:
        """`relu_3_6`: the third relu, and the sixth operation; inputs are `input_1`, parameters their address."""
        return self.trace.names.label(self.node)

    @property
    def site(self) -> str:
        """Its shortest unique site: `encoder.2.attn/softmax`."""
        site = self.trace.names.site(self.node)
        return str(site) if self.unit is None else f"{site}#{self.unit}"

    @property
    def full_site(self) -> Site:
        """Its site with explicit ordinal and pass; the same in every trace of the same computation."""
        return self.trace.names.full_site(self.node)

    @property
    def kind(self) -> str:
        """ "op", "input", "parameter", "buffer" or "constant"."""
        return self.trace.tables.nodes.kind[self.node]

    @property
    def function(self) -> str:
        """Name of the function that was called: `conv2d`, `add_`, `getitem`."""
        return self.trace.tables.nodes.name[self.node]

    @property
    def callable(self) -> Any:
        """The function object; None for sources, and in a trace that was loaded from disk."""
        event = self.trace.tables.nodes.event[self.node]
        return None if event is None else event[0]

    @property
    def position(self) -> int | None:
        """Index among the ops in order of execution, from 0; None for sources."""
        return self.trace.names.position(self.node)

    @property
    def output_path(self) -> str:
        """Path among the results of the call: "" for a single one, "0", "values"…"""
        return self.trace.tables.nodes.path[self.node] if self.kind == OP else ""

    @property
    def output_index(self) -> int | None:
        """Index among the tensors that its call returned, from 0; None if it returned one."""
        nodes = self.trace.tables.nodes
        event = nodes.event[self.node]
        if event is None or not nodes.path[self.node]:
            return None
        # Results of one call are adjacent rows that share one event object.
        first = self.node
        while first > 0 and nodes.event[first - 1] is event:
            first -= 1
        return self.node - first

    @property
    def pass_(self) -> int:
        """How many times this site had been reached, including this time."""
        return self.full_site.pass_ or 1

    # recurrence

    @property
    def passes(self) -> tuple[Op, ...]:
        """All passes of the same op in order, including this one; `docs/recurrence.md` defines "the same op"."""
        return tuple(Op(self.trace, node, self.unit) for node in self.trace.rolled.nodes_of(self.node))

    @property
    def n_passes(self) -> int:
        """The number of its passes."""
        return len(self.trace.rolled.nodes_of(self.node))

    @property
    def loop_pass(self) -> int:
        """Its index among its passes, from 1."""
        return self.trace.rolled.number_of(self.node)

    @property
    def rolled(self) -> Op:
        """All its passes as one `Passes`; the op itself if it ran once."""
        return self.trace.rolled.of(self.node, self.unit)

    # the graph

    @property
    def parents(self) -> tuple[Op, ...]:
        """The ops it was computed from, each once, in the order of the arguments."""
        return tuple(Op(self.trace, node) for node in dict.fromkeys(self.trace.tables.nodes.parents[self.node]))

    @property
    def edges(self) -> tuple[Edge, ...]:
        """One entry for each tensor argument: `x + x` has two edges from one parent."""
        nodes = self.trace.tables.nodes
        event = nodes.event[self.node]
        parents = nodes.parents[self.node]
        if event is None:
            return ()
        names: list[str] = []
        is_tensor = self.trace.tables.is_tensor
        for tree in (event[1], event[2] or {}):
            names.extend(path for path, _ in leaves(_slices_as_tuples(tree), is_tensor, objects=False))
        names.extend(str(i) for i in range(len(names), len(parents)))
        return tuple(Edge(Op(self.trace, node), name) for node, name in zip(parents, names, strict=False))

    @property
    def children(self) -> tuple[Op, ...]:
        """The ops that were computed from it."""
        return tuple(Op(self.trace, node) for node in self.trace.children_of(self.node))

    @property
    def siblings(self) -> tuple[Op, ...]:
        """All results of the same call, including this one."""
        nodes = self.trace.tables.nodes
        event = nodes.event[self.node]
        if event is None:
            return (self,)
        first = last = self.node
        while first > 0 and nodes.event[first - 1] is event:
            first -= 1
        while last + 1 < len(nodes) and nodes.event[last + 1] is event:
            last += 1
        return tuple(Op(self.trace, node) for node in range(first, last + 1))

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments, with an `Op` instead of each tensor."""
        return self._arguments()[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments, with an `Op` instead of each tensor."""
        return self._arguments()[1]

    def _arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        nodes = self.trace.tables.nodes
        event = nodes.event[self.node]
        if event is None:
            return (), {}
        order = iter(nodes.parents[self.node])
        is_tensor = self.trace.tables.is_tensor

        def op(_: Any) -> Op | None:
            node = next(order, None)
            return None if node is None else Op(self.trace, node)

        return replace(event[1], op, is_tensor), replace(event[2] or {}, op, is_tensor)

    @property
    def parameters(self) -> tuple[Op, ...]:
        """The parameters among its parents."""
        return tuple(parent for parent in self.parents if parent.kind == PARAMETER)

    @property
    def writes(self) -> tuple[str, ...]:
        """Addresses of the buffers and parameters that it overwrote."""
        return tuple(self.trace.tables.nodes.writes.get(self.node, ()))

    @property
    def module(self) -> ModuleCall | None:
        """The module call in which it ran; for a constant, that of its first user."""
        return self.trace.call_of(self.node)

    @property
    def groups(self) -> tuple[str, ...]:
        """The composite functions it ran in, outermost first: `("multi_head_attention_forward", "softmax")`."""
        event = self.trace.tables.nodes.event[self.node]
        names, number = [], 0 if event is None else event[5]
        while number:
            group = self.trace.tables.groups[number]
            names.append(group.function)
            number = group.parent
        return tuple(reversed(names))

    @property
    def distance_from_input(self) -> int | None:
        """Length of the shortest path from an input; None if no input leads here."""
        return self.trace.distances.from_input[self.node]

    @property
    def distance_to_output(self) -> int | None:
        """Length of the shortest path to an output; None if it leads to none."""
        return self.trace.distances.to_output[self.node]

    # conditionals

    @property
    def conditionals(self) -> tuple[Conditional, ...]:
        """The tests that it decided."""
        return self.trace.conditionals.of(self.node)

    @property
    def is_condition(self) -> bool:
        """Whether it decided an `if`, a `while` or another test."""
        return bool(self.conditionals)

    @property
    def is_branch(self) -> bool:
        """Whether it was computed only to decide a conditional."""
        return self.node in self.trace.conditionals.branch_nodes

    @property
    def arms(self) -> tuple[tuple[Conditional, str], ...]:
        """The branches of conditionals in which it ran, outermost first: `((conditional, "then"), …)`."""
        return self.trace.conditionals.around(self.node)

    # metadata

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the value; None for a Python number or a tensor without a dense shape."""
        meta = self.trace.tables.nodes.meta_of(self.node)
        if meta is None or meta.shape is None or self.unit is None:
            return meta.shape if meta else None
        return self.unit_layout.unit_shape(meta.shape)

    @property
    def unit_layout(self) -> UnitLayout:
        """Which dimensions of the value count units, samples and positions, derived from the graph.

        `unit_layout.n_units` is the number of units. If the graph does not determine the layout, it is marked as
        refused, and asking for a unit raises `UnitError`.
        """
        layout = self.trace.unit_layouts[self.node]
        if self.address:
            layout = self.trace.tied_unit_layouts.get((self.node, self.address), layout)
        return UnitLayout.refused((), "it is not a tensor with a dense shape") if layout is None else layout

    @property
    def dtype(self) -> str | None:
        """`"float32"`, `"bfloat16"`…; for a Python number, its type."""
        meta = self.trace.tables.nodes.meta_of(self.node)
        if meta is not None:
            return meta.dtype
        value = self.trace.tables.nodes.value[self.node]
        return None if isinstance(value, Unsaved) else type(value).__name__

    @property
    def device(self) -> str | None:
        meta = self.trace.tables.nodes.meta_of(self.node)
        return None if meta is None else meta.device

    @property
    def bytes(self) -> int:
        """Size of the value in bytes."""
        meta = self.trace.tables.nodes.meta_of(self.node)
        return 0 if meta is None else meta.bytes

    @property
    def seconds(self) -> float:
        """Time of the call, measured in Python: on a GPU, the time to launch the kernels."""
        event = self.trace.tables.nodes.event[self.node]
        return 0.0 if event is None else (event[9] - event[8]) * 1e-9

    @property
    def flops(self) -> int:
        """Floating-point operations by torch's convention: matrix products only, a multiply-add counts 2."""
        stored = self.trace.tables.stored
        return flops_of(self) if stored is None else stored.flops.get(self.node, 0)

    @property
    def source(self) -> Source | None:
        """The line of your code that called it: the innermost one outside torch."""
        return users_line(self.stack)

    @property
    def stack(self) -> tuple[Source, ...]:
        """The calling lines, innermost first, through composites and module calls."""
        event = self.trace.tables.nodes.event[self.node]
        return () if event is None else stack_of(self.trace.tables, event)

    @property
    def is_inplace(self) -> bool:
        """Whether it overwrote its first argument."""
        return bool(self.trace.tables.nodes.flags[self.node] & INPLACE)

    @property
    def is_identity(self) -> bool:
        """Whether it returned its input tensor unchanged (dropout in eval mode, a `.to` without effect)."""
        return bool(self.trace.tables.nodes.flags[self.node] & IDENTITY)

    @property
    def is_opaque(self) -> bool:
        """Whether it stands for code that could not be traced into."""
        return bool(self.trace.tables.nodes.flags[self.node] & OPAQUE)

    @property
    def is_alias_write(self) -> bool:
        """Whether it stands for a write through another tensor that shares its memory."""
        return bool(self.trace.tables.nodes.flags[self.node] & ALIAS)

    @property
    def is_source(self) -> bool:
        """Whether it existed before the computation: an input, parameter, buffer or constant."""
        return self.kind in (INPUT, PARAMETER, BUFFER, CONSTANT)

    # values

    @property
    def is_saved(self) -> bool:
        """Whether its value was saved."""
        return not isinstance(self.trace.tables.nodes.value[self.node], Unsaved)

    @property
    def value(self) -> Any:
        """Its value, detached. It may share memory with your program: copy it before you write to it."""
        nodes = self.trace.tables.nodes
        value = nodes.value[self.node]
        if isinstance(value, Unsaved):
            if value.reason:
                stored = "stored with the trace" if self.trace.tables.read_from else "saved"
                raise NotSavedError(f"the value of {self.label!r} was not {stored}: {value.reason}.")
            raise NotSavedError(
                f"the value of {self.label!r} was not saved: trace again with "
                f"cutaway.watch(model, save={str(self.full_site)!r}), or save='**' for all."
            )
        value = _load(value)
        # Torch counts in-place writes to a tensor and all its views in `_version`.
        version = nodes.version[self.node]
        if version is not None and value._version != version:
            raise StaleValueError(
                f"the value of {self.label!r} was kept by reference and has been overwritten since: "
                "trace again with cutaway.watch(model, keep='copy')."
            )
        if hasattr(value, "detach"):
            if is_freed(value):
                raise StaleValueError(
                    f"the value of {self.label!r} was kept by reference and its memory has been freed since: "
                    "trace again with cutaway.watch(model, keep='copy')."
                )
            value = value.detach()
        return value if self.unit is None else self.unit_layout.unit(value, self.unit)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Its value for `np.asarray(op)`, read-only; bfloat16 and other dtypes that NumPy lacks become float32."""
        return as_array(self.value, dtype, copy)

    @property
    def grad(self) -> Any:
        """Its gradient in the last backward pass of the block; None if it has none."""
        grads = self.grads
        return grads[-1] if grads else None

    @property
    def grads(self) -> tuple[Any, ...]:
        """Its gradient in each backward pass of the block; None where it has none."""
        tables = self.trace.tables
        by_backward = tables.nodes.grads.get(self.node, {})
        lost = next((grad for grad in by_backward.values() if isinstance(grad, Unsaved)), None)
        if lost is not None:
            raise NotSavedError(f"a gradient of {self.label!r} was not stored with the trace: {lost.reason}.")
        grads = tuple(_load(by_backward.get(i)) for i in range(tables.n_backwards))
        if self.unit is None:
            return grads
        layout, unit = self.unit_layout, self.unit
        return tuple(None if grad is None else layout.unit(grad, unit) for grad in grads)

    def __repr__(self) -> str:
        unit = "" if self.unit is None else f"#{self.unit}"
        what = f"{self.dtype} {list(self.shape)}" if self.shape is not None else f"{self.dtype}"
        saved = "" if self.is_saved else ", not saved"
        return f"<Op {self.trace.names.describe(self.node)}{unit} at {self.site}: {what}{saved}>"


def _load(value: Any) -> Any:
    """Load a value that is still on disk."""
    return value.load() if hasattr(value, "load") else value


def is_freed(tensor: Any) -> bool:
    """Whether the program has freed the memory of a tensor but kept its shape: torch would read garbage, or crash."""
    try:
        return bool(tensor.untyped_storage().nbytes() == 0 and tensor.numel() > 0 and not _is_wrapper(tensor))
    except (RuntimeError, NotImplementedError, AttributeError):  # it has no memory of its own (sparse, functorch)
        return False


def _is_wrapper(tensor: Any) -> bool:
    return hasattr(tensor, "__tensor_flatten__") or hasattr(tensor, "fake_mode") or tensor.is_meta


def _slices_as_tuples(tree: Any) -> Any:
    """Slices may contain tensors; as tuples, the tree walk finds them."""
    if isinstance(tree, slice):
        return (tree.start, tree.stop, tree.step)
    if type(tree) in (tuple, list):
        return type(tree)(_slices_as_tuples(item) for item in tree)
    return tree
