"""Assigns x coordinates along the rows of a layered layout: straight main lines, no overlaps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

Pull = tuple[int, float, float, int]
"""A neighbor in the next row: its index, where the line meets it, where the line meets this item, and its weight."""
LOOSE, SKIP, MAIN, PASSING = 1, 2, 4, 8
"""Weights of ties: of loose members, between a member and a waypoint, between members, between waypoints."""

_SWEEPS = 13
"""Passes over the rows to find coordinates. Odd, so that the last one goes down."""
_TOLERANCE = 1e-9
"""Convergence threshold: the largest movement between two passes down."""
_ROUNDS = 6
"""Rounds of moving loose components together after the sweeps."""


@dataclass(slots=True)
class RowCoordinates:
    """Items in rows, ordered from left to right, with the ties that pull each of them.

    Sums run over the items in order, one by one, so that the browser computes the same floats.
    """

    rows: list[list[int]]
    pitch: list[float]
    """Distance from the left of each item to the least left of the next."""
    resistance: list[float]
    """Resistance of each item against being moved."""
    above: list[list[Pull]]
    below: list[list[Pull]]
    x: list[float] = field(default_factory=list)

    def run(self) -> list[float]:
        """Pull each item to the median of its strongest ties, as far as order and widths allow."""
        self.x = x = [0.0] * len(self.pitch)
        for row in self.rows:
            at = 0.0
            for i in row:
                x[i] = at
                at += self.pitch[i]
        # Ties of the other side count where they are stronger: passing lines, and items with one user.
        downwards, upwards = self._ties(self.above, self.below), self._ties(self.below, self.above)
        last: list[float] = []
        for sweep in range(_SWEEPS):
            if sweep % 2:
                self._sweep(self.rows[::-1], upwards)
                continue
            self._sweep(self.rows, downwards)
            if sweep and not any(abs(place - old) > _TOLERANCE for place, old in zip(x, last, strict=True)):
                break
            last = list(x)
        self._compact(weak=SKIP)
        self._compact(weak=0)
        left = min(x, default=0.0)
        return [place - left for place in x]

    def _ties(self, first: list[list[Pull]], second: list[list[Pull]]) -> list[tuple[list[tuple[int, float]], float]]:
        """For each item, the neighbors that pull it with the wanted offset to each, and its weight."""
        found = []
        for i, (one, other) in enumerate(zip(first, second, strict=True)):
            most, most_other = _strongest(one), _strongest(other)
            near, most = (one, most) if most >= most_other else (other, most_other)
            ties = [(j, there - here) for j, there, here, weight in near if weight == most]
            found.append((ties, (1.0 + len(near)) * self.resistance[i]))
        return found

    def _sweep(self, rows: list[list[int]], ties: list[tuple[list[tuple[int, float]], float]]) -> None:
        """One pass over the rows."""
        x = self.x
        for row in rows:
            wanted = []
            for i in row:
                near = ties[i][0]
                if len(near) == 1:
                    wanted.append(x[near[0][0]] + near[0][1])
                else:
                    wanted.append(median([x[j] + offset for j, offset in near], x[i]))
            if len(row) > 1:
                wanted = _isotonic_regression(wanted, [ties[i][1] for i in row], [self.pitch[i] for i in row])
            for i, place in zip(row, wanted, strict=True):
                x[i] = place

    def _compact(self, *, weak: int) -> None:
        """Move components together that are connected by weak ties or none: sweeps may have pushed them far apart."""
        component, x = self._components(weak), self.x
        members: dict[int, list[int]] = {}
        for i, number in enumerate(component):
            members.setdefault(number, []).append(i)
        if len(members) < 2:
            return
        ties: dict[int, list[tuple[int, float, int]]] = {number: [] for number in members}
        for i, near in enumerate(self.above):
            for j, there, here, _ in near:
                if component[i] != component[j]:
                    ties[component[i]].append((j, there - here, i))
                    ties[component[j]].append((i, here - there, j))
        adjacent: dict[int, list[tuple[int, int]]] = {number: [] for number in members}
        for row in self.rows:
            for i, j in pairwise(row):
                if component[i] != component[j]:
                    adjacent[component[i]].append((i, j))
                    adjacent[component[j]].append((i, j))
        edge = min(x)
        for round_ in range(_ROUNDS):
            for number in members if round_ % 2 == 0 else reversed(members):
                left, right = -math.inf, math.inf
                for i, j in adjacent[number]:
                    slack = x[j] - x[i] - self.pitch[i]
                    if component[j] == number:
                        left = max(left, -slack)
                    else:
                        right = min(right, slack)
                shifts = [x[j] + offset - x[i] for j, offset, i in ties[number]]
                if not shifts:  # no ties: move out of the way first, then next to the neighbor
                    away = edge - min(x[i] for i in members[number])
                    shifts = [
                        left if left > -math.inf else away if round_ < _ROUNDS - 1 or right == math.inf else right
                    ]
                shift = max(left, min(right, median(shifts, 0.0)))
                for i in members[number] if shift else ():
                    x[i] += shift

    def _components(self, weak: int) -> list[int]:
        """For each item, the first item of its component: items connected by ties stronger than `weak` (union-find)."""
        component = list(range(len(self.pitch)))
        for lower, near in enumerate(self.above):
            for upper, _, _, weight in near:
                if weight > weak:
                    one, other = _find_root(component, upper), _find_root(component, lower)
                    component[max(one, other)] = min(one, other)
        for i in range(len(component)):
            component[i] = component[component[i]]
        return component


def _find_root(component: list[int], i: int) -> int:
    while component[i] != i:
        component[i] = component[component[i]]
        i = component[i]
    return i


def _strongest(near: list[Pull]) -> int:
    most = 0
    for pull in near:
        most = max(most, pull[3])
    return most


def median(places: list[float], default: float) -> float:
    """The median. It keeps a main line straight; a mean would bend it towards every branch."""
    if len(places) < 2:
        return places[0] if places else default
    places.sort()
    return (places[(len(places) - 1) // 2] + places[len(places) // 2]) / 2


def _isotonic_regression(wanted: list[float], weights: list[float], pitches: list[float]) -> list[float]:
    """The positions nearest to the wanted ones that keep order and distances (isotonic regression)."""
    blocks: list[tuple[float, float, int]] = []
    shift = 0.0
    for want, weight, pitch in zip(wanted, weights, pitches, strict=True):
        mean, total, count = want - shift, weight, 1
        # Pool adjacent violators: items that would overlap move as one block to their weighted mean.
        while blocks and blocks[-1][0] > mean:
            other, mass, n = blocks.pop()
            mean, total, count = (mean * total + other * mass) / (total + mass), total + mass, count + n
        blocks.append((mean, total, count))
        shift += pitch
    places, shift = [], 0.0
    for mean, _, count in blocks:
        for _ in range(count):
            places.append(mean + shift)
            shift += pitches[len(places) - 1]
    return places
