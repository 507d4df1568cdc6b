"""Clusters are scipy's, numbered and represented the same way every time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from cutaway.core import matrices
from cutaway.core.matrices import as_matrix
from cutaway.neurons.exploration.clustering import clusters, correlation
from cutaway.neurons.ranking.rank import rank
from cutaway.store.activations.activations import Activations

RNG = np.random.default_rng(0)
BASE = RNG.normal(size=(300, 4)) * [1, 10, 0.1, 5] + 20
NOISE = RNG.normal(size=(300, 8))
X = np.column_stack([BASE, BASE[:, 0] + 0.3 * NOISE[:, 0], -BASE[:, 1] + NOISE[:, 1], np.full(300, 2.5), NOISE[:, 2:5]])
DEAD = 6


def test_correlations_are_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "BLOCK_BYTES", 4 * X.shape[1] * 50)
    found, dead = correlation(as_matrix(X))
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = np.nan_to_num(np.corrcoef(X.T))
    np.fill_diagonal(expected, 1)
    assert np.allclose(found, expected, atol=1e-12)
    assert np.array_equal(found, found.T)
    assert dead.tolist() == [DEAD]


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("threshold", [0.05, 0.5, 0.95])
def test_clusters_are_scipys_up_to_their_numbers(threshold: float, absolute: bool) -> None:
    found = clusters(X, threshold, absolute=absolute)
    kept = np.delete(np.arange(X.shape[1]), DEAD)
    distances = pdist(X[:, kept].T, "correlation")  # 1 - r
    if absolute:
        distances = 1 - np.abs(1 - distances)
    theirs = fcluster(linkage(distances, "average"), threshold, "distance")
    ours = found.labels[kept]
    assert np.array_equal(ours[:, None] == ours, theirs[:, None] == theirs)
    assert (found.labels == found.labels[DEAD]).sum() == 1


def test_clusters_are_numbered_by_their_first_unit_and_stood_for_by_the_medoid() -> None:
    found = clusters(X)
    assert found.labels.tolist() == [0, 1, 2, 3, 0, 1, 4, 5, 6, 7]
    assert [group.tolist() for group in found.members] == [[0, 4], [1, 5], [2], [3], [6], [7], [8], [9]]
    assert found.sizes.tolist() == [2, 2, 1, 1, 1, 1, 1, 1]
    assert found.independent.tolist() == [0, 1, 2, 3, 6, 7, 8, 9]
    three = np.column_stack([BASE[:, 0] + NOISE[:, 0], BASE[:, 0], BASE[:, 0] + NOISE[:, 1]])
    assert clusters(three, 0.6).independent.tolist() == [1]


def test_opposite_units_are_alike_only_by_magnitude() -> None:
    assert clusters(X, absolute=True).labels[5] == 1
    assert clusters(X, absolute=False).labels[5] not in (0, 1)


def test_independent_units_can_be_ranked_alone() -> None:
    acts = Activations.of({"h": X})
    found = clusters(acts)
    y = BASE[:, 1] > 20
    ranking = rank(acts, y, units=found.independent)
    assert set(ranking.order.tolist()) == set(found.independent.tolist())
    assert ranking.top(1) == ["h#1"]
    assert "10 units in 8" in repr(found)
    assert "2 units: h#0, h#4" in repr(found)


def test_a_single_unit_is_a_cluster() -> None:
    assert clusters(X[:, :1]).labels.tolist() == [0]


def test_one_row_is_too_few() -> None:
    with pytest.raises(ValueError, match="needs at least 2 rows"):
        clusters(X[:1])
