"""`Passes`: all passes of one op; `Rolled`: the ops of a trace, rolled up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from cutaway.core.arrays import Array, as_array
from cutaway.core.errors import AmbiguousSiteError, NotSavedError, ShapesDifferError
from cutaway.core.formatting import listed
from cutaway.core.positions import position
from cutaway.core.sites import Site
from cutaway.graph.analysis.recurrence import recurrent_nodes
from cutaway.graph.labels import kind_of
from cutaway.graph.op import Edge, Op

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from cutaway.graph.trace import Trace

_MOST_SHOWN = 6


@dataclass(frozen=True, slots=True, eq=False)
class Passes(Op):
    """One op that ran several times.

    Attributes that are common to all passes (function, module address, label) are those of the first. `values`
    has the values of all passes as one tensor; costs are sums.
    """

    nodes: tuple[int, ...] = ()
    """The rows of its passes, in order of execution."""

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Passes) and self.trace is other.trace
        return same and isinstance(other, Passes) and (self.nodes, self.unit) == (other.nodes, other.unit)

    def __hash__(self) -> int:
        return hash((id(self.trace), self.nodes, self.unit))

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.passes)

    @property
    def passes(self) -> tuple[Op, ...]:
        """Each pass, in order."""
        return tuple(Op(self.trace, node, self.unit) for node in self.nodes)

    @property
    def n_passes(self) -> int:
        """The number of passes."""
        return len(self.nodes)

    @property
    def rolled(self) -> Op:
        """Itself."""
        return self

    # names

    @property
    def full_site(self) -> Site:
        """Its site without a pass, so that it matches all passes; if they are at different sites, it matches more."""
        sites = [self.trace.names.full_site(node) for node in self.nodes]
        first = replace(sites[0], pass_=None, unit=self.unit)
        if len({(site.address, site.op) for site in sites}) > 1:
            return replace(first, address="**", op=kind_of(self.function), ordinal=None)
        return first if len({site.ordinal for site in sites}) == 1 else replace(first, ordinal=None)

    @property
    def site(self) -> str:
        """Its site without a pass."""
        sites = {str(replace(self.trace.names.site(node), pass_=None, unit=self.unit)) for node in self.nodes}
        return sites.pop() if len(sites) == 1 else str(self.full_site)

    # the graph

    @property
    def parents(self) -> tuple[Op, ...]:
        """The ops that any of its passes was computed from, each once; ops that ran several times as `Passes`."""
        return tuple(self.parents_by_pass)

    @property
    def children(self) -> tuple[Op, ...]:
        """The ops that were computed from any of its passes, each once; ops that ran several times as `Passes`."""
        return tuple(self.children_by_pass)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """One entry for each tensor argument and each rolled op it came from."""
        rolled = self.trace.rolled
        edges = (Edge(rolled.of(edge.parent.node), edge.argument) for op in self.passes for edge in op.edges)
        return tuple(dict.fromkeys(edges))

    @property
    def parents_by_pass(self) -> dict[Op, tuple[int, ...]]:
        """For each of `parents`, the passes that were computed from it, from 1."""
        return self._by_pass(lambda node: self.trace.tables.nodes.parents[node])

    @property
    def children_by_pass(self) -> dict[Op, tuple[int, ...]]:
        """For each of `children`, the passes from which it was computed, from 1."""
        return self._by_pass(self.trace.children_of)

    def _by_pass(self, neighbors: Callable[[int], Sequence[int]]) -> dict[Op, tuple[int, ...]]:
        passes: dict[Op, dict[int, None]] = {}
        for number, node in enumerate(self.nodes, 1):
            for other in neighbors(node):
                passes.setdefault(self.trace.rolled.of(other), {})[number] = None
        return {op: tuple(numbers) for op, numbers in passes.items()}

    # costs

    @property
    def seconds(self) -> float:
        """Time of all passes."""
        return sum(op.seconds for op in self.passes)

    @property
    def flops(self) -> int:
        """Floating-point operations of all passes."""
        return sum(op.flops for op in self.passes)

    @property
    def bytes(self) -> int:
        """Size of the values of all passes."""
        return sum(op.bytes for op in self.passes)

    # values

    @property
    def is_saved(self) -> bool:
        """Whether the value of every pass was saved."""
        return all(op.is_saved for op in self.passes)

    @property
    def value(self) -> Any:
        """Raises `AmbiguousSiteError`, because each pass has a value: use `values` or one pass."""
        raise AmbiguousSiteError(self._ambiguous_message("value", "values"))

    @property
    def grad(self) -> Any:
        """Raises `AmbiguousSiteError`, because each pass has a gradient: use `grads` or one pass."""
        raise AmbiguousSiteError(self._ambiguous_message("gradient", "grads"))

    def _ambiguous_message(self, what: str, all_: str) -> str:
        labels = listed((repr(op.label) for op in self.passes), _MOST_SHOWN)
        return (
            f"{self.label!r} ran {len(self)} times, and each pass has its own {what}: {labels}. "
            f"Ask for one of them with .passes[0] to .passes[{len(self) - 1}], or for all with .{all_}."
        )

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """`values` for `np.asarray(passes)`."""
        return as_array(self.values, dtype, copy)

    @property
    def values(self) -> Any:
        """The values of all passes, stacked along a new first dimension; Python numbers as a NumPy array.

        The result is a new tensor that you can write to.
        """
        missing = [op.label for op in self.passes if not op.is_saved]
        if missing:
            raise NotSavedError(
                f"of {self.label!r}, {len(missing)} of {len(self)} passes were not saved, {missing[0]!r} among them: "
                f"trace again with cutaway.watch(model, save={str(self.full_site.without_unit())!r}), or save='**'."
            )
        return self._stacked([op.value for op in self.passes], "value")

    @property
    def grads(self) -> tuple[Any, ...]:
        """For each backward pass, the gradients of all passes, stacked along a new first dimension.

        NaN where a pass has no gradient; None if no pass has one.
        """
        by_backward = zip(*(op.grads for op in self.passes), strict=True)
        return tuple(
            None if all(grad is None for grad in grads) else self._stacked(grads, "grads[-1]") for grads in by_backward
        )

    def _stacked(self, values: Sequence[Any], attribute: str) -> Any:
        there = [value for value in values if value is not None]
        first = there[0]
        if not all(isinstance(value, np.ndarray) or hasattr(value, "new_empty") for value in there):
            return self._numbers(values, attribute)
        shapes = [(tuple(value.shape), value.dtype) for value in there]
        if len(set(shapes)) > 1:
            other = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
            raise ShapesDifferError(
                f"the passes of {self.label!r} cannot be stacked: the first has {_shape_text(first)}, pass {other + 1} "
                f"{_shape_text(there[other])}. Take them one by one: [op.{attribute} for op in passes.passes]."
            )
        size = (len(values), *first.shape)
        # Not `torch.stack`: this layer works without torch.
        out = np.empty(size, first.dtype) if isinstance(first, np.ndarray) else first.new_empty(size)
        for i, value in enumerate(values):
            out[i] = float("nan") if value is None else value
        return out

    def _numbers(self, values: Sequence[Any], attribute: str) -> Any:
        try:
            return np.array(values)
        except ValueError:  # lists of different lengths
            raise ShapesDifferError(
                f"the passes of {self.label!r} cannot be stacked: they have different lengths. "
                f"Take them one by one: [op.{attribute} for op in passes.passes]."
            ) from None

    def __repr__(self) -> str:
        shapes = {op.shape for op in self.passes}
        shape = f" {list(self.shape)}" if len(shapes) == 1 and self.shape is not None else ""
        unit = "" if self.unit is None else f"#{self.unit}"
        saved = "" if self.is_saved else ", not saved"
        differ = " of several shapes" if len(shapes) > 1 else ""
        return f"<Passes {self.label}{unit} ×{len(self)} at {self.site}: {self.dtype}{shape}{differ}{saved}>"


def _shape_text(value: Any) -> str:
    return f"shape {list(value.shape)} and {str(value.dtype).removeprefix('torch.')}"


class Rolled(Sequence[Op]):
    """The ops of a trace in order of first execution; those that ran several times are one `Passes` each."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        stored = trace.tables.stored
        groups = recurrent_nodes(trace.tables, trace.op_nodes) if stored is None else stored.recurrent
        self._groups = {node: group for group in groups for node in group}
        self._nodes = [node for node in trace.op_nodes if self._groups.get(node, (node,))[0] == node]

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> Op: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Op, ...]: ...
    def __getitem__(self, index: int | slice) -> Op | tuple[Op, ...]:
        if isinstance(index, slice):
            return tuple(self.of(node) for node in self._nodes[index])
        instead = f" For a site or label, use trace[{index!r}].rolled." if isinstance(index, str) else ""
        return self.of(self._nodes[position(index, len(self), "trace.rolled", hint=instead)])

    def nodes_of(self, node: int) -> tuple[int, ...]:
        """The rows of all passes of the op that this row is a pass of."""
        return self._groups.get(node, (node,))

    def number_of(self, node: int) -> int:
        """The pass of a row, from 1."""
        return bisect_left(self.nodes_of(node), node) + 1

    def of(self, node: int, unit: int | None = None) -> Op:
        """The op that this row is a pass of: a `Passes`, or the op itself if it ran once."""
        nodes = self.nodes_of(node)
        return Passes(self._trace, nodes[0], unit, nodes=nodes) if len(nodes) > 1 else Op(self._trace, node, unit)

    def __repr__(self) -> str:
        return f"<{len(self)} ops, rolled up from {len(self._trace.op_nodes)}>"
