"""Mean Select and selectivity are what their formulas say."""

from __future__ import annotations

import numpy as np

from cutaway.neurons.ranking.rank import rank

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 8)) * np.geomspace(0.1, 10, 8) + 3
Y = RNG.choice(["a", "b", "c"], 300)


def test_mean_select_is_the_mean_of_standardized_values_over_the_rows_of_the_label() -> None:
    found = rank(X, Y, "mean_select")
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    for label in "abc":
        mean = z[label == Y].mean(axis=0)
        assert np.allclose(found.per_label[label].scores, np.abs(mean))
        assert np.array_equal(found.per_label[label].signs, np.sign(mean))
