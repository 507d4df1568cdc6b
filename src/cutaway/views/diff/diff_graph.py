"""Builds and draws the graph of a diff: the second trace, with removed ops inserted and every difference marked."""

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
from cutaway.views.diff.merge import merge_views
from cutaway.views.diff.removed_nodes import Matches
from cutaway.views.draw.draw import FORMATS, check_path, render
from cutaway.views.graph.color_values import ColorBy
from cutaway.views.graph.from_trace import graph_view
from cutaway.views.graph.node_signature import NodeSignature

_MOST_NAMED = 3


def draw(
    diff: Diff,
    path: str | PathLike[str] | None = None,
    *,
    depth: int | None = None,
    rolled: bool = False,
    direction: Direction = "down",
    color_by: ColorBy | None = None,
) -> str | bytes:
    """Draw a diff, and write it to `path` if given; see `Diff.draw`."""
    check_path(path, formats=[suffix for suffix in FORMATS if suffix != ".json"])
    _, second = _traces(diff)
    view = diff_view(diff)
    how = diff_fold(view, depth, rolled=rolled)
    return render(second, view, how, path=path, direction=direction, color_by=color_by)


def diff_fold(view: GraphView, depth: int | None, *, rolled: bool = False) -> Fold:
    """`fold_to_depth`, except that a group that was removed as a whole stays folded when `depth` is None."""
    how = fold_to_depth(view, depth, rolled=rolled)
    marks = view.comparison.mark if view.comparison is not None else ()
    if depth is not None or not marks:
        return how
    first, end = view.groups.first, view.groups.end
    removed = {group for group in how.open if all(mark == "removed" for mark in marks[first[group] : end[group]])}
    return replace(how, open=how.open - removed)


def diff_view(diff: Diff) -> GraphView:
    """The graph view of a diff: that of the second trace, with removed ops inserted and every difference marked."""
    a, b = _traces(diff)
    alignment = align(a, b)
    old, new = graph_view(a), graph_view(b)
    view, removed = merge_views(old, new, _matches(old, new, alignment))
    new_rows = {row_b for row_a, row_b in (*alignment.ops, *alignment.sources) if row_a == MISSING}
    view = _DiffMarker(diff, b, view, removed, new_rows).marked_view()
    changes = (("new", diff.new), ("removed", diff.removed), ("changed", diff.changed))
    counts = tuple((how, f"{len(rows):,}") for how, rows in changes if rows)
    ops = ", ".join(f"{n} {how}" for how, n in counts) or "the same ops"
    n_apart = len(diff.different)
    values = f"{n_apart:,} values differ" if n_apart != 1 else "1 value differs"
    signatures_a, signatures_b = NodeSignature(a), NodeSignature(b)

    def signature(node: int) -> tuple[object, ...]:
        if node in removed:
            signatures, row = signatures_a, old.nodes.row[removed[node]]
        else:
            signatures, row = signatures_b, view.nodes.row[node]
        return signatures.of(row) if row >= 0 else ()

    return with_runs(
        replace(
            view,
            title=f"{view.title}: differences",
            subtitle=f"{ops} · {values} · {diff.a} → {diff.b}",
            facts=(*counts, ("values that differ", f"{n_apart:,}"), *view.facts),
        ),
        signature,
    )


def _traces(diff: Diff) -> tuple[Trace, Trace]:
    traces: tuple[Trace, Trace] | None = getattr(diff, "_traces", None)
    if traces is None:
        raise InputError("cannot draw this diff, because it no longer has its traces: run cutaway.diff again.")
    return traces


def _matches(old: GraphView, new: GraphView, alignment: Alignment) -> Matches:
    """The aligned nodes and groups of two graph views."""
    old_nodes = {row: i for i, row in enumerate(old.nodes.row) if row >= 0}
    new_nodes = {row: i for i, row in enumerate(new.nodes.row) if row >= 0}
    rows = (*alignment.ops, *alignment.sources)
    pairs = [(old_nodes[a], new_nodes[b]) for a, b in rows if a in old_nodes and b in new_nodes]
    calls, groups = dict(alignment.calls), {call: group for group, call in enumerate(new.groups.call)}
    same = {group: groups.get(calls.get(call, MISSING), MISSING) for group, call in enumerate(old.groups.call)}
    return Matches(dict(pairs), {group: other for group, other in same.items() if other != MISSING})


@dataclass(slots=True)
class _DiffMarker:
    """Marks the differences in a graph that already contains the removed ops."""

    diff: Diff
    b: Trace
    view: GraphView
    removed: Collection[int]
    new: set[int]
    """Rows of the second trace that the first does not have."""
    _changes: dict[int, Change] = field(default_factory=dict)
    """Row of the second trace → its change."""
    _distances: dict[int, Distance] = field(default_factory=dict)
    """Row of the second trace → the distance of its value, where it was compared."""

    def __post_init__(self) -> None:
        rows = {label: row for row, label in self.b.names.labels.items()}
        table = self.b.tables.nodes
        buffers = {table.path[row]: row for row, kind in enumerate(table.kind) if kind == BUFFER}
        for change in self.diff.structure:
            if change.kind in ("op", "input") and change.how != "removed":
                self._changes[rows[change.label]] = change
            elif change.kind == "buffer" and change.how in ("new", "changed") and change.site in buffers:
                self._changes[buffers[change.site]] = change
        for compared in self.diff.values:
            if _is_of_node(compared):
                self._distances[rows[compared.label]] = compared.distance

    def marked_view(self) -> GraphView:
        nodes = self.view.nodes
        numbers = range(len(nodes.row))
        results, passes = _members(nodes.event), _members(nodes.rolled)
        marks = tuple(map(self._mark, numbers))
        shown = [_combined_mark({marks[node] for node in results.get(i, [i])}) for i in numbers]
        rolled_lines = {
            i: (*lines, *self._lines([turn for node in results.get(i, [i]) for turn in passes.get(node, [node])]))
            for i, lines in nodes.rolled_lines.items()
        }
        far = [self._distances.get(row) for row in nodes.row]
        ranks = _ranks(distance for distance in far if distance is not None)
        return replace(
            self.view,
            nodes=replace(
                nodes,
                label=tuple(f"{_SIGNS[shown[i]]} {nodes.label[i]}" if shown[i] else nodes.label[i] for i in numbers),
                lines=tuple((*nodes.lines[i], *self._lines(results.get(i, [i]))) for i in numbers),
                rolled_lines=rolled_lines,
            ),
            comparison=Comparison(
                mark=marks,
                shade=tuple(shade(each) if each is not None else 0 for each in far),
                amount=tuple(_amount(each) if each is not None and not each.is_equal else "" for each in far),
                order=tuple(
                    float(ranks[each.order]) if each is not None and not each.is_equal else 0.0 for each in far
                ),
            ),
            measures=(*self.view.measures, _measure(far)),
        )

    def _mark(self, node: int) -> Mark:
        row = self.view.nodes.row[node]
        if node in self.removed:
            return "removed"
        if row in self.new or (row in self._changes and self._changes[row].how == "new"):
            return "new"
        return "changed" if row in self._changes else ""

    def _lines(self, nodes: list[int]) -> list[str]:
        """Lines on what changed in nodes that are drawn as one box, and how much their values differ."""
        rows = [row for row in (self.view.nodes.row[i] for i in nodes) if row >= 0]
        changes = [self._changes[row] for row in rows if row in self._changes]
        before = [change.before for change in changes if change.how == "changed" and change.before]
        lines = [short(f"was {before[0]}")] if before else []
        far = [self._distances[row] for row in rows if row in self._distances and not self._distances[row].is_equal]
        if far:
            most = "at most " if len(rows) > 1 else ""
            lines.append(f"Δ {most}{_amount(max(far, key=lambda distance: distance.order))}")
        return lines + [f"Δ {short(name)} {_amount(distance)}" for name, distance in self._parameters(rows[:1])]

    def _parameters(self, rows: list[int]) -> list[tuple[str, Distance]]:
        """The parameters of an op that differ."""
        read = [parent for row in rows for parent in Op(self.b, row).parents if parent.kind == PARAMETER]
        named = [(parent.label.rpartition(".")[2], self._distances.get(parent.node)) for parent in read]
        differing = [(name, distance) for name, distance in named if distance is not None and not distance.is_equal]
        return differing[:_MOST_NAMED]


def _members(representatives: Iterable[int]) -> dict[int, list[int]]:
    """Representative → all nodes that it represents."""
    members: dict[int, list[int]] = {}
    for i, representative in enumerate(representatives):
        members.setdefault(representative, []).append(i)
    return members


def _combined_mark(marks: set[Mark]) -> Mark:
    """The mark of a box that stands for several nodes."""
    return marks.pop() if len(marks) == 1 else "changed"


_SIGNS: dict[Mark, str] = {"new": SIGNS["new"], "removed": SIGNS["removed"], "changed": SIGNS["changed"]}


def _measure(far: list[Distance | None]) -> Measure:
    """The relative distance of each value, to color by; None where it was not compared or has no norm."""
    norms = (None if each is None else 0.0 if each.is_equal else each.norm for each in far)
    values = tuple(norm if norm is not None and math.isfinite(norm) else None for norm in norms)
    return Measure("distance", "difference, relative to the norm", "", "max", "log", values)


def _ranks(distances: Iterable[Distance]) -> dict[tuple[int, float, float], int]:
    """The rank of each distance; larger distances have higher ranks."""
    return {order: rank for rank, order in enumerate(sorted({distance.order for distance in distances}), 1)}


def _is_of_node(row: Compared) -> bool:
    return row.what == "value" and row.kind not in ("output", "module")


def _amount(distance: Distance) -> str:
    """The text of a distance in a box."""
    if distance.n_nan or distance.n_inf:
        return " ".join(f"{n:,} {what}" for n, what in ((distance.n_nan, "NaN"), (distance.n_inf, "Inf")) if n)
    return f"{distance.absolute:.2g}" if distance.norm is None else ratio_text(distance.norm)
