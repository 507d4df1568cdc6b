"""Layered layout of one level from top to bottom, in linear time.

A group of boxes is laid out first and is then a single box in the level around it. Lines enter and leave it at ports:
boxes without size at its upper and lower border. `layers` decides the order; this module assigns coordinates. For a
picture from left to right, swap widths and heights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cutaway.layout.coordinates import LOOSE, MAIN, PASSING, SKIP, Pull, RowCoordinates
from cutaway.layout.layers import CROWD, OUTSIDE, Arrangement, Link, arrange

Point = tuple[float, float]
ArrangementCache = dict[tuple[int, tuple[Link, ...], tuple[int, ...], tuple[int, ...]], Arrangement]
"""Cache of arrangements by their inputs."""

_NODE_GAP, _LAYER_GAP, _LANE_GAP, _TRACK_GAP = 22.0, 30.0, 8.0, 5.0
BELOW_PORTS = 24.0
"""Lines from ports at the top run straight for this length, because the title of the group is there."""
_MAX_DRIFT = 1.3
"""Straight lines between ports can make a stack of groups lean. If the level is wider than its widest row by more than
this factor, items are aligned by their centers instead."""


@dataclass(frozen=True, slots=True)
class Node:
    """A box to place."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Wire:
    """A line from a node to a later one."""

    upper: int
    lower: int
    value: int
    """The tensor it carries: wires of one node with the same value share their path as long as possible."""
    out: float | None = None
    """Offset from the left where it leaves its upper node; None for the middle."""
    into: float | None = None
    """Offset from the left where it meets its lower node; None for any."""
    room: float = 0.0
    """Width to keep free at its lower end for a label."""
    stub: float = 0.0
    """Length of its vertical lower end, so that no line crosses a label."""


@dataclass(frozen=True, slots=True)
class Rect:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """A segment of a wire; wires with a shared path share its segment."""

    points: tuple[Point, ...]
    value: int
    lower: int | None
    """The node at which it ends; None if it continues."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of all nodes, in the given order, and routes of all wires."""

    width: float
    height: float
    nodes: tuple[Rect, ...]
    routes: tuple[Route, ...]
    spans: tuple[Point, ...]
    """For each node, the vertical extent of its row, including the labels above it."""


@dataclass(frozen=True, slots=True)
class Border:
    """Ports and margins of a level: its first `n_in` and last `n_out` nodes are ports."""

    n_in: int = 0
    n_out: int = 0
    lead_in: float = BELOW_PORTS
    """Length for which lines from ports run straight."""
    min_height: float = 0.0
    """Minimum height of the level."""


NO_PORTS = Border()


def layout(
    nodes: Sequence[Node], wires: Sequence[Wire], *, border: Border = NO_PORTS, cache: ArrangementCache | None = None
) -> Layout:
    """Place nodes, which must be given parents first.

    >>> layout([Node(10, 5), Node(10, 5)], [Wire(0, 1, 0)]).nodes[1]
    Rect(x=0.0, y=35.0, width=10, height=5)

    Args:
        cache: cache of arrangements, so that equal levels are arranged once.
    """
    n, n_in, n_members = len(nodes), border.n_in, len(nodes) - border.n_in - border.n_out
    links: set[Link] = set()
    reads: set[int] = set()
    feeds: set[int] = set()
    for wire in wires:
        upper, lower = wire.upper - n_in, wire.lower - n_in
        if upper >= lower or (upper < 0 and lower >= n_members):
            raise ValueError("nodes must be given parents first, with the nodes of a group next to each other")
        if upper < 0:
            reads.add(lower)
        elif lower >= n_members:
            feeds.add(upper)
        else:
            links.add((upper, lower))
    key = (n_members, tuple(sorted(links)), tuple(sorted(reads)), tuple(sorted(feeds)))
    arranged = cache.get(key) if cache is not None else None
    if arranged is None:
        arranged = arrange(n_members, key[1], reads=reads, feeds=feeds)
        if cache is not None:
            cache[key] = arranged
    level = _LevelLayout(arranged, border, wires, [node.width for node in nodes], [node.height for node in nodes])
    routes = level.run()
    rects = tuple(Rect(level.x[i], level.y[i], nodes[i].width, nodes[i].height) for i in range(n))
    return Layout(level.right, level.bottom, rects, tuple(routes), tuple([level.spans[row] for row in level.row[:n]]))


@dataclass(slots=True)
class _Segment:
    """A segment of a line between adjacent rows, or a whole line in a lane."""

    upper: int
    lower: int
    value: int
    out: float
    into: float | None
    room: float
    stub: float
    end: float = 0.0
    """The x at which it ends."""


@dataclass(slots=True)
class _LevelLayout:
    """The coordinates of one level. Items are the nodes in the given order, then the waypoints.

    A waypoint is as wide as all lines that pass it side by side.
    """

    arranged: Arrangement
    border: Border
    wires: Sequence[Wire]
    width: list[float]
    height: list[float]
    n: int = 0
    """Number of items that are nodes."""
    rows: list[list[int]] = field(default_factory=list)
    """Input ports, layers, output ports."""
    row: list[int] = field(default_factory=list)
    tail: list[int] = field(default_factory=list)
    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    short: list[_Segment] = field(default_factory=list)
    long: list[_Segment] = field(default_factory=list)
    above: list[list[Pull]] = field(default_factory=list)
    below: list[list[Pull]] = field(default_factory=list)
    spans: list[Point] = field(default_factory=list)
    right: float = 0.0
    bottom: float = 0.0

    def run(self) -> list[Route]:
        self.n = len(self.width)
        self._set_rows()
        self._cut_wires()
        self._find_neighbors(by_center=False)
        self._set_x()
        # Loops instead of `sum`, which compensates rounding since Python 3.12: the browser must get the same floats.
        widest = 0.0
        for row in self.rows:
            total = 0.0
            for i in row:
                total += self.width[i] + _NODE_GAP
            widest = max(widest, total)
        if self.right > _MAX_DRIFT * widest:
            self._find_neighbors(by_center=True)
            self._set_x()
        return self._route()

    def _set_rows(self) -> None:
        """Set the rows: layers, and ports in the order of their users."""
        arranged, n, n_in, n_out = self.arranged, self.n, self.border.n_in, self.border.n_out
        shift = n_in + n_out  # from indices of waypoints to those of items
        rows = [[i + (n_in if i < arranged.n else shift) for i in layer] for layer in arranged.layers]
        self.tail = [0] * n_in + arranged.tail + [0] * (n_out + len(arranged.layer) - arranged.n)
        rank = [0] * len(arranged.layer)
        for layer in arranged.layers:
            for place, i in enumerate(layer):
                rank[i] = place
        last = len(rows) - 1
        sides: list[tuple[float, float]] = [(0.0, 0.0)] * n
        n_wires = [0] * n
        for wire in self.wires:
            upper, lower = wire.upper - n_in, wire.lower - n_in
            if upper < 0:
                self.tail[wire.upper] = max(self.tail[wire.upper], arranged.tail[lower] + 1)
                port, upper, at, member = wire.upper, OUTSIDE, 0, lower
                beside = rank[lower] / len(arranged.layers[arranged.layer[lower]])
            elif wire.lower >= n - n_out:
                port, lower, at, member = wire.lower, arranged.n, last, upper
                beside = self.width[wire.upper] / 2 if wire.out is None else wire.out
            else:
                continue
            # A line in a lane leaves at the side, after everything else in the row.
            if (upper, lower) in arranged.long:
                place = len(rows[at])
            else:
                place = rank[member if arranged.layer[member] == at else arranged.waypoints[upper, at]]
            sides[port] = (sides[port][0] + place, sides[port][1] + beside)
            n_wires[port] += 1

        def side(port: int) -> tuple[float, float]:
            first, second = sides[port]
            return first / max(n_wires[port], 1), second / max(n_wires[port], 1)

        ins = [sorted(range(n_in), key=side)] if n_in else []
        outs = [sorted(range(n - n_out, n), key=side)] if n_out else []
        self.rows = ins + rows + outs
        self.row = [0] * (n + len(arranged.layer) - arranged.n)
        for number, row in enumerate(self.rows):
            for i in row:
                self.row[i] = number

    def _cut_wires(self) -> None:
        """Cut lines into segments between rows, at waypoints that they pass side by side, in port order."""
        arranged, n, n_in, n_out = self.arranged, self.n, self.border.n_in, self.border.n_out
        first_layer = 1 if n_in else 0
        places = [0] * n
        for place, port in enumerate(self.rows[0] if n_in else ()):
            places[port] = place
        passing: dict[int, dict[int, float]] = {}
        routed: list[tuple[Wire, int, range]] = []
        for wire in self.wires:
            source = wire.upper - n_in if wire.upper >= n_in else OUTSIDE
            out = self.width[wire.upper] / 2 if wire.out is None else wire.out
            if (source, min(wire.lower - n_in, arranged.n)) in arranged.long:
                segment = _Segment(wire.upper, wire.lower, wire.value, out, wire.into, wire.room, wire.stub)
                self.long.append(segment)
                continue
            between = range(self.row[wire.upper] + 1 - first_layer, self.row[wire.lower] - first_layer)
            routed.append((wire, source, between))
            for layer in between:
                point = arranged.waypoints[source, layer] + n_in + n_out
                passing.setdefault(point, {}).setdefault(wire.value, out if source >= 0 else places[wire.upper])
        for point in range(n, len(self.row)):
            lines = passing[point]
            self.width.append(_LANE_GAP * (len(lines) - 1))
            self.height.append(0.0)
            ordered = sorted(lines, key=lambda value: (lines[value], value))
            passing[point] = {value: _LANE_GAP * place for place, value in enumerate(ordered)}
        started: set[tuple[int, int]] = set()
        for wire, source, between in routed:
            at, out = wire.upper, self.width[wire.upper] / 2 if wire.out is None else wire.out
            for layer in between:
                point = arranged.waypoints[source, layer] + n_in + n_out
                into = passing[point][wire.value]
                if (point, wire.value) not in started:
                    started.add((point, wire.value))
                    self.short.append(_Segment(at, point, wire.value, out, into, 0.0, 0.0))
                at, out = point, into
            self.short.append(_Segment(at, wire.lower, wire.value, out, wire.into, wire.room, wire.stub))

    def _find_neighbors(self, *, by_center: bool) -> None:
        """Collect the ties between items. Lines between the same two items count as one tie; loose ones weigh least."""
        n, n_in = self.n, self.border.n_in
        end = n - self.border.n_out
        self.above, self.below = [[] for _ in self.row], [[] for _ in self.row]
        between: dict[tuple[int, int], list[_Segment]] = {}
        for segment in self.short:
            between.setdefault((segment.upper, segment.lower), []).append(segment)
        for (upper, lower), segments in between.items():
            out, into = self.width[upper] / 2, self.width[lower] / 2
            if not by_center:
                out, middle, into = 0.0, into, 0.0
                for segment in segments:
                    out += segment.out
                    into += middle if segment.into is None else segment.into
                out, into = out / len(segments), into / len(segments)
            weight = SKIP
            if upper >= n and lower >= n:
                weight = PASSING
            elif upper < n and lower < n:
                is_loose = n_in <= upper < end and self.arranged.is_loose[upper - n_in]
                weight = LOOSE if is_loose else MAIN
            self.above[lower].append((upper, out, into, weight))
            self.below[upper].append((lower, into, out, weight))

    def _set_x(self) -> None:
        pitch, resistance = [], []
        for i, width in enumerate(self.width):
            # Passing lines and ports need less space beside them.
            pitch.append(width + (_NODE_GAP if i < self.n and width else _NODE_GAP / 2))
            # Moving large items, or items that many layers depend on, bends more lines.
            resistance.append((1.0 + width) * (1.0 + self.tail[i]) * ((1.0 + width) * (1.0 + self.tail[i])))
        self.x = RowCoordinates(self.rows, pitch, resistance, self.above, self.below).run()
        self.right = max((x + w for x, w in zip(self.x, self.width, strict=True)), default=0.0)

    def _set_ends(self, lanes: list[list[_Segment]]) -> None:
        """Set where each line ends: side by side on its node, in the order in which they arrive."""
        slots: dict[int, list[tuple[float, list[_Segment]]]] = {}
        for segment in self.short:
            slots.setdefault(segment.lower, []).append((self.x[segment.upper] + segment.out, [segment]))
        for number, lane in enumerate(lanes):
            ends: dict[int, list[_Segment]] = {}
            for segment in lane:
                ends.setdefault(segment.lower, []).append(segment)
            for lower, segments in ends.items():
                slots.setdefault(lower, []).append((self.right + number, segments))
        for lower, lines in slots.items():
            room = max(segment.room for _, segments in lines for segment in segments) + 10
            step = min(room, self.width[lower] / len(lines))
            for place, (_, segments) in enumerate(sorted(lines, key=lambda line: line[0])):
                for segment in segments:
                    into = self.width[lower] / 2 + (place - (len(lines) - 1) / 2) * step
                    segment.end = self.x[lower] + (into if segment.into is None else segment.into)

    def _route(self) -> list[Route]:
        """Set the heights, then route the lines. Lines turn only between layers, so they never cross a box."""
        lanes = _lanes(self.long)
        self._set_ends(lanes)
        top, floor = self._set_y(lanes)
        n, x, y = self.n, self.x, self.y
        routes: list[Route] = []
        for segment in self.short:
            row, passes = self.row[segment.lower], segment.lower >= n
            begin = floor[row - 1] if segment.upper >= n else y[segment.upper] + self.height[segment.upper]
            start, land = x[segment.upper] + segment.out, top[row] - segment.stub
            foot = floor[row] if passes else y[segment.lower]
            points = (
                (start, begin),
                (start, floor[row - 1] + self._lead_in(row)),
                (segment.end, land),
                (segment.end, foot),
            )
            routes.append(Route(points, segment.value, None if passes else segment.lower))
        left = self.right + _NODE_GAP / 2
        used = [0] * len(self.rows)
        for number, lane in enumerate(lanes):
            beside = left + number * _LANE_GAP
            self.right = max(self.right, beside)
            turn: dict[int, float] = {}
            for row in sorted(self._turns(lane)):
                used[row] += 1
                turn[row] = floor[row - 1] + self._lead_in(row) + _TRACK_GAP * used[row]
            for segment in lane:
                start = x[segment.upper] + segment.out
                leave, enter = turn[self.row[segment.upper] + 1], turn[self.row[segment.lower]]
                down = ((start, y[segment.upper] + self.height[segment.upper]), (start, leave), (beside, leave))
                back = ((beside, enter), (segment.end, enter), (segment.end, y[segment.lower]))
                routes.append(Route(down + back, segment.value, segment.lower))
        return routes

    def _lead_in(self, row: int) -> float:
        """Length for which lines run straight at the top of the gap above a row."""
        return self.border.lead_in if row == 1 and self.border.n_in else 0.0

    def _turns(self, lane: list[_Segment]) -> set[int]:
        """The gaps in which a line enters or leaves the lane, by the row below."""
        return {self.row[segment.upper] + 1 for segment in lane} | {self.row[segment.lower] for segment in lane}

    def _set_y(self, lanes: list[list[_Segment]]) -> tuple[list[float], list[float]]:
        """Tops and bottoms of the rows. A gap is higher if lines in it go far sideways, have labels or turn."""
        border, n_rows = self.border, len(self.rows)
        reach, stub, tracks = [0.0] * n_rows, [0.0] * n_rows, [0] * n_rows
        for segment in self.short:
            row = self.row[segment.lower]
            reach[row] = max(reach[row], abs(self.x[segment.upper] + segment.out - segment.end))
            stub[row] = max(stub[row], segment.stub)
        for lane in lanes:
            for segment in lane:
                stub[self.row[segment.lower]] = max(stub[self.row[segment.lower]], segment.stub)
            for row in self._turns(lane):
                tracks[row] += 1
        row_height = [max((self.height[i] for i in row), default=0.0) for row in self.rows]
        gaps = [
            _LAYER_GAP + min(0.06 * reach[row], 40.0) + stub[row] + _TRACK_GAP * tracks[row] for row in range(n_rows)
        ]
        gaps[:1] = [0.0] * min(n_rows, 1)
        if border.n_in and n_rows > 1:
            gaps[1] += border.lead_in - _LAYER_GAP / 2
        # A loop instead of `sum`: see `run`.
        length = 0.0
        for gap, high in zip(gaps, row_height, strict=True):
            length += gap + high
        # A level with a minimum height centers its contents between the ports.
        spare = max(0.0, border.min_height - length) / 2
        self.y = [0.0] * len(self.row)
        top, floor, at = [], [], 0.0
        for row, members in enumerate(self.rows):
            at += gaps[row]
            if row == (1 if border.n_in else 0) or (border.n_out and row == n_rows - 1):
                at += spare
            for i in members:
                share = 0.0 if not self.below[i] else 1.0 if not self.above[i] else 0.5
                self.y[i] = at + (row_height[row] - self.height[i]) * share
            top.append(at)
            at += row_height[row]
            floor.append(at)
            self.spans.append((top[row] - stub[row], at))
        self.bottom = at if border.n_out else at + spare
        return top, floor


def _lanes(long: list[_Segment]) -> list[list[_Segment]]:
    """Bundle long lines by the tensor they carry, or by their end if many end there."""
    arriving: dict[int, int] = {}
    for segment in long:
        arriving[segment.lower] = arriving.get(segment.lower, 0) + 1
    lanes: dict[tuple[int, int], list[_Segment]] = {}
    for segment in long:
        key = (-1, segment.lower) if arriving[segment.lower] > CROWD else (segment.upper, segment.value)
        lanes.setdefault(key, []).append(segment)
    return list(lanes.values())
