"""Probes rank through the same call as every other method."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from cutaway.core.errors import InputError, MissingExtraError
from cutaway.neurons.ranking.rank import rank
from cutaway.store.activations.activations import Activations

pytest.importorskip("sklearn")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 10)).astype(np.float32)
TAGS = np.array(["adjective", "noun", "verb"])[RNG.integers(0, 3, 400)]
X[:, 2] += 3 * (TAGS == "noun")
X[:, 5] -= 3 * (TAGS == "verb")
X[:, 7] = 1.5
ACTS = Activations.of({"h": X})


@pytest.mark.parametrize("method", ["linear", "gaussian"])
def test_planted_units_are_found_by_name(method: str) -> None:
    found = rank(ACTS, TAGS, method)
    assert found.method == method
    assert set(found.top(2)) == {"h#2", "h#5"}
    assert found.dead.tolist() == [7]
    assert found.n_units == 10
    some = rank(ACTS, TAGS, method, units=[1, 5, 6])
    assert some.top(1) == ["h#5"]
    assert set(some.order.tolist()) <= {1, 5, 6}


def test_the_weights_of_a_linear_probe_have_signs_for_each_label() -> None:
    found = rank(X, TAGS, "linear")
    assert found.labels == ("adjective", "noun", "verb")
    assert found.per_label["verb"].order[0] == 5
    assert found.per_label["verb"].signs[5] == -1
    assert found.tiers is not None


def test_labels_that_cannot_be_sorted_are_fitted_too() -> None:
    mixed: list[object] = [7 if tag == "verb" else str(tag) for tag in TAGS]
    found = rank(X, mixed, "linear")
    assert set(found.labels) == {7, "noun", "adjective"}
    assert found.per_label[7].order[0] == 5


def test_numbers_are_regressed_even_where_all_are_whole() -> None:
    rating = np.round(10 * X[:, 4]).astype(np.float64)
    found = rank(X, rating, "linear")
    assert found.order[0] == 4
    assert not found.per_label
    with pytest.raises(InputError, match="a normal distribution per class"):
        rank(X, rating, "gaussian")


def test_several_labels_have_a_probe_each() -> None:
    labels = np.column_stack([TAGS == "noun", TAGS == "verb"])
    found = rank(X, labels, "linear")
    assert found.per_label[0].order[0] == 2
    assert found.per_label[1].order[0] == 5
    assert found.per_label[1].signs[5] == -1
    assert set(found.top(2).tolist()) == {2, 5}


def test_options_are_those_of_the_probe() -> None:
    found = rank(X, TAGS, "linear", l1=0.05, l2=0.0)
    assert found.about["l1"] == 0.05
    with pytest.raises(InputError, match=r"method='linear' has no option 'l3'\. Options: l1, l2"):
        rank(X, TAGS, "linear", options={"l3": 1})


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cutaway.neurons.probes.linear.probe", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"needs scikit-learn: pip install 'cutaway\[neurons\]'"):
        rank(X, TAGS, "linear")
