"""One operation of a trace: a light view on a row of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutaway.core.errors import NotSavedError, StaleValueError
from cutaway.core.pytree import leaves, replace
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.analysis.flops import flops_of
from cutaway.graph.control_flow.source import Source, users_line
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
    from cutaway.graph.control_flow.conditionals import Conditional
    from cutaway.graph.modules import ModuleCall
    from cutaway.graph.trace import Trace


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor that was handed to an op, and as which argument."""

    parent: Op
    argument: str
    """`"0"`, `"0.2"` (third tensor of a list), or a keyword name."""


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One tensor that came into being: the result of an operation, or a source such as an input.

    Operations with several results are several ops that share a call and differ in `output_path`.
    """

    trace: Trace
    node: int
    unit: int | None = None
    address: str = ""
    """Of a tied parameter: the address by which it was asked for, which decides what its units are."""

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
        """Its address as short as it is unique: `encoder.2.attn/softmax`."""
        site = self.trace.names.site(self.node)
        return str(site) if self.unit is None else f"{site}#{self.unit}"

    @property
    def full_site(self) -> Site:
        """Its address with ordinal and pass written out; the same in every trace of the same computation."""
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
        """The function itself; None for sources, and in a trace that was read from disk."""
        event = self.trace.tables.nodes.event[self.node]
        return None if event is None else event[0]

    @property
    def position(self) -> int | None:
        """Place among the operations in order of execution, from 0; None for sources."""
        return self.trace.names.position(self.node)

    @property
    def output_path(self) -> str:
        """Place among the results of the call: "" for a single one, "0", "values"…"""
        return self.trace.tables.nodes.path[self.node] if self.kind == OP else ""

    @property
    def output_index(self) -> int | None:
        """Number among the tensors its call returned, from 0; None where it returned one."""
        nodes = self.trace.tables.nodes
        event = nodes.event[self.node]
        if event is None or not nodes.path[self.node]:
            return None
        first = self.node
        while first > 0 and nodes.event[first - 1] is event:
            first -= 1
        return self.node - first

    @property
    def pass_(self) -> int:
        """How many times this place had been reached, this time included."""
        return self.full_site.pass_ or 1

    # recurrence

    @property
    def passes(self) -> tuple[Op, ...]:
        """All runs of the same op in order, this one included; see `docs/recurrence.md` for what counts as the same."""
        return tuple(Op(self.trace, node, self.unit) for node in self.trace.rolled.nodes_of(self.node))

    @property
    def n_passes(self) -> int:
        """How often it ran."""
        return len(self.trace.rolled.nodes_of(self.node))

    @property
    def loop_pass(self) -> int:
        """Its number among its passes, from 1."""
        return self.trace.rolled.number_of(self.node)

    @property
    def rolled(self) -> Op:
        """All its passes as one op, a `Passes`; the op itself if it ran once."""
        return self.trace.rolled.of(self.node, self.unit)

    # the graph

    @property
    def parents(self) -> tuple[Op, ...]:
        """The ops whose values it was computed from, each once, in the order of the arguments."""
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
        """All results of the same call, this one included."""
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
        """The positional arguments, with an `Op` in the place of each tensor."""
        return self._arguments()[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments, with an `Op` in the place of each tensor."""
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
        """The module call in which it ran; for a constant from outside, that of its first user."""
        return self.trace.call_of(self.node)

    @property
    def groups(self) -> tuple[str, ...]:
        """The Python composites it was opened from, outermost first: `("multi_head_attention_forward", "softmax")`."""
        event = self.trace.tables.nodes.event[self.node]
        return () if event is None else self.trace.group_names(event[5])

    @property
    def distance_from_input(self) -> int | None:
        """Length of the shortest path from an input; None if no input leads here."""
        return self.trace.distances.from_input[self.node]

    @property
    def distance_to_output(self) -> int | None:
        """Length of the shortest path to an output; None if none is reached."""
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
        """Whether it served only to compute a decision: it lies on the branch of a conditional."""
        return self.node in self.trace.conditionals.branch_nodes

    @property
    def arms(self) -> tuple[tuple[Conditional, str], ...]:
        """The arms of tests in which it ran, the outermost first: `((conditional, "then"), …)`."""
        return self.trace.conditionals.around(self.node)

    # what it is

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the value; None where it is a plain number or has no dense shape."""
        meta = self.trace.tables.nodes.meta_of(self.node)
        if meta is None or meta.shape is None or self.unit is None:
            return meta.shape if meta else None
        return self.unit_layout.unit_shape(meta.shape)

    @property
    def unit_layout(self) -> UnitLayout:
        """Which dimensions of the value count units, samples and positions, decided from the graph.

        `unit_layout.n_units` says how many there are. Where the graph does not tell, it is marked as refused, and
        asking for a unit raises `UnitError`.
        """
        layout = self.trace.unit_layouts[self.node]
        if self.address:
            layout = self.trace.tied_unit_layouts.get((self.node, self.address), layout)
        return UnitLayout.refused((), "it is no tensor with a dense shape") if layout is None else layout

    @property
    def dtype(self) -> str | None:
        """`"float32"`, `"bfloat16"`…; for a number that left torch, its Python type."""
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
        """Time spent in the call, as seen from Python: on a GPU, the time to launch it."""
        event = self.trace.tables.nodes.event[self.node]
        return 0.0 if event is None else (event[9] - event[8]) * 1e-9

    @property
    def flops(self) -> int:
        """Floating-point operations by torch's own convention: products of matrices only, a multiply-add is 2."""
        known = self.trace.tables.known
        return flops_of(self) if known is None else known.flops.get(self.node, 0)

    @property
    def source(self) -> Source | None:
        """The line of the user's code that led to it: the innermost one outside torch."""
        return users_line(self.stack)

    @property
    def stack(self) -> tuple[Source, ...]:
        """From the line that called it, outwards through composites and module calls."""
        return self.trace.stack_of(self.node)

    @property
    def is_inplace(self) -> bool:
        """Whether it overwrote its first argument."""
        return bool(self.trace.tables.nodes.flags[self.node] & INPLACE)

    @property
    def is_identity(self) -> bool:
        """Whether it gave back the very tensor it was given (dropout in evaluation, a `.to` without effect)."""
        return bool(self.trace.tables.nodes.flags[self.node] & IDENTITY)

    @property
    def is_opaque(self) -> bool:
        """Whether it stands for code that could not be opened."""
        return bool(self.trace.tables.nodes.flags[self.node] & OPAQUE)

    @property
    def is_alias_write(self) -> bool:
        """Whether it stands for a change made through another tensor in the same memory."""
        return bool(self.trace.tables.nodes.flags[self.node] & ALIAS)

    @property
    def is_source(self) -> bool:
        """Whether it was there before the computation: an input, parameter, buffer or constant."""
        return self.kind in (INPUT, PARAMETER, BUFFER, CONSTANT)

    # values

    @property
    def is_saved(self) -> bool:
        """Whether its value was kept."""
        return not isinstance(self.trace.tables.nodes.value[self.node], Unsaved)

    @property
    def value(self) -> Any:
        """Its value, detached. It may share memory with the program: copy it before writing to it."""
        nodes = self.trace.tables.nodes
        value = nodes.value[self.node]
        if isinstance(value, Unsaved):
            if value.reason:
                raise NotSavedError(f"the value of {self.label!r} was not stored with the trace: {value.reason}.")
            raise NotSavedError(
                f"the value of {self.label!r} was not saved: trace again with "
                f"cutaway.watch(model, save={str(self.full_site)!r}), or save='**' for all."
            )
        value = _loaded(value)
        version = nodes.version[self.node]
        if version is not None and value._version != version:
            raise StaleValueError(
                f"the value of {self.label!r} was kept by reference and has been overwritten since: "
                "trace again with cutaway.watch(model, keep='copy')."
            )
        if hasattr(value, "detach"):
            value = value.detach()
        return value if self.unit is None else self.unit_layout.unit(value, self.unit)

    @property
    def grad(self) -> Any:
        """Its gradient in the last backward pass of the block; None if it got none."""
        grads = self.grads
        return grads[-1] if grads else None

    @property
    def grads(self) -> tuple[Any, ...]:
        """Its gradient in each backward pass of the block; None where it got none."""
        tables = self.trace.tables
        own = tables.nodes.grads.get(self.node, {})
        lost = next((grad for grad in own.values() if isinstance(grad, Unsaved)), None)
        if lost is not None:
            raise NotSavedError(f"a gradient of {self.label!r} was not stored with the trace: {lost.reason}.")
        grads = tuple(_loaded(own.get(i)) for i in range(tables.n_backwards))
        if self.unit is None:
            return grads
        layout, unit = self.unit_layout, self.unit
        return tuple(None if grad is None else layout.unit(grad, unit) for grad in grads)

    def __repr__(self) -> str:
        unit = "" if self.unit is None else f"#{self.unit}"
        what = f"{self.dtype} {list(self.shape)}" if self.shape is not None else f"{self.dtype}"
        saved = "" if self.is_saved else ", not saved"
        return f"<Op {self.trace.names.describe(self.node)}{unit} at {self.site}: {what}{saved}>"


def _loaded(value: Any) -> Any:
    """A value that may lie elsewhere."""
    return value.load() if hasattr(value, "load") else value


def _slices_as_tuples(tree: Any) -> Any:
    """Slices may hold tensors; seen as tuples, the walk finds them."""
    if isinstance(tree, slice):
        return (tree.start, tree.stop, tree.step)
    if type(tree) in (tuple, list):
        return type(tree)(_slices_as_tuples(item) for item in tree)
    return tree
