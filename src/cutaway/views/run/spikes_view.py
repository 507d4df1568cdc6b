"""The spikes of a curve for the viewer, and the verdict on one of its steps."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cutaway.core.formatting import figures, plural
from cutaway.core.statistics import statistic
from cutaway.core.zscores import MIN_REFERENCES
from cutaway.store.format.records import VALUE, quantity_of
from cutaway.store.runs.scalars import Scalars
from cutaway.store.runs.series import Curve
from cutaway.store.runs.spikes import PastComparison, Spike, compare_with_past, find_spikes, groups_by_kind
from cutaway.views.run.rows import RunRows
from cutaway.views.values.value_view import finite_or_none


@dataclass(frozen=True, slots=True)
class CurveSource:
    """The curve that is asked about: a logged scalar, or one statistic of a row."""

    scalar: str = ""
    row: int | None = None
    statistic: str = ""


@dataclass(frozen=True, slots=True)
class SpikeView:
    """One spike."""

    step: int
    until: int
    """The last step of the spike."""
    value: float | None
    """None if it is NaN or infinite."""
    ratio: float | None
    """The value divided by the median of the values before; None unless both are positive."""
    is_recorded: bool
    """Whether its first step was recorded, not only logged."""


@dataclass(frozen=True, slots=True)
class SpikesView:
    """All spikes of one curve."""

    name: str
    """What the curve shows."""
    spikes: tuple[SpikeView, ...]
    n_values: int
    """Number of values on the curve."""


def spikes_view(rows: RunRows, source: CurveSource) -> SpikesView:
    """The spikes of a curve, in order; see `find_spikes` for what counts as one."""
    curve, _ = curve_of(rows, source)
    recorded = set(rows.run.steps.tolist())
    spikes = tuple(
        SpikeView(
            step=spike.step,
            until=spike.until,
            value=finite_or_none(spike.value),
            ratio=_ratio(spike.value, spike.median),
            is_recorded=spike.step in recorded,
        )
        for spike in spikes_of(rows, source)
    )
    return SpikesView(curve_name(rows, source), spikes, len(curve.steps))


_KNOWN: Final[WeakKeyDictionary[RunRows, dict[CurveSource, tuple[Scalars, tuple[Spike, ...]]]]] = WeakKeyDictionary()
"""Spikes that were found already, with the scalars of the run at that time: a refresh replaces that object."""
_MOST_KNOWN: Final = 64


def spikes_of(rows: RunRows, source: CurveSource) -> tuple[Spike, ...]:
    """The spikes of a curve as the store finds them; searched once until the run grows."""
    known = _KNOWN.setdefault(rows, {})
    if source not in known or known[source][0] is not rows.run.scalars:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[source] = (rows.run.scalars, find_spikes(*curve_of(rows, source)))
    return known[source][1]


def curve_of(rows: RunRows, source: CurveSource) -> tuple[Curve, NDArray[np.intp] | None]:
    """The values of a curve, and the group of each: its kind of step."""
    run = rows.run
    curve = run.scalars[source.scalar] if source.row is None else rows.curve(source.row, source.statistic)
    return curve, groups_by_kind(run, curve.steps)


def curve_name(rows: RunRows, source: CurveSource) -> str:
    """What a curve shows: `loss`, `std of stem.conv, gradient`."""
    if source.row is None:
        return source.scalar
    row = rows.row(source.row)
    what = "" if row.of == VALUE else f", {'gradient' if quantity_of(row.of) == 'grad' else row.of}"
    return f"{statistic(source.statistic).title} of {row.base}{what}"


def verdict(rows: RunRows, source: CurveSource, step: int) -> tuple[str, ...]:
    """One sentence on the value at a step and what it is compared with, in pieces: every second one is a number."""
    name = curve_name(rows, source)
    curve, groups = curve_of(rows, source)
    found = compare_with_past(curve, step, groups)
    title = name.capitalize() if _WORD.fullmatch(name) else name
    if found is None:
        return (f"{title} has no value at step {step:,}.",)
    return tuple(f"{title} {_number(found.value)}{_comparison(found, _kind(rows, groups, step))}.".split(_APART))


_WORD: Final = re.compile("[a-z]{3,}")
_APART: Final = "\0"


def _comparison(found: PastComparison, kind: str) -> str:
    before = f"{plural(found.n_before, f'{kind} step' if kind else 'step')} before"
    if found.n_before < MIN_REFERENCES:
        few = f"{found.n_before} of at least {MIN_REFERENCES}"
        return f": too few steps before to tell whether that is usual ({few}){_after(found)}"
    median = _number(found.median)
    if not math.isfinite(found.value):
        return f"; the median of the {before} is {median}{_after(found)}"
    if not found.is_unusual:
        return f": usual, with a median of {median} over the {before}{_after(found)}"
    ratio = _ratio(found.value, found.median)
    if ratio is None:
        sigmas = f"{figures(abs(found.z), 2)} robust standard deviations {'above' if found.z > 0 else 'below'}"
        return f": {sigmas} the median of the {before} ({median}){_after(found)}"
    times = figures(ratio, 2) if ratio < 10 else f"{ratio:,.0f}"
    return f": {times} times the median of the {before} ({median}){_after(found)}"


def _after(found: PastComparison) -> str:
    if found.next_step is None:
        return "; no later value yet"
    when = "one step later" if found.next_step == found.step + 1 else f"at step {found.next_step:,}"
    return f", and {_number(found.next_value)} {when}"


def _number(value: float) -> str:
    text = figures(value) if math.isfinite(value) else "NaN" if math.isnan(value) else "Inf" if value > 0 else "−Inf"
    return f"{_APART}{text}{_APART}"


def _kind(rows: RunRows, groups: NDArray[np.intp] | None, step: int) -> str:
    """The kind of a step where kinds are compared apart, else ""."""
    place = rows.run.timeline.position(step)
    if groups is None:
        return ""
    return "unrecorded" if place is None else rows.run.timeline.records[place].kind


def _ratio(value: float, median: float) -> float | None:
    return value / median if math.isfinite(value) and value > 0 and median > 0 else None
