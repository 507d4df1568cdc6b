"""A diff as one graph: the second trace, with what is new, changed or apart marked, and what is gone put back."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from os import PathLike

from cutaway.core.errors import InputError
from cutaway.core.formatting import ratio_text, short
from cutaway.graph.diff.align import Alignment, align
from cutaway.graph.diff.match import MISSING
from cutaway.graph.op import Op
from cutaway.graph.tables import BUFFER, PARAMETER
from cutaway.graph.trace import Trace
from cutaway.layout.fold import fold_to_depth
from cutaway.layout.graph_view import Comparison, Fold, GraphView, Mark, Measure
from cutaway.layout.place import Direction
from cutaway.layout.repeated_blocks import with_runs
from cutaway.results.diff import SIGNS, Change, Compared, Diff, Distance, shade
from cutaway.views.diff.merge import merged
from cutaway.views.diff.removed_nodes import Twins
from cutaway.views.draw.draw import FORMATS, check_path, drawn
from cutaway.views.graph.color_values import ColourBy
from cutaway.views.graph.from_trace import graph_view
from cutaway.views.graph.node_signature import Likeness

_MOST_NAMED = 3


def draw(
    diff: Diff,
    path: str | PathLike[str] | None = None,
    *,
    depth: int | None = None,
    rolled: bool = False,
    direction: Direction = "down",
    color_by: ColourBy | None = None,
) -> str | bytes:
    """Draw a diff, and write it to `path` if given; `Diff.draw` says more."""
    check_path(path, formats=[suffix for suffix in FORMATS if suffix != ".json"])
    _, second = _traces(diff)
    view = difference_view(diff)
    how = what_to_open(view, depth, rolled=rolled)
    return drawn(second, view, how, path=path, direction=direction, color_by=color_by)


def what_to_open(view: GraphView, depth: int | None, *, rolled: bool = False) -> Fold:
    """As for a trace, but where all is open, what is gone as a whole stays one box: it is told in a word."""
    how = fold_to_depth(view, depth, rolled=rolled)
    marks = view.comparison.mark if view.comparison is not None else ()
    if depth is not None or not marks:
        return how
    first, end = view.groups.first, view.groups.end
    gone = {group for group in how.open if all(mark == "gone" for mark in marks[first[group] : end[group]])}
    return replace(how, open=how.open - gone)


def difference_view(diff: Diff) -> GraphView:
    """The graph of a diff: that of the second trace, every difference marked, what is gone where it was."""
    a, b = _traces(diff)
    found = align(a, b)
    one, two = graph_view(a), graph_view(b)
    view, gone = merged(one, two, _twins(one, two, found))
    new = {other for mine, other in (*found.ops, *found.sources) if mine == MISSING}
    view = _Marking(diff, b, view, gone, new).marked()
    changes = (("new", diff.new), ("gone", diff.gone), ("changed", diff.changed))
    counts = tuple((how, f"{len(rows):,}") for how, rows in changes if rows)
    said = ", ".join(f"{n} {how}" for how, n in counts) or "the same ops"
    n_apart = len(diff.different)
    values = f"{n_apart:,} values differ" if n_apart != 1 else "1 value differs"
    like_a, like_b = Likeness(a), Likeness(b)

    def likeness(node: int) -> tuple[object, ...]:
        like, row = (like_a, one.nodes.row[gone[node]]) if node in gone else (like_b, view.nodes.row[node])
        return like.of(row) if row >= 0 else ()

    return with_runs(
        replace(
            view,
            title=f"{view.title}: what differs",
            subtitle=f"{said} · {values} · {diff.a} → {diff.b}",
            facts=(*counts, ("values that differ", f"{n_apart:,}"), *view.facts),
        ),
        likeness,
    )


def _traces(diff: Diff) -> tuple[Trace, Trace]:
    traces: tuple[Trace, Trace] | None = getattr(diff, "_traces", None)
    if traces is None:
        raise InputError("this diff no longer knows its traces, and cannot be drawn: make it again with cutaway.diff.")
    return traces


def _twins(one: GraphView, two: GraphView, found: Alignment) -> Twins:
    """Which nodes and groups of the first graph are which of the second."""
    here = {row: i for i, row in enumerate(one.nodes.row) if row >= 0}
    there = {row: i for i, row in enumerate(two.nodes.row) if row >= 0}
    pairs = [(here[m], there[o]) for m, o in (*found.ops, *found.sources) if m in here and o in there]
    calls, groups = dict(found.calls), {call: group for group, call in enumerate(two.groups.call)}
    same = {group: groups.get(calls.get(call, MISSING), MISSING) for group, call in enumerate(one.groups.call)}
    return Twins(dict(pairs), {group: other for group, other in same.items() if other != MISSING})


@dataclass(slots=True)
class _Marking:
    """Marks what differs in a graph that holds what is gone already."""

    diff: Diff
    b: Trace
    view: GraphView
    gone: Collection[int]
    new: set[int]
    """Rows of the second trace that the first does not have."""
    _changes: dict[int, Change] = field(default_factory=dict)
    """Row of the second trace → what changed there."""
    _far: dict[int, Distance] = field(default_factory=dict)
    """Row of the second trace → how far it is apart, where it was compared."""

    def __post_init__(self) -> None:
        rows = {label: row for row, label in self.b.names.labels.items()}
        table = self.b.tables.nodes
        buffers = {table.path[row]: row for row, kind in enumerate(table.kind) if kind == BUFFER}
        for change in self.diff.structure:
            if change.kind in ("op", "input") and change.how != "gone":
                self._changes[rows[change.label]] = change
            elif change.kind == "buffer" and change.how in ("new", "changed") and change.site in buffers:
                self._changes[buffers[change.site]] = change
        for compared in self.diff.values:
            if _is_of_node(compared):
                self._far[rows[compared.label]] = compared.distance

    def marked(self) -> GraphView:
        nodes = self.view.nodes
        numbers = range(len(nodes.row))
        results, passes = _gathered(nodes.event), _gathered(nodes.rolled)
        marks = tuple(map(self._mark, numbers))
        shown = [_joint({marks[one] for one in results.get(i, [i])}) for i in numbers]
        rolled_lines = {
            i: (*lines, *self._differs([turn for one in results.get(i, [i]) for turn in passes.get(one, [one])]))
            for i, lines in nodes.rolled_lines.items()
        }
        far = [self._far.get(row) for row in nodes.row]
        ranks = _ranks(one for one in far if one is not None)
        return replace(
            self.view,
            nodes=replace(
                nodes,
                label=tuple(f"{_SIGNS[shown[i]]} {nodes.label[i]}" if shown[i] else nodes.label[i] for i in numbers),
                lines=tuple((*nodes.lines[i], *self._differs(results.get(i, [i]))) for i in numbers),
                rolled_lines=rolled_lines,
            ),
            comparison=Comparison(
                mark=marks,
                shade=tuple(shade(one) if one is not None else 0 for one in far),
                amount=tuple(_amount(one) if one is not None and not one.is_equal else "" for one in far),
                order=tuple(float(ranks[one.order]) if one is not None and not one.is_equal else 0.0 for one in far),
            ),
            measures=(*self.view.measures, _measure(far)),
        )

    def _mark(self, node: int) -> Mark:
        row = self.view.nodes.row[node]
        if node in self.gone:
            return "gone"
        if row in self.new or (row in self._changes and self._changes[row].how == "new"):
            return "new"
        return "changed" if row in self._changes else ""

    def _differs(self, nodes: list[int]) -> list[str]:
        """Lines that say what changed in nodes that are drawn as one box, and how far they are apart."""
        rows = [row for row in (self.view.nodes.row[i] for i in nodes) if row >= 0]
        changes = [self._changes[row] for row in rows if row in self._changes]
        before = [change.before for change in changes if change.how == "changed" and change.before]
        lines = [short(f"was {before[0]}")] if before else []
        far = [self._far[row] for row in rows if row in self._far and not self._far[row].is_equal]
        if far:
            most = "at most " if len(rows) > 1 else ""
            lines.append(f"Δ {most}{_amount(max(far, key=lambda one: one.order))}")
        return lines + [f"Δ {short(name)} {_amount(one)}" for name, one in self._parameters(rows[:1])]

    def _parameters(self, rows: list[int]) -> list[tuple[str, Distance]]:
        """The parameters of an op that differ."""
        read = [parent for row in rows for parent in Op(self.b, row).parents if parent.kind == PARAMETER]
        named = [(parent.label.rpartition(".")[2], self._far.get(parent.node)) for parent in read]
        return [(name, one) for name, one in named if one is not None and not one.is_equal][:_MOST_NAMED]


def _gathered(firsts: Iterable[int]) -> dict[int, list[int]]:
    """Of what has one in common that stands for all: all, by that one."""
    found: dict[int, list[int]] = {}
    for i, first in enumerate(firsts):
        found.setdefault(first, []).append(i)
    return found


def _joint(marks: set[Mark]) -> Mark:
    """The mark of a box for several nodes."""
    return marks.pop() if len(marks) == 1 else "changed"


_SIGNS: dict[Mark, str] = {"new": SIGNS["new"], "gone": SIGNS["gone"], "changed": SIGNS["changed"]}


def _measure(far: list[Distance | None]) -> Measure:
    """How far each value is apart, to colour by; None where it was not compared, or has no norm."""
    norms = (None if one is None else 0.0 if one.is_equal else one.norm for one in far)
    values = tuple(norm if norm is not None and math.isfinite(norm) else None for norm in norms)
    return Measure("distance", "difference, relative to the norm", "", "max", "log", values)


def _ranks(distances: Iterable[Distance]) -> dict[tuple[int, float, float], int]:
    """A number for each distance: a larger one for what is further apart."""
    return {order: rank for rank, order in enumerate(sorted({one.order for one in distances}), 1)}


def _is_of_node(row: Compared) -> bool:
    return row.what == "value" and row.kind not in ("output", "module")


def _amount(distance: Distance) -> str:
    """One number for a box."""
    if distance.n_nan or distance.n_inf:
        return " ".join(f"{n:,} {what}" for n, what in ((distance.n_nan, "NaN"), (distance.n_inf, "Inf")) if n)
    return f"{distance.absolute:.2g}" if distance.norm is None else ratio_text(distance.norm)
