"""Spikes: found where they were planted, and nowhere in healthy curves."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.store.runs.series import Curve
from cutaway.store.runs.spikes import compare_with_past, find_spikes


def curve(values: np.ndarray, steps: np.ndarray | None = None) -> Curve:
    steps = np.arange(len(values)) if steps is None else steps
    return Curve(steps.astype(np.int64), values.astype(np.float32), np.zeros(len(values)))


def healthy(n: int = 400, seed: int = 0) -> np.ndarray:
    """A loss that falls with some noise."""
    steps = np.arange(n)
    return (0.4 + 3 * np.exp(-steps / 60)) * (1 + 0.08 * np.random.default_rng(seed).standard_normal(n))


def found(values: np.ndarray, **how: np.ndarray) -> list[tuple[int, int]]:
    return [(spike.step, spike.until) for spike in find_spikes(curve(values), **how)]


@pytest.mark.parametrize("seed", range(4))
def test_planted_spikes_are_found_and_nothing_else(seed: int) -> None:
    values = healthy(seed=seed)
    assert found(values) == []
    values[[150, 151, 300]] *= 9
    assert found(values) == [(150, 151), (300, 300)]


def test_the_median_is_that_of_the_fifty_values_before() -> None:
    values = healthy()
    values[200] = 5.83
    (spike,) = find_spikes(curve(values))
    before = values.astype(np.float32)[150:200]
    assert spike.median == pytest.approx(np.median(before))
    beside = compare_with_past(curve(values), 200)
    assert beside is not None
    assert (beside.n_before, beside.next_step, beside.is_unusual) == (50, 201, True)
    assert beside.median == pytest.approx(np.median(before))
    assert beside.z == pytest.approx(spike.z)
    assert beside.next_value == pytest.approx(values[201], rel=1e-6)


def test_too_few_values_before_are_no_reference() -> None:
    values = np.array([1.0, 1.1, 0.9, 50.0, 1.0])
    assert found(values) == []
    beside = compare_with_past(curve(values), 3)
    assert beside is not None
    assert beside.n_before == 3
    assert np.isnan(beside.z)
    last = compare_with_past(curve(values), 4)
    assert last is not None
    assert last.next_step is None
    assert compare_with_past(curve(values), 9) is None


def test_nan_and_infinities_after_numbers_are_spikes() -> None:
    values = healthy(100)
    values[60:63] = np.nan
    values[80] = np.inf
    assert found(values) == [(60, 62), (80, 80)]
    assert found(np.full(20, np.nan)) == []
    assert found(np.empty(0)) == []


def test_a_fall_counts_only_if_it_rises_again() -> None:
    values = 1 + 0.02 * np.random.default_rng(0).standard_normal(300)
    values[200:] /= 50
    assert found(values) == [], "a loss that falls and stays low is no fault"
    values[200:] *= 50
    values[100] /= 50
    assert found(values) == [(100, 100)]


def test_signed_values_are_compared_on_a_linear_scale() -> None:
    values = np.random.default_rng(0).standard_normal(200)
    values[120] = 60
    assert found(values) == [(120, 120)]


def test_groups_are_compared_with_themselves() -> None:
    values = healthy(200)
    kinds = (np.arange(200) % 10 == 9).astype(np.intp)
    values[kinds == 1] *= 20
    assert len(found(values)) >= 10, "as one group, every check is a spike"
    assert found(values, groups=kinds) == []
    values[149] *= 10
    assert found(values, groups=kinds) == [(149, 149)]


def test_of_several_values_at_a_step_the_last_counts() -> None:
    steps = np.sort(np.concatenate([np.arange(60), [40]]))
    values = np.ones(61)
    values[40] = 90
    assert find_spikes(curve(values, steps)) == ()
    values[41] = 90
    assert [spike.step for spike in find_spikes(curve(values, steps))] == [40]
