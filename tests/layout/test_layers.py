"""Layers and order of a level: parents above, straight main lines, few crossings, and nothing but links counts."""

from __future__ import annotations

import random
from collections.abc import Collection
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.call_count import count_lines

from cutaway.layout.layers import CROWD, MAX_SPAN, OUTSIDE, Arrangement, Link, arrange


@st.composite
def levels(draw: st.DrawFn) -> tuple[int, list[Link], set[int], set[int]]:
    n = draw(st.integers(0, 25))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    links = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=50)) if pairs else []
    some = st.sets(st.integers(0, n - 1)) if n else st.just(set[int]())
    return n, links, draw(some), draw(some)


def plain(n: int, links: Collection[Link], reads: Collection[int] = (), feeds: Collection[int] = ()) -> Arrangement:
    return arrange(n, links, reads=reads, feeds=feeds)


def crossings(arranged: Arrangement, links: Collection[Link]) -> int:
    """Counted one by one, over all pairs of pieces between neighboring layers."""
    place = {i: at for layer in arranged.layers for at, i in enumerate(layer)}
    pieces: dict[int, set[Link]] = {}
    for upper, lower in links:
        if (upper, lower) not in arranged.long:
            way = [upper]
            way += [arranged.waypoints[upper, k] for k in range(arranged.layer[upper] + 1, arranged.layer[lower])]
            for one, other in pairwise([*way, lower]):
                pieces.setdefault(arranged.layer[one], set()).add((place[one], place[other]))
    return sum((a - c) * (b - d) < 0 for between in pieces.values() for a, b in between for c, d in between) // 2


@given(levels())
@settings(deadline=None)
def test_parents_stand_in_earlier_layers_and_everything_stands_once(
    level: tuple[int, list[Link], set[int], set[int]],
) -> None:
    n, links, reads, feeds = level
    arranged = plain(n, links, reads, feeds)
    for upper, lower in links:
        assert arranged.layer[upper] < arranged.layer[lower]
    assert sorted(i for layer in arranged.layers for i in layer) == list(range(len(arranged.layer)))
    for number, layer in enumerate(arranged.layers):
        assert layer
        assert all(arranged.layer[i] == number for i in layer)
    assert all(0 <= layer < max(n, 1) for layer in arranged.layer)


@given(levels())
@settings(deadline=None)
def test_every_link_has_a_way_through_the_layers_or_a_lane(level: tuple[int, list[Link], set[int], set[int]]) -> None:
    n, links, reads, feeds = level
    arranged = plain(n, links, reads, feeds)
    wanted = set()
    from_outside, to_outside = [(OUTSIDE, i) for i in reads], [(i, n) for i in feeds]
    for upper, lower in [*links, *from_outside, *to_outside]:
        first = arranged.layer[upper] + 1 if upper != OUTSIDE else 0
        last = arranged.layer[lower] if lower != n else len(arranged.layers)
        if (upper, lower) not in arranged.long:
            wanted |= {(upper, layer) for layer in range(first, last)}
            assert last - first < MAX_SPAN
        else:
            n_arriving = 1 if lower == n else sum(link[1] == lower for link in links) + (lower in reads)
            assert last - first >= MAX_SPAN or n_arriving > CROWD
    assert set(arranged.waypoints) == wanted


@given(levels(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_in_which_links_are_given_does_not_count(
    level: tuple[int, list[Link], set[int], set[int]], rng: random.Random
) -> None:
    n, links, reads, feeds = level
    shuffled = links[:]
    rng.shuffle(shuffled)
    assert plain(n, links, reads, feeds) == plain(n, shuffled, sorted(reads, reverse=True), sorted(feeds))


@pytest.mark.parametrize("seed", range(30))
def test_a_tree_is_arranged_without_a_crossing(seed: int) -> None:
    rng = random.Random(seed)
    links = [(rng.randrange(max(0, b - 4), b), b) for b in range(1, 30)]
    assert crossings(plain(30, links), links) == 0


@pytest.mark.parametrize("seed", range(20))
def test_the_sweeps_never_make_more_crossings_than_the_order_given_has(seed: int) -> None:
    rng = random.Random(seed)
    links = sorted({(rng.randrange(max(0, b - 9), b), b) for b in range(1, 40) for _ in range(2)})
    arranged = plain(40, links)
    unsorted = Arrangement(
        arranged.n, arranged.layer, [sorted(layer) for layer in arranged.layers], arranged.waypoints, arranged.long,
        arranged.tail, arranged.is_loose,
    )  # fmt: skip
    assert crossings(arranged, links) <= crossings(unsorted, links)


def test_a_link_that_passes_a_first_waypoint_counts_for_the_order() -> None:
    # The waypoint has the number behind the last member, which is also how the outside is written.
    arranged = plain(6, [(0, 2), (1, 3), (3, 4), (2, 5), (4, 5)])
    assert crossings(arranged, [(0, 2), (1, 3), (3, 4), (2, 5), (4, 5)]) == 0


def test_sources_sink_towards_their_users_and_what_feeds_the_outside_does_not() -> None:
    links = [(1, 2), (2, 3), (0, 3)]
    assert plain(4, links).layer[:4] == [1, 0, 1, 2]
    assert plain(4, links).is_loose[0]
    assert plain(4, links, feeds=[0]).layer[:4] == [0, 0, 1, 2]
    assert not plain(4, links, reads=[0]).is_loose[0]


def test_all_that_passes_from_outside_does_so_at_one_place_in_each_layer() -> None:
    arranged = plain(4, [(0, 1), (1, 2), (2, 3)], reads=[0, 2, 3])
    assert [len(layer) for layer in arranged.layers] == [2, 2, 2, 1]
    assert set(arranged.waypoints) == {(OUTSIDE, 0), (OUTSIDE, 1), (OUTSIDE, 2)}


def test_a_link_upwards_or_to_nobody_is_refused() -> None:
    for link in ((1, 0), (1, 1), (0, 2), (-1, 1)):
        with pytest.raises(ValueError, match="parents first"):
            plain(2, [link])


def test_the_work_grows_with_the_number_of_members_and_not_with_its_square() -> None:
    def n_lines(n: int) -> int:
        links = {(i, i + 1) for i in range(n - 1)} | {(i, i + 6) for i in range(0, n - 6, 3)}
        links |= {(i, n - 1) for i in range(n - 1)} | {(0, i) for i in range(1, n, 2)}
        return count_lines(lambda: plain(n, links))

    # Eight times as many; their square would take 64 times as much.
    assert n_lines(1600) < 16 * n_lines(200)
