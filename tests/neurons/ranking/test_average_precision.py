"""Average precision is scikit-learn's number, of both directions, for all units at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score

from cutaway.core import matrices
from cutaway.neurons.ranking import thresholds
from cutaway.neurons.ranking.rank import rank

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 12))
Y = RNG.choice(["a", "b", "c"], 500, p=[0.1, 0.3, 0.6])
X[:, 3] -= 2 * (Y == "a")
X[:, 4] = np.round(X[:, 4])
X[:, 5] = np.where(RNG.random(500) < 0.8, 0.0, X[:, 5])
X[:, 6] = np.where(RNG.random(500) < 0.5, 0.0, -0.0)


def of_sklearn(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.array([average_precision_score(y, column) for column in x.T])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_it_is_scikit_learns_number(dtype: type) -> None:
    x = X.astype(dtype)
    signed, absolute = (rank(x, Y, "average_precision", absolute=absolute) for absolute in (False, True))
    for label in "abc":
        up, down = of_sklearn(x, label == Y), of_sklearn(-x, label == Y)
        assert np.abs(signed.per_label[label].scores - up).max() < 1e-12
        assert np.abs(absolute.per_label[label].scores - np.maximum(up, down)).max() < 1e-12
        assert np.array_equal(absolute.per_label[label].signs, np.where(down > up, -1, 1))
    assert np.allclose(signed.scores, np.mean([each.scores for each in signed.per_label.values()], axis=0))


@settings(max_examples=40, deadline=None)
@given(
    hnp.arrays(np.float32, st.tuples(st.integers(4, 30), st.just(3)), elements=st.sampled_from([-1.5, -1, 0, 2])),
    st.data(),
)
def test_equal_values_are_one_step(x: np.ndarray, data: st.DataObject) -> None:
    y = np.array(data.draw(st.lists(st.booleans(), min_size=len(x), max_size=len(x))))
    y[:4] = [True, False, True, False]
    found = rank(x, y, "average_precision", absolute=False)
    assert np.abs(found.scores - of_sklearn(x, y)).max() < 1e-12
    below = rank(-x, y, "average_precision", absolute=False)
    both = rank(x, y, "average_precision")
    assert np.allclose(both.scores, np.maximum(found.scores, below.scores), rtol=1e-14)


def test_neurox_has_small_values_at_zero_and_one_direction() -> None:
    small = X / 10
    given = small.copy()
    expected = of_sklearn(np.where(np.abs(small) < 0.05, 0, small), Y == "a")
    for method in ("iou", "average_precision"):
        found = rank(given, Y == "a", method, compat="neurox")
        assert np.abs(found.scores - expected).max() < 1e-12
        assert found.order[-2:].tolist() == [3, 6]  # the one that falls, then the dead one
    assert rank(given, Y == "a", "average_precision").order[0] == 3
    assert np.array_equal(given, small)


def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = X.astype(np.float32)
    whole = rank(x, Y, "average_precision")
    monkeypatch.setattr(thresholds, "_MOST_VALUES", 1)
    assert np.array_equal(rank(x, Y, "average_precision").scores, whole.scores)
    monkeypatch.setattr(matrices.Matrix.column_blocks, "__defaults__", (4 * 500 * 5,))
    assert np.array_equal(rank(x, Y, "average_precision").scores, whole.scores)
