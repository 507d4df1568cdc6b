"""Robust z-scores follow the documented formula, within the documented groups."""

from __future__ import annotations

import math
import statistics
import warnings

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cutaway.core.zscores import LARGEST, MIN_REFERENCES, peer_group, robust_z, z_among_peers

# As they are recorded: half of a double's smallest numbers is no number of its own.
numbers = st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, math.nan, math.inf, -math.inf])


@given(numbers, st.lists(numbers, max_size=12), st.sampled_from(["mean", "std"]))
def test_the_formula_is_the_one_that_is_stated(value: float, references: list[float], name: str) -> None:
    (z,), (n,) = robust_z(np.array([value]), np.array(references).reshape(-1, 1), (name,))

    def seen(x: float) -> float:
        return x if name == "mean" or not math.isfinite(x) else math.log10(abs(x) or 1e-30)

    them = [seen(x) for x in references if math.isfinite(x)]
    assert n == len(them)
    if len(them) < MIN_REFERENCES or not math.isfinite(value):
        assert math.isnan(z)
        return
    middle = statistics.median(them)
    spread = 1.4826 * statistics.median(abs(x - middle) for x in them) * (1 + 8 / len(them))
    least = 0.01 if name == "std" else max(0.001 * abs(middle), 2.3e-308)
    expected = (seen(value) - middle) / max(spread, least)
    assert math.isclose(z, min(max(expected, -LARGEST), LARGEST), rel_tol=1e-6, abs_tol=1e-9)


@given(st.lists(st.floats(0.1, 10), min_size=5, max_size=30), st.floats(1e-6, 1e6))
def test_a_change_of_units_does_not_change_what_stands_out(references: list[float], factor: float) -> None:
    them = np.array(references).reshape(-1, 1)
    for name in ("mean", "std"):
        one, _ = robust_z(np.array([3.0]), them, (name,))
        other, _ = robust_z(np.array([3.0 * factor]), them * factor, (name,))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_nothing_warns_and_columns_do_not_mix() -> None:
    references = np.full((8, 3), np.nan)
    references[:, 1] = 0
    references[:, 2] = np.arange(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        z, n = robust_z(np.array([1.0, 1.0, 3.5]), references, ("mean", "nans", "max"))
        assert len(robust_z(np.array([1.0]), np.empty((0, 1)), ("std",))[0]) == 1
    assert math.isnan(z[0])
    assert z[1:].tolist() == [LARGEST, 0.0]
    assert n.tolist() == [0, 8, 8]


def test_a_tensor_that_died_stands_out_as_much_as_one_that_exploded() -> None:
    alive = np.full((20, 1), 1.0) + np.linspace(0, 0.1, 20).reshape(-1, 1)
    assert robust_z(np.array([0.0]), alive, ("std",))[0][0] == -LARGEST
    assert robust_z(np.array([1e6]), alive, ("std",))[0][0] == LARGEST
    assert robust_z(np.array([0.0]), np.zeros((20, 1)), ("std",))[0][0] == 0


def test_the_group_of_a_tensor_is_its_role_and_what_of_it_is_looked_at() -> None:
    assert peer_group("value", "value") == peer_group("value", "value")
    assert len({peer_group(role, of) for role in ("value", "parameter") for of in ("value", "grad")}) == 4
    assert [peer_group(role, "grad") for role in ("input", "target", "loss")] == [None] * 3


@given(st.lists(st.floats(0.0625, 128, width=32), min_size=3, max_size=20), st.integers(0, 3))
def test_a_tensor_is_compared_with_its_group_alone(sizes: list[float], n_alone: int) -> None:
    """The z-scores of a group are those of the formula, whatever stands in other groups and columns."""
    names = ("mean", "std")
    matrix = np.array([[size, size] for size in sizes] + [[1e9, 1e9]] * (8 + n_alone))
    groups = ["mine"] * len(sizes) + ["other"] * 8 + [None] * n_alone
    z, n = z_among_peers(matrix, groups, names)
    assert np.isnan(z[:, 0]).all()  # a mean says which function came last
    assert np.isnan(z[len(sizes) + 8 :]).all()
    assert (z[len(sizes) : len(sizes) + 8, 1] == 0).all()
    assert n[: len(sizes), 1].tolist() == [len(sizes) - 1] * len(sizes)
    for number, size in enumerate(sizes):
        expected = robust_z(np.array([size]), np.array(sizes).reshape(-1, 1), ("std",))[0][0]
        if len(sizes) - 1 < MIN_REFERENCES:
            assert math.isnan(z[number, 1])
        else:
            assert z[number, 1] == expected


def test_what_is_not_finite_has_no_z_score_and_counts_for_nobody() -> None:
    sizes = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, math.nan, math.inf, 50.0]
    z, n = z_among_peers(np.array(sizes).reshape(-1, 1), ["one"] * 9, ("std",))
    assert np.isnan(z[6:8]).all()
    assert n[:, 0].tolist() == [6, 6, 6, 6, 6, 6, 7, 7, 6]
    assert z[8, 0] > 10
    assert (np.abs(z[:6, 0]) < 2).all()
