"""CCA, SVCCA and PWCCA as Ecco and Google's svcca compute them, for comparable numbers.

They differ by design from ours: CCA averages only the correlations that make up 98 % of their sum; a small number is
added to every variance; PWCCA weights by directions that are not canonical variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.lm.similarities.representations import Floats, Representation
from cutaway.lm.similarities.scores import ComparisonTask, Scores

_EPSILON = 1e-10
_SHARE = 0.98


@dataclass(frozen=True, slots=True)
class _CanonicalCorrelations:
    """Canonical correlations, and the directions of both sides among the units that are kept."""

    correlations: Floats
    u: Floats
    v: Floats
    kept_x: NDArray[np.bool_]
    kept_y: NDArray[np.bool_]


def cca(task: ComparisonTask) -> Scores:
    """The mean of the largest correlations that make up 98 % of the sum."""
    scores = Scores()
    for i, j in task.pairs:
        s = _canonical(_array(task.representations[i]), _array(task.representations[j])).correlations
        shares = np.concatenate([[0.0], np.cumsum(s)[:-1]]) / s.sum()
        reached = np.flatnonzero(shares >= _SHARE)
        scores.correlations[i, j] = s
        scores.values[i, j] = float(s[: reached[0] if len(reached) else None].mean())
    return scores


def svcca(task: ComparisonTask, *, n: int = 20) -> Scores:
    """The mean of all correlations of the first n directions; 20 in Ecco."""
    scores = Scores()
    for representation in task.representations:
        if n >= representation.n_rows or n > representation.n_units:
            raise InputError(
                f"n={n} directions are too many: {representation.name} has {representation.n_rows:,} rows × "
                f"{representation.n_units:,} units. Give a smaller n=."
            )
    largest = []
    for representation in task.representations:
        values = representation.array()
        u, s, _ = np.linalg.svd(values, full_matrices=False)
        largest.append(u[:, :n] * s[:n])
    for i, j in task.pairs:
        correlations = _canonical(largest[i], largest[j]).correlations
        scores.correlations[i, j] = correlations
        scores.values[i, j] = float(correlations.mean())
    return scores


def pwcca(task: ComparisonTask) -> Scores:
    """Weighted by a rotated orthonormal basis of the first units, from the side with fewer units."""
    scores = Scores()
    for i, j in task.pairs:
        x, y = _array(task.representations[i]), _array(task.representations[j])
        canonical = _canonical(x, y)
        is_x = canonical.kept_x.sum() <= canonical.kept_y.sum()
        values = x[:, canonical.kept_x] if is_x else y[:, canonical.kept_y]
        directions = canonical.u if is_x else canonical.v
        mean = values.mean(axis=0)
        # Not canonical variables: the directions lack the factor Σxx^(-1/2), and the mean is added back. Kept for
        # parity.
        basis, _ = np.linalg.qr((values - mean) @ directions + mean)
        weights = np.abs(basis.T @ values).sum(axis=1)
        scores.correlations[i, j] = canonical.correlations
        scores.values[i, j] = float(weights @ canonical.correlations / weights.sum())
    return scores


def _array(representation: Representation) -> Floats:
    values: Floats = representation.matrix.array().astype(np.float64)
    n_rows, n_units = values.shape
    if n_units >= n_rows:
        raise InputError(
            f"{representation.name} has {n_units:,} units and {n_rows:,} rows: CCA needs more rows than units."
        )
    return values


def _canonical(x: Floats, y: Floats) -> _CanonicalCorrelations:
    n = x.shape[1]
    covariance = np.cov(x, y, rowvar=False)
    xx, xy, yy = covariance[:n, :n], covariance[:n, n:], covariance[n:, n:]
    most_x, most_y = np.abs(xx).max(), np.abs(yy).max()
    xx, xy, yy = xx / most_x, xy / np.sqrt(most_x * most_y), yy / most_y
    kept_x, kept_y = np.diag(xx) >= _EPSILON, np.diag(yy) >= _EPSILON
    u, s, vt = np.linalg.svd(_root(xx[kept_x][:, kept_x]) @ xy[kept_x][:, kept_y] @ _root(yy[kept_y][:, kept_y]))
    return _CanonicalCorrelations(np.abs(s), u, vt.T, kept_x, kept_y)


def _root(covariance: Floats) -> Floats:
    """The symmetric square root of its inverse."""
    inverse = np.linalg.pinv(covariance + _EPSILON * np.eye(len(covariance)))
    values, vectors = np.linalg.eigh(inverse)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
