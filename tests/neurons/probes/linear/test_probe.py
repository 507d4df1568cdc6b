"""The linear probe beside scikit-learn, and the order of its units beside brute force."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator
from tests import warm_python

import cutaway
from cutaway.core.errors import DamagedError, ExistsError, FitError, InputError, NotFoundError
from cutaway.neurons.probes.linear import probe as module
from cutaway.neurons.probes.linear.weight_order import above, granular_order, holding, mass_order
from cutaway.probes import Linear

Array = NDArray[Any]


def rows_of(n: int = 300, n_units: int = 12, n_classes: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """Correlated units on several scales; classes that depend on a few of them."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, n_units)) @ random.normal(size=(n_units, n_units)) / 3 + random.normal(size=n_units)
    y = (x[:, :n_classes] + random.normal(size=(n, n_classes))).argmax(axis=1)
    return x, y


class Streamed:
    """Stands for activations on disk: rows come in blocks."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.names = [f"encoder.layer.0#{i}" for i in range(array.shape[1])]
        self.shape = array.shape

    def blocks(self, n_rows: int = 64) -> Iterator[tuple[slice, Array]]:
        for first in range(0, len(self._array), n_rows):
            rows = slice(first, min(first + n_rows, len(self._array)))
            yield rows, self._array[rows].astype(np.float32)

    def columns(self, indices: Any) -> Array:
        return self._array[:, indices].astype(np.float32)

    def rows(self, indices: Any) -> Streamed:
        return Streamed(self._array[indices])

    def array(self) -> Array:
        return self._array.astype(np.float32)


# the minimum


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.01), (0.02, 0.0), (0.01, 0.005)], ids=["ridge", "lasso", "elastic net"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_have_scikit_learns_weights(l1: float, l2: float, n_classes: int) -> None:
    x, y = rows_of(n_classes=n_classes)
    probe = Linear(l1=l1, l2=l2, standardize=False, tol=1e-14, max_iter=3000).fit(x, y)
    strength = {"C": 1 / (len(x) * (l1 + l2)), "l1_ratio": l1 / (l1 + l2)}
    solver, tol = ("saga", 1e-8) if l1 else ("lbfgs", 1e-10)
    oracle = LogisticRegression(solver=solver, tol=tol, max_iter=50_000, **strength).fit(x, y)
    np.testing.assert_allclose(probe.coef_, oracle.coef_, atol=2e-5)
    np.testing.assert_allclose(probe.predict_proba(x), oracle.predict_proba(x), atol=2e-5)
    assert (probe.predict(x) == oracle.predict(x)).all()
    assert np.array_equal(probe.coef_ == 0, np.abs(oracle.coef_) < 1e-9)  # zeros are exact, and the same


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.1), (0.05, 0.1), (0.1, 0.0)])
def test_numbers_have_scikit_learns_weights(l1: float, l2: float) -> None:
    x, _ = rows_of()
    y = x @ np.linspace(-1, 1, x.shape[1]) + np.random.default_rng(1).normal(size=len(x)) + 5
    probe = Linear(l1=l1, l2=l2, standardize=False, tol=1e-12, max_iter=3000).fit(x, y)
    if l1:
        oracle = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), tol=1e-12, max_iter=100_000).fit(x, y)
    else:
        oracle = Ridge(alpha=l2 * len(x)).fit(x, y)
    np.testing.assert_allclose(probe.coef_, oracle.coef_, atol=1e-5)
    assert probe.intercept_ == pytest.approx(oracle.intercept_, abs=1e-5)
    assert probe.score(x, y) == pytest.approx(oracle.score(x, y), abs=1e-7)
    assert probe.task_ == "regression"
    assert not hasattr(probe, "predict_proba")
    assert not probe.ranking_.per_label


def test_standardizing_is_fitting_to_standardized_units() -> None:
    x, y = rows_of()
    scaled = (x - x.mean(0)) / x.std(0)
    ours = Linear(l1=0.01, l2=0.01, tol=1e-10, max_iter=2000).fit(x * 1000 - 7, y)
    oracle = Linear(l1=0.01, l2=0.01, tol=1e-10, max_iter=2000, standardize=False).fit(scaled, y)
    np.testing.assert_allclose(ours.weights_, oracle.weights_, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(x * 1000 - 7), oracle.predict_proba(scaled), atol=1e-6)
    assert np.array_equal(ours.ranking_.order, oracle.ranking_.order)


def test_many_units_are_solved_without_their_gram_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows_of()
    with_gram = Linear(l1=0.01, l2=0.01, tol=1e-9, max_iter=3000).fit(x, y)
    monkeypatch.setattr("cutaway.neurons.probes.linear.solver._MOST_UNITS", 1)
    without = Linear(l1=0.01, l2=0.01, tol=1e-9, max_iter=3000).fit(x, y)
    np.testing.assert_allclose(with_gram.coef_, without.coef_, atol=1e-5)


def test_batches_come_near_the_minimum_and_rows_may_be_sorted_by_class() -> None:
    x, y = rows_of(n=3000)
    by_class = np.argsort(y, kind="stable")
    x, y = x[by_class].astype(np.float32), y[by_class]
    full = Linear().fit(x, y)
    some = Linear(solver="minibatch", batch_size=64).fit(x, y)
    streamed = Linear(solver="minibatch", batch_size=64).fit(Streamed(x), y)
    assert some.objective_ == pytest.approx(full.objective_, rel=0.02)
    np.testing.assert_allclose(streamed.coef_, some.coef_, atol=1e-4)
    assert some.score(x, y) > full.score(x, y) - 0.01


def test_larger_sets_are_fitted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows_of(n=500)
    monkeypatch.setattr(module, "FULL_BYTES", 1000)
    x = x.astype(np.float32)
    by_default = Linear().fit(Streamed(x), y)
    assert np.array_equal(by_default.coef_, Linear(solver="minibatch").fit(x, y).coef_)


def test_fitting_stops_when_the_loss_of_rows_held_out_falls_no_more() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(120, 100)), random.integers(0, 2, 120)
    free = Linear(l1=0.0, l2=1e-6, max_iter=500).fit(x, y)
    stopped = Linear(l1=0.0, l2=1e-6, max_iter=500, validation=0.25).fit(x, y)
    assert np.abs(stopped.coef_).sum() < np.abs(free.coef_).sum() / 2
    again = Linear(l1=0.0, l2=1e-6, max_iter=500, validation=0.25).fit(x, y)
    assert np.array_equal(stopped.coef_, again.coef_)
    batches = Linear(l1=0.0, l2=1e-6, solver="minibatch", validation=0.25, batch_size=16).fit(x, y)
    assert np.abs(batches.coef_).sum() < np.abs(free.coef_).sum()


def test_too_few_iterations_are_warned_of() -> None:
    x, y = rows_of()
    with pytest.warns(UserWarning, match="not converged in 2 iterations"):
        Linear(max_iter=2, tol=1e-9).fit(x, y)


# as NeuroX


def test_compat_is_neurox_training_step_by_step() -> None:
    x, y = rows_of(n=100)
    x = x.astype(np.float32)
    probe = Linear(l1=1e-3, l2=1e-2, compat="neurox", max_iter=3, seed=7).fit(x, y)
    torch.manual_seed(7)
    layer = torch.nn.Linear(x.shape[1], 3)
    adam = torch.optim.Adam(layer.parameters(), lr=1e-3)
    for _ in range(3):
        for first in range(0, 100, 32):
            adam.zero_grad()
            batch, labels = torch.tensor(x[first : first + 32]), torch.tensor(y[first : first + 32])
            weight = layer.weight
            penalty = 1e-3 * weight.abs().sum() + 1e-2 * weight.norm()
            (torch.nn.functional.cross_entropy(layer(batch), labels) + penalty).backward()
            adam.step()
    np.testing.assert_allclose(probe.coef_, layer.weight.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(probe.intercept_, layer.bias.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("is_regression", [False, True])
def test_the_minimum_of_neurox_objective_is_below_what_its_training_reaches(is_regression: bool) -> None:
    x, y = rows_of()
    target = x[:, 0] * 0.3 + 0.01 if is_regression else y

    def objective(probe: Linear) -> float:
        weights = np.atleast_2d(probe.coef_)
        penalty = 1e-2 * np.abs(weights).sum() + 1e-2 * np.linalg.norm(weights)
        if is_regression:
            return float(((probe.predict(x) - target) ** 2).mean() + penalty)
        return float(-probe.predict_log_proba(x)[np.arange(len(y)), y].mean() + penalty)

    trained = Linear(l1=1e-2, l2=1e-2, compat="neurox", max_iter=20).fit(x, target)
    solved = Linear(l1=1e-2, l2=1e-2, compat="neurox", solver="full", tol=1e-8).fit(x, target)
    assert objective(solved) < objective(trained)
    least, there = objective(solved), solved.coef_
    for nearby in np.random.default_rng(0).normal(size=(20, *np.shape(there))) * 1e-2:
        solved.coef_ = there + nearby
        assert objective(solved) > least


# inputs


def test_arrays_tensors_and_activations_give_one_probe() -> None:
    x, y = rows_of()
    x = x.astype(np.float16).astype(np.float32)
    found = [
        Linear().fit(each, y)
        for each in (x, torch.tensor(x, requires_grad=True), x.astype(np.float16), Streamed(x), torch.tensor(x).half())
    ]
    for probe in found:
        np.testing.assert_allclose(probe.coef_, found[0].coef_, atol=1e-6)
        assert np.array_equal(probe.predict(torch.tensor(x)), found[0].predict(Streamed(x)))
    assert found[3].ranking_.top(1)[0].startswith("encoder.layer.0#")
    assert isinstance(found[0].ranking_.top(1), np.ndarray)
    rough = Linear().fit(torch.tensor(x).bfloat16(), torch.tensor(y))
    assert rough.score(torch.tensor(x).bfloat16(), torch.tensor(y)) > 0.6


def test_nothing_that_was_given_is_changed() -> None:
    x, y = rows_of()
    before, tensor = x.copy(), torch.tensor(x)
    Linear().fit(x, y)
    Linear(solver="minibatch").fit(x, y)
    Linear().fit(tensor, y).predict(tensor)
    assert np.array_equal(x, before)
    assert np.array_equal(tensor.numpy(), before)


@pytest.mark.parametrize(
    "labels", [[0, 2], np.array([0, 2], np.int32), ["noun", "verb"], [False, True], [1.0, 2.0], [-1, 5]], ids=str
)
def test_labels_of_any_kind_come_back_as_they_were(labels: Any) -> None:
    x, y = rows_of(n_classes=2)
    given = np.asarray(labels)[y]
    probe = Linear(task="classification").fit(x, given)
    assert np.array_equal(probe.classes_, np.unique(given))
    assert set(probe.predict(x)) <= set(given)
    assert list(probe.ranking_.per_label) == np.unique(given).tolist()
    assert probe.coef_.shape == (1, x.shape[1])
    one_class = given == given[0]
    assert 0 <= probe.score(x[one_class], given[one_class]) <= 1  # a test set of one class


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x, y: (x, y[:-1]), "300 rows of activations, but 299 labels"),
        (lambda x, y: (x, np.zeros_like(y)), "all rows have one class, 0"),
        (lambda x, y: (x, [None, *y[1:]]), "None: row 0"),
        (lambda x, y: (x, np.where(np.arange(300) == 4, np.nan, y / 3)), "None: row 4"),
        (lambda x, y: (np.where(np.arange(12) == 3, np.nan, x), y), "NaN"),
        (lambda x, y: (Streamed(np.where(np.arange(12) == 3, np.inf, x)), y), "unit 3"),
    ],
    ids=["lengths", "constant", "none", "nan label", "nan value", "inf in a block"],
)
def test_bad_input_is_an_error_that_says_where(change: Any, said: str) -> None:
    x, y = change(*rows_of())
    with pytest.raises((ValueError, InputError), match=said):
        Linear().fit(x, y)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"l1": -1}, "l1=-1"),
        ({"solver": "newton"}, "'full'"),
        ({"validation": 1.0}, r"in \[0, 1\)"),
        ({"max_iter": 0}, "must be 1 or more"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(FitError, match=said):
        Linear(**options).fit(*rows_of())


def test_a_dead_unit_has_no_weight_and_stands_last() -> None:
    x, y = rows_of()
    x = np.insert(x, 4, 3.25, axis=1)
    x = np.insert(x, 9, 1e-12 * np.random.default_rng(0).normal(size=len(x)), axis=1)
    probe = Linear().fit(x, y)
    assert probe.dead_.tolist() == probe.ranking_.dead.tolist() == [4, 9]
    assert probe.ranking_.order[-2:].tolist() == [4, 9]
    assert (probe.coef_[:, [4, 9]] == 0).all()
    assert np.isfinite(probe.predict_proba(x)).all()


def test_a_unit_that_fires_negatively_is_found_with_its_sign() -> None:
    x = np.random.default_rng(0).normal(size=(500, 30))
    probe = Linear(l1=0.01).fit(x, np.where(x[:, 17] < -0.3, "noun", "other"))
    assert probe.ranking_.order[0] == 17
    assert probe.ranking_.per_label["noun"].signs[17] == -1
    assert probe.ranking_.per_label["other"].signs[17] == 1


# manners


@pytest.mark.parametrize("probe", [Linear(task="classification"), Linear(), Linear(task="regression")], ids=str)
def test_scikit_learns_estimator_checks_pass(probe: Linear) -> None:
    # By design "auto" regresses on real numbers, which a classifier alone must refuse.
    by_design = {"check_classifiers_regression_target": "'auto' regresses"} if probe.task == "auto" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(probe, expected_failed_checks=by_design)
    assert sum(result["status"] == "passed" for result in results) > 45


def test_it_can_be_cloned_and_cross_validated() -> None:
    x, y = rows_of()
    probe = clone(Linear(l1=0.5)).set_params(l1=0.01)
    assert probe.get_params()["l1"] == 0.01
    assert cross_val_score(probe, x, y, cv=3).mean() > 0.6
    assert cross_val_score(Linear(task="regression"), x, x[:, 0], cv=3).mean() > 0.9


@pytest.mark.parametrize("kind", ["text", "numbers", "binary"])
def test_a_probe_read_back_predicts_the_same(tmp_path: Path, kind: str) -> None:
    x, y = rows_of(n_classes=2 if kind == "binary" else 3)
    target: Any = {"text": np.array(["a", "b", "ç"])[y % 3], "numbers": x[:, 0] + 0.5, "binary": y}[kind]
    probe = Linear(l1=0.01, device="cpu").fit(Streamed(x), target)
    probe.save(tmp_path / "probe.safetensors")
    again = Linear.load(tmp_path / "probe.safetensors")
    assert np.array_equal(again.predict(x), probe.predict(x))
    assert again.get_params() == probe.get_params()
    assert np.array_equal(again.ranking_.order, probe.ranking_.order)
    assert again.ranking_.top(3) == probe.ranking_.top(3)
    if kind != "numbers":
        assert np.array_equal(again.predict_proba(x), probe.predict_proba(x))
        assert again.classes_.dtype == probe.classes_.dtype
    from safetensors.numpy import load_file  # a stock reader reads it

    assert np.array_equal(load_file(tmp_path / "probe.safetensors")["weights"], probe.weights_)


def test_files_keep_the_spelling_of_the_first_format(tmp_path: Path) -> None:
    x, y = rows_of(n_classes=2)
    Linear(standardize=False).fit(x, y).save(tmp_path / "probe.safetensors")
    stored = (tmp_path / "probe.safetensors").read_bytes()
    assert b"standardise" in stored
    assert b"standardize" not in stored
    assert Linear.load(tmp_path / "probe.safetensors").standardize is False


def test_a_file_that_is_no_probe_is_refused(tmp_path: Path) -> None:
    probe = Linear().fit(*rows_of())
    path = tmp_path / "p.safetensors"
    probe.save(path)
    with pytest.raises(ExistsError, match="not overwritten"):
        probe.save(path)
    with pytest.raises(NotFoundError):
        Linear.load(tmp_path / "nothing")
    with pytest.raises(InputError, match="Linear"):
        cutaway.probes.Gaussian.load(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedError):
        Linear.load(path)


def test_another_hash_salt_gives_the_same_probe() -> None:
    code = (
        "import numpy as np, json; from cutaway.probes import Linear; r = np.random.default_rng(0);"
        "x = r.normal(size=(200, 20)); y = np.array(['b', 'a', 'c'])[r.integers(0, 3, 200)];"
        "p = Linear(validation=0.2).fit(x, y);"
        "print(json.dumps([p.classes_.tolist(), p.ranking_.order.tolist(), p.coef_.tolist()]))"
    )
    done = warm_python.run(["-c", code], skips_teardown=True, check=True)
    classes, order, coef = json.loads(done.stdout)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(200, 20)), np.array(["b", "a", "c"])[random.integers(0, 3, 200)]
    here = Linear(validation=0.2).fit(x, y)
    assert classes == here.classes_.tolist() == ["a", "b", "c"]
    assert order == here.ranking_.order.tolist()
    assert coef == here.coef_.tolist()


# the order by weight mass


def union_holding(weights: Array, mass: float) -> set[int]:
    """As the notes have it, class by class."""
    found: set[int] = set()
    for row in np.abs(weights):
        order = sorted(range(len(row)), key=lambda unit: -row[unit])
        total = 0.0
        for unit in order:
            found.add(unit)
            total += row[unit]
            if total >= mass * row.sum():
                break
    return found


WEIGHTS = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 12)), elements=st.integers(-9, 9).map(float))


@given(WEIGHTS)
@settings(deadline=None, max_examples=30)
def test_tiers_are_the_units_that_are_new_at_each_share(weights: Array) -> None:
    weights = np.where(weights == 0, 0.37, weights) + np.arange(weights.size).reshape(weights.shape) * 1e-3
    found = mass_order(weights, n_steps=20)
    assert sorted(found.order) == list(range(weights.shape[1]))
    listed: set[int] = set()
    for step, cutoff in enumerate(found.cutoffs):
        if step < 20:  # at 1 sums of floats differ in the last digit
            listed |= union_holding(weights, step / 20)
            assert set(found.order[:cutoff].tolist()) == listed
    assert found.cutoffs[-1] == weights.shape[1]
    assert np.array_equal(found.order, np.argsort(-found.scores, kind="stable"))


def test_inside_a_tier_the_larger_share_is_first() -> None:
    found = mass_order([[0.0, 5.0, 0.0, 5.1], [6.0, 2.0, 1.0, 1.0]], n_steps=2)
    assert found.order.tolist() == [0, 3, 1, 2]  # 0.6 and 0.505 are the first of their classes
    assert found.cutoffs.tolist() == [2, 2, 4]


def test_classes_without_weights_leave_all_units_in_the_order() -> None:
    assert mass_order(np.zeros((2, 5))).order.tolist() == [0, 1, 2, 3, 4]
    half = mass_order([[0.0, 0.0, 0.0], [0.0, 2.0, 1.0]])
    assert half.order.tolist() == [1, 2, 0]
    assert half.cutoffs[-1] == 3
    x, y = rows_of()
    nothing = Linear(l1=10.0).fit(x, y)
    assert (nothing.weights_ == 0).all()
    assert len(nothing.ranking_.order) == x.shape[1]
    assert len(nothing.holding(0.5)) >= 1


def test_granular_tiers_have_at_least_so_many_units_more() -> None:
    weights = np.random.default_rng(0).normal(size=(3, 100))
    found = granular_order(weights, size=10)
    fine = mass_order(weights)
    assert sorted(found.order) == list(range(100))
    for before, after in itertools.pairwise(found.cutoffs.tolist()):
        assert after // 10 > before // 10 or after == 100
        assert after in fine.cutoffs
    assert set(found.order[: found.cutoffs[2]].tolist()) == set(fine.order[: found.cutoffs[2]].tolist())


def test_units_that_hold_a_share_and_units_above_a_fraction() -> None:
    x, y = rows_of()
    probe = Linear(l1=0.0).fit(x, y)
    mass = np.abs(probe.weights_)
    assert set(probe.holding(0.4).tolist()) == union_holding(probe.weights_, 0.4)
    assert set(probe.holding(0.4, label=1).tolist()) == union_holding(probe.weights_[1:2], 0.4)
    least = probe.holding(0.1, label=0, is_least=True)
    assert np.array_equal(least, np.argsort(mass[0])[: len(least)])
    assert mass[0][least].sum() >= 0.1 * mass[0].sum() > mass[0][least[:-1]].sum()
    assert set(probe.above(0.5, label=2).tolist()) == set(np.flatnonzero(mass[2] > 0.5 * mass[2].max()))
    assert set(probe.above(0.5).tolist()) == set(np.flatnonzero((mass > 0.5 * mass.max(1, keepdims=True)).any(0)))
    with pytest.raises(FitError, match="no class 9"):
        probe.above(0.5, label=9)
    with pytest.raises(InputError, match="from 0 to 1"):
        above(mass, 4)
    assert holding(mass, 0)[0].tolist() == [int(mass[0].argmax())]


@pytest.mark.cuda
def test_a_gpu_gives_the_same_probe() -> None:
    x, y = rows_of()
    ours = Linear(l1=0.01, tol=1e-9, max_iter=1000).fit(torch.tensor(x, device="cuda"), y)
    np.testing.assert_allclose(ours.coef_, Linear(l1=0.01, tol=1e-9, max_iter=1000).fit(x, y).coef_, atol=1e-5)
