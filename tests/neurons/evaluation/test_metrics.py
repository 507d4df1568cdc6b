"""Metrics are those of scikit-learn and scipy; so are their resamples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn import metrics as oracle

from cutaway.core.errors import InputError
from cutaway.neurons.evaluation.metrics import Fold, Resampling, check_metric, score_resamples
from cutaway.neurons.labels.labels import encode

ORACLES: dict[str, Any] = {
    "accuracy": oracle.accuracy_score,
    "matthews": oracle.matthews_corrcoef,
    "f1": lambda y, z: oracle.f1_score(y, z, average="macro", zero_division=0),
}


def folds_of(truth: np.ndarray, predicted: np.ndarray, n_folds: int = 1) -> list[Fold]:
    parts = np.array_split(np.arange(len(truth)), n_folds)
    return [Fold(rows, truth[rows], predicted[rows]) for rows in parts]


@pytest.mark.parametrize("metric", ORACLES)
def test_classes_are_measured_as_scikit_learn_does_in_each_resample_too(metric: str) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 60)
    predicted = np.where(rng.random(60) < 0.6, truth, rng.integers(0, 3, 60))
    resampling = Resampling.draw(np.arange(60) // 4, 20, seed=1)
    found = score_resamples(metric, folds_of(truth, predicted, 3), encode(truth), resampling)
    assert found[0] == pytest.approx(ORACLES[metric](truth, predicted))
    for resample, value in enumerate(found[1:]):
        rows = resampling.resampled_rows(resample, np.arange(60))
        assert value == pytest.approx(ORACLES[metric](truth[rows], predicted[rows]))


def test_of_two_classes_f1_is_that_of_the_second() -> None:
    truth, predicted = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 1, 1, 0, 1, 0])
    none = Resampling.draw(np.arange(6), 0, 0)
    found = score_resamples("f1", folds_of(truth, predicted), encode(truth), none)
    assert found.tolist() == [pytest.approx(oracle.f1_score(truth, predicted))]


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_correlations_are_the_mean_of_those_inside_each_fold(metric: str) -> None:
    expected = {"pearson": pearsonr, "spearman": spearmanr}[metric]
    rng = np.random.default_rng(0)
    truth = rng.normal(size=50).round(1)  # with ties
    predicted = (truth + rng.normal(size=50)).round(1)
    resampling = Resampling.draw(np.arange(50) // 2, 20, seed=1)
    found = score_resamples(metric, folds_of(truth, predicted, 2), encode(truth), resampling)
    halves = np.split(np.arange(50), 2)
    assert found[0] == pytest.approx(np.mean([expected(truth[half], predicted[half])[0] for half in halves]))
    for resample, value in enumerate(found[1:]):
        drawn = [half[resampling.resampled_rows(resample, half)] for half in halves]
        assert value == pytest.approx(np.mean([expected(truth[rows], predicted[rows])[0] for rows in drawn]))


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_what_does_not_vary_correlates_with_nothing(metric: str) -> None:
    truth = np.linspace(0, 1, 10)
    none = Resampling.draw(np.arange(10), 0, 0)
    assert score_resamples(metric, folds_of(truth, np.full(10, 0.1)), encode(truth), none).tolist() == [0.0]


def test_one_class_only_has_no_matthews() -> None:
    truth, none = np.array([0, 1, 0, 1]), Resampling.draw(np.arange(4), 0, 0)
    assert score_resamples("matthews", folds_of(truth, np.zeros(4, np.int64)), encode(truth), none).tolist() == [0.0]


def test_a_function_sees_the_labels_themselves() -> None:
    labels = np.array(["a", "b", "a", "b"])
    resampling = Resampling.draw(np.arange(4), 5, 0)
    seen = []

    def mine(truth: np.ndarray, predicted: np.ndarray) -> float:
        seen.append(set(truth) | set(predicted))
        return float((truth == predicted).mean())

    found = score_resamples(mine, folds_of(np.array([0, 1, 0, 1]), np.array([0, 1, 1, 1])), encode(labels), resampling)
    assert found[0] == 0.75
    assert len(found) == 6
    assert all(each <= {"a", "b"} for each in seen)


def test_an_unknown_metric_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no metric 'acuracy'\. Did you mean 'accuracy'"):
        check_metric("acuracy", encode(["a", "b", "a", "b"]))
    with pytest.raises(
        InputError, match="metric='accuracy' does not fit labels that are numbers: use pearson, spearman"
    ):
        check_metric("accuracy", encode([0.5, 1.5, 2.5]))
    with pytest.raises(InputError, match="metric='pearson' does not fit labels that are classes"):
        check_metric("pearson", encode(["a", "b", "a", "b"]))
