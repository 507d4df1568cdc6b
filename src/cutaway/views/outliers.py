"""How unusual a statistic is: robust deviations from a tensor's own past, and from others like it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST: Final = 5
"""Of fewer numbers nobody can say what is usual among them."""
MOST: Final = 99.0
"""Deviations are cut off here."""
SCALE_LIKE: Final = frozenset({"abs_mean", "std", "norm", "spectral_norm"})
"""Statistics that cannot be negative and that differ by factors: they are compared by their logarithms."""
COUNTS: Final = frozenset({"zeros", "nans", "infs", "nonfinite"})
"""They mean something beside the same tensor at another step, and nothing beside another tensor."""
_UNJUDGED: Final = frozenset({"count", "low", "high"})
_TO_DEVIATION: Final = 1.4826
"""The median distance from the median, times this, is the standard deviation of normally distributed numbers."""
_LEAST_DECADES: Final = 0.01
_LEAST_SHARE: Final = 0.001
_TINY: Final = 1e-30


def is_judged(statistic: str, *, by_others: bool = False) -> bool:
    """Whether deviations of a statistic mean anything.

    >>> is_judged("std"), is_judged("h3"), is_judged("zeros", by_others=True)
    (True, False, False)
    """
    is_bin = statistic[:1] == "h" and statistic[1:].isdecimal()
    return not is_bin and statistic not in _UNJUDGED and not (by_others and statistic in COUNTS)


def deviations(values: NDArray[Any], references: NDArray[Any], statistics: tuple[str, ...]) -> tuple[Floats, Floats]:
    """How many robust standard deviations each value is from its references, and how many references it had.

    With `m` the median of the finite references and `d` the median of their distances from `m`:

        z = (x - m) / max(1.4826 d, e),  cut off at ±99

    where `e = 0.001 |m|` (or the smallest number, if `m` is 0). Of statistics like a scale (`std`, `norm`, …) `x` and
    the references are taken as their base-10 logarithms, a zero as 1e-30, and `e = 0.01`. NaN where the value is not
    finite, or fewer than five references are.

    >>> z, n = deviations(np.array([100.0]), np.array([[1], [1.1], [0.9], [1], [1.05], [0.95]]), ("std",))
    >>> bool(z[0] > 20), n
    (True, array([6.]))

    Args:
        values: one for each statistic.
        references: `[reference, statistic]`.
    """
    with np.errstate(all="ignore"):
        x, them = np.array(values, np.float64), np.array(references, np.float64)
        is_log = np.array([name in SCALE_LIKE for name in statistics], bool)
        x[is_log] = _decades(x[is_log])
        them[:, is_log] = _decades(them[:, is_log])
        them[~np.isfinite(them)] = np.nan
        n = np.isfinite(them).sum(axis=0).astype(np.float64)
        middle = _medians(them)
        spread = _TO_DEVIATION * _medians(np.abs(them - middle))
        least = np.where(is_log, _LEAST_DECADES, np.maximum(_LEAST_SHARE * np.abs(middle), np.finfo(np.float64).tiny))
        z: Floats = np.clip((x - middle) / np.maximum(spread, least), -MOST, MOST)
    z[(n < FEWEST) | ~np.isfinite(x)] = np.nan
    return z, n


def _decades(values: Floats) -> Floats:
    found: Floats = np.log10(np.where(values == 0, _TINY, np.abs(values)))
    return found


def _medians(columns: Floats) -> Floats:
    """The median of each column, NaN left out; without the warnings of `np.nanmedian`, and faster."""
    if not len(columns):
        return np.full(columns.shape[1], np.nan)
    ordered = np.sort(columns, axis=0)  # NaN comes last
    n = np.isfinite(ordered).sum(axis=0)
    at = np.arange(columns.shape[1])
    low, high = ordered[np.maximum(n - 1, 0) // 2, at], ordered[np.minimum(n // 2, len(columns) - 1), at]
    found: Floats = np.where(n > 0, low / 2 + high / 2, np.nan)
    return found
