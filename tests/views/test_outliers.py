"""What stands out is marked, by a formula that a reader can check."""

from __future__ import annotations

import math
import statistics
import warnings

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cutaway.views.outliers import FEWEST, MOST, deviations, is_judged

# As they are recorded: half of a double's smallest numbers is no number of its own.
numbers = st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, math.nan, math.inf, -math.inf])


@given(numbers, st.lists(numbers, max_size=12), st.sampled_from(["mean", "std"]))
def test_the_formula_is_the_one_that_is_stated(value: float, references: list[float], name: str) -> None:
    (z,), (n,) = deviations(np.array([value]), np.array(references).reshape(-1, 1), (name,))

    def seen(x: float) -> float:
        return x if name == "mean" or not math.isfinite(x) else math.log10(abs(x) or 1e-30)

    them = [seen(x) for x in references if math.isfinite(x)]
    assert n == len(them)
    if len(them) < FEWEST or not math.isfinite(value):
        assert math.isnan(z)
        return
    middle = statistics.median(them)
    spread = 1.4826 * statistics.median(abs(x - middle) for x in them) * (1 + 8 / len(them))
    least = 0.01 if name == "std" else max(0.001 * abs(middle), 2.3e-308)
    expected = (seen(value) - middle) / max(spread, least)
    assert math.isclose(z, min(max(expected, -MOST), MOST), rel_tol=1e-6, abs_tol=1e-9)


@given(st.lists(st.floats(0.1, 10), min_size=5, max_size=30), st.floats(1e-6, 1e6))
def test_a_change_of_units_does_not_change_what_stands_out(references: list[float], factor: float) -> None:
    them = np.array(references).reshape(-1, 1)
    for name in ("mean", "std"):
        one, _ = deviations(np.array([3.0]), them, (name,))
        other, _ = deviations(np.array([3.0 * factor]), them * factor, (name,))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_nothing_warns_and_columns_do_not_mix() -> None:
    references = np.full((8, 3), np.nan)
    references[:, 1] = 0
    references[:, 2] = np.arange(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        z, n = deviations(np.array([1.0, 1.0, 3.5]), references, ("mean", "nans", "max"))
        assert len(deviations(np.array([1.0]), np.empty((0, 1)), ("std",))[0]) == 1
    assert math.isnan(z[0])
    assert z[1:].tolist() == [MOST, 0.0]
    assert n.tolist() == [0, 8, 8]


def test_a_tensor_that_died_stands_out_as_much_as_one_that_exploded() -> None:
    alive = np.full((20, 1), 1.0) + np.linspace(0, 0.1, 20).reshape(-1, 1)
    assert deviations(np.array([0.0]), alive, ("std",))[0][0] == -MOST
    assert deviations(np.array([1e6]), alive, ("std",))[0][0] == MOST
    assert deviations(np.array([0.0]), np.zeros((20, 1)), ("std",))[0][0] == 0


def test_bins_and_sizes_are_not_judged() -> None:
    assert [name for name in ("std", "h0", "h15", "count", "low", "norm", "hx", "zeros") if is_judged(name)] == [
        "std", "norm", "hx", "zeros",
    ]  # fmt: skip
    assert not is_judged("nans", by_others=True)
