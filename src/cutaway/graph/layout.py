"""Where to put boxes, frames and lines: a layered layout, top to bottom, one group at a time.

Every group is laid out by itself, the innermost first, and is a single box to the group around it. So a
frame can never cover what does not belong to it, and the work grows with the number of lines, not with
their length: a line that leaves a group ends at a port on its border, a long one inside a group runs down
a lane at the right.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

Point = tuple[float, float]
Key = tuple[str, int]
"""A member of a level: ("node", n), ("group", g), ("in", n) and ("out", n) for the port of node n's value."""

_SIDE, _BELOW, _TITLE = 14.0, 14.0, 24.0
_BETWEEN, _GAP, _LANE, _TRACK = 22.0, 30.0, 8.0, 5.0
_LONGEST = 16
"""Layers a line may pass between boxes; a longer one takes a lane at the side."""
_CROWD = 4
"""From more than so many long lines into one box, they share a lane."""


@dataclass(frozen=True, slots=True)
class Node:
    """A box to be placed. Nodes are given parents first, those of one group next to each other."""

    width: float
    height: float
    group: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """A frame around nodes and other groups; group 0 is the whole picture and has no parent."""

    parent: int
    title_width: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """A line from a node to a later one; `room` is the width to keep free for its label at the lower end."""

    parent: int
    child: int
    room: float = 0.0


@dataclass(frozen=True, slots=True)
class Rect:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """A piece of a line; a line that splits on its way has the common piece once."""

    points: tuple[Point, ...]
    parent: int
    child: int | None
    """The node it arrives at; None where it ends at a border or goes on."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Places for all that was given, in the order given."""

    width: float
    height: float
    nodes: tuple[Rect, ...]
    groups: tuple[Rect, ...]
    routes: tuple[Route, ...]


def layout(nodes: Sequence[Node], groups: Sequence[Group], links: Sequence[Link]) -> Layout:
    """Place everything; the same input gives the same picture.

    >>> layout([Node(10, 5), Node(10, 5)], [Group(-1)], [Link(0, 1)]).nodes[1]
    Rect(x=14.0, y=49.0, width=10, height=5)
    """
    depth = [0] * len(groups)
    for number, group in enumerate(groups):
        depth[number] = depth[group.parent] + 1 if number else 0
    levels = [_Level(number, group.title_width) for number, group in enumerate(groups)]
    first = _first_nodes(nodes, groups, depth)
    for number in sorted(range(1, len(groups)), key=lambda g: first[g]):
        if first[number] < len(nodes):
            levels[groups[number].parent].members[("group", number)] = first[number]
    for number, node in enumerate(nodes):
        levels[node.group].members[("node", number)] = number
    for link in links:
        _spread(link, nodes, groups, depth, levels)
    done: dict[int, _Level] = {}
    for number in sorted(range(len(groups)), key=lambda g: -depth[g]):
        levels[number].place(nodes, done)
        done[number] = levels[number]
    return _compose(nodes, levels, sorted(range(len(groups)), key=lambda g: depth[g]))


def _first_nodes(nodes: Sequence[Node], groups: Sequence[Group], depth: list[int]) -> list[int]:
    first = [len(nodes)] * len(groups)
    for number, node in enumerate(nodes):
        first[node.group] = min(first[node.group], number)
    for group in sorted(range(1, len(groups)), key=lambda g: -depth[g]):
        parent = groups[group].parent
        first[parent] = min(first[parent], first[group])
    return first


def _spread(
    link: Link, nodes: Sequence[Node], groups: Sequence[Group], depth: list[int], levels: list[_Level]
) -> None:
    """Cut a link at the borders it crosses: a piece for each group it leaves, one outside, one for each it enters."""
    upper: Key = ("node", link.parent)
    lower: Key = ("node", link.child)
    a, b = nodes[link.parent].group, nodes[link.child].group
    while a != b:
        if depth[a] >= depth[b]:
            levels[a].wires.setdefault((upper, ("out", link.parent), link.parent), 0.0)
            upper, a = ("group", a), groups[a].parent
        else:
            levels[b].wires.setdefault((("in", link.parent), lower, link.parent), link.room)
            lower, b = ("group", b), groups[b].parent
    levels[a].wires.setdefault((upper, lower, link.parent), link.room)


@dataclass(slots=True)
class _Level:
    """One group: its members in layers, each with its place relative to the group's corner."""

    number: int
    title_width: float
    members: dict[Key, int] = field(default_factory=dict)
    """Member → its place in the order of execution."""
    wires: dict[tuple[Key, Key, int], float] = field(default_factory=dict)
    """(upper, lower, node whose value it carries) → room for a label."""
    width: float = 0.0
    height: float = 0.0
    places: dict[Key, Point] = field(default_factory=dict)
    ports: dict[Key, float] = field(default_factory=dict)
    routes: list[Route] = field(default_factory=list)

    def place(self, nodes: Sequence[Node], done: dict[int, _Level]) -> None:
        ins = sorted({upper for upper, _, _ in self.wires if upper[0] == "in"})
        outs = sorted({lower for _, lower, _ in self.wires if lower[0] == "out"})
        keys = [*ins, *sorted(self.members, key=lambda key: (self.members[key], key[0])), *outs]
        sheet = _Sheet(keys, len(ins), len(outs))
        for key in keys:
            size = nodes[key[1]] if key[0] == "node" else done[key[1]] if key[0] == "group" else None
            sheet.add(size.width if size else 0.0, size.height if size else 0.0)
        index = {key: i for i, key in enumerate(keys)}
        for (upper, lower, value), room in self.wires.items():
            out = done[upper[1]].ports[("out", value)] if upper[0] == "group" else None
            into = done[lower[1]].ports[("in", value)] if lower[0] == "group" else None
            sheet.wire(index[upper], index[lower], value, out, into, room)
        routes = sheet.run()
        framed = self.number > 0
        left = min((x for x, kind in zip(sheet.x, keys, strict=False) if kind[0] in ("node", "group")), default=0.0)
        left = min(left, *(x for layer in sheet.layers for i in layer[:1] for x in (sheet.x[i],)), 0.0 if not keys else left)
        inner = sheet.right - left
        self.width = max(inner, self.title_width) + 2 * _SIDE
        dx = (self.width - inner) / 2 - left
        dy = 0.0 if ins else _TITLE if framed else _BELOW
        self.height = sheet.bottom + dy + (0.0 if outs else _BELOW)
        self.places = {key: (sheet.x[i] + dx, sheet.y[i] + dy) for i, key in enumerate(keys)}
        self.ports = {key: self.places[key][0] for key in [*ins, *outs]}
        for points, value, lower_end in routes:
            child = keys[lower_end] if lower_end is not None else ("", -1)
            moved = tuple((x + dx, y + dy) for x, y in points)
            self.routes.append(Route(moved, value, child[1] if child[0] == "node" else None))


@dataclass(slots=True)
class _Wire:
    upper: int
    lower: int
    value: int
    out: float | None
    into: float | None
    room: float


@dataclass(slots=True)
class _Sheet:
    """The layered layout of one level: members 0… in a topological order, ports first and last."""

    keys: list[Key]
    n_in: int
    n_out: int
    width: list[float] = field(default_factory=list)
    height: list[float] = field(default_factory=list)
    layer: list[int] = field(default_factory=list)
    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    layers: list[list[int]] = field(default_factory=list)
    wires: list[_Wire] = field(default_factory=list)
    short: list[tuple[int, int, float | None, float | None, _Wire]] = field(default_factory=list)
    """(upper, lower, offset there, offset here, what it is part of): lines between neighbouring layers."""
    long: list[_Wire] = field(default_factory=list)
    above: list[list[tuple[int, float, float, int]]] = field(default_factory=list)
    below: list[list[tuple[int, float, float, int]]] = field(default_factory=list)
    """For each member its neighbours: (which, offset there, offset here, weight)."""
    right: float = 0.0
    bottom: float = 0.0

    def add(self, width: float, height: float) -> None:
        self.width.append(width)
        self.height.append(height)

    def wire(self, upper: int, lower: int, value: int, out: float | None, into: float | None, room: float) -> None:
        if upper >= lower:
            raise ValueError("a layout takes nodes parents first, and the nodes of a group next to each other")
        self.wires.append(_Wire(upper, lower, value, out, into, room))

    def run(self) -> list[tuple[list[Point], int, int | None]]:
        self._assign_layers()
        self._cut_long_wires()
        self._order()
        self._set_x()
        return self._route()

    def _assign_layers(self) -> None:
        """Longest path from the top; what has no more lines in than out then sinks towards its users."""
        n = len(self.keys)
        start, end = self.n_in, n - self.n_out
        self.layer = [0] * start + [1 if start else 0] * (n - start)
        downs: list[list[int]] = [[] for _ in range(n)]
        n_ups = [0] * n
        for wire in self.wires:
            downs[wire.upper].append(wire.lower)
            n_ups[wire.lower] += 1
        for i in range(end):
            for lower in downs[i]:
                self.layer[lower] = max(self.layer[lower], self.layer[i] + 1)
        last = max(self.layer[:end], default=0) + 1
        self.layer[end:] = [last] * self.n_out
        for i in range(end - 1, start - 1, -1):
            if downs[i] and n_ups[i] <= len(downs[i]) and all(lower < end for lower in downs[i]):
                self.layer[i] = min(self.layer[lower] for lower in downs[i]) - 1

    def _cut_long_wires(self) -> None:
        """Long lines get a waypoint in each layer they pass, shared by all lines that carry the same value."""
        waypoints: dict[tuple[int, int, int], int] = {}
        for wire in self.wires:
            if self.layer[wire.lower] - self.layer[wire.upper] > _LONGEST:
                self.long.append(wire)
                continue
            at, out = wire.upper, wire.out
            for layer in range(self.layer[wire.upper] + 1, self.layer[wire.lower]):
                key = (wire.upper, wire.value, layer)
                if key not in waypoints:
                    waypoints[key] = len(self.layer)
                    self.layer.append(layer)
                    self.add(0.0, 0.0)
                    self.short.append((at, waypoints[key], out, None, wire))
                at, out = waypoints[key], None
            self.short.append((at, wire.lower, out, wire.into, wire))
        self.above = [[] for _ in self.layer]
        self.below = [[] for _ in self.layer]
        n = len(self.keys)
        for upper, lower, out, into, _ in self.short:
            a = self.width[upper] / 2 if out is None else out
            b = self.width[lower] / 2 if into is None else into
            weight = (4 if upper < n and lower < n else 8 if upper >= n and lower >= n else 1)
            self.above[lower].append((upper, a, b, weight))
            self.below[upper].append((lower, b, a, weight))
        self.layers = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for i, layer in enumerate(self.layer):
            self.layers[layer].append(i)
