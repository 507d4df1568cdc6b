"""Selectivity is a difference of means in parts of the range."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.neurons.ranking.rank import rank

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 8)) * np.geomspace(0.1, 10, 8) + 3
Y = RNG.choice(["a", "b", "c"], 300)


def test_selectivity_is_what_its_formula_says() -> None:
    found = rank(X, Y, "selectivity")
    for label in "abc":
        difference = X[label == Y].mean(axis=0) - X[label != Y].mean(axis=0)
        expected = difference / (X.max(axis=0) - X.min(axis=0))
        assert np.allclose(found.per_label[label].scores, np.abs(expected))
        assert np.array_equal(found.per_label[label].signs, np.sign(expected))


def test_a_unit_that_tells_all_has_one() -> None:
    x = np.column_stack([np.where(Y == "b", -2.0, 5.0), X])
    found = rank(x, Y == "b", "selectivity")
    assert found.scores[0] == pytest.approx(1, abs=1e-12)
    assert found.signs[0] == -1
