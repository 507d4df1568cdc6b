"""Robust z-scores: distance from the median in units of the median absolute deviation (MAD).

All z-scores are computed here. A number is compared with the same tensor at earlier steps of the same kind, or with
the other tensors of its role at the same step (`peer_group`); a number of one sample with the samples of its batch.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.statistics import statistic

Floats = NDArray[np.float64]

MIN_REFERENCES: Final = 5
"""A z-score needs at least this many reference values."""
FAR: Final = 5
"""Numbers with at least this z-score (in magnitude) are outliers."""
LARGEST: Final = 99
"""Larger z-scores are clipped."""
_ROLES_WITHOUT_PEERS: Final = ("input", "target", "loss")
"""Roles whose tensors have no peers: token ids cannot be compared with images, nor one loss with another."""
_MAD_TO_STD: Final = 1.4826
"""MAD × this factor is the standard deviation of a normal distribution."""
# Least spreads (2.3 % and 0.1 %): among equal references, every change would be infinitely unusual.
_MIN_SPREAD_LOG10: Final = 0.01
_MIN_RELATIVE_SPREAD: Final = 0.001
_TINY: Final = 1e-30
_SMALL_SAMPLE_WIDENING: Final = 8
"""The MAD of `n` numbers is multiplied by `1 + 8 / n`: a few numbers may be close together by chance."""


def peer_group(role: str, of: str) -> Hashable | None:
    """The group a tensor is compared with at its step: the same role and the same kind (value, gradient, update).

    None for inputs, targets and losses, which are compared only with their own earlier steps.

    >>> peer_group("parameter", "grad") == peer_group("parameter", "grad") != peer_group("value", "grad")
    True
    """
    return None if role in _ROLES_WITHOUT_PEERS else (role, of)


def robust_z(
    values: NDArray[Any],
    references: NDArray[Any],
    statistics: Sequence[str],
    *,
    least: NDArray[Any] | None = None,
    is_scaled: bool = False,
) -> tuple[Floats, Floats]:
    """The z-score of each value relative to its references, and the number of finite references.

    With `m` the median of the finite references and `d` the median of their distances from `m`:

        z = (x - m) / max(1.4826 d (1 + 8 / n), e),  cut off at ±99

    where `n` is the number of finite references and `e = 0.001 |m|` (or the smallest float, if `m` is 0). Statistics
    with a logarithmic scale (`std`, `norm`, …) use base-10 logarithms of `x` and of the references, 1e-30 for zeros,
    and `e = 0.01`. NaN if the value is not finite, or if fewer than five references are.

    >>> z, n = robust_z(np.array([100.0]), np.array([[1], [1.1], [0.9], [1], [1.05], [0.95]]), ("std",))
    >>> bool(z[0] > 10), n
    (True, array([6.]))

    Args:
        values: one for each statistic, or `[value, statistic]`.
        references: `[reference, statistic]`.
        least: for each statistic, the least spread it has on a linear scale.
        is_scaled: whether logarithms were taken already.
    """
    with np.errstate(all="ignore"):
        x, them = np.array(values, np.float64), np.array(references, np.float64)
        is_log = np.array([statistic(name).scale == "log" for name in statistics], bool)
        if not is_scaled:
            x[..., is_log] = decades(x[..., is_log])
            them[:, is_log] = decades(them[:, is_log])
        them[~np.isfinite(them)] = np.nan
        n = np.isfinite(them).sum(axis=0).astype(np.float64)
        median = medians(them)
        spread = _MAD_TO_STD * medians(np.abs(them - median)) * (1 + _SMALL_SAMPLE_WIDENING / np.maximum(n, 1))
        floor = np.maximum(_MIN_RELATIVE_SPREAD * np.abs(median), np.finfo(np.float64).tiny)
        floor = np.where(is_log, _MIN_SPREAD_LOG10, floor if least is None else np.maximum(floor, least))
        z: Floats = np.clip((x - median) / np.maximum(spread, floor), -LARGEST, LARGEST)
        z[(n < MIN_REFERENCES) | ~np.isfinite(x)] = np.nan
    return z, n


def z_among_peers(
    matrix: NDArray[Any], groups: Sequence[Hashable | None], statistics: Sequence[str]
) -> tuple[Floats, Floats]:
    """The z-score of every statistic of every tensor of a step within its group, and the number of other tensors.

    The tensor itself is part of its group: one number hardly moves a median, and each group is sorted once instead of
    once per tensor. NaN for statistics that cannot be compared between tensors, and where fewer than five others are
    finite.

    Args:
        matrix: `[tensor, statistic]`.
        groups: the `peer_group` of each tensor.
    """
    z = np.full(matrix.shape, np.nan)
    n_others = np.zeros(matrix.shape)
    columns = [number for number, name in enumerate(statistics) if statistic(name).is_comparable]
    names = [statistics[column] for column in columns]
    members: dict[Hashable, list[int]] = {}
    for number, group in enumerate(groups):
        if group is not None:
            members.setdefault(group, []).append(number)
    for numbers in members.values():
        chosen = np.ix_(numbers, columns)
        values = matrix[chosen]
        scores, n = robust_z(values, values, names)
        others = np.maximum(n - np.isfinite(values), 0)
        z[chosen] = np.where(others < MIN_REFERENCES, np.nan, scores)
        n_others[chosen] = others
    return z, n_others


def decades(values: Floats) -> Floats:
    """Base-10 logarithms of magnitudes; that of 1e-30 for zeros."""
    logs: Floats = np.log10(np.where(values == 0, _TINY, np.abs(values)))
    return logs


def medians(columns: Floats) -> Floats:
    """The median of each column, ignoring NaN; faster than `np.nanmedian` and without its warnings."""
    if not len(columns):
        return np.full(columns.shape[1], np.nan)
    ordered = np.sort(columns, axis=0)  # NaN comes last
    n = np.isfinite(ordered).sum(axis=0)
    at = np.arange(columns.shape[1])
    low, high = ordered[np.maximum(n - 1, 0) // 2, at], ordered[np.minimum(n // 2, len(columns) - 1), at]
    # Not (low + high) / 2, which overflows for large floats.
    middle: Floats = np.where(n > 0, low / 2 + high / 2, np.nan)
    return middle
