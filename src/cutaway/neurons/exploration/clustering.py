"""Clusters of correlated (redundant) units, with one representative each.

Dalvi et al., "Analyzing Redundancy in Pretrained Transformer Models", EMNLP 2020.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, MissingExtraError
from cutaway.core.formatting import plural
from cutaway.core.matrices import Matrix, as_matrix
from cutaway.neurons.ranking.class_statistics import dead_units
from cutaway.results.neurons.clusters import Clusters

Floats = NDArray[np.float64]


def clusters(acts: Any, threshold: float = 0.5, *, absolute: bool = True) -> Clusters:
    """Cluster units by average linkage of the distance `1 - |r|`, where r is Pearson's correlation.

    >>> x = np.random.default_rng(0).normal(size=(100, 3))
    >>> clusters(np.column_stack([x, -x[:, 0]])).labels
    array([0, 1, 2, 0])

    Args:
        acts: `Activations`, or rows × units as an array or tensor.
        threshold: the distance up to which clusters are merged.
        absolute: if False, use `1 - r`, so that anticorrelated units are far apart.
    """
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold <= 2:
        raise InputError(f"threshold={threshold!r}: must be a distance between 0 and 2, where 1 is uncorrelated.")
    matrix = as_matrix(acts)
    if matrix.n_rows < 2:
        raise InputError(f"got {plural(matrix.n_rows, 'row')}: a correlation needs at least 2 rows.")
    correlations, dead = correlation(matrix)
    similarity = np.abs(correlations) if absolute else correlations
    labels = _renumber(_cut(1 - similarity, threshold))
    return Clusters(
        labels=labels,
        independent=_medoids(similarity, labels),
        threshold=float(threshold),
        absolute=absolute,
        names=matrix.names,
        dead=dead,
    )


def correlation(matrix: Matrix) -> tuple[Floats, NDArray[np.int64]]:
    """(unit, unit): Pearson's correlation, 0 for dead units and 1 on the diagonal; and the indices of dead units."""
    n_units = matrix.n_units
    shift, totals, products = np.zeros(n_units), np.zeros(n_units), np.zeros((n_units, n_units))
    for rows, block in matrix.blocks():
        values = block.astype(np.float64)  # (row, unit)
        # Centered near the mean, because sums of squares of large values cancel.
        if rows.start == 0:
            shift = values.mean(axis=0)
        values -= shift
        totals += values.sum(axis=0)
        products += values.T @ values
    covariance = products - np.outer(totals, totals) / matrix.n_rows
    std = np.sqrt(np.maximum(np.diag(covariance), 0.0) / matrix.n_rows)
    dead = dead_units(std, shift + totals / matrix.n_rows, matrix.dtype)
    scale = np.where(std > 0, std, 1.0)
    # Rounding can exceed 1, and a distance must not be negative.
    correlations = np.clip(covariance / (matrix.n_rows * np.outer(scale, scale)), -1, 1)
    correlations[dead, :] = correlations[:, dead] = 0.0
    np.fill_diagonal(correlations, 1.0)
    return (correlations + correlations.T) / 2, dead


def _cut(distances: Floats, threshold: float) -> NDArray[np.int64]:
    try:
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import squareform
    except ImportError as error:
        raise MissingExtraError("clusters() needs scipy: pip install 'cutaway[neurons]'") from error
    if len(distances) == 1:
        return np.zeros(1, np.int64)
    tree = linkage(squareform(distances, checks=False), method="average")
    return np.asarray(fcluster(tree, threshold, criterion="distance"), np.int64)


def _renumber(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Renumber clusters in the order of their first units.

    >>> _renumber(np.array([7, 3, 7, 1]))
    array([0, 1, 0, 2])
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _medoids(similarity: Floats, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The member of each cluster most similar to the others; ties go to the first."""
    medoids = []
    for cluster in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == cluster)
        total = similarity[np.ix_(members, members)].sum(axis=1)
        medoids.append(members[np.flatnonzero(total >= total.max() - 1e-9)[0]])  # equal sums may differ by rounding
    return np.array(medoids, np.int64)
