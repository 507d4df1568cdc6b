"""Probeless is the sum of differences of class means, in units of the deviation within classes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from cutaway.core import matrices
from cutaway.neurons.ranking.rank import rank

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 11)) * np.geomspace(0.01, 100, 11) + RNG.normal(size=11) * 50
Y = RNG.choice(["a", "b", "c", "d"], 400, p=[0.1, 0.2, 0.3, 0.4])
MEANS = {label: X[label == Y].mean(axis=0) for label in "abcd"}


def within() -> np.ndarray:
    squares = sum(((X[label == Y] - MEANS[label]) ** 2).sum(axis=0) for label in "abcd")
    return np.sqrt(squares / (len(X) - 4))


def test_neurox_numbers_are_plain_sums_of_differences() -> None:
    found = rank(X, Y, "probeless", compat="neurox")
    expected = sum(np.abs(MEANS[one] - MEANS[other]) for one, other in combinations("abcd", 2))
    assert np.allclose(found.scores, expected, rtol=1e-10)
    for label in "abcd":
        own = sum(np.abs(MEANS[label] - MEANS[other]) for other in "abcd")
        assert np.allclose(found.per_label[label].scores, own, rtol=1e-10)
    # NeuroX's ranking of all tags adds up those of each: twice the sum over pairs.
    assert np.allclose(sum(each.scores for each in found.per_label.values()), 2 * found.scores)


def test_the_default_divides_by_the_deviation_within_classes() -> None:
    plain, found = rank(X, Y, "probeless", standardize=False), rank(X, Y)
    assert np.allclose(found.scores, plain.scores / within(), rtol=1e-9)
    assert np.allclose(found.per_label["a"].scores, plain.per_label["a"].scores / within(), rtol=1e-9)


def test_the_scale_of_a_unit_does_not_make_it_important() -> None:
    scale = np.geomspace(1e-3, 1e3, 11)
    assert np.allclose(rank(X * scale, Y).scores, rank(X, Y).scores)
    plain = rank(X * scale, Y, compat="neurox")
    assert plain.order[0] == 10


def test_signs_say_whether_the_class_lies_above_the_others() -> None:
    found = rank(X, Y)
    for label in "abcd":
        rest = np.mean([MEANS[other] for other in "abcd" if other != label], axis=0)
        assert np.array_equal(found.per_label[label].signs, np.sign(MEANS[label] - rest))
    assert not found.signs.any()


def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rank(X, Y)
    monkeypatch.setattr(matrices, "BLOCK_BYTES", 4 * 11 * 7)
    assert np.allclose(rank(X, Y).scores, whole.scores, rtol=1e-9)


def test_a_unit_that_is_all_class_has_a_finite_score() -> None:
    x = np.column_stack([(Y == "a") * 1.0, RNG.normal(size=400)])
    found = rank(x, Y == "a")
    assert found.order[0] == 0
    assert np.isfinite(found.scores).all()
    assert not len(found.dead)


def test_a_large_mean_does_not_drown_a_small_difference() -> None:
    x = RNG.normal(size=(400, 3)) * 1e-3
    x[:, 1] += 1e-3 * (Y == "a")
    shifted = rank(x + 1e4, Y == "a")
    assert np.allclose(shifted.scores, rank(x, Y == "a").scores, rtol=1e-4)
