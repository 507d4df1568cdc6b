"""The Gaussian probe beside scipy's normal distributions, candidate by candidate."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator
from tests.neurons.probes.linear.test_probe import Streamed

from cutaway.core.errors import FitError
from cutaway.neurons.probes.gaussian import probe as module
from cutaway.neurons.probes.gaussian.probe import mutual_information
from cutaway.probes import Gaussian

Array = NDArray[Any]


def rows_of(n: int = 240, n_units: int = 7, n_classes: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """Correlated units; the classes differ in mean, variance and correlation."""
    random = np.random.default_rng(seed)
    y = random.integers(0, n_classes, n)
    mixing = random.normal(size=(n_classes, n_units, n_units)) / 3 + np.eye(n_units)
    x = np.einsum("ni,nij->nj", random.normal(size=(n, n_units)), mixing[y])
    return x + random.normal(size=(n_classes, n_units))[y] * 0.4, y


def told(x: Array, y: Array, units: list[int], n_all: int | None, test: tuple[Array, Array] | None = None) -> float:
    """Bits, by the formula, class by class."""
    n_classes = int(y.max()) + 1
    at, codes = test or (x, y)
    joint = np.empty((len(at), n_classes))
    for code in range(n_classes):
        rows = x[y == code][:, units]
        centered = rows - rows.mean(0)
        size = n_all or len(units)
        covariance = (np.diag(rows.var(0, ddof=1)) + centered.T @ centered) / (len(rows) + 2 * size + 4)
        density = multivariate_normal(rows.mean(0), covariance).logpdf(at[:, units])
        joint[:, code] = density + np.log(len(rows) / len(x))
    posterior = joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)
    prior = np.log(np.bincount(y) / len(y))
    return float((posterior[np.arange(len(codes)), codes] - prior[codes]).mean() / np.log(2))


def greedily(x: Array, y: Array, n: int, n_all: int | None) -> tuple[list[int], list[float]]:
    chosen: list[int] = []
    values: list[float] = []
    for _ in range(n):
        scores = {j: told(x, y, [*chosen, j], n_all) for j in range(x.shape[1]) if j not in chosen}
        best = max(scores, key=lambda j: scores[j])
        chosen.append(best)
        values.append(scores[best])
    return chosen, values


@pytest.mark.parametrize("compat", ["", "neurox"])
def test_the_fast_search_chooses_what_brute_force_chooses(compat: Any) -> None:
    x, y = rows_of()
    probe = Gaussian(n_units=5, validation=0.0, compat=compat).fit(x, y)
    units, values = greedily(x, y, 5, x.shape[1] if compat else None)
    assert probe.selected_.tolist() == units
    np.testing.assert_allclose(probe.mutual_information_, values, atol=1e-9)
    alone = [told(x, y, [j], x.shape[1] if compat else None) for j in range(x.shape[1])]
    np.testing.assert_allclose(probe.unit_information_, alone, atol=1e-9)


def test_information_of_rows_held_out_is_that_of_a_model_that_never_saw_them() -> None:
    x, y = rows_of(n=400)
    probe = Gaussian(n_units=3, validation=0.25, seed=3).fit(x, y)
    from cutaway.neurons.probes.base import held_out

    is_out = held_out(y, len(y), 0.25, 3)
    assert [(y[is_out] == code).sum() for code in range(3)] == [round(0.25 * (y == code).sum()) for code in range(3)]
    test = (x[is_out], y[is_out])
    units = greedily(x[~is_out], y[~is_out], 3, None)[0]
    assert probe.selected_.tolist() == units
    for n in range(1, 4):
        expected = told(x[~is_out], y[~is_out], units[:n], None, test)
        assert probe.mutual_information_[n - 1] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(probe.information(*test), probe.mutual_information_, atol=1e-9)
    alone = [told(x[~is_out], y[~is_out], [j], None, test) for j in range(x.shape[1])]
    np.testing.assert_allclose(probe.unit_information_, alone, atol=1e-9)


def test_what_a_unit_tells_of_one_class_is_a_question_of_two_classes() -> None:
    x, y = rows_of(n_classes=2)
    probe = Gaussian(n_units=1, validation=0.0).fit(x, y)
    for label in (0, 1):
        np.testing.assert_allclose(probe.ranking_.per_label[label].scores, probe.unit_information_, atol=1e-6)


def test_a_unit_that_differs_only_in_variance_is_found() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(800, 40)), random.integers(0, 2, 800)
    x[y == 1, 23] *= 3
    x[:, 23] -= np.where(y == 1, x[y == 1, 23].mean(), x[y == 0, 23].mean())
    probe = Gaussian(n_units=3).fit(x, y)
    assert probe.ranking_.order[0] == probe.selected_[0] == 23
    assert probe.mutual_information_[0] > 0.1
    assert probe.p_values_[0] == 1 / 21
    assert probe.mutual_information_[0] <= probe.entropy_ <= 1


def test_noise_tells_nothing_and_no_single_unit_tells_less_than_nothing() -> None:
    random = np.random.default_rng(1)
    x, y = random.normal(size=(1000, 50)), random.integers(0, 2, 1000)
    held = Gaussian(n_units=3, n_permutations=30).fit(x, y)
    assert held.mutual_information_[0] < 0.01
    assert abs(held.null_information_.mean()) < 0.02
    assert held.p_values_.min() > 0.03
    within = Gaussian(n_units=1, validation=0.0, n_permutations=0).fit(x, y)
    assert within.unit_information_.min() > -1e-4
    assert within.unit_information_.mean() == pytest.approx(1 / (1000 * np.log(2)) * 1.0, rel=0.8)
    rare = (random.random(1000) < 0.1).astype(int)
    assert Gaussian(n_units=1, compat="neurox").fit(x, rare).unit_information_.max() < 0  # it shrinks variances
    assert Gaussian(n_units=1, validation=0.0).fit(x, rare).unit_information_.min() > -1e-4


def test_dead_units_are_left_out_and_listed() -> None:
    x, y = rows_of()
    with_dead = np.insert(np.insert(x, 2, 0.125, axis=1), 5, 1e-11 * x[:, 0], axis=1)
    probe = Gaussian(n_units=20).fit(with_dead, y)
    assert probe.dead_.tolist() == probe.ranking_.dead.tolist() == [2, 5]
    assert sorted([*probe.selected_, 2, 5]) == list(range(9))
    assert probe.ranking_.order[-2:].tolist() == [2, 5]
    np.testing.assert_allclose(probe.mutual_information_, Gaussian(n_units=20).fit(x, y).mutual_information_, atol=1e-9)


def test_a_unit_that_never_moves_in_a_class_breaks_nothing() -> None:
    x, y = rows_of()
    x[y == 1, 3] = 0.0
    probe = Gaussian(n_units=7).fit(x, y)
    assert np.isfinite(probe.mutual_information_).all()
    assert probe.selected_[0] == 3
    doubled = Gaussian(n_units=14).fit(np.hstack([x, x]), y)  # units that say the same
    assert np.isfinite(doubled.mutual_information_).all()


def test_rows_far_from_every_class_are_scored_exactly() -> None:
    x, y = rows_of()
    x[0] += 60.0  # quotients of densities beyond all floats
    for data in (x, x.astype(np.float32)):
        probe = Gaussian(n_units=2, validation=0.0).fit(data, y)
        units, values = greedily(x, y, 2, None)
        assert probe.selected_.tolist() == units
        np.testing.assert_allclose(probe.mutual_information_, values, atol=1e-5)


@pytest.mark.parametrize("labels", [[0, 2], np.array([0, 2], np.int32), ["noun", "verb"], [False, True]], ids=str)
def test_labels_of_any_kind_and_test_rows_of_one_class(labels: Any) -> None:
    x, y = rows_of(n_classes=2)
    given = np.asarray(labels)[y]
    probe = Gaussian(n_units=2).fit(x, given)
    assert set(probe.predict(x)) <= set(given)
    one = given == given[0]
    assert np.isfinite(probe.information(x[one], given[one])).all()
    assert 0 <= probe.score(x[one], given[one]) <= 1
    with pytest.raises(FitError, match="was not fitted to"):
        probe.information(x[:2], ["other", given[1]])


def test_bad_labels_are_refused_with_a_reason() -> None:
    x, y = rows_of()
    with pytest.raises(FitError, match="class 9 has one row, 17"):
        Gaussian().fit(x, np.where(np.arange(len(y)) == 17, 9, y))
    with pytest.raises(FitError, match="one class"):
        Gaussian().fit(x, np.zeros(len(x), int))
    with pytest.raises(ValueError, match=r"[Cc]ontinuous"):
        Gaussian().fit(x, x[:, 0])
    with pytest.raises(FitError, match="n_units=0"):
        Gaussian(n_units=0).fit(x, y)


def test_arrays_tensors_and_streams_give_one_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows_of()
    x = x.astype(np.float16).astype(np.float32)
    probe = Gaussian(n_units=4).fit(x, y)
    found = [Gaussian(n_units=4).fit(each, y) for each in (torch.tensor(x), torch.tensor(x).half(), Streamed(x))]
    monkeypatch.setattr(module, "MEMORY_BYTES", 10)
    found.append(Gaussian(n_units=4).fit(Streamed(x), y))
    for each in found:
        assert np.array_equal(each.selected_, probe.selected_)
        np.testing.assert_allclose(each.mutual_information_, probe.mutual_information_, atol=1e-6)
    assert found[-1].ranking_.top(2) == [f"encoder.layer.0#{unit}" for unit in probe.selected_[:2]]
    assert np.array_equal(Gaussian(n_units=4).fit(x, y).null_information_, probe.null_information_)


def test_the_information_of_a_chosen_set_of_units() -> None:
    x, y = rows_of(n=400)
    probe = Gaussian(n_units=3).fit(x, y)
    assert mutual_information(x, y, probe.selected_) == pytest.approx(probe.mutual_information_[-1])


def test_scikit_learns_estimator_checks_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(Gaussian(n_permutations=2))
    assert sum(result["status"] == "passed" for result in results) > 45
    assert clone(Gaussian(n_units=3)).get_params()["n_units"] == 3


def test_a_probe_read_back_predicts_the_same(tmp_path: Path) -> None:
    x, y = rows_of()
    probe = Gaussian(n_units=3).fit(Streamed(x), np.array(["a", "b", "ß"])[y])
    probe.save(tmp_path / "probe.safetensors")
    again = Gaussian.load(tmp_path / "probe.safetensors")
    assert np.array_equal(again.predict_proba(x), probe.predict_proba(x))
    assert again.ranking_.top(3) == probe.ranking_.top(3)
    assert again.p_values_.tolist() == probe.p_values_.tolist()
