"""Assigns members of a level to layers, and orders each layer to reduce crossings.

The result depends only on the links between members: not on sizes, on the contents of a member, or on the surrounding
level. So opening or folding a member never reorders its neighbors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

OUTSIDE = -1
"""The upper end of a link from outside the level. The lower end of a link to the outside is `n`."""
MAX_SPAN = 16
"""The most layers that a link passes between members; longer links take a lane at the side."""
CROWD = 12
"""If more links than this end at one member, all but those from the adjacent layer share one lane."""
_SWEEPS = 13
"""Passes over the layers to find the order."""

Link = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Members 0 to n - 1 in layers, then the waypoints where longer links pass a layer."""

    n: int
    """Number of members."""
    layer: list[int]
    """Layer of each member and waypoint."""
    layers: list[list[int]]
    """Members and waypoints of each layer, in order."""
    waypoints: dict[tuple[int, int], int]
    """(upper member or OUTSIDE, layer) → the waypoint that all links from there pass."""
    long: frozenset[Link]
    """Links that take a lane at the side."""
    tail: list[int]
    """How many layers depend on each member."""
    is_loose: list[bool]
    """Whether a member depends only on sources, and has one user that also reads something else."""


def arrange(n: int, links: Collection[Link], *, reads: Collection[int], feeds: Collection[int]) -> Arrangement:
    """Arrange `n` members, which must be given parents first.

    >>> arrange(3, [(0, 1), (1, 2), (0, 2)], reads=[0], feeds=[2]).layers
    [[0], [1, 3], [2]]

    Args:
        links: (upper, lower) pairs of members, each pair once.
        reads: members with inputs from outside the level.
        feeds: members with users outside the level.
    """
    arranger = _Arranger(n, set(reads), set(feeds))
    for upper, lower in sorted(links):
        if not 0 <= upper < lower < n:
            raise ValueError("members must be given parents first, with those of a group next to each other")
        arranger.downs[upper].append(lower)
        arranger.ups[lower].append(upper)
    arranger.assign_layers()
    arranger.cut_links()
    layers = _order(arranger.layers, arranger.above, arranger.below)
    long = frozenset(arranger.long)
    return Arrangement(n, arranger.layer, layers, arranger.waypoints, long, arranger.tail, arranger.is_loose)


@dataclass(slots=True)
class _Arranger:
    n: int
    reads: set[int]
    feeds: set[int]
    ups: list[list[int]] = field(default_factory=list)
    downs: list[list[int]] = field(default_factory=list)
    layer: list[int] = field(default_factory=list)
    tail: list[int] = field(default_factory=list)
    is_loose: list[bool] = field(default_factory=list)
    layers: list[list[int]] = field(default_factory=list)
    waypoints: dict[tuple[int, int], int] = field(default_factory=dict)
    long: list[Link] = field(default_factory=list)
    above: list[list[int]] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ups, self.downs = [[] for _ in range(self.n)], [[] for _ in range(self.n)]

    def assign_layers(self) -> None:
        """Longest path from the top; then members with more links out than in sink towards their users.

        Sources sink, and so do members that depend only on sources and have a single user.
        """
        n, downs, feeds = self.n, self.downs, self.feeds
        self.layer, self.tail, self.is_loose = [0] * n, [0] * n, [False] * n
        n_ups = [len(ups) + (i in self.reads) for i, ups in enumerate(self.ups)]
        n_fixed = list(n_ups)
        # Members come parents first, so one pass down and one pass up suffice.
        for i in range(n):
            for lower in downs[i]:
                self.layer[lower] = max(self.layer[lower], self.layer[i] + 1)
            if not n_fixed[i] and len(downs[i]) == 1 and i not in feeds:
                n_fixed[downs[i][0]] -= 1
                self.is_loose[i] = n_ups[downs[i][0]] > 1
        for i in range(n - 1, -1, -1):
            if downs[i]:
                self.tail[i] = max(self.tail[lower] for lower in downs[i]) + 1
                if n_fixed[i] < len(downs[i]) and i not in feeds:
                    self.layer[i] = min(self.layer[lower] for lower in downs[i]) - 1

    def cut_links(self) -> None:
        """Cut links into segments of one layer, at waypoints that all links from one member share."""
        n, end = self.n, max(self.layer, default=-1) + 1
        self.layers = [[] for _ in range(end)]
        for i, layer in enumerate(self.layer):
            self.layers[layer].append(i)
        self.above, self.below = [[] for _ in range(n)], [[] for _ in range(n)]
        for lower in range(n):
            n_arriving = len(self.ups[lower]) + (lower in self.reads)
            for upper in [OUTSIDE, *self.ups[lower]] if lower in self.reads else self.ups[lower]:
                self.cut(upper, lower, self.layer[lower], n_arriving)
        for upper in sorted(self.feeds):
            self.cut(upper, n, end, 1)

    def cut(self, upper: int, lower: int, last: int, n_arriving: int) -> None:
        first = self.layer[upper] + 1 if upper != OUTSIDE else 0
        if last - first >= MAX_SPAN or (last > first and n_arriving > CROWD):
            self.long.append((upper, lower))
            return
        at = upper
        for layer in range(first, last):
            point = self.waypoints.get((upper, layer))
            if point is None:
                point = self.waypoints[upper, layer] = len(self.layer)
                self.layer.append(layer)
                self.layers[layer].append(point)
                self.above.append([])
                self.below.append([])
                self.join(at, point)
            at = point
        if lower != self.n:
            self.join(at, lower)

    def join(self, upper: int, lower: int) -> None:
        if upper != OUTSIDE:
            self.above[lower].append(upper)
            self.below[upper].append(lower)


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    """Sort each layer by the mean position of its neighbors (barycenter), down and up; keep the fewest crossings."""
    rank = [0] * len(above)
    for layer in layers:
        for place, i in enumerate(layer):
            rank[i] = place
    wide = [number for number, layer in enumerate(layers) if len(layer) > 1]
    best, fewest = layers, _crossings(layers, wide, below, rank)
    layers = [list(layer) for layer in layers]
    n_idle = 0
    for sweep in range(_SWEEPS):
        if not fewest or n_idle == 2:  # a pass down and a pass up changed nothing
            break
        near = above if sweep % 2 == 0 else below
        n_idle += 1
        for number in wide if sweep % 2 == 0 else reversed(wide):
            layer = layers[number]
            mean = {i: sum(rank[j] for j in near[i]) / len(near[i]) if near[i] else rank[i] for i in layer}
            # Stable, here and in the browser: members with equal means keep their order.
            layer.sort(key=mean.__getitem__)
            for place, i in enumerate(layer):
                if rank[i] != place:
                    rank[i], n_idle = place, 0
        if not n_idle:
            crossings = _crossings(layers, wide, below, rank)
            if crossings < fewest:
                best, fewest = [list(layer) for layer in layers], crossings
    return best


def _crossings(layers: list[list[int]], wide: Sequence[int], below: list[list[int]], rank: list[int]) -> int:
    """The number of crossings between adjacent layers, counted with a Fenwick tree."""
    total = 0
    for number in wide:
        if number + 1 == len(layers) or len(layers[number + 1]) == 1:
            continue
        size = len(layers[number + 1])
        seen, n_seen = [0] * (size + 1), 0
        for i in layers[number]:
            # Count before adding: links of one member do not cross each other.
            ends = [rank[j] + 1 for j in below[i]]
            for at in ends:
                total += n_seen
                while at:
                    total -= seen[at]
                    at &= at - 1
            for at in ends:
                while at <= size:
                    seen[at] += 1
                    at += at & -at
            n_seen += len(ends)
    return total
