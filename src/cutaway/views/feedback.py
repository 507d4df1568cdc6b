"""Edges that go back, in rolled-up pictures: laid out beside the boxes, after all the rest has its place."""

from __future__ import annotations

from dataclasses import replace

from cutaway.graph.layout import Rect
from cutaway.views.picture import Edge, View
from cutaway.views.svg import Line, Placement, label_width

_BESIDE, _LANE = 16.0, 12.0


def forward(view: View) -> list[Edge]:
    """The edges that go down."""
    return [edge for edge in view.edges if not edge.is_feedback]


def with_feedback(view: View, placed: Placement) -> Placement:
    """A placement with the edges that go back: out on the right, up in a lane of their own, and in from the right."""
    back = [edge for edge in view.edges if edge.is_feedback]
    if not back:
        return placed
    # The short ones first: they get the inner lanes.
    back.sort(key=lambda edge: placed.boxes[edge.parent].y - placed.boxes[edge.child].y)
    leaving, arriving = _ends(back, placed, leaving=True), _ends(back, placed, leaving=False)
    lanes: list[tuple[float, float, float]] = []
    """(x, top, bottom) of those that are taken."""
    lines = []
    for edge in back:
        upper, lower = placed.boxes[edge.parent], placed.boxes[edge.child]
        start, end = leaving[edge.parent, edge.child], arriving[edge.parent, edge.child]
        top, bottom = min(start, end), max(start, end)
        clear = max(_right(rect) for rect in placed.boxes if rect.y <= bottom and rect.y + rect.height >= top)
        x = max(clear + _BESIDE, _right(lower) + label_width(edge.label) + _BESIDE)
        while any(abs(x - other) < _LANE and top <= below and bottom >= above for other, above, below in lanes):
            x += _LANE
        lanes.append((x, top, bottom))
        points = ((_right(upper), start), (x, start), (x, end), (_right(lower), end))
        lines.append(Line(points, edge.parent, edge.child, is_feedback=True))
    width = max(placed.width, max(x for x, _, _ in lanes) + _BESIDE)
    return replace(placed, width=width, lines=(*placed.lines, *lines))


def _ends(back: list[Edge], placed: Placement, *, leaving: bool) -> dict[tuple[int, int], float]:
    """Heights at which the edges meet the right side of their boxes: they arrive in its upper half, and leave below."""
    by_box: dict[int, list[Edge]] = {}
    for edge in back:
        by_box.setdefault(edge.parent if leaving else edge.child, []).append(edge)
    found = {}
    for box, edges in by_box.items():
        rect = placed.boxes[box]
        for i, edge in enumerate(edges, 1):
            share = i / (len(edges) + 1) / 2
            found[edge.parent, edge.child] = rect.y + rect.height * (1 - share if leaving else share)
    return found


def _right(rect: Rect) -> float:
    return rect.x + rect.width
