"""Spikes of a curve: steps whose value is far from those of the steps before.

The criterion is that of `core/unusual.py`: each value is judged against the last 50 before it. Values that are all
positive are compared by their logarithms, so that "14 times the median" counts the same at any level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutaway.core.unusual import N_PAST, Judgement, judge
from cutaway.store.runs.run import Run
from cutaway.store.runs.series import Curve

_LOG, _LINEAR = "norm", "mean"
"""Statistics with a logarithmic and a linear scale; `judge` asks for a name."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spike:
    """Consecutive values far from those before: the first of them is where something changed."""

    step: int
    """The first step."""
    until: int
    """The last step; the first one again if the next value is usual."""
    value: float
    """Value at the first step; NaN and infinities count as spikes, too."""
    median: float
    """Median of the values before."""
    z: float
    """Robust z-score at the first step; NaN if the value is not finite."""


@dataclass(frozen=True, slots=True)
class PastComparison:
    """One value of a curve beside those before it."""

    step: int
    value: float
    median: float
    """Median of the values before; NaN if there are none."""
    z: float
    """Robust z-score; NaN if the value is not finite, or if fewer than five values before are."""
    is_unusual: bool
    n_before: int
    """How many finite values before it was compared with, at most 50."""
    next_step: int | None
    """The next step with a value; None at the end."""
    next_value: float


def find_spikes(curve: Curve, groups: NDArray[np.intp] | None = None) -> tuple[Spike, ...]:
    """The spikes of a curve, in order of their steps.

    A value is part of a spike if `judge` calls it unusual against the 50 values before: its z-score is 5 or more, and
    it rose by a factor of 2. Values that fall count only if the values after rise again, because a loss that falls is
    no fault. NaN and infinities after finite values are spikes, too. At least five values must come before.

    >>> steps = np.arange(20)
    >>> values = np.where(steps == 12, 5.8, 0.4 + 0.01 * (steps % 3))
    >>> [(spike.step, spike.until) for spike in find_spikes(Curve(steps, values, np.zeros(20)))]
    [(12, 12)]

    Args:
        curve: a logged scalar, or a statistic over steps.
        groups: a number for each value; values are compared within their group. By default they are one group.
    """
    spikes = [spike for at in _members(curve, groups) for spike in _spikes_of(curve, at)]
    return tuple(sorted(spikes, key=lambda spike: spike.step))


def compare_with_past(curve: Curve, step: int, groups: NDArray[np.intp] | None = None) -> PastComparison | None:
    """The value at a step beside the 50 before; None if the curve has no value at that step."""
    place = int(np.searchsorted(curve.steps, step, side="right")) - 1
    if place < 0 or curve.steps[place] != step:
        return None
    at = next(at for at in _members(curve, groups) if place in at)
    own = int(np.searchsorted(at, place))
    values = np.asarray(curve.values, np.float64)[at]
    before = values[max(own - N_PAST, 0) : own]
    judged = _judge(values[own : own + 1], before[:, None], _scale(values))
    after = int(at[own + 1]) if own + 1 < len(at) else None
    return PastComparison(
        step=int(curve.steps[place]),
        value=float(values[own]),
        median=float(judged.usual[0, 0]),
        z=float(judged.z_past[0, 0]),
        is_unusual=bool(judged.is_unusual[0, 0]),
        n_before=int(np.isfinite(before).sum()),
        next_step=None if after is None else int(curve.steps[after]),
        next_value=float("nan") if after is None else float(curve.values[after]),
    )


def groups_by_kind(run: Run, steps: NDArray[np.int64]) -> NDArray[np.intp] | None:
    """The kind of each logged step as a number, -1 for steps that were not recorded; None if all are of one kind.

    Only recorded steps have a kind, so in a run with several kinds the others are compared with each other.
    """
    timeline = run.timeline
    if len(timeline.kinds) < 2:
        return None
    kinds = np.full(len(timeline), -1, np.intp)
    for number, places in enumerate(timeline.kinds.values()):
        kinds[places] = number
    at = np.searchsorted(timeline.steps, steps)
    is_recorded = timeline.steps[np.minimum(at, len(timeline) - 1)] == steps
    return np.where(is_recorded, kinds[np.minimum(at, len(timeline) - 1)], -1)


def _members(curve: Curve, groups: NDArray[np.intp] | None) -> Sequence[NDArray[np.intp]]:
    """The places of each group in the curve. Of several values at one step, the last counts."""
    steps = np.asarray(curve.steps)
    is_last = np.append(steps[1:] != steps[:-1], True) if len(steps) else np.zeros(0, bool)
    if groups is None:
        return [np.flatnonzero(is_last)]
    return [np.flatnonzero(is_last & (groups == group)) for group in np.unique(groups)]


def _spikes_of(curve: Curve, at: NDArray[np.intp]) -> list[Spike]:
    values = np.asarray(curve.values, np.float64)[at]
    if not len(values):
        return []
    scale = _scale(values)
    z, usual, is_far = _judge_each(values, scale)
    dips = np.flatnonzero(is_far & (z < 0))
    if dips.size:
        z_after, _, is_far_after = _judge_each(values[::-1], scale)
        is_far[dips] = (is_far_after & (z_after < 0))[::-1][dips]
    has_finite_before = np.append(False, np.logical_or.accumulate(np.isfinite(values))[:-1])
    is_far |= ~np.isfinite(values) & has_finite_before
    starts = np.flatnonzero(is_far & ~np.append(False, is_far[:-1]))
    ends = np.flatnonzero(is_far & ~np.append(is_far[1:], False))
    return [
        Spike(
            step=int(curve.steps[at[start]]),
            until=int(curve.steps[at[end]]),
            value=float(values[start]),
            median=float(usual[start]),
            z=float(z[start]),
        )
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def _judge_each(values: Floats, scale: str) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Of each value against the 50 before: its z-score, their median, and whether it is unusual."""
    # The first have fewer values before them, each another number of them: judged one by one.
    parts = [
        _judge(values[place : place + 1], values[:place, None], scale) for place in range(min(N_PAST, len(values)))
    ]
    if len(values) > N_PAST:
        windows = np.lib.stride_tricks.sliding_window_view(values, N_PAST)[:-1].T
        parts.append(_judge(values[N_PAST:], windows, scale))
    z, usual, is_unusual = (
        np.concatenate([getattr(part, name)[:, 0] for part in parts]) for name in ("z_past", "usual", "is_unusual")
    )
    return z, usual, is_unusual


def _judge(values: Floats, before: Floats, scale: str) -> Judgement:
    """Judges each value against its own column of values before, as if each were a tensor with one statistic."""
    return judge(values[:, None], before[:, :, None], (scale,), groups=[None] * len(values))


def _scale(values: Floats) -> str:
    finite = values[np.isfinite(values)]
    return _LOG if finite.size and finite.min() > 0 else _LINEAR
