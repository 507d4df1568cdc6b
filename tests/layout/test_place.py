"""Places of everything in a picture, in both directions: clear of each other, stable, quick."""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.call_count import count_lines
from tests.views.graphs import random_fold
from tests.views.pictures import Nested, overlap, random_graph, random_picture
from tests.zoo import ZOO

import cutaway
from cutaway.layout import layered as graph_layout
from cutaway.layout import place as placing
from cutaway.layout.fold import fold
from cutaway.layout.graph_view import Fold
from cutaway.layout.layered import Border, Layout, Rect, Wire
from cutaway.layout.layers import Arrangement, arrange
from cutaway.layout.picture import Box, Edge, Frame, Picture
from cutaway.layout.place import Direction, place
from cutaway.layout.text_size import box_size, title_width
from cutaway.views.graph.from_trace import graph_view

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
each_direction = pytest.mark.parametrize("direction", DIRECTIONS)
seeds = st.integers(0, 100_000)


def around(picture: Picture, frame: int) -> list[int]:
    """A frame and those around it."""
    found = [frame]
    while picture.frames[found[-1]].parent >= 0:
        found.append(picture.frames[found[-1]].parent)
    return found


def within(inner: Rect, outer: Rect) -> bool:
    return (
        outer.x - 1e-6 <= inner.x and inner.x + inner.width <= outer.x + outer.width + 1e-6
        and outer.y - 1e-6 <= inner.y and inner.y + inner.height <= outer.y + outer.height + 1e-6
    )  # fmt: skip


def swept(points: tuple[tuple[float, float], ...]) -> list[Rect]:
    """What a line covers: a curve stays within the rectangle of its ends."""
    return [
        Rect(min(x, to_x), min(y, to_y), max(abs(x - to_x), 0.05), max(abs(y - to_y), 0.05))
        for (x, y), (to_x, to_y) in pairwise(points)
    ]


def smaller(rect: Rect) -> Rect:
    return Rect(rect.x + 0.1, rect.y + 0.1, rect.width - 0.2, rect.height - 0.2)


@each_direction
@given(seeds)
@settings(max_examples=25, deadline=None)
def test_boxes_and_frames_keep_clear_of_each_other(direction: Direction, seed: int) -> None:
    picture = random_picture(seed, n_back=seed % 3 * 3)
    placed = place(picture, direction)
    for a, b in combinations(placed.boxes, 2):
        assert not overlap(a, b)
    for box, rect in zip(picture.boxes, placed.boxes, strict=True):
        inside = around(picture, box.frame)
        for number, border in enumerate(placed.frames):
            assert within(rect, border) if number in inside else not overlap(rect, border)
    for (a, one), (b, other) in combinations(enumerate(placed.frames), 2):
        if a in around(picture, b):
            assert within(other, one)
        else:
            assert not overlap(one, other)
    assert within(Rect(0, 0, placed.width, placed.height), placed.frames[0])


@each_direction
@given(seeds)
@settings(max_examples=25, deadline=None)
def test_edges_lead_one_way_and_lines_run_through_no_box(direction: Direction, seed: int) -> None:
    picture = random_picture(seed)
    placed = place(picture, direction)
    for edge in picture.edges:
        upper, lower = placed.boxes[edge.parent], placed.boxes[edge.child]
        assert upper.y + upper.height < lower.y if direction == "down" else upper.x + upper.width < lower.x
    for line in placed.lines:
        for piece in swept(line.points):
            assert within(piece, Rect(-0.1, -0.1, placed.width + 0.2, placed.height + 0.2))
            for rect in placed.boxes:
                assert not overlap(piece, smaller(rect))


@each_direction
@given(seeds)
@settings(max_examples=25, deadline=None)
def test_every_edge_can_be_followed_from_box_to_box(direction: Direction, seed: int) -> None:
    picture = random_picture(seed, n_back=seed % 2 * 5)
    placed = place(picture, direction)
    arrived = sorted((line.parent, line.child) for line in placed.lines if line.child is not None)
    assert arrived == sorted({(edge.parent, edge.child) for edge in picture.edges})
    for line in placed.lines:
        ends_at = line.child if line.child is not None else None
        if ends_at is not None and not line.is_feedback:
            rect, (x, y) = placed.boxes[ends_at], line.points[-1]
            assert (y if direction == "down" else x) == pytest.approx(rect.y if direction == "down" else rect.x)
            assert rect.x - 1e-6 <= x <= rect.x + rect.width
            assert rect.y - 1e-6 <= y <= rect.y + rect.height
    for parent in {edge.parent for edge in picture.edges if not edge.is_feedback}:
        # Pieces of what one box makes hang together: each begins at the box or where another one ends.
        pieces = [line for line in placed.lines if line.parent == parent and not line.is_feedback]
        ends = [line.points[-1] for line in pieces]
        rect = placed.boxes[parent]
        for line in pieces:
            x, y = line.points[0]
            at_box = within(Rect(x, y, 0, 0), rect)
            assert at_box or any(abs(x - a) + abs(y - b) < 1e-6 for a, b in ends)


@each_direction
@given(seeds)
@settings(max_examples=20, deadline=None)
def test_titles_have_room_at_the_top_left(direction: Direction, seed: int) -> None:
    picture = random_picture(seed)
    placed = place(picture, direction)
    for frame, rect in zip(picture.frames[1:], placed.frames[1:], strict=True):
        title = Rect(rect.x + 8, rect.y + 4, title_width(frame.title), 16)
        assert within(title, rect)
        assert not any(overlap(title, box) for box in placed.boxes)
        if direction == "right":
            assert not any(overlap(title, piece) for line in placed.lines for piece in swept(line.points))


@each_direction
@given(seeds)
@settings(max_examples=10, deadline=None)
def test_the_same_picture_is_placed_the_same_way_every_time(direction: Direction, seed: int) -> None:
    assert place(random_picture(seed, n_back=3), direction) == place(random_picture(seed, n_back=3), direction)


def levels_of(picture: Picture, direction: Direction) -> dict[str, tuple[list[str], Arrangement, Layout, Border]]:
    """For each open frame: the keys of its members, how they are arranged, and where."""
    seen: list[tuple[Any, Layout]] = []

    def watched(nodes: Any, wires: list[Wire], *, border: Border, cache: Any) -> Layout:
        placed = graph_layout.layout(nodes, wires, border=border, cache=cache)
        seen.append(((len(nodes), wires, border), placed))
        return placed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placing, "layout", watched)
        place(picture, direction)
    order = sorted(range(len(picture.frames)), key=lambda frame: len(around(picture, frame)))
    found = {}
    for frame, ((n, wires, border), placed) in zip(reversed(order), seen, strict=True):
        first, end = border.n_in, n - border.n_out
        members: dict[str, None] = {}
        for box in picture.boxes:
            path = around(picture, box.frame)
            if frame in path:
                at = path.index(frame)
                members[picture.frames[path[at - 1]].key if at else box.key] = None
        arranged = arrange(
            end - first,
            {(w.upper - first, w.lower - first) for w in wires if w.upper >= first and w.lower < end},
            reads={w.lower - first for w in wires if w.upper < first},
            feeds={w.upper - first for w in wires if w.lower >= end},
        )
        found[picture.frames[frame].key] = (list(members), arranged, placed, border)
    return found


def random_opening(rng: random.Random, graph: Nested) -> set[int]:
    share = rng.choice((0.2, 0.5, 0.8, 1.0))
    return {group for group in range(1, len(graph.parent)) if rng.random() < share}


@each_direction
@given(seeds)
@settings(max_examples=30, deadline=None)
def test_opening_a_group_changes_no_order_and_no_layer_in_any_other_frame(direction: Direction, seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng)
    first, second = (levels_of(graph.picture(random_opening(rng, graph)), direction) for _ in range(2))
    both = first.keys() & second.keys()
    assert "" in both
    for key in both:
        assert first[key][0] == second[key][0]
        assert first[key][1] == second[key][1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("name", ["bert", "gpt2", "lstm_cell_loop"])
def test_opening_modules_of_real_models_changes_no_order(name: str, rolled: bool) -> None:
    model, args, kwargs = ZOO[name]()
    view = graph_view(cutaway.trace(model, *args, **kwargs))
    cache: dict[str, tuple[list[str], Arrangement]] = {}
    n_compared = 0
    for seed in range(5):
        opened = random_fold(view, seed).open
        for key, (members, arranged, _, _) in levels_of(fold(view, Fold(opened, rolled)), "down").items():
            n_compared += key in cache
            assert cache.setdefault(key, (members, arranged)) == (members, arranged)
    assert n_compared > 4


@each_direction
@given(seeds)
@settings(max_examples=30, deadline=None)
def test_what_is_placed_stands_as_it_was_arranged(direction: Direction, seed: int) -> None:
    for _, arranged, placed, border in levels_of(random_picture(seed), direction).values():
        reached = -1.0
        for layer in arranged.layers:
            members = [placed.nodes[i + border.n_in] for i in layer if i < arranged.n]
            for left, right in pairwise(members):
                assert left.x + left.width < right.x
            assert all(rect.y > reached for rect in members)
            reached = max([reached, *(rect.y + rect.height for rect in members)])


def chain(n: int, *more: Edge, lines: tuple[str, ...] = ("name", "2×3 · 24 B")) -> Picture:
    boxes = tuple(Box(f"n{i}", lines, "plain", "leaf", 0) for i in range(n))
    edges = tuple(Edge(i, i + 1, "") for i in range(n - 1))
    return Picture("", "", boxes, (Frame("", "", -1),), (*edges, *more))


def test_to_the_right_a_chain_is_a_straight_row_of_boxes_with_their_own_sizes() -> None:
    picture = chain(6, Edge(0, 5, ""))
    placed = place(picture, "right")
    assert len({round(rect.y, 6) for rect in placed.boxes}) == 1
    assert [rect.x for rect in placed.boxes] == sorted(rect.x for rect in placed.boxes)
    assert {(rect.width, rect.height) for rect in placed.boxes} == {box_size(picture.boxes[0])}


@pytest.mark.parametrize("label", ["0", "weight", "Out 1–4 In 2–5"])
def test_to_the_right_a_line_is_long_enough_for_its_label(label: str) -> None:
    boxes = tuple(Box(f"n{i}", ("x",), "plain", "leaf", 0) for i in range(4))
    picture = Picture("", "", boxes, (Frame("", "", -1),), tuple(Edge(i, 3, label) for i in range(3)))
    placed = place(picture, "right")
    heights = sorted(line.points[-1][1] for line in placed.lines)
    assert all(b - a >= 13 for a, b in pairwise(heights))
    for line in placed.lines:
        (x, y), (end, other) = line.points[-2:]
        assert y == other
        assert end - x > len(label) * 9 * 0.62


@each_direction
def test_edges_that_go_back_have_lanes_of_their_own_inside_their_frame(direction: Direction) -> None:
    back = (Edge(3, 1, "Out 1–2"), Edge(2, 2, "Out 1"), Edge(4, 0, ""), Edge(3, 2, "x"))
    picture = chain(5, *back)
    placed = place(picture, direction)
    found = [line for line in placed.lines if line.is_feedback]
    assert {(line.parent, line.child) for line in found} == {(edge.parent, edge.child) for edge in back}
    beside, lanes = (0, 1) if direction == "down" else (1, 0), []
    for line in found:
        (_, one, other, _) = line.points
        assert (
            one[beside[0]]
            == other[beside[0]]
            > max((rect.x + rect.width, rect.y + rect.height)[beside[0]] for rect in placed.boxes)
        )
        lanes.append((one[beside[0]], *sorted((one[beside[1]], other[beside[1]]))))
        assert all(0 <= x <= placed.width and 0 <= y <= placed.height for x, y in line.points)
    for (x, top, bottom), (other, above, below) in combinations(lanes, 2):
        assert abs(x - other) >= 10 or bottom < above or below < top


@each_direction
def test_an_edge_that_goes_back_goes_round_what_stands_beside_its_ends(direction: Direction) -> None:
    boxes = tuple(Box(f"n{i}", ("name", "more"), "plain", "leaf", 0) for i in range(4))
    edges = (Edge(0, 1, ""), Edge(0, 2, ""), Edge(1, 3, ""), Edge(2, 3, ""), Edge(3, 1, "back"), Edge(1, 1, "self"))
    placed = place(Picture("", "", boxes, (Frame("", "", -1),), edges), direction)
    for line in placed.lines:
        for piece in swept(line.points):
            assert not any(overlap(piece, smaller(rect)) for rect in placed.boxes)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_lanes_of_edges_that_go_back_run_beside_all_boxes(seed: int) -> None:
    picture = random_picture(seed, n_back=6)
    placed = place(picture)
    for line in placed.lines:
        if line.is_feedback:
            lane = max(swept(line.points), key=lambda rect: rect.height if rect.width <= 0.05 else 0.0)
            assert not any(overlap(lane, smaller(rect)) for rect in placed.boxes)


def test_the_work_grows_with_the_number_of_boxes_and_not_with_its_square() -> None:
    def n_lines(n: int) -> int:
        picture = random_picture(7, n, n_back=n // 10)
        return count_lines(lambda: place(picture))

    assert n_lines(1200) < 16 * n_lines(150)
