"""How unusual a statistic is: robust deviations from a tensor's own past, and from others like it."""

from __future__ import annotations

import re
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
SIZES: Final = ("abs_mean", "std", "norm")
"""What tells how large the values of a tensor are: the first of them that was recorded."""
APART: Final = 100.0
"""So many times larger than those of its sibling, values are no chance."""
_OWN: Final = COUNTS | {"mean", "norm"}
"""Beside other tensors, a mean says which function was last, and a norm how many elements there are."""
_UNJUDGED: Final = frozenset({"count", "low", "high"})
_BETWEEN: Final = re.compile(r"[./]")
_TO_DEVIATION: Final = 1.4826
"""The median distance from the median, times this, is the standard deviation of normally distributed numbers."""
_LEAST_DECADES: Final = 0.01
_LEAST_SHARE: Final = 0.001
_TINY: Final = 1e-30
_FEW_MORE: Final = 8
"""Of `n` numbers the spread is taken `1 + 8 / n` times: a few may lie close together by chance."""


def is_judged(statistic: str, *, by_others: bool = False) -> bool:
    """Whether deviations of a statistic mean anything.

    >>> is_judged("std"), is_judged("h3"), is_judged("mean", by_others=True)
    (True, False, False)
    """
    is_bin, is_quantile = (statistic[:1] == letter and statistic[1:].isdecimal() for letter in "hp")
    if by_others and (is_quantile or statistic in _OWN):
        return False
    return not is_bin and statistic not in _UNJUDGED


def are_alike(site: str, other: str) -> bool:
    """Whether two sites are the same but for one part of the address before the last: siblings of each other.

    >>> are_alike("encoder.3.mlp", "encoder.0.mlp"), are_alike("memory/out", "output/out"), are_alike("h.0", "h.1")
    (True, True, False)
    """
    own, its = _BETWEEN.split(site), _BETWEEN.split(other)
    if len(own) != len(its) or own[-1] != its[-1]:
        return False
    n_other: int = sum(a != b for a, b in zip(own, its, strict=True))
    return n_other == 1


def deviations(values: NDArray[Any], references: NDArray[Any], statistics: tuple[str, ...]) -> tuple[Floats, Floats]:
    """How many robust standard deviations each value is from its references, and how many references it had.

    With `m` the median of the finite references and `d` the median of their distances from `m`:

        z = (x - m) / max(1.4826 d (1 + 8 / n), e),  cut off at ±99

    where `n` counts the finite references and `e = 0.001 |m|` (or the smallest number, if `m` is 0). Of statistics like
    a scale (`std`, `norm`, …) `x` and the references are taken as their base-10 logarithms, a zero as 1e-30, and
    `e = 0.01`. NaN where the value is not finite, or fewer than five references are.

    >>> z, n = deviations(np.array([100.0]), np.array([[1], [1.1], [0.9], [1], [1.05], [0.95]]), ("std",))
    >>> bool(z[0] > 10), n
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
        spread = _TO_DEVIATION * _medians(np.abs(them - middle)) * (1 + _FEW_MORE / np.maximum(n, 1))
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
