"""Routes feedback edges of rolled-up pictures in lanes beside their frame, after everything else is placed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor

from cutaway.layout.layered import Point, Rect

BESIDE = 16.0
"""Distance from the contents to the first lane, and from the last lane to the border."""
_LANE = 12.0
_BAND, _MOST_BANDS = 24.0, 500
"""Occupied space is looked up in bands of this height; in higher ones if there would be too many."""


_STEP = 4.0
"""Distance between edges that go around a neighbor."""

Span = tuple[float, float, float]
"""Start and end along the flow, and how far to the right it is occupied there."""


@dataclass(frozen=True, slots=True)
class End:
    """The box at an end of an edge, with its position in the frame that contains both ends."""

    box: int
    rect: Rect
    row: tuple[float, float] | None
    """The extent of its row, where other boxes may be beside it; None if it is inside an inner frame."""


@dataclass(frozen=True, slots=True)
class FeedbackEdge:
    """A feedback edge."""

    upper: End
    """Its start, usually the box further down."""
    lower: End
    room: float
    """Width to keep free beside its end, for a label."""


def feedback_routes(
    backs: Iterable[FeedbackEdge], members: Sequence[Span], lines: Sequence[Span]
) -> list[tuple[FeedbackEdge, list[Point]]]:
    """The points of each edge: out at the right, back in its lane, and in from the right.

    If a neighbor is in the way, the edge goes around it: out below, in from above.
    """
    # Short edges come first and get the inner lanes.
    ordered = sorted(backs, key=lambda back: back.upper.rect.y - back.lower.rect.y)
    beside = _Bands(_BAND)
    for first, last, reach in members:
        beside.take(first, last, reach)
    leaving = _ends([back.upper for back in ordered], beside, is_leaving=True)
    arriving = _ends([back.lower for back in ordered], beside, is_leaving=False)
    bands = _Bands(max([_BAND, *(last / _MOST_BANDS for _, last, _ in members)]))
    for first, last, reach in (*members, *lines):
        bands.take(first, last, reach)
    ways: list[tuple[FeedbackEdge, list[Point]]] = []
    for back, out, into in zip(ordered, leaving, arriving, strict=True):
        start, end = out[-1][1], into[0][1]
        first, last = min(start, end), max(start, end)
        x = max(into[0][0] + back.room, bands.reach(first, last))
        bands.take(first, last, x + _LANE)
        x += BESIDE
        ways.append((back, [*out, (x, start), (x, end), *into]))
    return ways


class _Bands:
    """How far to the right space is occupied, by bands of height."""

    def __init__(self, height: float) -> None:
        self.height, self.taken = height, dict[int, float]()

    def take(self, first: float, last: float, reach: float) -> None:
        for band in range(floor(first / self.height), floor(last / self.height) + 1):
            self.taken[band] = max(self.taken.get(band, 0.0), reach)

    def reach(self, first: float, last: float) -> float:
        found = 0.0
        for band in range(floor(first / self.height), floor(last / self.height) + 1):
            found = max(found, self.taken.get(band, 0.0))
        return found


def _ends(ends: list[End], beside: _Bands, *, is_leaving: bool) -> list[list[Point]]:
    """The points between the boxes and the lanes.

    Edges arrive in the upper half of the right side of a box and leave in its lower half.
    """
    by_box: dict[int, list[int]] = {}
    for number, end in enumerate(ends):
        by_box.setdefault(end.box, []).append(number)
    found: list[list[Point]] = [[]] * len(ends)
    for numbers in by_box.values():
        for i, number in enumerate(numbers, 1):
            rect, row = ends[number].rect, ends[number].row
            share = i / (len(numbers) + 1) / 2
            y = rect.y + rect.height * (1 - share if is_leaving else share)
            found[number] = [(rect.x + rect.width, y)]
            if row is not None and beside.reach(y, y) > rect.x + rect.width:
                x, aside = rect.x + rect.width * (1 - share / 2), BESIDE / 2 + _STEP * (i - 1)
                if is_leaving:
                    found[number] = [(x, rect.y + rect.height), (x, row[1] + aside)]
                else:
                    found[number] = [(x, row[0] - aside), (x, rect.y)]
    return found
