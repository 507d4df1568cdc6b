"""`trace.draw`: from a trace to an SVG file.

Frames are laid out one by one, the innermost first, and each is a single box to the frame around it. So a
frame can never cover what does not belong to it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from cutaway.core.errors import InputError
from cutaway.graph.layout import BELOW_PORTS, Node, Point, Rect, Wire, layout
from cutaway.graph.trace import Trace
from cutaway.views.feedback import forward, with_feedback
from cutaway.views.picture import View, picture
from cutaway.views.svg import Line, Placement, box_size, label_width, svg, title_width

Key = tuple[str, int]
"""What a frame holds: ("box", b), ("frame", f), ("in", b) and ("out", b) for the ports of what box b makes."""

_SIDE, _END = 14.0, 14.0


def draw(
    trace: Trace,
    path: str | Path | None = None,
    *,
    depth: int | None = None,
    rolled: bool = False,
    bright: Collection[int] | None = None,
) -> str:
    """Draw the graph of a trace as SVG, and write it to `path` if given.

    >>> draw(trace, "net.svg", depth=1)[:4]          # doctest: +SKIP
    '<svg'

    Args:
        depth: None draws every op, 1 the children of the root and its own ops, 0 the model as one box.
        rolled: whether the passes of an op are drawn as one box.
        bright: rows that are drawn as usual, all others faint; None for no difference.
    """
    check_path(path)
    view = picture(trace, depth=depth, rolled=rolled, bright=bright)
    text = svg(view, place(view))
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def check_path(path: str | Path | None) -> None:
    """Refuse a path that promises another format, before anything is drawn."""
    if path is not None and Path(path).suffix.lower() != ".svg":
        raise InputError(f"draw writes SVG only, and {str(path)!r} does not end in .svg: give a path that does.")


def place(view: View) -> Placement:
    """Where everything goes; the same view gives the same places."""
    sizes = _box_sizes(view)
    depth: list[int] = []
    for frame in view.frames:
        depth.append(depth[frame.parent] + 1 if depth else 0)
    levels = [_Level(title_width(frame.title)) for frame in view.frames]
    for number, box in enumerate(view.boxes):
        member, inside = ("box", number), box.frame
        while inside >= 0 and member not in levels[inside].members:
            levels[inside].members[member] = None
            member, inside = ("frame", inside), view.frames[inside].parent
    _cut_edges(view, depth, levels)
    outside_in = sorted(range(len(levels)), key=lambda frame: depth[frame])
    for number in reversed(outside_in):
        levels[number].place(sizes, levels, is_framed=number > 0)
    return with_feedback(view, _compose(sizes, levels, outside_in))


def _box_sizes(view: View) -> list[Node]:
    """Wide enough for the text of each box, and for the labels of the edges that arrive there."""
    rooms: dict[int, list[float]] = {}
    for edge in forward(view):
        rooms.setdefault(edge.child, []).append(label_width(edge.label))
    sizes = []
    for number, box in enumerate(view.boxes):
        width, height = box_size(box)
        arriving = rooms.get(number, [0.0])
        if max(arriving):
            width = max(width, len(arriving) * (max(arriving) + 10))
        sizes.append(Node(width, height))
    return sizes


def _cut_edges(view: View, depth: list[int], levels: list[_Level]) -> None:
    """Cut edges at the borders they cross: a piece for each frame they leave, one outside, one for each they enter."""
    for edge in forward(view):
        upper, lower, room = ("box", edge.parent), ("box", edge.child), label_width(edge.label)
        a, b = view.boxes[edge.parent].frame, view.boxes[edge.child].frame
        while a != b:
            if depth[a] >= depth[b]:
                levels[a].wires.setdefault((upper, ("out", edge.parent), edge.parent), 0.0)
                upper, a = ("frame", a), view.frames[a].parent
            else:
                levels[b].wires.setdefault((("in", edge.parent), lower, edge.parent), room)
                lower, room, b = ("frame", b), 0.0, view.frames[b].parent
        levels[a].wires.setdefault((upper, lower, edge.parent), room)


@dataclass(slots=True)
class _Level:
    """One frame: what it holds, each with its place relative to the frame's corner."""

    title_width: float
    members: dict[Key, None] = field(default_factory=dict)
    """Boxes and frames, in the order of the view."""
    wires: dict[tuple[Key, Key, int], float] = field(default_factory=dict)
    """(upper, lower, box that makes what it carries) → room for a label."""
    width: float = 0.0
    height: float = 0.0
    places: dict[Key, Point] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    def place(self, sizes: list[Node], levels: list[_Level], *, is_framed: bool) -> None:
        """Lay the frame out; the frames inside it have been."""
        ins = sorted({upper for upper, _, _ in self.wires if upper[0] == "in"})
        outs = sorted({lower for _, lower, _ in self.wires if lower[0] == "out"})
        keys = [*ins, *self.members, *outs]
        nodes = [Node(0.0, 0.0)] * len(keys)
        for i, (kind, number) in enumerate(keys):
            if kind == "box":
                nodes[i] = sizes[number]
            elif kind == "frame":
                nodes[i] = Node(levels[number].width, levels[number].height)
        index = {key: i for i, key in enumerate(keys)}
        wires = []
        for (upper, lower, value), room in self.wires.items():
            out = levels[upper[1]].places[("out", value)][0] if upper[0] == "frame" else None
            into = levels[lower[1]].places[("in", value)][0] if lower[0] == "frame" else None
            wires.append(Wire(index[upper], index[lower], value, out, into, room))
        placed = layout(nodes, wires, n_in=len(ins), n_out=len(outs))
        self.width = max(placed.width, self.title_width) + 2 * _SIDE
        dx = (self.width - placed.width) / 2
        dy = 0.0 if ins else BELOW_PORTS if is_framed else _END
        self.height = placed.height + dy + (0.0 if outs else _END)
        self.places = {key: (rect.x + dx, rect.y + dy) for key, rect in zip(keys, placed.nodes, strict=True)}
        for route in placed.routes:
            points = tuple((x + dx, y + dy) for x, y in route.points)
            kind, number = keys[route.lower] if route.lower is not None else ("", -1)
            ends = {"box": (number, None), "frame": (None, number)}
            self.lines.append(Line(points, route.value, *ends.get(kind, (None, None))))


def _compose(sizes: list[Node], levels: list[_Level], outside_in: list[int]) -> Placement:
    """Turn places within frames into places in the picture."""
    corner: dict[int, Point] = {}
    boxes = [Rect(0.0, 0.0, size.width, size.height) for size in sizes]
    frames = [Rect(0.0, 0.0, level.width, level.height) for level in levels]
    lines: list[Line] = []
    for number in outside_in:
        level = levels[number]
        x, y = corner.get(number, (0.0, 0.0))
        frames[number] = Rect(x, y, level.width, level.height)
        for (kind, member), (dx, dy) in level.places.items():
            if kind == "box":
                boxes[member] = Rect(x + dx, y + dy, sizes[member].width, sizes[member].height)
            elif kind == "frame":
                corner[member] = (x + dx, y + dy)
        for line in level.lines:
            points = tuple((x + dx, y + dy) for dx, dy in line.points)
            lines.append(Line(points, line.parent, line.child, line.frame))
    return Placement(levels[0].width, levels[0].height, tuple(boxes), tuple(frames), tuple(lines))
