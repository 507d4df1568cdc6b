"""Where to put boxes, frames and lines: a layered layout, top to bottom, one group at a time.

Every group is laid out by itself, the innermost first, and is a single box to the group around it. So a
frame can never cover what does not belong to it, and the work grows with the number of lines, not with
their length: a line that leaves a group ends at a port on its border, a long one inside a group runs down
a lane at the right.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise

Point = tuple[float, float]
Key = tuple[str, int]
"""A member of a level: ("node", n), ("group", g), ("in", n) and ("out", n) for the port of node n's value."""
Pull = tuple[int, float, float, int]
"""A neighbour in the next layer: which, where the line meets it, where it meets us, how much it counts."""

_SIDE, _BELOW, _TITLE = 14.0, 14.0, 24.0
_BETWEEN, _GAP, _LANE, _TRACK = 22.0, 30.0, 8.0, 5.0
_STUB = 14.0
"""The upright end of a line with a label, so that no line runs through a label."""
_LONGEST = 16
"""Layers a line may pass between boxes; a longer one takes a lane at the side."""
_CROWD = 12
"""Where more lines than this end at one box, all but those from next door share one lane."""
_DRIFT = 1.3
"""Straight lines between ports can make a stack of groups lean; wider than this, it is set upright."""
_SWEEPS = 13
"""Passes over the layers, for the order and again for the coordinates. Odd: the last goes down."""

_TURNS = 6
"""Rounds of drawing loose parts together after the sweeps."""


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
            sheet.connect(_Wire(index[upper], index[lower], value, out, into, room))
        routes = sheet.run()
        framed = self.number > 0
        inner = sheet.right
        self.width = max(inner, self.title_width) + 2 * _SIDE
        dx = (self.width - inner) / 2
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
    """A line within a level; offsets are from the left of its ends, None for the middle."""

    upper: int
    lower: int
    value: int
    out: float | None
    into: float | None
    room: float


@dataclass(slots=True)
class _Sheet:
    """The layered layout of one level: members 0… in a topological order, ports first and last.

    After the members come waypoints, without width or height, where longer lines pass a layer.
    """

    keys: list[Key]
    n_in: int
    n_out: int
    width: list[float] = field(default_factory=list)
    height: list[float] = field(default_factory=list)
    layer: list[int] = field(default_factory=list)
    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    layers: list[list[int]] = field(default_factory=list)
    tail: list[int] = field(default_factory=list)
    """How many layers depend on each member."""
    is_loose: list[bool] = field(default_factory=list)
    """Whether it is a source, or made from sources alone for a single user."""
    wires: list[_Wire] = field(default_factory=list)
    short: list[_Wire] = field(default_factory=list)
    """Lines, or pieces of them, between neighbouring layers."""
    long: list[_Wire] = field(default_factory=list)
    above: list[list[Pull]] = field(default_factory=list)
    below: list[list[Pull]] = field(default_factory=list)
    right: float = 0.0
    bottom: float = 0.0

    def add(self, width: float, height: float) -> None:
        self.width.append(width)
        self.height.append(height)

    def connect(self, wire: _Wire) -> None:
        if wire.upper >= wire.lower:
            raise ValueError("a layout takes nodes parents first, and the nodes of a group next to each other")
        self.wires.append(wire)

    def run(self) -> list[tuple[list[Point], int, int | None]]:
        self._assign_layers()
        self._cut_wires()
        self._find_neighbours(by_center=False)
        self._order()
        self._set_x()
        widest = max((sum(self.width[i] + _BETWEEN for i in layer) for layer in self.layers), default=0.0)
        if self.right > _DRIFT * widest:
            self._find_neighbours(by_center=True)
            self._set_x()
        return self._route()

    def _assign_layers(self) -> None:
        """Longest path from the top; then what has more lines out than in sinks towards its users.

        Sources sink, and with them what is made from sources alone for a single user.
        """
        n = len(self.keys)
        start, end = self.n_in, n - self.n_out
        self.layer = [0] * start + [1 if start else 0] * (n - start)
        downs: list[list[int]] = [[] for _ in range(n)]
        n_held = [0] * n
        for wire in self.wires:
            downs[wire.upper].append(wire.lower)
            n_held[wire.lower] += 1
        for i in range(end):
            for lower in downs[i]:
                self.layer[lower] = max(self.layer[lower], self.layer[i] + 1)
            if i >= start and not n_held[i] and len(downs[i]) == 1:
                n_held[downs[i][0]] -= 1
        self.layer[end:] = [max(self.layer[:end], default=0) + 1] * self.n_out
        self.is_loose = [i >= start and not n_held[i] for i in range(n)]
        self.tail = [0] * n
        for i in range(end - 1, -1, -1):
            self.tail[i] = max((self.tail[lower] + 1 for lower in downs[i]), default=0)
        for i in range(end - 1, start - 1, -1):
            if n_held[i] < len(downs[i]) and all(lower < end for lower in downs[i]):
                self.layer[i] = min(self.layer[lower] for lower in downs[i]) - 1

    def _cut_wires(self) -> None:
        """Cut lines into pieces of one layer, at waypoints shared by all lines that carry the same value."""
        arriving: dict[int, int] = {}
        for wire in self.wires:
            arriving[wire.lower] = arriving.get(wire.lower, 0) + 1
        waypoints: dict[tuple[int, int, int], int] = {}
        for wire in self.wires:
            first, last = self.layer[wire.upper] + 1, self.layer[wire.lower]
            if last - first >= _LONGEST or (last > first and arriving[wire.lower] > _CROWD):
                self.long.append(wire)
                continue
            at, out = wire.upper, wire.out
            for layer in range(first, last):
                point = waypoints.get((wire.upper, wire.value, layer))
                if point is None:
                    point = waypoints[(wire.upper, wire.value, layer)] = len(self.layer)
                    self.layer.append(layer)
                    self.tail.append(0)
                    self.add(0.0, 0.0)
                    self.short.append(_Wire(at, point, wire.value, out, None, 0.0))
                at, out = point, None
            self.short.append(_Wire(at, wire.lower, wire.value, out, wire.into, wire.room))
        self.layers = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for i, layer in enumerate(self.layer):
            self.layers[layer].append(i)

    def _find_neighbours(self, *, by_center: bool) -> None:
        """Lines between the same two members pull as one; what is loose pulls the least."""
        n = len(self.keys)
        self.above, self.below = [[] for _ in self.layer], [[] for _ in self.layer]
        between: dict[tuple[int, int], list[_Wire]] = {}
        for wire in self.short:
            between.setdefault((wire.upper, wire.lower), []).append(wire)
        for (upper, lower), wires in between.items():
            out, into = self.width[upper] / 2, self.width[lower] / 2
            if not by_center:
                out = sum(self._out(wire) for wire in wires) / len(wires)
                into = sum(self._into(wire) for wire in wires) / len(wires)
            is_main = upper < n and lower < n and not self.is_loose[upper]
            weight = 4 * len(wires) if is_main else 8 if upper >= n and lower >= n else 1
            self.above[lower].append((upper, out, into, weight))
            self.below[upper].append((lower, into, out, weight))

    def _out(self, wire: _Wire) -> float:
        return self.width[wire.upper] / 2 if wire.out is None else wire.out

    def _into(self, wire: _Wire) -> float:
        return self.width[wire.lower] / 2 if wire.into is None else wire.into

    def _order(self) -> None:
        """Sort each layer by the mean place of the neighbours, down and up; keep the order with fewest crossings."""
        rank = [0.0] * len(self.layer)
        for layer in self.layers:
            for place, i in enumerate(layer):
                rank[i] = place
        best, fewest = [list(layer) for layer in self.layers], self._crossings(rank)
        for sweep in range(_SWEEPS):
            if not fewest:
                break
            down = sweep % 2 == 0
            near = self.above if down else self.below
            for layer in self.layers if down else reversed(self.layers):
                layer.sort(key=lambda i: self._mean_rank(near[i], rank, rank[i]))
                for place, i in enumerate(layer):
                    rank[i] = place
            crossings = self._crossings(rank)
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best

    def _mean_rank(self, near: list[Pull], rank: list[float], default: float) -> float:
        if not near:
            return default
        return sum(rank[i] + there / (self.width[i] + 1) - 0.5 for i, there, _, _ in near) / len(near)

    def _crossings(self, rank: list[float]) -> int:
        total = 0
        for layer in self.layers:
            seen: list[float] = []
            for i in sorted(layer, key=lambda i: rank[i]):
                ends = sorted(rank[j] + there / (self.width[j] + 1) for j, there, _, _ in self.below[i])
                total += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total

    def _set_x(self) -> None:
        """Pull each member to the median of those it has the strongest ties to, as far as order and widths allow."""
        self.x = [0.0] * len(self.layer)
        for layer in self.layers:
            places = _settle([0.0] * len(layer), [1.0] * len(layer), [self.width[i] for i in layer])
            for i, x in zip(layer, places, strict=True):
                self.x[i] = x
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            first, second = (self.above, self.below) if down else (self.below, self.above)
            for layer in self.layers if down else reversed(self.layers):
                wanted, weights = [], []
                for i in layer:
                    # Seen from below, too, where that is the stronger tie: a line that passes, a thing with one user.
                    near = first[i] if _strongest(first[i]) >= _strongest(second[i]) else second[i]
                    most = _strongest(near)
                    places = [self.x[j] + there - here for j, there, here, weight in near if weight == most]
                    wanted.append(_median(places, self.x[i]))
                    # What is big, and what much depends on, bends more lines when it is moved aside.
                    weights.append((1.0 + len(near)) * ((1.0 + self.width[i]) * (1.0 + self.tail[i])) ** 2)
                for i, x in zip(layer, _settle(wanted, weights, [self.width[i] for i in layer]), strict=True):
                    self.x[i] = x
        self._tighten()
        left = min(self.x, default=0.0)
        self.x = [x - left for x in self.x]
        self.right = max((x + w for x, w in zip(self.x, self.width, strict=True)), default=0.0)

    def _tighten(self) -> None:
        """Draw together the parts that only weak ties connect: the sweeps may have pushed them far apart."""
        part = self._parts()
        ties: list[list[tuple[int, float, int]]] = [[] for _ in self.layer]
        for i, near in enumerate(self.above):
            for j, there, here, _ in near:
                if part[i] != part[j]:
                    ties[part[i]].append((j, there - here, i))
                    ties[part[j]].append((i, here - there, j))
        beside: list[list[tuple[int, int]]] = [[] for _ in self.layer]
        for layer in self.layers:
            for i, j in pairwise(layer):
                if part[i] != part[j]:
                    beside[part[i]].append((i, j))
                    beside[part[j]].append((i, j))
        members: dict[int, list[int]] = {}
        for i, number in enumerate(part):
            members.setdefault(number, []).append(i)
        for turn in range(_TURNS):
            for number in sorted(members, reverse=turn % 2 == 1):
                gaps = [(j, self.x[j] - self.x[i] - self.width[i] - _gap(self.width[i])) for i, j in beside[number]]
                left = max((-slack for j, slack in gaps if part[j] == number), default=-math.inf)
                right = min((slack for j, slack in gaps if part[j] != number), default=math.inf)
                shifts = [self.x[j] + offset - self.x[i] for j, offset, i in ties[number]]
                shift = max(left, min(right, _median(shifts, left if left > -math.inf else 0.0)))
                for i in members[number] if shift else ():
                    self.x[i] += shift

    def _parts(self) -> list[int]:
        """For each member the first one of the part that strong ties hold together."""
        part = list(range(len(self.layer)))
        for lower, near in enumerate(self.above):
            for upper, _, _, weight in near:
                ends = []
                for i in (upper, lower) if weight > 1 else ():
                    while part[i] != i:
                        part[i] = part[part[i]]
                        i = part[i]
                    ends.append(i)
                if ends:
                    part[max(ends)] = min(ends)
        for i in range(len(part)):
            part[i] = part[part[i]]
        return part

    def _arrivals(self, lanes: list[_Lane]) -> dict[int, float]:
        """The x at which each line ends, by its id; on a node side by side, in the order in which they come."""
        at = {id(wire): self.x[wire.lower] + self._into(wire) for wire in [*self.short, *self.long]}
        slots: dict[int, list[tuple[float, list[_Wire]]]] = {}
        for wire in self.short:
            slots.setdefault(wire.lower, []).append((self.x[wire.upper] + self._out(wire), [wire]))
        for number, lane in enumerate(lanes):
            ends: dict[int, list[_Wire]] = {}
            for wire in lane.wires:
                ends.setdefault(wire.lower, []).append(wire)
            for lower, wires in ends.items():
                slots.setdefault(lower, []).append((self.right + number, wires))
        for lower, lines in slots.items():
            if lower < len(self.keys) and self.keys[lower][0] == "node":
                room = max(wire.room for _, wires in lines for wire in wires) + 10
                step = min(room, self.width[lower] / len(lines))
                for place, (_, wires) in enumerate(sorted(lines, key=lambda line: line[0])):
                    for wire in wires:
                        at[id(wire)] += (place - (len(lines) - 1) / 2) * step
        return at

    def _route(self) -> list[tuple[list[Point], int, int | None]]:
        """Set the heights, then draw the lines: none ever crosses a box, for they turn only between layers."""
        lanes = _lanes(self.long, self.layer)
        end = self._arrivals(lanes)
        top, floor = self._set_y(lanes, end)
        n = len(self.keys)
        routes: list[tuple[list[Point], int, int | None]] = []
        for wire in self.short:
            layer, passes = self.layer[wire.lower], wire.lower >= n
            begin = floor[layer - 1] if wire.upper >= n else self.y[wire.upper] + self.height[wire.upper]
            leave = floor[layer - 1] + (_TITLE if layer == 1 and self.n_in else 0.0)
            land = top[layer] - (_STUB if wire.room else 0.0)
            start, stop = self.x[wire.upper] + self._out(wire), end[id(wire)]
            foot = floor[layer] if passes else self.y[wire.lower]
            points = [(start, begin), (start, leave), (stop, land), (stop, foot)]
            routes.append((points, wire.value, None if passes else wire.lower))
        left = self.right + _BETWEEN / 2
        used = [0] * len(self.layers)
        for lane in lanes:
            x = left + lane.column * _LANE
            self.right = max(self.right, x)
            turn: dict[int, float] = {}
            for layer in sorted(lane.turns(self.layer)):
                used[layer] += 1
                turn[layer] = floor[layer - 1] + _TRACK * used[layer] + (_TITLE if layer == 1 and self.n_in else 0.0)
            for wire in lane.wires:
                start, stop = self.x[wire.upper] + self._out(wire), end[id(wire)]
                leave, enter = turn[self.layer[wire.upper] + 1], turn[self.layer[wire.lower]]
                begin = self.y[wire.upper] + self.height[wire.upper]
                points = [(start, begin), (start, leave), (x, leave), (x, enter), (stop, enter)]
                routes.append(([*points, (stop, self.y[wire.lower])], wire.value, wire.lower))
        return routes

    def _set_y(self, lanes: list[_Lane], end: dict[int, float]) -> tuple[list[float], list[float]]:
        """Tops and floors of the layers; a gap is higher where lines go far sideways, have labels or turn."""
        reach, extra = [0.0] * len(self.layers), [0.0] * len(self.layers)
        for wire in self.short:
            layer = self.layer[wire.lower]
            reach[layer] = max(reach[layer], abs(self.x[wire.upper] + self._out(wire) - end[id(wire)]))
            extra[layer] = max(extra[layer], _STUB if wire.room else 0.0)
        if self.n_in:
            extra[1] += _TITLE - _GAP / 2
        for lane in lanes:
            for layer in lane.turns(self.layer):
                extra[layer] += _TRACK
        self.y = [0.0] * len(self.layer)
        top, floor, at = [], [], 0.0
        for number, members in enumerate(self.layers):
            if number:
                at += _GAP + min(0.06 * reach[number], 40.0) + extra[number]
            tall = max((self.height[i] for i in members), default=0.0)
            for i in members:
                share = 0.0 if not self.below[i] else 1.0 if not self.above[i] else 0.5
                self.y[i] = at + (tall - self.height[i]) * share
            top.append(at)
            at += tall
            floor.append(at)
        self.bottom = at
        return top, floor


@dataclass(slots=True)
class _Lane:
    wires: list[_Wire]
    column: int = 0

    def turns(self, layer: list[int]) -> set[int]:
        """The gaps, by the layer below, in which a line enters or leaves the lane."""
        return {layer[wire.upper] + 1 for wire in self.wires} | {layer[wire.lower] for wire in self.wires}


def _lanes(long: list[_Wire], layer: list[int]) -> list[_Lane]:
    """Bundle the long lines by the value they carry, or by where many of them end, and give each bundle a column."""
    arriving: dict[int, int] = {}
    for wire in long:
        arriving[wire.lower] = arriving.get(wire.lower, 0) + 1
    bundles: dict[tuple[int, int], _Lane] = {}
    for wire in long:
        key = (-1, wire.lower) if arriving[wire.lower] > _CROWD else (wire.upper, wire.value)
        bundles.setdefault(key, _Lane([])).wires.append(wire)
    lanes = sorted(bundles.values(), key=lambda lane: min(layer[wire.upper] for wire in lane.wires))
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    n_columns = 0
    for lane in lanes:
        while busy and busy[0][0] <= min(layer[wire.upper] for wire in lane.wires):
            heappush(free, heappop(busy)[1])
        if free:
            lane.column = heappop(free)
        else:
            lane.column, n_columns = n_columns, n_columns + 1
        heappush(busy, (max(layer[wire.lower] for wire in lane.wires), lane.column))
    return lanes


def _strongest(near: list[Pull]) -> int:
    return max((weight for _, _, _, weight in near), default=0)


def _median(places: list[float], default: float) -> float:
    """The median makes a main line straight, where a mean would bend it towards every branch."""
    if not places:
        return default
    places.sort()
    return (places[(len(places) - 1) // 2] + places[len(places) // 2]) / 2


def _gap(width: float) -> float:
    """What is kept free to the right of a member: less where it is but a passing line."""
    return _BETWEEN if width else _BETWEEN / 2


def _settle(wanted: list[float], weights: list[float], widths: list[float]) -> list[float]:
    """The places nearest to those wanted that keep order and distance (isotonic regression)."""
    shift = [0.0]
    for width in widths[:-1]:
        shift.append(shift[-1] + width + _gap(width))
    blocks: list[tuple[float, float, int]] = []
    for want, weight, offset in zip(wanted, weights, shift, strict=True):
        mean, total, count = want - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            other, mass, n = blocks.pop()
            mean, total, count = (mean * total + other * mass) / (total + mass), total + mass, count + n
        blocks.append((mean, total, count))
    flat = [mean for mean, _, count in blocks for _ in range(count)]
    return [place + offset for place, offset in zip(flat, shift, strict=True)]


def _compose(nodes: Sequence[Node], levels: list[_Level], order: list[int]) -> Layout:
    """Turn places within groups into places in the picture, from the outermost group inwards."""
    corner: dict[int, Point] = {0: (0.0, 0.0)}
    rects: dict[int, Rect] = {}
    frames = [Rect(0.0, 0.0, 0.0, 0.0) for _ in levels]
    routes: list[Route] = []
    for number in order:
        level = levels[number]
        x, y = corner.get(number, (0.0, 0.0))
        frames[number] = Rect(x, y, level.width, level.height)
        for (kind, member), (dx, dy) in level.places.items():
            if kind == "node":
                rects[member] = Rect(x + dx, y + dy, nodes[member].width, nodes[member].height)
            elif kind == "group":
                corner[member] = (x + dx, y + dy)
        for route in level.routes:
            routes.append(Route(tuple((x + dx, y + dy) for dx, dy in route.points), route.parent, route.child))
    places = tuple(rects[number] for number in range(len(nodes)))
    return Layout(levels[0].width, levels[0].height, places, tuple(frames), tuple(routes))
