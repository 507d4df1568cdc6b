"""Representational similarity analysis (RSA): whether rows that are far apart in one are far apart in the other.

Kriegeskorte et al., "Representational similarity analysis", Frontiers in Systems Neuroscience 2008.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from cutaway.core.errors import InputError, MemoryLimitError, MissingExtraError
from cutaway.core.formatting import listed
from cutaway.core.matrices import as_matrix
from cutaway.lm.similarities.representations import Floats, Representation, is_collection
from cutaway.lm.similarities.scores import ComparisonTask, Scores
from cutaway.results.lm.similarity import Dissimilarities
from cutaway.store.activations.activations import Activations

Metric = Literal["correlation", "euclidean", "cosine"]
Agreement = Literal["spearman", "kendall", "pearson"]
MOST_BYTES = 2**31
"""Bytes that the distances of all representations may take together."""
_TIE_DIGITS = 12
"""Distances whose difference, relative to the largest, is below 1e-12 differ by rounding only, and share a rank."""
_METRICS = ("correlation", "euclidean", "cosine")


def rdm(x: Any, metric: Metric = "correlation", *, names: Any = None) -> Dissimilarities:
    """Dissimilarity of each pair of rows: 1 − Pearson correlation over the units, 1 − cosine, or Euclidean distance.

    >>> rdm([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], "cosine").values
    array([[0., 1., 2.],
           [1., 0., 1.],
           [2., 1., 0.]])

    Args:
        x: `Activations`, or rows × units as an array or tensor; several sites count as one set of units.
        metric: "correlation", "cosine" or "euclidean".
        names: names of the rows; the words of activations by default.
    """
    if is_collection(x) and not isinstance(x, Activations):
        raise InputError("rdm() takes one matrix of rows × units: call it for each of them.")
    matrix = as_matrix(x)
    n = matrix.n_rows
    _check_memory(n, 2)
    known = tuple(map(str, names)) if names is not None else _words(x)
    if known and len(known) != n:
        raise InputError(f"{len(known):,} names were given for {n:,} rows: give one per row.")
    upper_half = np.zeros((n, n))
    upper_half[np.triu_indices(n, 1)] = distances(matrix.array().astype(np.float64), metric, "x")
    return Dissimilarities(upper_half + upper_half.T, metric=metric, names=known)


def rsa(task: ComparisonTask, *, metric: Metric = "correlation", agreement: Agreement = "spearman") -> Scores:
    """The correlation of the row distances of two representations."""
    if agreement not in ("spearman", "kendall", "pearson"):
        raise InputError(f"agreement={agreement!r}: give 'spearman', 'kendall' or 'pearson'.")
    if task.n_rows < 3:
        raise InputError(f"RSA needs at least three rows, got {task.n_rows}.")
    _check_memory(task.n_rows, len(task.representations))
    rows = [_normalized(_distances(each, metric), agreement, each.name) for each in task.representations]
    scores = Scores()
    for i, j in task.pairs:
        scores.values[i, j] = correlate(rows[i], rows[j], agreement)
    return scores


def _distances(representation: Representation, metric: Metric) -> Floats:
    if representation.distances is not None:
        return representation.distances
    return distances(representation.matrix.array().astype(np.float64), metric, representation.name)


def distances(values: Floats, metric: Metric, name: str) -> Floats:
    """Distances of each row to each later one, in the order of `np.triu_indices(n, 1)`."""
    if metric not in _METRICS:
        raise InputError(f"metric={metric!r}: give {', '.join(map(repr, _METRICS))}.")
    n = len(values)
    upper = np.triu_indices(n, 1)
    if metric == "euclidean":
        centered = values - values.mean(axis=0)  # same distances, fewer lost digits
        squares = np.einsum("ij,ij->i", centered, centered)
        squared = (squares[:, None] + squares[None, :] - 2 * centered @ centered.T)[upper]
        return np.asarray(np.sqrt(np.maximum(squared, 0.0)))
    rows = values - values.mean(axis=1, keepdims=True) if metric == "correlation" else values
    length = np.linalg.norm(rows, axis=1)
    size = np.abs(values).max(axis=1)
    flat = np.flatnonzero(length <= size * rows.shape[1] * np.finfo(np.float64).eps)
    if len(flat):
        shown = listed(map(str, flat.tolist()), 5)
        why = "are the same in all units" if metric == "correlation" else "are 0 in all units"
        raise InputError(
            f"{name}: rows {shown} {why}, so they have no {metric} with other rows. Leave them out, or use "
            "metric='euclidean'."
        )
    rows = rows / length[:, None]
    cosines: Floats = (rows @ rows.T)[upper]
    return np.clip(1 - cosines, 0.0, 2.0)


def correlate(row: Floats, other: Floats, agreement: Agreement) -> float:
    """The correlation of two rows of distances from `_normalized`."""
    if agreement != "kendall":
        return float(np.clip(row @ other, -1.0, 1.0))
    try:
        from scipy.stats import kendalltau
    except ImportError as error:
        raise MissingExtraError("agreement='kendall' needs scipy: pip install 'cutaway[neurons]'") from error
    return float(kendalltau(row, other).statistic)


def ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the mean of their ranks.

    >>> ranks(np.array([0.3, 0.1, 0.3, 0.2]))
    array([3.5, 1. , 3.5, 2. ])
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)


def _normalized(row: Floats, agreement: Agreement, name: str) -> Floats:
    """Prepared for a dot product: ranked for Spearman, centered, with unit length."""
    if np.ptp(row) == 0:
        raise InputError(f"{name}: all rows have the same distance from each other, so there is nothing to correlate.")
    if agreement == "kendall":
        return np.asarray(np.round(row / row.max(), _TIE_DIGITS))
    values = ranks(np.round(row / row.max(), _TIE_DIGITS)) if agreement == "spearman" else row
    values = values - values.mean()
    return np.asarray(values / np.linalg.norm(values))


def _check_memory(n_rows: int, n_subjects: int) -> None:
    n_bytes = 8 * (n_rows * (n_rows - 1) // 2 * n_subjects + 3 * n_rows * n_rows)
    if n_bytes > MOST_BYTES:
        raise MemoryLimitError(
            f"the distances between {n_rows:,} rows take {n_bytes:,} bytes, but the limit is {MOST_BYTES:,}: choose "
            "fewer rows, acts.rows(…), or use method='cka', which needs no distances."
        )


def _words(x: Any) -> tuple[str, ...]:
    return tuple(x.words) if isinstance(x, Activations) and any(x.words) else ()
