"""One criterion of "unusual": spikes are, trends and noise are not; buffers, whole numbers and masks never are."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.core.unusual import FAR, N_PAST, PEER_FACTOR, Contents, contents_of, is_compared, judge

POSITIVE = st.floats(0.0009765625, 1024, width=32)


def one(value: float, past: list[float], name: str = "norm") -> tuple[float, float, bool]:
    """z against the past, ratio to the usual, and whether it is unusual, for one number."""
    found = judge(np.array([[value]]), np.array(past).reshape(-1, 1, 1), (name,), groups=[None])
    return float(found.z_past[0, 0]), float(found.ratio[0, 0]), bool(found.is_unusual[0, 0])


def oracle(value: float, past: list[float]) -> float:
    """The documented formula for a magnitude, written out."""
    past = past[-N_PAST:]
    n, them, x = len(past), [math.log10(p) for p in past], math.log10(value)

    third = max(1, n // 3)
    level = statistics.median(them[-third:])
    rise = level - statistics.median(them[:third])
    slope = rise / max(1.0, statistics.median(range(n - third, n)) - statistics.median(range(third)))
    height = statistics.median(y - slope * i for i, y in enumerate(them))
    left = [y - height - slope * i for i, y in enumerate(them)]
    spread = 1.4826 * statistics.median(abs(d) for d in left) * (1 + 8 / n)
    above, beside = x - level, x - height - slope * n
    distance = 0.0 if above * beside < 0 else min(above, beside, key=abs)
    if distance < 0:
        distance = max(distance, min(x - them[-1], 0.0))
    return max(-99.0, min(99.0, distance / max(spread, 0.01)))


@settings(deadline=None)
@given(POSITIVE, st.lists(POSITIVE, min_size=5, max_size=N_PAST + 10))
def test_the_formula_is_the_one_that_is_stated(value: float, past: list[float]) -> None:
    z, ratio, is_unusual = one(value, past)
    assert math.isclose(z, oracle(value, past), rel_tol=1e-6, abs_tol=1e-6)
    assert math.isclose(ratio, value / statistics.median(past[-N_PAST:]), rel_tol=1e-6)
    assert not is_unusual or abs(z) >= FAR


def noisy(sizes: np.ndarray, seed: int = 0) -> np.ndarray:
    """A curve with the noise of gradients: a normal distribution of logarithms, 25 %."""
    return sizes * np.exp(0.25 * np.random.default_rng(seed).standard_normal(len(sizes)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(np.exp(-np.arange(400) / 40), id="shrinks exponentially"),
        pytest.param(1 / (1 + np.arange(400)), id="shrinks like 1/n"),
        pytest.param(1e-3 * np.exp(np.arange(400) / 60), id="grows"),
        pytest.param(np.r_[np.ones(200), np.exp(-np.arange(200) / 30)], id="bends"),
        pytest.param(np.ones(400), id="stays"),
        pytest.param(1 + np.cos(np.pi * np.arange(400) / 400), id="cosine to 0"),
    ],
)
def test_trends_and_noise_raise_no_alarm(sizes: np.ndarray, seed: int) -> None:
    curve = noisy(sizes, seed)
    alarms = [at for at in range(1, len(curve)) if one(curve[at], curve[:at].tolist())[2]]
    assert not alarms


@pytest.mark.parametrize("sizes", [np.exp(-np.arange(300) / 40), 1 / (1 + np.arange(300)), np.arange(1.0, 300)])
def test_a_smooth_curve_raises_no_alarm(sizes: np.ndarray) -> None:
    assert not [at for at in range(1, len(sizes)) if one(sizes[at], sizes[:at].tolist())[2]]


def test_a_spike_on_a_trend_is_unusual_with_its_size_and_only_while_it_lasts() -> None:
    curve = noisy(np.exp(-np.arange(200) / 40))
    curve[150] *= 14
    z, ratio, is_unusual = one(curve[150], curve[:150].tolist())
    assert is_unusual
    assert z > 6
    assert ratio == pytest.approx(curve[150] / np.median(curve[100:150]))
    assert not any(one(curve[at], curve[:at].tolist())[2] for at in (149, 151, 160))
    assert one(0.0, curve[:150].tolist())[2]  # it died
    assert not one(0.0, [0.0] * 20)[2]


def test_a_curve_that_hardly_moves_is_not_unusual_when_it_does() -> None:
    past = (1 + 1e-6 * np.random.default_rng(0).standard_normal(40)).tolist()
    z, ratio, is_unusual = one(1.3, past)
    assert (z > FAR, round(ratio, 3), is_unusual) == (True, 1.3, False)
    assert one(2.5, past)[2]


def test_a_small_shift_of_a_mean_is_no_matter_beside_the_spread_of_the_values() -> None:
    past = np.stack([np.linspace(1e-6, 2e-6, 20), np.full(20, 1.0)], axis=1)[:, None, :]
    quiet = judge(np.array([[1e-4, 1.0]]), past, ("mean", "std"), groups=[None])
    loud = judge(np.array([[3.5, 1.0]]), past, ("mean", "std"), groups=[None])
    assert (quiet.is_unusual[0, 0], loud.is_unusual[0, 0]) == (False, True)
    assert np.isnan(loud.ratio[0, 0])  # a ratio to almost nothing says nothing


def test_peers_decide_only_from_a_factor_of_a_hundred() -> None:
    sizes = np.array([1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.5, 200.0]).reshape(-1, 1)
    found = judge(sizes, np.empty((0, 8, 1)), ("std",), groups=["layer"] * 8)
    assert found.is_unusual[:, 0].tolist() == [False] * 7 + [True]
    assert found.z_peers[6, 0] >= FAR  # 50 % more than layers that are all alike
    assert PEER_FACTOR == 100
    assert (found.n_past == 0).all()
    assert np.isnan(found.z_past).all()
    kept = judge(sizes, np.empty((0, 8, 1)), ("std",), groups=["layer"] * 8, is_compared=np.arange(8) != 7)
    assert not kept.is_unusual.any()
    assert np.isnan(kept.z_peers[7, 0])
    assert kept.n_peers[0, 0] == 6


NAMES = ("mean", "std", "norm", "min", "max", "nonfinite", "p1", "p50", "p99")


def row_of(values: np.ndarray, *counts: str) -> list[float]:
    """Statistics as the recorder writes them at the level "core"; with counts, as at "full"."""
    with np.errstate(all="ignore"):
        finite = values[np.isfinite(values)]
        quantiles = np.percentile(finite, [1, 50, 99]).astype(np.float32).tolist() if finite.size else [math.nan] * 3
        plain = [values.mean(), values.std(), np.sqrt((values**2).sum()), values.min(), values.max()]
        own = [*plain, float(not np.isfinite(values).all()), *quantiles]
    n = {"nans": np.isnan(values).sum(), "infs": np.isinf(values).sum()}
    return [*own, *(float(n[name]) for name in counts)]


@pytest.mark.parametrize("counts", [(), ("nans", "infs")])
def test_zeros_nan_inf_and_masks_are_told_apart(counts: tuple[str, ...]) -> None:
    mask = np.triu(np.full((4, 4), -np.inf), 1)
    held = {
        Contents.ZEROS: np.zeros(5),
        Contents.NUMBERS: np.array([1.0, -1.0]),
        Contents.NAN: np.array([1.0, np.nan]),
        Contents.INF: np.array([1.0, np.inf]),
        Contents.MASK: mask,
    }
    matrix = np.array([*(row_of(values, *counts) for values in held.values()), [math.nan] * (len(NAMES) + len(counts))])
    assert contents_of(matrix, (*NAMES, *counts)).tolist() == [*held, Contents.MISSING]
    both = np.array([row_of(np.array([np.inf, -np.inf, 0.0]), *counts)])
    assert contents_of(both, (*NAMES, *counts)).tolist() == [Contents.INF]


def test_buffers_whole_numbers_and_masks_are_not_compared() -> None:
    rng = np.random.default_rng(0)
    tensors = [
        ("input", rng.integers(0, 50_000, 64).astype(float), False, False),  # token ids
        ("input", rng.standard_normal(64), False, True),
        ("input", np.r_[0, rng.random(62), 1], False, True),  # an image
        ("input", np.triu(np.full((8, 8), -np.inf), 1), False, False),
        ("target", np.arange(5.0), False, False),
        ("buffer", np.array([1234.0]), False, False),  # num_batches_tracked
        ("buffer", rng.standard_normal(8), False, False),
        ("value", np.arange(8.0), False, False),  # positions
        ("value", np.round(rng.standard_normal(64) * 9), True, True),  # it has a gradient, so it is no index
        ("parameter", np.ones(8), True, True),
        ("value", np.zeros(8), False, True),
    ]
    matrix = np.array([row_of(values) for _, values, _, _ in tensors])
    roles, has_gradient = [role for role, *_ in tensors], [has for _, _, has, _ in tensors]
    assert is_compared(matrix, NAMES, roles, has_gradient).tolist() == [expected for *_, expected in tensors]
