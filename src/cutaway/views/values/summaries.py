"""Statistics of many small arrays at once, and the histogram of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

N_BINS: Final = 40
_OUTLIERS: Final = 0.001
_FAR: Final = 8
"""Outliers are cut off if they make the range more than this many times wider."""
_MOST_SORTED: Final = 20_000
_LARGEST: Final = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class Summaries:
    """One entry per array. Mean, population std, low, high and norm cover finite elements; NaN if there are none."""

    count: Counts
    n_nan: Counts
    n_inf: Counts
    n_zeros: Counts
    mean: Floats
    std: Floats
    low: Floats
    high: Floats
    norm: Floats


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts in bins of equal width from `low` to `high`. The outermost bins include outliers.

    Non-finite values are not counted.
    """

    low: float
    high: float
    counts: tuple[int, ...]


def summaries(arrays: Sequence[NDArray[Any]]) -> Summaries:
    """Statistics of many arrays of real numbers, in a few vectorized NumPy calls.

    >>> found = summaries([np.array([3.0, -4.0]), np.array([0, 2, 4]), np.array([np.nan])])
    >>> found.norm.tolist()[0], found.mean.tolist()[1], found.n_nan.tolist()
    (5.0, 2.0, [0, 0, 1])
    """
    n = len(arrays)
    count = np.array([array.size for array in arrays], np.int64)
    n_nan, n_inf, n_zeros = (np.zeros(n, np.int64) for _ in range(3))
    mean, std, low, high, norm = (np.full(n, np.nan) for _ in range(5))
    result = Summaries(count, n_nan, n_inf, n_zeros, mean, std, low, high, norm)
    filled = np.flatnonzero(count)
    if not len(filled):
        return result
    with np.errstate(all="ignore"):
        rows = [array.reshape(-1) for array in arrays if array.size]
        # float64, or sums of squares of float16 and integers overflow.
        flat: Floats = np.concatenate(rows, dtype=np.float64, casting="unsafe")
        sizes = count[filled]
        finite = np.isfinite(flat)
        if not finite.all():
            n_nan[filled] = _totals(np.isnan(flat), sizes)
            n_finite = _totals(finite, sizes)
            n_inf[filled] = sizes - n_finite - n_nan[filled]
            flat, filled, sizes = flat[finite], filled[n_finite > 0], n_finite[n_finite > 0]
        if len(filled):
            _summarize(result, flat, filled, sizes)
    return result


def _summarize(found: Summaries, flat: Floats, filled: Counts, sizes: Counts) -> None:
    """Fill in the statistics of the finite elements of all arrays, concatenated in `flat`."""
    starts = np.cumsum(sizes) - sizes
    low, high = np.minimum.reduceat(flat, starts), np.maximum.reduceat(flat, starts)
    found.low[filled], found.high[filled] = low, high
    found.n_zeros[filled] = _totals(flat == 0, sizes)
    scale = _scales(np.maximum(np.abs(low), np.abs(high)))
    if (scale != 1).any():
        flat = flat / _spread(scale, sizes)
    mean = np.add.reduceat(flat, starts) / sizes
    found.mean[filled] = mean * scale
    found.norm[filled] = np.sqrt(np.add.reduceat(flat * flat, starts)) * scale
    flat = flat - _spread(mean, sizes)
    std = np.sqrt(np.add.reduceat(flat * flat, starts) / sizes)
    # Rounding of the mean would give a constant array a tiny spread.
    found.std[filled] = np.where(low == high, 0.0, std * scale)


def _scales(largest: Floats) -> Floats:
    """Divisors that keep squares from overflow and underflow."""
    extreme = (largest > 1e100) | ((largest < 1e-100) & (largest > 0))
    return np.where(extreme, largest, 1.0)


def _spread(numbers: Floats, sizes: Counts) -> Floats:
    """Repeat the number of each array for each of its elements."""
    return numbers if len(numbers) == 1 else np.repeat(numbers, sizes)


def _totals(mask: NDArray[np.bool_], sizes: Counts) -> Counts:
    starts = np.cumsum(sizes) - sizes
    totals: Counts = np.add.reduceat(mask, starts, dtype=np.int64)
    return totals


def histogram(array: NDArray[Any]) -> Histogram | None:
    """The histogram of the finite elements; None if there are none.

    Integers in a small range have a bin each. A few outliers do not stretch the range.

    >>> histogram(np.array([1, 3, 3]))
    Histogram(low=0.5, high=3.5, counts=(1, 0, 2))
    """
    flat = array.reshape(-1)
    if array.dtype.kind == "f":
        finite = np.isfinite(flat)
        flat = flat if finite.all() else flat[finite]
    if not flat.size:
        return None
    low, high = float(flat.min()), float(flat.max())
    n_bins = N_BINS
    # Near 2**53 a float64 cannot hold the half that bin edges need.
    if array.dtype.kind in "biu" and high - low < N_BINS and abs(low) < 2**50:
        n_bins, low, high = int(high - low) + 1, low - 0.5, high + 0.5
    else:
        low, high = robust_range(flat, low, high)
        if not half_width(low, high):
            reach = abs(low) / 2 if abs(low) > 1e-300 else 0.5
            low, high = max(low - reach, -_LARGEST), min(high + reach, _LARGEST)
    return Histogram(low, high, tuple(np.bincount(_places(flat, low, high, n_bins), minlength=n_bins).tolist()))


def _places(flat: NDArray[Any], low: float, high: float, n_bins: int) -> NDArray[np.intp]:
    """The bin of each element."""
    places = flat.astype(np.float64)
    # In place, on one copy: the array may have millions of elements.
    places *= 0.5
    places -= low / 2
    places /= half_width(low, high)
    places *= n_bins
    np.clip(places, 0, n_bins - 1, out=places)
    return places.astype(np.intp)


def robust_range(flat: NDArray[Any], low: float, high: float) -> tuple[float, float]:
    """The range from lowest to highest, or that of all but 0.2 % of the values if outliers are far beyond it."""
    if flat.size < 100:
        return low, high
    some = flat[:: max(1, flat.size // _MOST_SORTED)].astype(np.float64)
    inner_low, inner_high = (float(q) for q in np.quantile(some, (_OUTLIERS, 1 - _OUTLIERS), method="nearest"))
    inner = half_width(inner_low, inner_high)
    return (inner_low, inner_high) if inner and half_width(low, high) > _FAR * inner else (low, high)


def half_width(low: float, high: float) -> float:
    """Half of `high - low`; finite even where the difference overflows."""
    return high / 2 - low / 2
