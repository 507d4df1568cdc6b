"""Limits of a color scale for one run and one selection: they hold 98 % of its steps and do not move between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError
from cutaway.core.statistics import statistic
from cutaway.core.unusual import Contents, contents_of
from cutaway.views.run.outliers import compared_rows
from cutaway.views.run.rows import RunRows

LimitScale = Literal["linear", "log", "symlog"]

HELD: Final = 0.98
"""The share of the steps that the limits hold."""
_FEW: Final = 5
"""Percent of the tensors of a step that may be outside: else one dead bias leaves one color for the rest."""
_MOST_STEPS: Final = 200
"""More steps than this are thinned out evenly."""
_JUMP: Final = 2.0
"""A step whose typical number is this many decades away from the steps before sets no limits: an explosion."""
_RECENT: Final = 20


@dataclass(frozen=True, slots=True)
class ColorLimits:
    """The limits of one statistic of one quantity over the steps of one kind."""

    low: float
    high: float
    scale: LimitScale
    """"log" for magnitudes, "symlog" around 0 for signed numbers, "linear" for shares and counts."""
    knee: float
    """Where a symlog scale becomes linear; 0 for other scales."""
    n_steps: int
    """How many steps were looked at."""
    n_left_out: int
    """How many of them set no limits, because everything jumped by a factor of 100 or more."""


def color_limits(rows: RunRows, name: str, *, of: str, kind: str | None = None) -> ColorLimits | None:
    """The limits of a statistic; None if there are no numbers to color.

    Buffers, whole numbers and masks do not count (`core.unusual.is_compared`), nor do zeros and what is not finite.

    Args:
        name: the statistic.
        of: the quantity: "value", "grad", "update"…
        kind: only steps of this kind; None for all.
    """
    column = rows.column_number(name)
    chosen = np.array([row.of == of and row.role not in ("input", "target") for row in rows.rows], bool)
    if not chosen.any():
        chosen = np.array([row.of == of for row in rows.rows], bool)
    timeline = rows.run.timeline
    places = np.arange(len(timeline)) if kind is None else timeline.kinds.get(kind, np.empty(0, np.intp))
    thinned = places[np.unique(np.linspace(0, len(places) - 1, min(len(places), _MOST_STEPS)).astype(int))]
    steps: list[NDArray[np.float64]] = []
    for place in thinned.tolist():
        try:
            matrix = rows.matrix(timeline.records[place].step)
        except DamagedError:
            continue
        is_numbers = contents_of(matrix, rows.statistics) == Contents.NUMBERS
        numbers = matrix[:, column][chosen & is_numbers & compared_rows(rows, matrix)].astype(np.float64)
        numbers = numbers[np.isfinite(numbers)]
        if numbers.size:
            steps.append(numbers)
    ordinary = _ordinary(steps)
    if not ordinary:
        return None
    return _limits(ordinary, name, len(steps), len(steps) - len(ordinary))


def _ordinary(steps: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """The steps whose typical magnitude follows from that of the steps before."""
    kept: list[NDArray[np.float64]] = []
    levels: list[float] = []
    for numbers in steps:
        sizes = np.abs(numbers[numbers != 0])
        level = float(np.median(np.log10(sizes))) if sizes.size else math.nan
        usual = float(np.median(levels[-_RECENT:])) if levels else level
        if math.isnan(level) or math.isnan(usual) or abs(level - usual) <= _JUMP:
            kept.append(numbers)
            if not math.isnan(level):
                levels.append(level)
    return kept


def _limits(steps: list[NDArray[np.float64]], name: str, n_steps: int, n_left_out: int) -> ColorLimits:
    """Limits between which lie most tensors of most steps."""
    tail = 100 * (1 - HELD) / 2
    own = statistic(name)

    def over_steps(percent_of_tensors: float, percent_of_steps: float, each: list[NDArray[np.float64]]) -> float:
        found = [float(np.percentile(numbers, percent_of_tensors)) for numbers in each if numbers.size]
        # A step itself, not a number between two: one exploded step must not move the limits.
        inner: Literal["lower", "higher"] = "lower" if percent_of_steps >= 50 else "higher"
        limit = float(np.percentile(found, percent_of_steps, method=inner)) if found else math.nan
        return float(f"{limit:.4g}")  # as short as an address should be

    if own.unit != "value":
        return ColorLimits(
            0.0, over_steps(100 - _FEW / 2, 100 - tail, steps) or 1.0, "linear", 0.0, n_steps, n_left_out
        )
    # A maximum is signed by definition, but mostly positive: then it is an amount, too.
    if own.is_signed and over_steps(_FEW, 50, steps) < 0:
        sizes = [np.abs(numbers[numbers != 0]) for numbers in steps]
        most = over_steps(100 - _FEW / 2, 100 - tail, sizes)
        if not math.isfinite(most):
            return ColorLimits(-1.0, 1.0, "symlog", 1.0, n_steps, n_left_out)
        return ColorLimits(-most, most, "symlog", min(over_steps(10, 50, sizes), most), n_steps, n_left_out)
    positive = [numbers[numbers > 0] for numbers in steps]
    low, high = over_steps(_FEW, tail, positive), over_steps(100 - _FEW / 2, 100 - tail, positive)
    if not math.isfinite(low) or not math.isfinite(high):
        return ColorLimits(0.0, 1.0, "linear", 0.0, n_steps, n_left_out)
    return ColorLimits(min(low, high), max(low, high), "log", 0.0, n_steps, n_left_out)
