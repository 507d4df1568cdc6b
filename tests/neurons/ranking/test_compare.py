"""Agreement of methods is counted as the formulas say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.core.errors import InputError
from cutaway.neurons.ranking.compare import average_overlap, compare, jaccard, neuron_vote, stability, vote
from cutaway.neurons.ranking.rank import rank
from cutaway.results.neurons.ranking import Ranking, ranked
from cutaway.store.activations.activations import Activations

RNG = np.random.default_rng(0)


def of_order(order: list[int], n_units: int, method: str = "mine") -> Ranking:
    scores = np.zeros(n_units)
    scores[order] = np.arange(len(order), 0, -1)
    return ranked(method, scores)


orders = st.permutations(range(8))


@given(orders, st.lists(orders, min_size=1, max_size=4), st.integers(1, 9), st.integers(1, 9))
def test_overlaps_and_votes_are_those_of_the_paper(
    order: list[int], others: list[list[int]], n: int, depth: int
) -> None:
    mine, baselines = of_order(order, 8), [of_order(each, 8) for each in others]
    top = set(order[:n])
    each = [len(top & set(other[:n])) / len(top | set(other[:n])) for other in others]
    assert average_overlap(mine, baselines, n) == pytest.approx(np.mean(each))
    points: dict[int, int] = {}
    for other in others:
        voters = other[:depth]
        for place, unit in enumerate(voters):
            points[unit] = points.get(unit, 0) + len(voters) - place
    elected = set(sorted(points, key=lambda unit: (-points[unit], unit))[:n])
    assert neuron_vote(mine, baselines, n, depth=depth) == pytest.approx(len(top & elected) / len(top | elected))
    assert set(vote(baselines, depth).order[:n].tolist()) == elected


def test_each_ranking_is_compared_with_all_others_but_itself() -> None:
    a, b, c = of_order([0, 1, 2, 3], 4), of_order([0, 1, 3, 2], 4), of_order([3, 2, 1, 0], 4)
    found = compare({"a": a, "b": b, "c": c}, n=2)
    assert found.overlap.tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert found.average_overlap.tolist() == [0.5, 0.5, 0]
    assert found.neuron_vote[0] == neuron_vote(a, [b, c], 2)
    same = compare({"a": a, "again": a}, n=2)
    assert same.average_overlap.tolist() == [1, 1]
    assert "Comparison of 3 rankings by their top 2 units" in repr(found)
    assert len(found.table()) == 3


def test_what_cannot_be_compared_is_refused() -> None:
    a, small = of_order([0, 1], 4), of_order([0, 1], 3)
    with pytest.raises(InputError, match="3 and of 4 units"):
        jaccard(a, small, 2)
    with pytest.raises(InputError, match="two rankings by 'mine'"):
        compare([a, a])
    with pytest.raises(InputError, match="at least two"):
        compare([a])
    with pytest.raises(InputError, match="got no ranking"):
        average_overlap(a, [])
    with pytest.raises(InputError, match="must be 1 or more"):
        jaccard(a, a, 0)


def test_a_method_of_ones_own_is_compared_in_three_lines() -> None:
    x, y = RNG.normal(size=(200, 10)), RNG.random(200) < 0.5
    x[:, 3] += 2 * y
    rankings = [rank(x, y, method) for method in ("probeless", "selectivity")]
    rankings.append(rank(x, y, lambda x, y: x.std(axis=0)))
    found = compare(rankings, n=1)
    assert found.methods == ("probeless", "selectivity", "<lambda>")
    assert found.overlap[0, 1] == 1


@pytest.mark.parametrize("kind", ["array", "activations"])
def test_planted_units_are_stable_and_noise_is_not(kind: str) -> None:
    x, y = RNG.normal(size=(400, 40)), RNG.choice(["a", "b", "c"], 400)
    x[:, [3, 8]] += 2 * (y == "b")[:, None]
    source = x if kind == "array" else Activations.of({"h": x})
    found = stability(source, y, "mean_select", n=2)
    assert found.mean == 1
    assert found.always.tolist() == [3, 8]
    drawn = stability(source, y, "random", n=10, seeds=range(6), share=1)
    assert drawn.mean < 0.4
    assert drawn.chosen.sum() == pytest.approx(10)
    assert "6 seeds on 100% of the rows" in repr(drawn)
    again = stability(source, y, "probeless", n=10, share=0.5)
    assert np.array_equal(again.overlap, stability(source, y, "probeless", n=10, share=0.5).overlap)
    assert 0 < again.spread < 1


def test_a_share_or_seeds_that_make_no_sense_are_refused() -> None:
    x, y = RNG.normal(size=(20, 3)), np.arange(20) % 2
    for wrong in ({"share": 0}, {"share": 1.5}, {"seeds": [1]}, {"seeds": [1, 1]}):
        with pytest.raises(InputError, match="two different seeds"):
            stability(x, y, **wrong)  # type: ignore[arg-type]


def test_numbers_and_several_labels_are_drawn_too() -> None:
    x = RNG.normal(size=(100, 6))
    assert stability(x, x[:, 2] * 1.5, "mean_select", n=1).always.tolist() == [2]
    labels = np.column_stack([x[:, 1] > 0, x[:, 4] > 0])
    assert stability(x, labels, "probeless", n=2).always.tolist() == [1, 4]


def test_the_warning_about_all_units_points_to_the_callers_line() -> None:
    a, b = (ranked(name, np.arange(4.0)) for name in "ab")
    for call in (lambda: average_overlap(a, [b], 9), lambda: neuron_vote(a, [b], 9), lambda: compare([a, b], 9)):
        with pytest.warns(UserWarning, match="every overlap is 1") as warned:
            call()
        assert warned[0].filename == __file__
