"""Accuracy, F1, Matthews, Pearson, Spearman or your own metric, with bootstrap resamples.

Metrics are computed from sums over groups of rows, so that a thousand resamples of whole groups cost one matrix
product. Correlations are computed per fold and averaged. Pooled over folds they would be negative on noise, because the
mean of the training rows moves opposite to the mean of the test rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.formatting import hint
from cutaway.neurons.labels.labels import EncodedLabels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MetricFn = Callable[[NDArray[Any], NDArray[Any]], float]
"""Your own metric: a function of true and predicted labels that returns a number, higher is better."""

CLASS_METRICS = ("accuracy", "f1", "matthews")
NUMBER_METRICS = ("pearson", "spearman")
_MAX_RANKED = 1 << 20
"""Values to rank at once, to bound memory."""


def check_metric(metric: str | MetricFn, encoded: EncodedLabels) -> str | MetricFn:
    """Return the metric if it exists and fits the kind of labels."""
    if callable(metric):
        return metric
    known = (*CLASS_METRICS, *NUMBER_METRICS)
    if metric not in known:
        raise InputError(f"no metric {metric!r}.{hint(metric, known)} Metrics: {', '.join(known)}, or a function.")
    if metric not in (fitting := NUMBER_METRICS if encoded.kind == "numbers" else CLASS_METRICS):
        raise InputError(f"metric={metric!r} does not fit labels that are {encoded.kind}: use {', '.join(fitting)}.")
    return metric


def metric_name(metric: str | MetricFn) -> str:
    """The name of a metric."""
    return metric if isinstance(metric, str) else getattr(metric, "__name__", type(metric).__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Predictions for the held-out rows of one fold."""

    rows: Ints
    truth: NDArray[Any]
    """(row,): class codes, or numbers."""
    predicted: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Resampling:
    """Bootstrap resamples: how often each group of rows is drawn."""

    groups: Ints
    """(row,): the group index of every row."""
    counts: NDArray[np.uint8]
    """(resample, group)."""

    @classmethod
    def draw(cls, groups: Ints, n_resamples: int, seed: int) -> Resampling:
        """Draw groups with replacement, as many as there are groups."""
        n_groups = int(groups.max()) + 1
        random = np.random.default_rng(seed)
        counts = np.empty((n_resamples, n_groups), np.uint8)
        for row in counts:
            # uint8 takes an eighth of int64; a group is practically never drawn more than 255 times.
            row[:] = np.minimum(np.bincount(random.integers(n_groups, size=n_groups), minlength=n_groups), 255)
        return cls(groups, counts)

    def sums(self, rows: Ints, values: Floats) -> tuple[Floats, Floats]:
        """Sums of `values` (row, column) over these rows: (column,), and per resample (resample, column)."""
        numbers, group_of_row = np.unique(self.groups[rows], return_inverse=True)
        per_group = np.zeros((len(numbers), values.shape[1]))
        np.add.at(per_group, group_of_row, values)
        drawn = np.empty((len(self.counts), values.shape[1]))
        # In parts, because all counts as float64 would take eight times their memory.
        for first in range(0, len(drawn), 64):
            drawn[first : first + 64] = self.counts[first : first + 64, numbers].astype(np.float64) @ per_group
        return per_group.sum(axis=0), drawn

    def resampled_rows(self, resample: int, rows: Ints) -> Ints:
        """Indices into `rows`, repeated as often as they are drawn."""
        return np.repeat(np.arange(len(rows)), self.counts[resample, self.groups[rows]])


def score_resamples(
    metric: str | MetricFn, folds: list[Fold], encoded: EncodedLabels, resampling: Resampling
) -> Floats:
    """(1 + resample,): the metric, then the metric of each resample; NaN where it is undefined."""
    if isinstance(metric, str) and metric in CLASS_METRICS:
        return _classification_metric(metric, folds, len(encoded.classes), resampling)
    if metric == "pearson":
        return _fold_average([_pearson(fold, resampling) for fold in folds], folds)
    if metric == "spearman":
        return _fold_average([_spearman(fold, resampling) for fold in folds], folds)
    assert callable(metric)
    rows, truth, predicted = (np.concatenate(parts) for parts in zip(*map(_parts, folds), strict=True))
    if encoded.kind == "classes":
        labels = np.asarray(encoded.classes)
        truth, predicted = labels[truth], labels[predicted]
    return _custom_metric(metric, truth, predicted, rows, resampling)


def _parts(fold: Fold) -> tuple[Ints, NDArray[Any], NDArray[Any]]:
    return fold.rows, fold.truth, fold.predicted


def _classification_metric(metric: str, folds: list[Fold], n_classes: int, resampling: Resampling) -> Floats:
    rows, truth, predicted = (np.concatenate(parts) for parts in zip(*map(_parts, folds), strict=True))
    is_right = truth == predicted
    if metric == "accuracy":
        total, drawn = resampling.sums(rows, np.stack([is_right, np.ones(len(rows))], axis=1).astype(np.float64))
        both = np.concatenate([total[None], drawn])
        return _ratio(both[:, 0], both[:, 1])
    classes = np.arange(n_classes)
    is_true, is_guessed = truth[:, None] == classes, predicted[:, None] == classes
    total, drawn = resampling.sums(
        rows, np.concatenate([is_true & is_guessed, is_true, is_guessed], axis=1).astype(np.float64)
    )
    hits, true, guessed = np.split(np.concatenate([total[None], drawn]), 3, axis=1)  # each (1 + resample, class)
    return _f1(hits, true, guessed) if metric == "f1" else _matthews(hits, true, guessed)


def _f1(hits: Floats, true: Floats, guessed: Floats) -> Floats:
    """F1 of the second of two classes; with more classes, the mean over those that occur or are predicted."""
    each = _ratio(2 * hits, true + guessed)
    if hits.shape[1] == 2:
        return np.asarray(np.nan_to_num(each[:, 1]))
    occurs = true + guessed > 0
    return _ratio(np.where(occurs, np.nan_to_num(each), 0.0).sum(axis=1), occurs.sum(axis=1).astype(np.float64))


def _matthews(hits: Floats, true: Floats, guessed: Floats) -> Floats:
    """Gorodkin's correlation for any number of classes; 0 if only one class occurs or is predicted."""
    n = true.sum(axis=1)
    above = hits.sum(axis=1) * n - (true * guessed).sum(axis=1)
    below = np.sqrt((n**2 - (guessed**2).sum(axis=1)) * (n**2 - (true**2).sum(axis=1)))
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))


def _pearson(fold: Fold, resampling: Resampling) -> Floats:
    """Pearson's correlation; 0 if the truth or the prediction is constant."""
    x, y = fold.truth - fold.truth.mean(), fold.predicted - fold.predicted.mean()
    # A constant prediction may vary in its last digit, which would correlate with anything.
    y = np.where(np.abs(y) < 1e-12 * (1 + abs(fold.predicted.mean())), 0.0, y)
    total, drawn = resampling.sums(fold.rows, np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1))
    n, sx, sy, sxx, syy, sxy = np.concatenate([total[None], drawn]).T
    n = np.maximum(n, 1.0)
    below = np.sqrt(np.maximum(sxx - sx**2 / n, 0.0) * np.maximum(syy - sy**2 / n, 0.0))
    above = sxy - sx * sy / n
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 1e-12 * np.sqrt(sxx * syy)))


def _spearman(fold: Fold, resampling: Resampling) -> Floats:
    """Pearson's correlation of the ranks, ranked again in each resample; 0 if one side is constant."""
    truth, predicted = _RankOrder.of(fold.truth), _RankOrder.of(fold.predicted)
    total = np.ones((1, len(fold.rows)))
    drawn = (
        resampling.counts[first : first + n_each, resampling.groups[fold.rows]].astype(np.float64)
        for n_each in [max(1, _MAX_RANKED // len(fold.rows))]
        for first in range(0, len(resampling.counts), n_each)
    )
    return np.concatenate(
        [_weighted_correlation(truth.ranks(each), predicted.ranks(each), each) for each in chain([total], drawn)]
    )


@dataclass(frozen=True, slots=True, eq=False)
class _RankOrder:
    """Sorted distinct values."""

    order: Ints
    starts: Ints
    """Where each distinct value begins in the order."""
    place: Ints
    """(row,): the index of its value."""

    @classmethod
    def of(cls, values: NDArray[Any]) -> _RankOrder:
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        place = place.reshape(-1)
        return cls(np.argsort(place, kind="stable"), np.concatenate([[0], counts.cumsum()[:-1]]), place)

    def ranks(self, times: Floats) -> Floats:
        """(resample, row): ranks if each row occurs `times` times; ties share their mean rank."""
        each = np.add.reduceat(times[:, self.order], self.starts, axis=1)
        return np.asarray((each.cumsum(axis=1) - (each - 1) / 2)[:, self.place])


def _weighted_correlation(x: Floats, y: Floats, times: Floats) -> Floats:
    n = np.maximum(times.sum(axis=1, keepdims=True), 1.0)
    x, y = x - (times * x).sum(axis=1, keepdims=True) / n, y - (times * y).sum(axis=1, keepdims=True) / n
    above = (times * x * y).sum(axis=1)
    below = np.sqrt((times * x * x).sum(axis=1) * (times * y * y).sum(axis=1))
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 1e-9))


def _custom_metric(
    metric: MetricFn, truth: NDArray[Any], predicted: NDArray[Any], rows: Ints, resampling: Resampling
) -> Floats:
    values = [float(metric(truth, predicted))]
    for resample in range(len(resampling.counts)):
        drawn = resampling.resampled_rows(resample, rows)
        values.append(float(metric(truth[drawn], predicted[drawn])) if len(drawn) > 1 else np.nan)
    return np.array(values)


def _fold_average(each: list[Floats], folds: list[Fold]) -> Floats:
    """Mean over folds, weighted by the number of rows."""
    return np.asarray(np.average(np.stack(each), axis=0, weights=[len(fold.rows) for fold in folds]))


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))
