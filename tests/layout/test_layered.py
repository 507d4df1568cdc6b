"""The layered layout by itself: nothing overlaps, parents stand above, lines stay clear of boxes."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest
from tests.call_count import count_lines

from cutaway.layout.layered import Border, Layout, Node, Rect, Wire, layout

Graph = tuple[list[Node], list[Wire]]


def random_graph(seed: int, n: int = 60) -> Graph:
    """Boxes of all sizes; short lines and long ones, with and without labels, from fixed places and free ones."""
    rng = random.Random(seed)
    nodes = [Node(rng.uniform(20, 160), rng.uniform(15, 80)) for _ in range(n)]
    pairs = {(rng.randrange(max(0, b - 12), b), b) for b in range(1, n) for _ in range(rng.choice((0, 1, 1, 2)))}
    pairs |= {(a, b) for a, b in (sorted(rng.sample(range(n), 2)) for _ in range(12))}
    if seed % 3 == 0:
        pairs |= {(a, n - 1) for a in range(0, n - 1, 2)}
    wires = []
    for a, b in sorted(pairs):
        into = rng.choice((None, None, nodes[b].width / 3))
        room = rng.choice((0.0, 12.0))
        wires.append(Wire(a, b, a, rng.choice((None, 5.0)), into, room, room and 14.0))
    return nodes, wires


def overlap(a: Rect, b: Rect) -> bool:
    return (
        a.x + a.width > b.x + 0.01 and b.x + b.width > a.x + 0.01
        and a.y + a.height > b.y + 0.01 and b.y + b.height > a.y + 0.01
    )  # fmt: skip


def chain(n: int, *more: tuple[int, int], width: float = 40) -> Layout:
    pairs = [(i, i + 1) for i in range(n - 1)] + list(more)
    return layout([Node(width, 20)] * n, [Wire(a, b, a) for a, b in pairs])


@pytest.mark.parametrize("seed", range(25))
def test_nothing_overlaps_and_parents_stand_above_children_in_any_graph(seed: int) -> None:
    nodes, wires = random_graph(seed)
    placed = layout(nodes, wires)
    for a, b in combinations(placed.nodes, 2):
        assert not overlap(a, b)
    for wire in wires:
        upper, lower = placed.nodes[wire.upper], placed.nodes[wire.lower]
        assert upper.y + upper.height < lower.y
    for rect in placed.nodes:
        assert rect.x >= 0
        assert rect.x + rect.width <= placed.width + 0.01
        assert rect.y + rect.height <= placed.height + 0.01


@pytest.mark.parametrize("seed", range(25))
def test_no_line_runs_through_a_box(seed: int) -> None:
    placed = layout(*random_graph(seed))
    for route in placed.routes:
        for (x, y), (to_x, to_y) in pairwise(route.points):
            # A curve stays within the rectangle of its ends, and that one lies between two layers.
            swept = Rect(min(x, to_x), min(y, to_y), max(abs(x - to_x), 0.05), max(abs(y - to_y), 0.05))
            for rect in placed.nodes:
                assert not overlap(swept, Rect(rect.x + 0.1, rect.y + 0.1, rect.width - 0.2, rect.height - 0.2))


@pytest.mark.parametrize("seed", range(5))
def test_every_line_arrives_on_top_of_its_lower_node(seed: int) -> None:
    nodes, wires = random_graph(seed)
    placed = layout(nodes, wires)
    arrived = [(route.value, route.lower) for route in placed.routes if route.lower is not None]
    assert sorted(arrived) == sorted((wire.value, wire.lower) for wire in wires)
    for route in placed.routes:
        if route.lower is not None:
            rect, (x, y) = placed.nodes[route.lower], route.points[-1]
            assert rect.x <= x <= rect.x + rect.width
            assert y == pytest.approx(rect.y)


def test_the_same_graph_is_placed_the_same_way_every_time() -> None:
    assert layout(*random_graph(3)) == layout(*random_graph(3))


def test_a_chain_is_a_straight_column() -> None:
    assert len({rect.x for rect in chain(6).nodes}) == 1


def test_a_skip_connection_does_not_bend_the_main_line() -> None:
    assert len({round(rect.x, 6) for rect in chain(6, (0, 5)).nodes}) == 1


def test_a_source_used_late_stands_next_to_its_user() -> None:
    pairs = [(i, i + 1) for i in range(1, 9)] + [(0, 9)]
    placed = layout([Node(40, 20)] * 10, [Wire(a, b, a) for a, b in pairs])
    assert placed.nodes[0].y == pytest.approx(placed.nodes[8].y)


def test_parts_without_connection_stand_close_together() -> None:
    wires = [Wire(0, 1, 0), Wire(2, 3, 2), Wire(4, 5, 4)]
    placed = layout([Node(40, 20)] * 6, wires)
    assert placed.width < 3 * 40 + 3 * 30


def test_very_many_lines_into_one_node_share_a_lane() -> None:
    n = 60
    assert chain(n, *((i, n - 1) for i in range(n - 2))).width < 100


def test_lines_that_carry_the_same_share_the_way() -> None:
    placed = chain(8, (0, 6), (0, 7))
    n_arriving, n_layers_passed = 3, 6
    assert sum(route.value == 0 for route in placed.routes) == n_arriving + n_layers_passed


def test_ports_lie_on_the_upper_and_lower_border() -> None:
    nodes = [Node(0, 0), Node(40, 20), Node(40, 20), Node(0, 0)]
    placed = layout(nodes, [Wire(0, 1, 7), Wire(1, 2, 1), Wire(2, 3, 2), Wire(0, 2, 7)], border=Border(1, 1))
    assert placed.nodes[0].y == 0
    assert placed.nodes[3].y == placed.height


def test_nothing_at_all_can_be_laid_out() -> None:
    assert layout([], []).nodes == ()


def test_a_line_upwards_is_refused() -> None:
    with pytest.raises(ValueError, match="parents first"):
        layout([Node(1, 1), Node(1, 1)], [Wire(1, 0, 1)])


def test_the_work_grows_with_the_number_of_nodes_and_not_with_its_square() -> None:
    def n_lines(n: int) -> int:
        more = [(i, i + 6) for i in range(0, n - 6, 3)] + [(i, n - 1) for i in range(0, n - 2, 2)]
        return count_lines(lambda: chain(n, *more))

    assert n_lines(800) < 8 * n_lines(200)
