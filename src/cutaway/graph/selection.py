"""Selections of ops that can be filtered, extended and combined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, overload

from cutaway.core import late
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import clipped, human_bytes, human_number, human_seconds, plural
from cutaway.core.sites import Site
from cutaway.graph.analysis.cost_summary import Grouping, Measure, Total, Totals, total, totals
from cutaway.graph.analysis.export import table
from cutaway.graph.analysis.passes import Passes
from cutaway.graph.analysis.reachability import downstream, upstream
from cutaway.graph.labels import kind_of
from cutaway.graph.lookup import find, match
from cutaway.graph.op import Op
from cutaway.graph.tables import IDENTITY, OP

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace

What = str | Site | Op | Iterable[Any]
"""Names of ops: a site, a pattern, a label, an op, a selection, or several of these."""
_MOST_LINES = 10


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Sequence[Op]):
    """Some ops of one trace, each once, in order of execution. `Op` objects are created on access.

    Selections of one trace combine: `a & b`, `a | b`, `a - b`, and `~a` for all ops of the trace that are not in `a`.
    Inputs, parameters and other sources are included only if you ask for them (`ancestors` finds them, too); `~a`
    never includes any.
    """

    trace: Trace
    nodes: Sequence[int]
    """Its rows in the trace."""

    # filters

    def where(
        self,
        what: What | Callable[[Op], object] | None = None,
        *,
        function: str | None = None,
        module_class: str | None = None,
        kind: str | None = None,
    ) -> Selection:
        """The ops of this selection that meet all given conditions.

        Args:
            what: a site, pattern or label, ops, or a predicate that is called with each op.
            function: name of the function, or a pattern such as "*pool*"; "relu" also matches `relu_`.
            module_class: class of a module in which the op ran, at any depth; or a pattern such as "*Attention".
            kind: "op", "input", "parameter", "buffer" or "constant".
        """
        columns = self.trace.tables.nodes
        nodes: Iterable[int] = self.nodes
        if kind is not None:
            nodes = [node for node in nodes if columns.kind[node] == kind]
        if function is not None:
            fits = {name: _fits(name, function) for name in set(columns.name)}
            nodes = [node for node in nodes if fits[columns.name[node]]]
        if module_class is not None:
            inside = _inside(self.trace, module_class)
            nodes = [node for node in nodes if inside[columns.call[node]]]
        if is_predicate(what):
            nodes = [node for node in nodes if what(Op(self.trace, node))]
        elif what is not None:
            named = rows_of(self.trace, what)
            nodes = [node for node in nodes if node in named]
        return Selection(self.trace, list(nodes))

    # neighbors

    def parents(self) -> Selection:
        """The direct inputs of its ops."""
        parents = self.trace.tables.nodes.parents
        return self._with(parent for node in self.nodes for parent in parents[node])

    def children(self) -> Selection:
        """The direct users of its ops.

        An op that returned its input unchanged (dropout in eval mode) made no tensor: its children are those of the op
        that made the tensor.
        """
        makers, aside = self._makers()
        below = (child for node in makers for child in self.trace.children_of(node))
        again = {child for node in self.nodes for child in self.trace.children_of(node)}
        return self._with(node for node in below if node not in aside or node in again)

    def ancestors(self) -> Selection:
        """Everything that its ops depend on, directly or indirectly, including sources."""
        mark = upstream(self.trace.tables.nodes.parents, self.nodes)
        return Selection(self.trace, [node for node, is_in in enumerate(mark) if is_in])

    def descendants(self) -> Selection:
        """Everything that depends on its ops, directly or indirectly."""
        makers, aside = self._makers()
        ops, parents = self.trace.op_nodes, self.trace.tables.nodes.parents
        mark = downstream(ops, parents, makers)
        for node in aside:
            mark[node] = any(mark[parent] or parent in self._set for parent in parents[node])
        return Selection(self.trace, [node for node in ops if mark[node]])

    def near(self, distance: int = 1) -> Selection:
        """Its ops and everything within `distance` steps, up or down; paths never lead through a source."""
        if not isinstance(distance, int) or isinstance(distance, bool):
            raise InputTypeError(f"distance must be an integer number of steps, got {distance!r}.")
        if distance < 0:
            raise InputError(f"distance must be an integer number of steps, at least 0, got {distance}.")
        columns, makers = self.trace.tables.nodes, self._makers()[0]
        found = {*self._set, *makers}
        edge = found
        for _ in range(distance):
            around = {parent for node in edge for parent in columns.parents[node]}
            around.update(child for node in edge for child in self.trace.children_of(node))
            found, edge = found | around, {node for node in around - found if columns.kind[node] == OP}
        return self._with(found if distance else self.nodes)

    def _makers(self) -> tuple[set[int], set[int]]:
        """Its rows with identity ops replaced by the makers of their tensors, and the replaced identity ops."""
        flags = self.trace.tables.nodes.flags
        replaced = {node for node in self.nodes if flags[node] & IDENTITY and self.trace.tables.nodes.parents[node]}
        return {maker_of(self.trace, node) for node in self.nodes}, replaced

    # combining

    def __and__(self, other: object) -> Selection:
        return self._with(self._set & self._others(other, "&"))

    def __or__(self, other: object) -> Selection:
        return self._with(self._set | self._others(other, "|"))

    def __sub__(self, other: object) -> Selection:
        return self._with(self._set - self._others(other, "-"))

    def __invert__(self) -> Selection:
        return Selection(self.trace, [node for node in self.trace.op_nodes if node not in self._set])

    def _others(self, other: object, sign: str) -> frozenset[int]:
        if not isinstance(other, Selection):
            raise InputTypeError(f"selection {sign} {other!r}: only selections combine; make one with trace.select(…).")
        if other.trace is not self.trace:
            raise InputError(f"selection {sign} selection: they belong to different traces. {_SAME_SITES}")
        return other._set

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and self.trace is other.trace and self._set == other._set

    def __hash__(self) -> int:
        return hash((id(self.trace), self._set))

    # contents

    @overload
    def __getitem__(self, index: int) -> Op: ...
    @overload
    def __getitem__(self, index: slice) -> Selection: ...
    def __getitem__(self, index: int | slice) -> Op | Selection:
        if isinstance(index, slice):
            return Selection(self.trace, self.nodes[index])
        return Op(self.trace, self.nodes[index])

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, op: object) -> bool:
        return isinstance(op, Op) and op.trace is self.trace and op.node in self._set

    @property
    def sites(self) -> tuple[str, ...]:
        """The shortest unique site of each op."""
        return tuple(op.site for op in self)

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each op."""
        return tuple(op.label for op in self)

    @cached_property
    def total(self) -> Total:
        """Count, seconds, FLOPs and bytes of its ops; a call with several results counts once."""
        return total(self.trace, self.nodes)

    def totals(
        self, by: Grouping | Callable[[Op], Any] = "function", *, of: Measure = "seconds", inclusive: bool = False
    ) -> Totals:
        """Time, FLOPs and bytes by group.

        Args:
            by: "function", "module" (the one in which an op ran directly), "module_class", or a function of an op.
            of: the measure to sort by and to compute shares of.
            inclusive: also count an op for every module around its own; shares then add up to more than one.
        """
        return totals(self.trace, self.nodes, by, of=of, inclusive=inclusive)

    def table(self) -> Any:
        """One row per op, like `trace.table()`."""
        return table(self)

    def draw(
        self,
        path: str | PathLike[str] | None = None,
        *,
        depth: int | None = None,
        rolled: bool = False,
        direction: Literal["down", "right"] = "down",
        color_by: str | Mapping[str, float] | Callable[[Op], Any] | None = None,
    ) -> Any:
        """Draw the trace like `trace.draw`, with everything that is not in the selection faded."""
        more = {"direction": direction, "color_by": color_by}
        return late.call("Selection.draw", self.trace, self._set, path, depth=depth, rolled=rolled, **more)

    def __repr__(self) -> str:
        size = self.total
        spent = [human_seconds(size.seconds), *([f"{human_number(size.flops)} FLOPs"] if size.flops else [])]
        n = f"{plural(len(self), 'op')} of {self.trace.model_name}"
        if not self:
            return f"<Selection of {n}>"
        lines = [f"<Selection of {n}: {', '.join([*spent, human_bytes(size.bytes)])}>"]
        shown = self.nodes if len(self) <= _MOST_LINES else self.nodes[: _MOST_LINES - 1]
        lines += [clipped(f"  {_line(Op(self.trace, node))}") for node in shown]
        return "\n".join(lines + ([f"  and {len(self) - len(shown)} more"] if len(shown) < len(self) else []))

    @cached_property
    def _set(self) -> frozenset[int]:
        return frozenset(self.nodes)

    def _with(self, nodes: Iterable[int]) -> Selection:
        return Selection(self.trace, sorted(set(nodes)))


_SAME_SITES = "trace.select(selection.sites) finds the same sites in another trace."


def select(trace: Trace, what: What | Callable[[Op], object] | None, *, kind: str | None, **more: Any) -> Selection:
    """The ops of a trace that meet the conditions; sources only if they are named, or asked for by kind."""
    if what is not None and not is_predicate(what):
        rows = sorted(rows_of(trace, what))
        return Selection(trace, rows).where(kind=kind, **more)
    if kind in (None, OP):
        return trace.ops.where(what, **more)
    kinds = trace.tables.nodes.kind
    return Selection(trace, [node for node, each in enumerate(kinds) if each == kind]).where(what, **more)


def rows_of(trace: Trace, what: object) -> set[int]:
    """The rows that a site, a pattern, a label, an op, a selection or several of these refer to."""
    if isinstance(what, (str, Site)):
        text = str(what)
        return {op.node for op in match(trace, text) or [find(trace, text)]}
    if isinstance(what, (Op, Selection)):
        if what.trace is not trace:
            raise InputError(f"{what!r} belongs to another trace. {_SAME_SITES}")
        return set(what.nodes) if isinstance(what, (Selection, Passes)) else {what.node}
    if isinstance(what, Iterable):
        return {row for each in what for row in rows_of(trace, each)}
    raise InputTypeError(
        f"{what!r} names no ops: give a site, a pattern, a label, an op, a selection, or a list of these."
    )


def maker_of(trace: Trace, node: int) -> int:
    """The row that made the tensor of a row: another one if this op returned its input unchanged."""
    nodes = trace.tables.nodes
    while nodes.flags[node] & IDENTITY and nodes.parents[node]:
        same = [parent for parent in nodes.parents[node] if nodes.value[parent] is nodes.value[node]]
        node = same[0] if len(same) == 1 else nodes.parents[node][0]
    return node


def is_predicate(what: object) -> TypeGuard[Callable[[Op], object]]:
    return callable(what) and not isinstance(what, (Op, Selection))


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(kind_of(name), pattern)


def _inside(trace: Trace, pattern: str) -> list[bool]:
    """Whether each module call is of a matching class, or inside such a call."""
    calls, modules = trace.tables.calls, trace.tables.modules
    fits = [fnmatchcase(module.class_name, pattern) for module in modules]
    found = [False] * len(calls)
    for call in range(1, len(calls)):  # a call comes after its parent
        row = calls[call]
        found[call] = found[row.parent] or (row.module >= 0 and fits[row.module])
    return found


def _line(op: Op) -> str:
    shape = "" if op.shape is None else "×".join(map(str, op.shape)) or "scalar"
    return f"{op.label:<24} {op.site:<40} {shape}".rstrip()
