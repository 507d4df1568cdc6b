"""The picture of a diff: the second trace, with what is new, changed or apart marked, and what is gone put back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from cutaway.core.errors import InputError
from cutaway.graph.aligning import align
from cutaway.graph.counterparts import MISSING
from cutaway.graph.modules import ModuleCall
from cutaway.graph.nodes import PARAMETER
from cutaway.graph.op import Op
from cutaway.graph.trace import Trace
from cutaway.results.diff import SIGNS, Change, Compared, Diff, Distance, percent, shade
from cutaway.views.drawing import check_path, place
from cutaway.views.picture import Box, Edge, Key, Mark, View, picture
from cutaway.views.svg import svg

_SHADES: tuple[tuple[Mark, ...], ...] = (
    (),
    ("apart", "apart1"),
    ("apart", "apart2"),
    ("apart", "apart3"),
    ("apart", "apart4"),
)
_HEADS = ("input", "buffer", "constant")
_MOST_WORDS = 44
_MOST_NAMED = 3


def draw(diff: Diff, path: str | Path | None = None, *, depth: int | None = None) -> str:
    """Draw a diff as SVG, and write it to `path` if given; `Diff.draw` says more."""
    check_path(path)
    view = differences(diff, depth=depth)
    text = svg(view, place(view))
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def differences(diff: Diff, *, depth: int | None = None) -> View:
    """What to draw of a diff.

    Args:
        depth: None draws every op, 1 the children of the root and its own ops, 0 the model as one box.
    """
    traces: tuple[Trace, Trace] | None = getattr(diff, "_traces", None)
    if traces is None:
        raise InputError("this diff no longer knows its traces, and cannot be drawn: make it again with cutaway.diff.")
    drawing = _Drawing(diff, *traces, picture(traces[1], depth=depth))
    boxes = [drawing.marked(number) for number in range(len(drawing.view.boxes))]
    view = drawing.with_gone(boxes)
    counts = [
        f"{len(rows):,} {how}" for how, rows in (("new", diff.new), ("gone", diff.gone), ("changed", diff.changed))
    ]
    subtitle = f"{diff.a} → {diff.b} · ops: {', '.join(counts)} · {len(diff.different):,} values differ"
    return replace(view, title=f"{view.title}: what differs", subtitle=subtitle)


@dataclass(slots=True)
class _Ghost:
    """Ops of the first trace, next to each other, that the second does not have."""

    nodes: list[int]
    after: int
    """The box behind which it stands; -1 for none."""
    frame: int
    home: int
    """The call of the first trace that they stand in, or that is gone as a whole."""


@dataclass(slots=True)
class _Drawing:
    diff: Diff
    a: Trace
    b: Trace
    view: View
    _index: dict[Key, int] = field(default_factory=dict)
    _changes: dict[int, Change] = field(default_factory=dict)
    """Node of the second trace → what changed there."""
    _far: dict[int, Distance] = field(default_factory=dict)
    """Node of the second trace → how far it is apart."""
    _inside: dict[int, list[int]] = field(default_factory=dict)
    """Box → the ops it stands for."""
    _n_gone: dict[int, int] = field(default_factory=dict)
    """Folded box → how many ops are gone from it."""
    _ghosts: list[_Ghost] = field(default_factory=list)
    _there: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._index = {key: number for number, key in enumerate(self.view.keys)}
        nodes = {label: node for node, label in self.b.names.labels.items()}
        for change in self.diff.structure:
            if change.kind in ("op", "input") and change.how != "gone":
                self._changes[nodes[change.label]] = change
        for row in self.diff.different:
            if _is_of_node(row):
                self._far[nodes[row.label]] = row.distance
        for node in self.b.op_nodes:
            if (box := self._box_of(node)) is not None:
                self._inside.setdefault(box, []).append(node)
        self._find_gone()

    def _box_of(self, node: int) -> int | None:
        """The box of a node of the second trace: its own, or the folded call it is in."""
        if ("op", node) in self._index:
            return self._index["op", node]
        call = self.b.tables.nodes.call[node]
        while call and ("call", call) not in self._index:
            call = self.b.tables.calls[call].parent
        return self._index.get(("call", call))

    # what both have, or the second only

    def marked(self, number: int) -> Box:
        """The box as it is drawn: a sign before its name, and lines that say what differs."""
        box, key = self.view.boxes[number], self.view.keys[number]
        if key[0] == "standin":
            return box
        if key[0] == "call":
            return self._folded(box, number)
        change, far = self._changes.get(key[1]), self._far.get(key[1])
        marks: list[Mark] = list(_SHADES[shade(far)]) if far else []
        lines = list(box.lines)
        if change is not None:
            marks.append("new" if change.how == "new" else "changed")
            lines[0] = f"{SIGNS[change.how]} {lines[0]}"
            if change.how == "changed":
                lines += [_short(f"was {change.before}")]
        lines += [f"Δ {_amount(far)}"] if far else []
        lines += [f"Δ {name} {_amount(far)}" for name, far in self._parameters(key[1])]
        return replace(box, lines=tuple(lines), marks=tuple(marks))

    def _parameters(self, node: int) -> list[tuple[str, Distance]]:
        """The parameters of an op that differ."""
        read = [parent for parent in Op(self.b, node).parents if parent.kind == PARAMETER and parent.node in self._far]
        return [(parent.label.rpartition(".")[2], self._far[parent.node]) for parent in read[:_MOST_NAMED]]

    def _folded(self, box: Box, number: int) -> Box:
        inside = self._inside.get(number, [])
        found = [self._changes[node].how for node in inside if node in self._changes]
        n_new, n_changed, n_gone = found.count("new"), found.count("changed"), self._n_gone.get(number, 0)
        far = [self._far[node] for node in inside if node in self._far]
        lines = list(box.lines)
        marks: list[Mark] = []
        if n_new and n_new == len(inside):
            marks, lines[0] = ["new"], f"{SIGNS['new']} {lines[0]}"
        elif n_new or n_changed or n_gone:
            marks, lines[0] = ["changed"], f"{SIGNS['changed']} {lines[0]}"
            counts = ((n_new, "new"), (n_gone, "gone"), (n_changed, "changed"))
            lines.append(", ".join(f"{n:,} {how}" for n, how in counts if n))
        if far:
            worst = max(far, key=lambda distance: distance.order)
            marks = [*_SHADES[shade(worst)], *marks]
            lines.append(f"Δ in {len(far):,} ops, at most {_amount(worst)}")
        return replace(box, lines=tuple(lines), marks=tuple(marks))

    # what only the first has

    def _find_gone(self) -> None:
        found = align(self.a, self.b)
        self._there = {mine: other for mine, other in (*found.ops, *found.sources) if MISSING not in (mine, other)}
        homes = _Homes(self.a, self.b, self.view, dict(found.modules), {a for a, b in found.ops if b == MISSING})
        before, group = MISSING, MISSING
        for mine, other in found.ops:
            if other != MISSING:
                box = self._box_of(other)
                before, group = (before if box is None else box), MISSING
            elif (folded := homes.folded(mine)) is not None:
                self._n_gone[folded] = self._n_gone.get(folded, 0) + 1
            elif group == homes.group(mine):
                self._ghosts[-1].nodes.append(mine)
            else:
                group = homes.group(mine)
                frame = homes.frame(mine)
                self._ghosts.append(_Ghost([mine], homes.last_before(before, frame), frame, group))

    def with_gone(self, boxes: list[Box]) -> View:
        """The view with a box for each stretch of ops that are gone, tied to what they were tied to."""
        order: list[tuple[int, int]] = []  # (box, ghost), one of them -1
        behind: dict[int, list[int]] = {}
        for number, ghost in enumerate(self._ghosts):
            behind.setdefault(ghost.after, []).append(number)
        for number in range(-1, len(boxes)):
            order += [(number, MISSING)] if number >= 0 else []
            order += [(MISSING, ghost) for ghost in behind.get(number, ())]
        place_of = {pair: i for i, pair in enumerate(order)}
        edges = [
            replace(edge, parent=place_of[edge.parent, MISSING], child=place_of[edge.child, MISSING])
            for edge in self.view.edges
        ]
        known = {(edge.parent, edge.child) for edge in edges}
        for pair in self._ghost_edges(place_of):
            if pair[0] < pair[1] and pair not in known:
                known.add(pair)
                edges.append(Edge(*pair, ""))
        drawn = [boxes[box] if box >= 0 else self._ghost_box(self._ghosts[ghost]) for box, ghost in order]
        keys = [self.view.keys[box] if box >= 0 else ("gone", ghost) for box, ghost in order]
        return replace(self.view, boxes=tuple(drawn), edges=tuple(edges), keys=tuple(keys))

    def _ghost_edges(self, place_of: dict[tuple[int, int], int]) -> Iterable[tuple[int, int]]:
        ghost_of = {node: number for number, ghost in enumerate(self._ghosts) for node in ghost.nodes}

        def end(node: int) -> int | None:
            if node in ghost_of:
                return place_of[MISSING, ghost_of[node]]
            box = self._box_of(self._there[node]) if node in self._there else None
            return None if box is None else place_of[box, MISSING]

        for node, number in ghost_of.items():
            here = place_of[MISSING, number]
            for parent in self.a.tables.nodes.parents[node]:
                above = end(parent)
                if above is not None and self.a.tables.nodes.kind[parent] != PARAMETER:
                    yield above, here
            for child in self.a.children_of(node):
                below = end(child)
                if below is not None:
                    yield here, below

    def _ghost_box(self, ghost: _Ghost) -> Box:
        ops = [Op(self.a, node) for node in ghost.nodes]
        names = [op.label for op in ops]
        sign = SIGNS["gone"]
        if len(names) > _MOST_NAMED:
            lines = [f"{sign} {len(names):,} ops gone", _short(f"{names[0]} to {names[-1]}")]
        else:
            lines = [f"{sign} {name}" for name in names]
        if ghost.home:
            call = ModuleCall(self.a, ghost.home)
            lines.append(_short(f"{call.address} ({call.class_name})"))
        return Box(tuple(lines), "plain", "function", ghost.frame, marks=("gone",))


class _Homes:
    """Where in the picture of the second trace an op of the first would stand."""

    def __init__(self, a: Trace, b: Trace, view: View, rows: dict[int, int], gone: set[int]) -> None:
        self._a, self._view, self._rows = a, view, rows
        calls_a, calls_b = a.tables.calls, b.tables.calls
        self._folded = {calls_b[key[1]].module: i for i, key in enumerate(view.keys) if key[0] == "call"}
        self._frames: dict[int, int] = {}
        for number, frame in enumerate(view.frames[1:], 1):
            self._frames.setdefault(calls_b[frame.call].module, number)
        self._left = [0] * len(calls_a)
        for node in a.op_nodes:
            call = a.tables.nodes.call[node] if node not in gone else 0
            while call:
                self._left[call] += 1
                call = calls_a[call].parent

    def _calls(self, node: int) -> list[int]:
        """The module calls around an op, the innermost first."""
        found = [self._a.tables.nodes.call[node]]
        while found[-1]:
            found.append(self._a.tables.calls[found[-1]].parent)
        return found[:-1]

    def group(self, node: int) -> int:
        """The outermost call that is gone as a whole, or else the innermost one."""
        calls = self._calls(node)
        whole = [call for call in calls if not self._left[call] and not self._a.tables.calls[call].is_root]
        return whole[-1] if whole else calls[0] if calls else 0

    def folded(self, node: int) -> int | None:
        """The folded box it would be in."""
        rows = [self._rows.get(self._a.tables.calls[call].module, MISSING) for call in self._calls(node)]
        return next((self._folded[row] for row in rows if row in self._folded), None)

    def frame(self, node: int) -> int:
        """The innermost frame it would be in."""
        rows = [self._rows.get(self._a.tables.calls[call].module, MISSING) for call in self._calls(node)]
        return next((self._frames[row] for row in rows if row in self._frames), 0)

    def last_before(self, box: int, frame: int) -> int:
        """The box behind which it stands: not inside another frame, and not before the sources of its own."""
        boxes = self._view.boxes
        inside = [frame in self._around(other.frame) for other in boxes]
        if box == MISSING or not inside[box]:
            box = max(box, next((i for i, is_in in enumerate(inside) if is_in), 0) - 1)
            while box + 1 < len(boxes) and boxes[box + 1].kind in _HEADS and boxes[box + 1].frame == frame:
                box += 1
            return box
        around = self._around(boxes[box].frame)
        inner = around[around.index(frame) - 1] if boxes[box].frame != frame else MISSING
        while inner != MISSING and box + 1 < len(boxes) and inner in self._around(boxes[box + 1].frame):
            box += 1
        return box

    def _around(self, frame: int) -> list[int]:
        """A frame and those around it, the innermost first."""
        found = [frame]
        while found[-1]:
            found.append(self._view.frames[found[-1]].parent)
        return found


def _is_of_node(row: Compared) -> bool:
    return row.what == "value" and row.kind not in ("output", "module")


def _amount(distance: Distance) -> str:
    """One number for a box."""
    if distance.n_nan or distance.n_inf:
        return " ".join(f"{n:,} {what}" for n, what in ((distance.n_nan, "NaN"), (distance.n_inf, "Inf")) if n)
    return f"{distance.absolute:.2g}" if distance.norm is None else percent(distance.norm)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_WORDS else f"{text[: _MOST_WORDS - 1]}…"
