"""Places all boxes, frames and lines of a picture.

Frames are laid out one by one, innermost first, and each is a single box in the frame around it. So a frame never
covers boxes of other frames, and the contents of one frame do not move those of another. The browser does the same
(`web/src/layout/place.ts`); a test keeps the two in sync.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from cutaway.layout.feedback import LANE_MARGIN, End, FeedbackEdge, Span, feedback_routes
from cutaway.layout.layered import BELOW_PORTS, ArrangementCache, Border, Node, Point, Rect, Wire, layout
from cutaway.layout.picture import Picture
from cutaway.layout.text_size import box_size, label_width, title_width

Direction = Literal["down", "right"]

_PADDING_ACROSS, _PADDING_ALONG = 14.0, 14.0
_STUB = 14.0
"""Length of the vertical end of a line with a label."""
_LABEL_PITCH = 14.0
"""Distance between horizontal lines with labels."""
_LABEL_MARGIN = 14.0
"""Extra length of a horizontal line beyond its label."""
_LEAD_IN = 15.0
"""Horizontal lines run straight for this length after the border of a frame; its title is above them."""


@dataclass(frozen=True, slots=True)
class Line:
    """A segment of an edge; edges from one box share their path as long as possible."""

    points: tuple[Point, ...]
    parent: int
    child: int | None
    """The box at which it ends; None if it ends at a border or continues."""
    frame: int | None = None
    """The frame at whose border it ends."""
    is_feedback: bool = False
    """Whether it is a feedback edge, which has right-angled turns."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The rectangles of all boxes and frames of a picture, and the lines between them."""

    width: float
    height: float
    boxes: tuple[Rect, ...]
    frames: tuple[Rect, ...]
    lines: tuple[Line, ...]


def place(picture: Picture, direction: Direction = "down") -> Placement:
    """Place everything in a picture; deterministic.

    Args:
        direction: whether edges lead down or to the right. Text and frame titles are horizontal in both.
    """
    placer = _Placer(picture, direction == "right", _box_sizes(picture, direction))
    placer.find_members()
    placer.cut_edges()
    for frame in reversed(placer.outermost_first):
        placer.levels[frame].place(placer, frame)
    return placer.compose()


def _box_sizes(picture: Picture, direction: Direction) -> list[tuple[float, float]]:
    """The size of each box: enough for its text and the labels of its incoming edges."""
    sizes = [box_size(box) for box in picture.boxes]
    n_arriving, widest = [0] * len(sizes), [0.0] * len(sizes)
    for edge in picture.edges:
        if edge.parent < edge.child:
            n_arriving[edge.child] += 1
            widest[edge.child] = max(widest[edge.child], label_width(edge.label))
    for box, (width, height) in enumerate(sizes):
        if widest[box] and direction == "right":
            sizes[box] = (width, max(height, n_arriving[box] * _LABEL_PITCH))
        elif widest[box]:
            sizes[box] = (max(width, n_arriving[box] * (widest[box] + 10)), height)
    return sizes


@dataclass(slots=True)
class _Level:
    """The contents of one frame; its members are boxes, by index, and frames, as `~index`.

    Positions are relative to the corner of the frame. If edges lead to the right, `along` is to the right and `across`
    is down; otherwise `along` is down and `across` is to the right.
    """

    members: dict[int, None] = field(default_factory=dict)
    wires: list[tuple[int | None, int | None, int, float]] = field(default_factory=list)
    """(upper or None for a port, lower or None for a port, source box of the tensor, width of a label)."""
    ins: dict[int, float] = field(default_factory=dict)
    """Source box of an incoming tensor → its position across."""
    outs: dict[int, float] = field(default_factory=dict)
    feedback: list[tuple[int, int, float]] = field(default_factory=list)
    """Feedback edges within it: (from box, to box, width of a label)."""
    across: float = 0.0
    along: float = 0.0
    places: dict[int, Point] = field(default_factory=dict)
    """Member → its position across and along."""
    lines: list[tuple[tuple[Point, ...], int, int | None]] = field(default_factory=list)
    """(points, source box of the tensor, the member at which it ends)."""
    feedback_lines: list[tuple[tuple[Point, ...], int, int]] = field(default_factory=list)

    def place(self, placer: _Placer, frame: int) -> None:
        """Lay out the frame; its inner frames are done already."""
        right, title = placer.is_right, title_width(placer.picture.frames[frame].title)
        ins, outs = sorted(self.ins), sorted(self.outs)
        index_in = {value: i for i, value in enumerate(ins)}
        index = {member: len(ins) + i for i, member in enumerate(self.members)}
        index_out = {value: len(ins) + len(index) + i for i, value in enumerate(outs)}
        port = Node(0.0, 0.0)
        nodes = [port] * len(ins) + [placer.node(member) for member in self.members] + [port] * len(outs)
        wires = []
        for upper, lower, value, label in self.wires:
            leave = placer.levels[~upper].outs[value] if upper is not None and upper < 0 else None
            into = placer.levels[~lower].ins[value] if lower is not None and lower < 0 else None
            room = (_LABEL_PITCH - 10 if right else label) if label else 0.0
            stub = (label + _LABEL_MARGIN if right else _STUB) if label else 0.0
            at = index_in[value] if upper is None else index[upper]
            to = index_out[value] if lower is None else index[lower]
            wires.append(Wire(at, to, value, leave, into, room, stub))
        offset_along = 0.0 if ins else _PADDING_ALONG if right or not frame else BELOW_PORTS
        padding_after = 0.0 if outs else _PADDING_ALONG
        min_height = max(0.0, title + 2 * _PADDING_ACROSS - offset_along - padding_after) if right else 0.0
        border = Border(len(ins), len(outs), _LEAD_IN if right else BELOW_PORTS, min_height)
        placed = layout(nodes, wires, border=border, cache=placer.cache)
        self.along = offset_along + placed.height + padding_after
        if right:
            offset_across = BELOW_PORTS if frame else _PADDING_ACROSS
            self.across = offset_across + placed.width + _PADDING_ACROSS
        else:
            self.across = max(placed.width, title) + 2 * _PADDING_ACROSS
            offset_across = (self.across - placed.width) / 2
        for i, member in enumerate(self.members, len(ins)):
            rect = placed.nodes[i]
            self.places[member] = (rect.x + offset_across, rect.y + offset_along)
        for value, i in index_in.items():
            self.ins[value] = placed.nodes[i].x + offset_across
        for value, i in index_out.items():
            self.outs[value] = placed.nodes[i].x + offset_across
        members = [*self.members]
        for route in placed.routes:
            points = tuple((x + offset_across, y + offset_along) for x, y in route.points)
            at = route.lower - len(ins) if route.lower is not None else len(members)
            arrives = members[at] if at < len(members) else None
            self.lines.append((points, route.value, arrives))
        if self.feedback:
            spans = placed.spans[len(ins) : len(ins) + len(members)]
            rows = {
                member: (first + offset_along, last + offset_along)
                for member, (first, last) in zip(members, spans, strict=True)
            }
            self.route_feedback(placer, rows)

    def route_feedback(self, placer: _Placer, rows: dict[int, Point]) -> None:
        """Route the feedback edges, and widen the frame for them."""
        edges, members, lines = [], list[Span](), list[Span]()
        for parent, child, label in self.feedback:
            upper = End(parent, placer.rect_in(self, parent), rows.get(parent))
            lower = End(child, placer.rect_in(self, child), rows.get(child))
            edges.append(FeedbackEdge(upper, lower, 0.0 if placer.is_right else label))
        for member, (across, along) in self.places.items():
            node = placer.node(member)
            members.append((along, along + node.height, across + node.width))
        for points, _, _ in self.lines:
            for (across, along), (to_across, to_along) in pairwise(points):
                lines.append((along, to_along, max(across, to_across)))
        for edge, route in feedback_routes(edges, members, lines):
            self.feedback_lines.append((tuple(route), edge.upper.box, edge.lower.box))
            for across, _ in route:
                self.across = max(self.across, across + LANE_MARGIN)


@dataclass(slots=True)
class _Placer:
    picture: Picture
    is_right: bool
    sizes: list[tuple[float, float]]
    """Width and height of each box."""
    levels: list[_Level] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    outermost_first: list[int] = field(default_factory=list)
    cache: ArrangementCache = field(default_factory=dict)

    def node(self, member: int) -> Node:
        """The size of a member, across and along."""
        if member < 0:
            return Node(self.levels[~member].across, self.levels[~member].along)
        width, height = self.sizes[member]
        return Node(height, width) if self.is_right else Node(width, height)

    def rect_in(self, level: _Level, box: int) -> Rect:
        """The rectangle of a box in the coordinates of a level, however deeply nested it is."""
        member, inside = box, self.picture.boxes[box].frame
        across, along = self.levels[inside].places[member]
        while self.levels[inside] is not level:
            member, inside = ~inside, self.picture.frames[inside].parent
            dx, dy = self.levels[inside].places[member]
            across, along = across + dx, along + dy
        node = self.node(box)
        return Rect(across, along, node.width, node.height)

    def find_members(self) -> None:
        frames = self.picture.frames
        self.levels = [_Level() for _ in frames]
        for frame in frames:
            self.depth.append(self.depth[frame.parent] + 1 if self.depth else 0)
        # Inner frames are laid out first (in reverse), because their size is that of a box in the frame around them.
        self.outermost_first = sorted(range(len(frames)), key=self.depth.__getitem__)
        for number, box in enumerate(self.picture.boxes):
            member, inside = number, box.frame
            # If a frame is known already, so are all frames around it.
            while inside >= 0 and member not in self.levels[inside].members:
                self.levels[inside].members[member] = None
                member, inside = ~inside, frames[inside].parent

    def cut_edges(self) -> None:
        """Cut edges at the borders they cross: a segment for each frame left, one outside, one for each entered."""
        boxes, frames, levels, depth = self.picture.boxes, self.picture.frames, self.levels, self.depth
        done: set[tuple[int, int]] = set()  # (box or ~frame at which a segment ends, source box)
        for edge in self.picture.edges:
            value, upper, lower, label = edge.parent, edge.parent, edge.child, label_width(edge.label)
            a, b = boxes[upper].frame, boxes[lower].frame
            if upper >= lower:
                while a != b:
                    a, b = (frames[a].parent, b) if depth[a] >= depth[b] else (a, frames[b].parent)
                levels[a].feedback.append((upper, lower, label))
                continue
            while a != b:
                if depth[a] >= depth[b]:
                    # A tensor leaves a frame once, however many users it has outside.
                    if value not in levels[a].outs:
                        levels[a].outs[value] = 0.0
                        levels[a].wires.append((upper, None, value, 0.0))
                    upper, a = ~a, frames[a].parent
                else:
                    levels[b].ins[value] = 0.0
                    if (lower, value) not in done:
                        done.add((lower, value))
                        levels[b].wires.append((None, lower, value, label))
                    lower, label, b = ~b, 0.0, frames[b].parent
            if (lower, value) not in done:
                done.add((lower, value))
                levels[a].wires.append((upper, lower, value, label))

    def compose(self) -> Placement:
        """Convert positions within frames to positions in the picture."""
        corner: list[Point] = [(0.0, 0.0)] * len(self.levels)
        boxes = [Rect(0.0, 0.0, 0.0, 0.0)] * len(self.sizes)
        frames: list[Rect] = []
        lines: list[Line] = []
        for frame in self.outermost_first:
            level, (left, top) = self.levels[frame], corner[frame]
            for member, (across, along) in level.places.items():
                x, y = (left + along, top + across) if self.is_right else (left + across, top + along)
                if member < 0:
                    corner[~member] = (x, y)
                else:
                    boxes[member] = Rect(x, y, *self.sizes[member])
            for points, value, arrives in level.lines:
                child = arrives if arrives is not None and arrives >= 0 else None
                entered = ~arrives if arrives is not None and arrives < 0 else None
                lines.append(Line(self.to_picture(points, left, top), value, child, entered))
            for points, value, child in level.feedback_lines:
                lines.append(Line(self.to_picture(points, left, top), value, child, is_feedback=True))
        for level, (x, y) in zip(self.levels, corner, strict=True):
            width, height = (level.along, level.across) if self.is_right else (level.across, level.along)
            frames.append(Rect(x, y, width, height))
        return Placement(frames[0].width, frames[0].height, tuple(boxes), tuple(frames), tuple(lines))

    def to_picture(self, points: tuple[Point, ...], left: float, top: float) -> tuple[Point, ...]:
        """Convert points of a level to points of the picture."""
        if self.is_right:
            return tuple([(left + along, top + across) for across, along in points])
        return tuple([(left + across, top + along) for across, along in points])
