"""Where to put boxes and lines: a layered layout from top to bottom, in time linear in their number.

It lays out one level. A group of boxes is laid out first and is then a single box to the level around it; a
line that enters or leaves it does so at ports, boxes without size at its upper and lower border.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Point = tuple[float, float]
Pull = tuple[int, float, float, int]
"""A neighbour in the next layer: which, where the line meets it, where it meets us, how much it counts."""

_BETWEEN, _GAP, _LANE, _TRACK = 22.0, 30.0, 8.0, 5.0
BELOW_PORTS = 24.0
"""Lines from ports at the top run straight for so long: the title of the group stands there."""
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
    """A box to be placed."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Wire:
    """A line from a node to a later one."""

    upper: int
    lower: int
    value: int
    """What it carries: wires of one node that carry the same share their way as long as they can."""
    out: float | None = None
    """Where it leaves its upper node, from the left; None for the middle."""
    into: float | None = None
    """Where it meets its lower node; None for wherever there is room."""
    room: float = 0.0
    """Width to keep free at its lower end, for a label."""


@dataclass(frozen=True, slots=True)
class Rect:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """A piece of a wire; where wires share their way, the common piece is there once."""

    points: tuple[Point, ...]
    value: int
    lower: int | None
    """The node at which it arrives; None where it goes on."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Places for all that was given, in the order given."""

    width: float
    height: float
    nodes: tuple[Rect, ...]
    routes: tuple[Route, ...]


def layout(nodes: Sequence[Node], wires: Sequence[Wire], *, n_in: int = 0, n_out: int = 0) -> Layout:
    """Place nodes, given parents first, of which the first `n_in` and the last `n_out` are ports.

    >>> layout([Node(10, 5), Node(10, 5)], [Wire(0, 1, 0)]).nodes[1]
    Rect(x=0.0, y=35.0, width=10, height=5)
    """
    for wire in wires:
        if wire.upper >= wire.lower:
            raise ValueError("a layout takes nodes parents first, and the nodes of a group next to each other")
    sheet = _Sheet(len(nodes), n_in, n_out, wires, [n.width for n in nodes], [n.height for n in nodes])
    routes = sheet.run()
    rects = tuple(Rect(sheet.x[i], sheet.y[i], node.width, node.height) for i, node in enumerate(nodes))
    return Layout(sheet.right, sheet.bottom, rects, tuple(routes))


@dataclass(slots=True)
class _Sheet:
    """The layered layout of one level: members 0… in a topological order, ports first and last.

    After the members come waypoints, without width or height, where longer lines pass a layer.
    """

    n: int
    n_in: int
    n_out: int
    wires: Sequence[Wire]
    width: list[float]
    height: list[float]
    layer: list[int] = field(default_factory=list)
    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    layers: list[list[int]] = field(default_factory=list)
    tail: list[int] = field(default_factory=list)
    """How many layers depend on each member."""
    is_loose: list[bool] = field(default_factory=list)
    """Whether it comes from sources alone, for one user that gets more from elsewhere."""
    short: list[Wire] = field(default_factory=list)
    """Lines, or pieces of them, between neighbouring layers."""
    long: list[Wire] = field(default_factory=list)
    above: list[list[Pull]] = field(default_factory=list)
    below: list[list[Pull]] = field(default_factory=list)
    right: float = 0.0
    bottom: float = 0.0

    def run(self) -> list[Route]:
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
        n = self.n
        start, end = self.n_in, n - self.n_out
        self.layer = [0] * start + [1 if start else 0] * (n - start)
        downs: list[list[int]] = [[] for _ in range(n)]
        n_ups, n_held = [0] * n, [0] * n
        for wire in self.wires:
            downs[wire.upper].append(wire.lower)
            n_ups[wire.lower] += 1
            n_held[wire.lower] += 1
        for i in range(end):
            for lower in downs[i]:
                self.layer[lower] = max(self.layer[lower], self.layer[i] + 1)
            if i >= start and not n_held[i] and len(downs[i]) == 1:
                n_held[downs[i][0]] -= 1
        self.layer[end:] = [max(self.layer[:end], default=0) + 1] * self.n_out
        for i in range(n):
            self.is_loose.append(i >= start and not n_held[i] and len(downs[i]) == 1 and n_ups[downs[i][0]] > 1)
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
                    self.width.append(0.0)
                    self.height.append(0.0)
                    self.short.append(Wire(at, point, wire.value, out, None, 0.0))
                at, out = point, None
            self.short.append(Wire(at, wire.lower, wire.value, out, wire.into, wire.room))
        self.layers = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for i, layer in enumerate(self.layer):
            self.layers[layer].append(i)

    def _find_neighbours(self, *, by_center: bool) -> None:
        """Lines between the same two members pull as one; what is loose pulls the least."""
        n = self.n
        self.above, self.below = [[] for _ in self.layer], [[] for _ in self.layer]
        between: dict[tuple[int, int], list[Wire]] = {}
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

    def _out(self, wire: Wire) -> float:
        return self.width[wire.upper] / 2 if wire.out is None else wire.out

    def _into(self, wire: Wire) -> float:
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

            def mean(i: int, near: list[list[Pull]] = near) -> float:
                ranks = [rank[j] + there / (self.width[j] + 1) - 0.5 for j, there, _, _ in near[i]]
                return sum(ranks) / len(ranks) if ranks else rank[i]

            for layer in self.layers if down else reversed(self.layers):
                layer.sort(key=mean)
                for place, i in enumerate(layer):
                    rank[i] = place
            crossings = self._crossings(rank)
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best

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
        self._tighten(weak=1)
        self._tighten(weak=0)
        left = min(self.x, default=0.0)
        self.x = [x - left for x in self.x]
        self.right = max((x + w for x, w in zip(self.x, self.width, strict=True)), default=0.0)

    def _tighten(self, *, weak: int) -> None:
        """Draw together the parts that only weak ties connect, or none: the sweeps may have pushed them far apart."""
        part = self._parts(weak)
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
        edge = min(self.x, default=0.0)
        for turn in range(_TURNS):
            for number in sorted(members, reverse=turn % 2 == 1):
                gaps = [(j, self.x[j] - self.x[i] - self.width[i] - _gap(self.width[i])) for i, j in beside[number]]
                left = max((-slack for j, slack in gaps if part[j] == number), default=-math.inf)
                right = min((slack for j, slack in gaps if part[j] != number), default=math.inf)
                shifts = [self.x[j] + offset - self.x[i] for j, offset, i in ties[number]]
                if not shifts:  # nothing to go to: out of the way first, then close to what is beside it
                    away = edge - min(self.x[i] for i in members[number])
                    shifts = [left if left > -math.inf else away if turn < _TURNS - 1 or right == math.inf else right]
                shift = max(left, min(right, _median(shifts, 0.0)))
                for i in members[number] if shift else ():
                    self.x[i] += shift

    def _parts(self, weak: int) -> list[int]:
        """For each member the first one of the part that ties stronger than weak hold together."""
        part = list(range(len(self.layer)))
        for lower, near in enumerate(self.above):
            for upper, _, _, weight in near:
                ends = []
                for i in (upper, lower) if weight > weak else ():
                    while part[i] != i:
                        part[i] = part[part[i]]
                        i = part[i]
                    ends.append(i)
                if ends:
                    part[max(ends)] = min(ends)
        for i in range(len(part)):
            part[i] = part[part[i]]
        return part

    def _arrivals(self, lanes: list[list[Wire]]) -> dict[int, float]:
        """The x at which each line ends, by its id; on a node side by side, in the order in which they come."""
        at = {id(wire): self.x[wire.lower] + self._into(wire) for wire in [*self.short, *self.long]}
        slots: dict[int, list[tuple[float, list[Wire]]]] = {}
        for wire in self.short:
            slots.setdefault(wire.lower, []).append((self.x[wire.upper] + self._out(wire), [wire]))
        for number, lane in enumerate(lanes):
            ends: dict[int, list[Wire]] = {}
            for wire in lane:
                ends.setdefault(wire.lower, []).append(wire)
            for lower, wires in ends.items():
                slots.setdefault(lower, []).append((self.right + number, wires))
        for lower, lines in slots.items():
            room = max(wire.room for _, wires in lines for wire in wires) + 10
            step = min(room, self.width[lower] / len(lines))
            for place, (_, wires) in enumerate(sorted(lines, key=lambda line: line[0])):
                for wire in wires:
                    if wire.into is None:
                        at[id(wire)] += (place - (len(lines) - 1) / 2) * step
        return at

    def _route(self) -> list[Route]:
        """Set the heights, then draw the lines: none ever crosses a box, for they turn only between layers."""
        lanes = _lanes(self.long)
        end = self._arrivals(lanes)
        top, floor = self._set_y(lanes, end)
        n = self.n
        routes: list[Route] = []
        for wire in self.short:
            layer, passes = self.layer[wire.lower], wire.lower >= n
            begin = floor[layer - 1] if wire.upper >= n else self.y[wire.upper] + self.height[wire.upper]
            leave = floor[layer - 1] + (BELOW_PORTS if layer == 1 and self.n_in else 0.0)
            land = top[layer] - (_STUB if wire.room else 0.0)
            start, stop = self.x[wire.upper] + self._out(wire), end[id(wire)]
            foot = floor[layer] if passes else self.y[wire.lower]
            points = ((start, begin), (start, leave), (stop, land), (stop, foot))
            routes.append(Route(points, wire.value, None if passes else wire.lower))
        left = self.right + _BETWEEN / 2
        used = [0] * len(self.layers)
        for number, lane in enumerate(lanes):
            x = left + number * _LANE
            self.right = max(self.right, x)
            turn: dict[int, float] = {}
            for layer in sorted(self._turns(lane)):
                used[layer] += 1
                below_ports = BELOW_PORTS if layer == 1 and self.n_in else 0.0
                turn[layer] = floor[layer - 1] + below_ports + _TRACK * used[layer]
            for wire in lane:
                start, stop = self.x[wire.upper] + self._out(wire), end[id(wire)]
                leave, enter = turn[self.layer[wire.upper] + 1], turn[self.layer[wire.lower]]
                begin = self.y[wire.upper] + self.height[wire.upper]
                down = ((start, begin), (start, leave), (x, leave))
                back = ((x, enter), (stop, enter), (stop, self.y[wire.lower]))
                routes.append(Route(down + back, wire.value, wire.lower))
        return routes

    def _turns(self, lane: list[Wire]) -> set[int]:
        """The gaps, by the layer below, in which a line enters or leaves the lane."""
        return {self.layer[wire.upper] + 1 for wire in lane} | {self.layer[wire.lower] for wire in lane}

    def _set_y(self, lanes: list[list[Wire]], end: dict[int, float]) -> tuple[list[float], list[float]]:
        """Tops and floors of the layers; a gap is higher where lines go far sideways, have labels or turn."""
        reach, extra = [0.0] * len(self.layers), [0.0] * len(self.layers)
        for wire in self.short:
            layer = self.layer[wire.lower]
            reach[layer] = max(reach[layer], abs(self.x[wire.upper] + self._out(wire) - end[id(wire)]))
            extra[layer] = max(extra[layer], _STUB if wire.room else 0.0)
        if self.n_in:
            extra[1] += BELOW_PORTS - _GAP / 2
        for lane in lanes:
            for layer in self._turns(lane):
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


def _lanes(long: list[Wire]) -> list[list[Wire]]:
    """Bundle the long lines by what they carry, or by where they end if very many end there."""
    arriving: dict[int, int] = {}
    for wire in long:
        arriving[wire.lower] = arriving.get(wire.lower, 0) + 1
    lanes: dict[tuple[int, int], list[Wire]] = {}
    for wire in long:
        key = (-1, wire.lower) if arriving[wire.lower] > _CROWD else (wire.upper, wire.value)
        lanes.setdefault(key, []).append(wire)
    return list(lanes.values())


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
