"""IoU is intersection over union of the rows where a unit fires and those with the label."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.core.errors import InputError
from cutaway.neurons.labels.labels import encode
from cutaway.neurons.ranking.iou import split_in_half
from cutaway.neurons.ranking.rank import rank
from cutaway.neurons.ranking.thresholds import sorted_block

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 6))
Y = RNG.random(1000) < 0.2
X[:, 2] -= 4 * Y
X[:, 4] += 4 * Y


def overlap(fires: np.ndarray) -> float:
    return (fires & Y).sum() / (fires | Y).sum()


def test_a_unit_fires_on_the_share_of_rows_where_it_is_largest() -> None:
    for share, n_fires in ((0.005, 5), (0.1, 100)):
        up, both = (rank(X, Y, "iou", share=share, absolute=absolute) for absolute in (False, True))
        for unit in range(6):
            order = np.argsort(X[:, unit])
            above, below = np.zeros((2, 1000), bool)
            above[order[-n_fires:]] = below[order[:n_fires]] = True
            assert up.scores[unit] == pytest.approx(overlap(above))
            assert both.scores[unit] == pytest.approx(max(overlap(above), overlap(below)))
    assert rank(X, Y, "iou").about["share"] == 0.005


def test_a_number_is_a_threshold_for_all_units() -> None:
    relu = np.maximum(X, 0)
    found = rank(relu, Y, "iou", threshold=0, absolute=False)
    assert np.allclose(found.scores, [overlap(relu[:, unit] > 0) for unit in range(6)])


def test_the_best_threshold_is_chosen_on_other_rows_than_it_is_scored_on() -> None:
    found = rank(X, Y, "iou", share="best")
    assert set(found.top(2).tolist()) == {2, 4}
    assert found.signs[[2, 4]].tolist() == [-1, 1]
    assert min(found.scores[[2, 4]]) > 0.8
    # In-sample, a unit of noise is at least as good as one that always fires; held out it may be worse.
    everywhere = Y.mean()
    noise = found.scores[[0, 1, 3, 5]]
    assert np.abs(noise - everywhere).max() < 0.05
    again, other = rank(X, Y, "iou", share="best", seed=0), rank(X, Y, "iou", share="best", seed=1)
    assert np.array_equal(again.scores, found.scores)
    assert not np.array_equal(other.scores, found.scores)


def test_the_best_threshold_is_that_of_brute_force() -> None:
    x, y = np.round(X[:200, :3] * 4).astype(np.float32), Y[:200]
    block = sorted_block(np.ascontiguousarray(x.T))
    (_, places) = block.places(encode(y))
    best, at = block.down(places).best_overlap
    for unit in range(3):
        brute = {t: ((x[:, unit] >= t) & y).sum() / ((x[:, unit] >= t) | y).sum() for t in x[:, unit]}
        assert best[unit] == pytest.approx(max(brute.values()))
        assert brute[block.values[unit, places[unit, at[unit]]]] == pytest.approx(best[unit])


def test_shares_that_are_none_are_refused() -> None:
    for share in (0, 1, -0.5, 2):
        with pytest.raises(InputError, match="a fraction of the rows"):
            rank(X, Y, "iou", share=share)


def test_a_label_in_one_half_of_the_rows_cannot_be_scored() -> None:
    rare = np.zeros((1000, 2), bool)
    rare[:500, 0] = True
    rare[[3, 4], 1] = True
    seed = next(s for s in range(99) if split_in_half(encode(rare), s)[[3, 4]].sum() != 1)
    with pytest.raises(InputError, match="label 1 has rows in one half"):
        rank(X, rare, "iou", share="best", seed=seed)
    parted = next(s for s in range(99) if split_in_half(encode(rare), s)[[3, 4]].sum() == 1)
    rank(X, rare, "iou", share="best", seed=parted)
