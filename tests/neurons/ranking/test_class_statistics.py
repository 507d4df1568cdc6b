"""One rule says which units are dead, whoever asks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cutaway.neurons.exploration.clustering import clusters
from cutaway.neurons.probes.gaussian.probe import Gaussian
from cutaway.neurons.probes.linear.probe import Linear
from cutaway.neurons.ranking.class_statistics import dead_units
from cutaway.neurons.ranking.rank import rank

DEAD = [4, 7, 8]


def with_dead(jitter: float) -> tuple[np.ndarray, np.ndarray]:
    """Three units are the same at every row, but for rounding; another is a thousand times as large as all."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 12)).astype(np.float32)
    labels = (x[:, :3].sum(axis=1) > 0).astype(np.int64)
    x[:, 11] *= 1000
    x[:, 4] = 30 + jitter * rng.normal(size=300)
    x[:, 7] = jitter * rng.normal(size=300)
    x[:, 8] = 0
    x[labels == 1, 9] = 0  # still in one class only
    return x, labels


@pytest.mark.filterwarnings("ignore:the probe has not converged")
@pytest.mark.parametrize("jitter", [0.0, 1e-9, 1e-7])
def test_every_method_finds_the_same_dead_units_without_a_warning(jitter: float) -> None:
    x, labels = with_dead(jitter)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = [
            rank(x, labels).dead,
            Linear().fit(x, labels).dead_,
            Linear(solver="minibatch", max_iter=1).fit(x, labels).dead_,
            Gaussian(n_units=9).fit(x, labels).dead_,
            Gaussian(n_units=9, compat="neurox").fit(x, labels).dead_,
            clusters(x).dead,
        ]
    assert [each.tolist() for each in found if each is not None] == [DEAD] * 6


def test_a_small_unit_that_moves_is_alive() -> None:
    assert dead_units(np.array([1e-5, 1.0, 2.0]), np.zeros(3)).tolist() == []
    assert dead_units(np.array([1e-5, 1.0, 2.0]), np.array([1e3, 0.0, 0.0])).tolist() == [0]
    assert dead_units(np.array([0.1, 1e-9, 1e-9, 1e-9]), np.zeros(4)).tolist() == [1, 2, 3]
    assert dead_units(np.array([1.0, 1.0, 1.0, 1.0, 1e5]), np.zeros(5)).tolist() == []
    assert dead_units(np.zeros(2), np.zeros(2)).tolist() == [0, 1]


def test_a_unit_on_a_small_scale_is_alive_in_float64_and_rounding_is_not() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 2
    x = np.c_[1e-8 * (labels + 0.1 * rng.normal(size=100)), rng.normal(size=(100, 3)), 1e-12 * rng.normal(size=100)]
    for found in (rank(x, labels), Linear().fit(x, labels).ranking_, Gaussian(n_units=3).fit(x, labels).ranking_):
        assert found.order[0] == 0
        assert found.dead.tolist() == [4]
    assert clusters(x).dead.tolist() == [4]
    assert rank(x.astype(np.float32), labels).dead.tolist() == [0, 4]
