"""The one criterion of "unusual", and what a tensor holds: numbers, zeros, NaN, Inf, a mask.

A statistic of a tensor is compared with two references: its own past (the recorded steps of the same kind before, 50 at
most) and its peers (tensors of the same role at the same step). `judge` is used by the graph, the overview and the
inspector of the viewer, and by everything else that calls a number unusual.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.statistics import magnitude_statistic, statistic
from cutaway.core.zscores import FAR, Floats, decades, medians, robust_z, z_among_peers

N_PAST: Final = 50
"""How many recorded steps of the same kind make up the past."""
RISE: Final = 2
FALL: Final = 10
MOVE: Final = 3
"""A magnitude is unusual against its past only if it rose or fell by these factors; a signed statistic, if it moved by
this many standard deviations of the tensor. Otherwise curves that hardly move would be unusual whenever they do."""
PEER_FACTOR: Final = 100
"""A magnitude is unusual among its peers only from this factor on: layers differ by design."""
HELP: Final = (
    "z: distance from the median in robust standard deviations (1.48 × MAD), of logarithms for magnitudes. "
    f"Past: the same tensor at the {N_PAST} recorded steps of the same kind before; a steady rise or fall is usual, "
    "because the distance is from their recent level or their trend, whichever is nearer. Peers: tensors of the same "
    f"role at this step. Unusual: |z| of {FAR} or more against the past, with a rise by a factor of {RISE} or a sudden "
    f"fall by a factor of {FALL} or more (signed statistics: a move by {MOVE} times the usual std); or a magnitude "
    f"that differs from its peers by a factor of {PEER_FACTOR} or more. Buffers, whole numbers and masks are left out."
)
"""What "unusual" means, for the place where it is shown."""

_GIVEN: Final = ("input", "target", "value", "")
"""Roles whose tensors may be whole numbers: token ids, positions, classes."""
_LEAST_OF_SIZE: Final = 0.01
"""Least spread of a signed statistic, relative to the tensor's standard deviation: a shift by less is no matter."""
_LEAST_OF_LEVEL: Final = 0.001
"""Least spread relative to the level: among equal numbers, every change would be infinitely unusual."""
_OVERFLOW: Final = 1e300


class Contents(IntEnum):
    """What a tensor holds at a step, as far as its statistics tell."""

    MISSING = 0
    """Not recorded."""
    NUMBERS = 1
    ZEROS = 2
    """Nothing but zeros."""
    NAN = 3
    INF = 4
    """Inf or −Inf, and no NaN."""
    MASK = 5
    """−Inf, and neither NaN nor Inf: as masks of attention and masked scores do."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How usual the statistics of a step are; all arrays are `[tensor, statistic]`.

    Numbers that cannot be compared are NaN.
    """

    z_past: Floats
    """Robust z-score against the past: the distance from its recent level or its trend, whichever is nearer."""
    z_peers: Floats
    n_past: NDArray[np.intp]
    """How many earlier steps were compared with."""
    n_peers: NDArray[np.intp]
    usual: Floats
    """The median of the past."""
    usual_of_peers: Floats
    """The median of the magnitudes of its peers; NaN for statistics that are not comparable between tensors."""
    ratio: Floats
    """The value divided by `usual`; NaN if that was 0, or if a signed one changed its sign or is usually small."""
    is_unusual: NDArray[np.bool_]

    @property
    def strength(self) -> Floats:
        """The larger of the two z-scores in magnitude, to order by; 0 if there is none."""
        either: Floats = np.fmax(np.abs(self.z_past), np.abs(self.z_peers))
        return np.nan_to_num(either, nan=0.0)


def judge(
    values: NDArray[Any],
    past: NDArray[Any],
    statistics: Sequence[str],
    *,
    groups: Sequence[Hashable | None],
    is_compared: NDArray[np.bool_] | None = None,
) -> Judgement:
    """Decides which statistics of a step are unusual.

    With `m` the recent level of the past, `t` its straight trend at this step (`level_and_trend`), and `s` 1.48 times
    the median distance of the past from that trend, widened where it is short (`core/zscores.py`):

        z_past = the one of (x - m) / s and (x - t) / s that is smaller in magnitude; 0 if x is between m and t

    If a magnitude fell, the step before counts as well: `x` is compared with the smallest of the three. A statistic is
    unusual if `|z_past|` is 5 or more, and it rose by a factor of 2 or fell by a factor of 10 or more (a signed one: if
    it moved by 3 times the usual `std` of the tensor or more). The first statistic of magnitude is also unusual if
    `|z_peers|` is 5 or more, and it differs from the median of its peers by a factor of 100 or more and is not 0.
    Magnitudes are compared on a logarithmic scale.

    >>> past = np.array([1.0, 1.1, 0.9, 1.05, 0.95, 1.02]).reshape(-1, 1, 1)
    >>> found = judge(np.array([[41.0]]), past, ("norm",), groups=[None])
    >>> bool(found.is_unusual[0, 0]), round(float(found.usual[0, 0]), 2)
    (True, 1.01)

    Args:
        values: the statistics of the step, `[tensor, statistic]`.
        past: those of the steps before, oldest first, `[step, tensor, statistic]`; NaN where not recorded.
        statistics: their names.
        groups: the peer group of each tensor (`peer_group`); None for tensors without peers.
        is_compared: by tensor, whether it is compared at all (`is_compared`); all by default.
    """
    x = np.asarray(values, np.float64)
    n_tensors, n_statistics = x.shape
    before = np.asarray(past, np.float64).reshape(-1, n_tensors, n_statistics)[-N_PAST:]
    names = tuple(statistics) * n_tensors
    flat = before.reshape(len(before), n_tensors * n_statistics)
    sizes = _sizes(before, statistics)
    z_past, n_past, is_moved = _z_past(x.reshape(-1), flat, names, sizes)
    # What is not compared is no peer of others either.
    groups = [group if is_compared is None or is_compared[place] else None for place, group in enumerate(groups)]
    z_peers, n_peers = z_among_peers(x, groups, statistics)
    usual = _usual(flat).reshape(x.shape)
    z_past, n_past = z_past.reshape(x.shape), n_past.reshape(x.shape)
    is_judged = np.array([_is_judged(name) for name in statistics], bool)
    out = ~is_judged[None, :] | (False if is_compared is None else ~is_compared[:, None])
    z_past, z_peers = np.where(out, np.nan, z_past), np.where(out, np.nan, z_peers)
    with np.errstate(all="ignore"):
        has_ratio = (usual != 0) & (x * usual >= 0) & (np.abs(usual) >= sizes.reshape(x.shape)) & ~out
        ratio = np.where(has_ratio, x / usual, np.nan)
        is_unusual = (np.abs(z_past) >= FAR) & is_moved.reshape(x.shape)
        middle = _peer_medians(x, groups, statistics)
        is_unusual |= (np.abs(z_peers) >= FAR) & _is_apart(np.abs(x), middle, statistics)
    counts = (n_past.astype(np.intp), n_peers.astype(np.intp))
    return Judgement(z_past, z_peers, *counts, usual, middle, ratio, is_unusual)


def judged_statistics(statistics: Sequence[str]) -> tuple[str, ...]:
    """The statistics that can be unusual: not counts of faults, quantiles, or parts of a histogram.

    >>> judged_statistics(["mean", "std", "nonfinite", "p50", "count", "h0"])
    ('mean', 'std')
    """
    return tuple(name for name in statistics if _is_judged(name))


def level_and_trend(past: Floats) -> tuple[Floats, Floats, Floats]:
    """The recent level of each column, its straight trend at the step after the last, and the distances from the trend.

    The level is the median of the last third of the rows. The trend is Tukey's resistant line: its slope is that
    between the medians of the first and the last third, its height the median of what is left. A few outliers move
    neither.

    >>> level, trend, left = level_and_trend(np.arange(9.0).reshape(-1, 1))
    >>> float(level[0]), float(trend[0]), float(np.abs(left).max())
    (7.0, 9.0, 0.0)

    Args:
        past: `[step, column]`, finite or NaN.
    """
    n = len(past)
    third = max(1, n // 3)
    places = np.arange(n, dtype=np.float64)
    first, last = medians(past[:third]), medians(past[n - third :])
    slope = (last - first) / max(1.0, float(np.median(places[n - third :]) - np.median(places[:third])))
    slope = np.where(np.isfinite(slope), slope, 0.0)
    height = medians(past - slope * places[:, None])
    left = past - (height + slope * places[:, None])
    return np.where(np.isfinite(last), last, medians(past)), height + slope * n, left


def contents_of(matrix: NDArray[Any], statistics: Sequence[str]) -> NDArray[np.uint8]:
    """What each tensor holds (`Contents`), from its statistics at one step.

    Counts of NaN and Inf decide if they were recorded (`statistics="full"`). Otherwise extremes and the mean do: a
    mean of NaN between finite extremes comes from NaN.

    >>> names = ("mean", "min", "max", "nonfinite")
    >>> rows = np.array([[0, 0, 0, 0], [-np.inf, -np.inf, 0, 1], [np.nan, 0, 1, 1], [np.nan] * 4])
    >>> [Contents(code).name for code in contents_of(rows, names)]
    ['ZEROS', 'MASK', 'NAN', 'MISSING']

    Args:
        matrix: `[tensor, statistic]`.
        statistics: the names of its columns.
    """
    columns = {name: matrix[:, place].astype(np.float64) for place, name in enumerate(statistics)}
    unknown = np.full(len(matrix), np.nan)
    low, high, mean = (columns.get(name, unknown) for name in ("min", "max", "mean"))
    nans, infs, flag = (columns.get(name, unknown) for name in ("nans", "infs", "nonfinite"))
    known = [column for name, column in columns.items() if statistic(name).unit == "value"]
    any_inf = np.any([np.isinf(column) for column in (low, high)], axis=0)
    is_broken = (flag > 0) | (nans > 0) | (infs > 0) | (np.isnan(flag) & any_inf)
    # A mean of −Inf and Inf is NaN without any NaN among the elements.
    has_nan = np.where(np.isnan(nans), np.isnan(mean) & ~(np.isneginf(low) & np.isposinf(high)), nans > 0)
    has_up = np.isposinf(high) | (~np.isneginf(low) & ~has_nan)
    codes = np.full(len(matrix), Contents.NUMBERS, np.uint8)
    sizes = [columns[name] for name in ("norm", "abs_mean") if name in columns]
    is_zero = np.any([size == 0 for size in sizes], axis=0) if sizes else (low == 0) & (high == 0)
    codes[is_zero & ~is_broken] = Contents.ZEROS
    codes[is_broken] = np.where(has_nan, Contents.NAN, np.where(has_up, Contents.INF, Contents.MASK))[is_broken]
    is_missing = ~is_broken & np.all([np.isnan(column) for column in [*known, flag]], axis=0)
    codes[is_missing] = Contents.MISSING
    return codes


def is_compared(
    matrix: NDArray[Any], statistics: Sequence[str], roles: Sequence[str], has_gradient: Sequence[bool]
) -> NDArray[np.bool_]:
    """Whether each tensor has a place on a common scale: not buffers, whole numbers or masks.

    Whole numbers are inputs, targets and values without gradient whose extremes are whole and whose quantiles are what
    lies between whole numbers: token ids, positions, classes, masks of 0 and 1.

    Args:
        matrix: the statistics of one step, `[tensor, statistic]`.
        statistics: the names of its columns.
        roles: the role of each tensor.
        has_gradient: whether a gradient of the tensor was recorded, or it is one.
    """
    columns = {name: matrix[:, place].astype(np.float64) for place, name in enumerate(statistics)}
    ends = [columns[name] for name in ("min", "max") if name in columns]
    # A quantile lies between two elements, at a hundredth of their distance.
    inner = [100 * columns[name] for name in _QUANTILES if name in columns]
    is_whole = np.full(len(matrix), bool(ends))
    for found in (*ends, *inner):
        with np.errstate(invalid="ignore"):
            is_whole &= np.isnan(found) | (np.abs(found - np.round(found)) <= _ROUNDING * (1 + np.abs(found)))
    is_whole &= contents_of(matrix, statistics) == Contents.NUMBERS
    is_given = np.array([role in _GIVEN for role in roles], bool) & ~np.asarray(has_gradient, bool)
    is_buffer = np.array([role == "buffer" for role in roles], bool)
    is_mask = contents_of(matrix, statistics) == Contents.MASK
    compared: NDArray[np.bool_] = ~is_buffer & ~(is_whole & is_given) & ~is_mask
    return compared


_QUANTILES: Final = tuple(f"p{percent}" for percent in (1, 5, 25, 50, 75, 95, 99))
_ROUNDING: Final = 3e-7
"""Relative error of statistics, which are stored as float32."""


def _is_judged(name: str) -> bool:
    own = statistic(name)
    return own.is_tracked and own.part == "number" and not own.is_fault


def _z_past(x: Floats, past: Floats, names: Sequence[str], sizes: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """The z-score of each number against its past, how many numbers that has, and whether it moved far enough."""
    if not len(past):
        return np.full(x.shape, np.nan), np.zeros(x.shape), np.zeros(x.shape, bool)
    with np.errstate(all="ignore"):
        is_log = np.array([statistic(name).scale == "log" for name in names], bool)
        now, before = x.copy(), past.copy()
        now[is_log], before[:, is_log] = decades(x[is_log]), decades(past[:, is_log])
        before[~np.isfinite(before)] = np.nan
        recent, trend, left = level_and_trend(before)
        above, beside = now - recent, now - trend
        nearer = np.where(np.abs(above) <= np.abs(beside), above, beside)
        distance = np.where(np.sign(above) * np.sign(beside) < 0, 0.0, nearer)
        # A learning rate that decays to 0 makes everything smaller, faster and faster: only a sudden fall counts.
        fall = np.minimum(now - _last_of(before), 0.0)
        distance = np.where(is_log & (distance < 0), np.maximum(distance, fall), distance)
        least = np.maximum(_LEAST_OF_SIZE * sizes, _LEAST_OF_LEVEL * np.abs(recent))
        z, n = robust_z(distance, left, names, least=least, is_scaled=True)
        is_far = (distance >= np.log10(RISE)) | (distance <= -np.log10(FALL))
        return z, n, np.where(is_log, is_far, np.abs(distance) >= MOVE * sizes)


def _last_of(past: Floats) -> Floats:
    """The last finite number of each column; NaN if there is none."""
    places = np.where(np.isfinite(past), np.arange(len(past))[:, None], -1).max(axis=0)
    last: Floats = np.where(places >= 0, past[places, np.arange(past.shape[1])], np.nan)
    return last


def _sizes(past: Floats, statistics: Sequence[str]) -> Floats:
    """By tensor and statistic, flat, the usual standard deviation for signed statistics of the values; else 0."""
    _, n_tensors, n_statistics = past.shape
    sizes = np.zeros((n_tensors, n_statistics))
    if "std" in statistics and len(past):
        std = _usual(past[:, :, list(statistics).index("std")])
        for place, name in enumerate(statistics):
            if statistic(name).is_signed and statistic(name).unit == "value":
                sizes[:, place] = np.nan_to_num(std, nan=0.0)
    return sizes.reshape(-1)


def _peer_medians(x: Floats, groups: Sequence[Hashable | None], statistics: Sequence[str]) -> Floats:
    middle = np.full(x.shape, np.nan)
    columns = [place for place, name in enumerate(statistics) if statistic(name).is_comparable]
    members: dict[Hashable, list[int]] = {}
    for number, group in enumerate(groups):
        if group is not None:
            members.setdefault(group, []).append(number)
    for numbers in members.values():
        middle[np.ix_(numbers, columns)] = _usual(np.abs(x[np.ix_(numbers, columns)]))
    return middle


def _is_apart(sizes: Floats, middle: Floats, statistics: Sequence[str]) -> NDArray[np.bool_]:
    """Whether each magnitude differs from the median of its peers by the factor from which they count."""
    # A tensor of zeros has a mark of its own.
    apart: NDArray[np.bool_] = (sizes > 0) & ((sizes >= PEER_FACTOR * middle) | (sizes * PEER_FACTOR <= middle))
    apart &= np.array([name == magnitude_statistic(statistics) for name in statistics], bool)
    return apart


def _usual(columns: Floats) -> Floats:
    finite = np.where(np.isfinite(columns) & (np.abs(columns) < _OVERFLOW), columns, np.nan)
    return medians(finite)
