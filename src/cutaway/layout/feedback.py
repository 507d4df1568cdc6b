"""Routes feedback edges of rolled-up pictures in lanes beside their frame, after everything else is placed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor

from cutaway.layout.layered import Point, Rect

LANE_MARGIN = 16.0
"""Distance from the contents to the first lane, and from the last lane to the border."""
_LANE_PITCH = 12.0
_BAND, _MAX_BANDS = 24.0, 500
"""Occupied space is looked up in bands of this height; in higher ones if there would be too many."""
_DETOUR_PITCH = 4.0
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
    edges: Iterable[FeedbackEdge], members: Sequence[Span], lines: Sequence[Span]
) -> list[tuple[FeedbackEdge, list[Point]]]:
    """The points of each edge: out at the right, back in its lane, and in from the right.

    If a neighbor is in the way, the edge goes around it: out below, in from above.
    """
    # Short edges come first and get the inner lanes.
    by_length = sorted(edges, key=lambda edge: edge.upper.rect.y - edge.lower.rect.y)
    occupied = _Bands(_BAND)
    for first, last, reach in members:
        occupied.occupy(first, last, reach)
    leaving = _end_points([edge.upper for edge in by_length], occupied, is_leaving=True)
    arriving = _end_points([edge.lower for edge in by_length], occupied, is_leaving=False)
    bands = _Bands(max([_BAND, *(last / _MAX_BANDS for _, last, _ in members)]))
    for first, last, reach in (*members, *lines):
        bands.occupy(first, last, reach)
    routes: list[tuple[FeedbackEdge, list[Point]]] = []
    for edge, out, into in zip(by_length, leaving, arriving, strict=True):
        start, end = out[-1][1], into[0][1]
        first, last = min(start, end), max(start, end)
        x = max(into[0][0] + edge.room, bands.reach(first, last))
        bands.occupy(first, last, x + _LANE_PITCH)
        x += LANE_MARGIN
        routes.append((edge, [*out, (x, start), (x, end), *into]))
    return routes


class _Bands:
    """How far to the right space is occupied, by bands of height."""

    def __init__(self, height: float) -> None:
        self.height, self.reaches = height, dict[int, float]()

    def occupy(self, first: float, last: float, reach: float) -> None:
        for band in range(floor(first / self.height), floor(last / self.height) + 1):
            self.reaches[band] = max(self.reaches.get(band, 0.0), reach)

    def reach(self, first: float, last: float) -> float:
        furthest = 0.0
        for band in range(floor(first / self.height), floor(last / self.height) + 1):
            furthest = max(furthest, self.reaches.get(band, 0.0))
        return furthest


def _end_points(ends: list[End], occupied: _Bands, *, is_leaving: bool) -> list[list[Point]]:
    """The points between the boxes and the lanes.

    Edges arrive in the upper half of the right side of a box and leave in its lower half.
    """
    by_box: dict[int, list[int]] = {}
    for number, end in enumerate(ends):
        by_box.setdefault(end.box, []).append(number)
    points: list[list[Point]] = [[]] * len(ends)
    for numbers in by_box.values():
        for i, number in enumerate(numbers, 1):
            rect, row = ends[number].rect, ends[number].row
            share = i / (len(numbers) + 1) / 2
            y = rect.y + rect.height * (1 - share if is_leaving else share)
            points[number] = [(rect.x + rect.width, y)]
            if row is not None and occupied.reach(y, y) > rect.x + rect.width:
                x, aside = rect.x + rect.width * (1 - share / 2), LANE_MARGIN / 2 + _DETOUR_PITCH * (i - 1)
                if is_leaving:
                    points[number] = [(x, rect.y + rect.height), (x, row[1] + aside)]
                else:
                    points[number] = [(x, row[0] - aside), (x, rect.y)]
    return points
