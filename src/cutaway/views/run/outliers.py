"""What is unusual among the tensors of a step (`core/unusual.py`), in words; siblings of a different magnitude."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError
from cutaway.core.formatting import figures, plural
from cutaway.core.statistics import statistic
from cutaway.core.unusual import HELP, N_PAST, Judgement, contents_of, is_compared, judge, judged_statistics
from cutaway.core.zscores import FAR, LARGEST, peer_group
from cutaway.store.format.records import VALUE
from cutaway.store.runs.step import Step
from cutaway.views.run.rows import Matrix, RunRows
from cutaway.views.run.sample_matrix import sample_matrix
from cutaway.views.run.training_marks import TrainingMark, training_marks

SIBLING_RATIO: Final = 100.0
"""A magnitude this many times that of a sibling is reported."""
_BETWEEN: Final = re.compile(r"[./]")


@dataclass(frozen=True, slots=True)
class Unusual:
    """A statistic of a tensor that is unusual at a step."""

    row: int
    statistic: str
    z_past: float | None
    """Robust z-score against its own past; None if that is too short."""
    z_peers: float | None
    """Robust z-score among tensors of the same role at this step; None if there are too few."""
    ratio: float | None
    """The value divided by the median of its past; None if that says nothing."""
    is_above: bool
    text: str
    """A few words for a label: "×41 of usual"."""
    about: str
    """A sentence with what it was compared with, and since when."""


@dataclass(frozen=True, slots=True)
class StepMarks:
    """What stands out at a step; the same for the graph, the overview and the inspector."""

    step: int
    unusual: tuple[Unusual, ...]
    """The strongest first."""
    training: tuple[TrainingMark, ...]
    """Tensors without gradient or update."""
    help: str
    """What "unusual" means."""


def step_marks(rows: RunRows, step: int, *, sample: int | None = None) -> StepMarks:
    """What stands out at a step.

    Args:
        sample: one of the kept samples, which is compared with its peers only; None for the whole batch.
    """
    at = rows.run.at(step)
    matrix = rows.matrix(at) if sample is None else sample_matrix(rows, step, sample)
    compared = compared_rows(rows, matrix)
    unusual = unusual_of_step(rows, at, matrix, compared, has_past=sample is None)
    shown = rows.rows
    return StepMarks(
        step=at.step,
        unusual=unusual,
        # Whole numbers have no gradient by nature.
        training=tuple(
            mark for mark in training_marks(rows, at) if compared[mark.row] or shown[mark.row].role == "parameter"
        ),
        help=HELP,
    )


LEFT_OUT: Final = 8
"""Added to the code of a tensor that has no place on a common scale: a buffer, whole numbers, a mask."""


def contents_codes(rows: RunRows, matrix: Matrix) -> NDArray[np.uint8]:
    """By row, what the tensor holds (`core.unusual.Contents`), plus `LEFT_OUT` where it is not compared."""
    codes = contents_of(matrix, rows.statistics)
    return (codes + LEFT_OUT * ~compared_rows(rows, matrix)).astype(np.uint8)


def compared_rows(rows: RunRows, matrix: Matrix) -> NDArray[np.bool_]:
    """By row, whether it has a place on a common scale (`core.unusual.is_compared`)."""
    shown = rows.rows
    has_gradient = {row.base for row in shown if row.of != VALUE}
    return is_compared(
        matrix, rows.statistics, [row.role for row in shown], [row.base in has_gradient for row in shown]
    )


def unusual_of_step(
    rows: RunRows, at: Step, matrix: Matrix, compared: NDArray[np.bool_], *, has_past: bool = True
) -> tuple[Unusual, ...]:
    """The unusual statistics of a step, the strongest first."""
    names = judged_statistics(rows.statistics)
    columns = [rows.statistics.index(name) for name in names]
    steps, past = past_matrix(rows, at, columns) if has_past else ([], np.empty((0, len(rows), len(names))))
    groups = [peer_group(row.role, row.of) for row in rows.rows]
    values = matrix[:, columns].astype(np.float64)
    found = judge(values, past, names, groups=groups, is_compared=compared)
    tensors, places = np.nonzero(found.is_unusual)
    order = np.argsort(-found.strength[tensors, places], kind="stable")
    return tuple(
        _unusual(int(tensors[i]), names[places[i]], values, found, int(places[i]), _when(at, steps)) for i in order
    )


def judge_row(
    rows: RunRows, number: int, at: Step, matrix: Matrix
) -> tuple[Judgement, Judgement, dict[str, Unusual], tuple[str, ...]]:
    """One row against its past, against its peers, what of it is unusual, and the statistics that were judged.

    Both judgements have one tensor, or the first of several is the row.
    """
    names = judged_statistics(rows.statistics)
    columns = [rows.statistics.index(name) for name in names]
    compared = compared_rows(rows, matrix)
    row = rows.row(number)
    group = peer_group(row.role, row.of)
    others = [i for i, other in enumerate(rows.rows) if i != number and peer_group(other.role, other.of) == group]
    chosen = [number, *(others if group is not None else [])]
    history = rows.history(number, at.step, most=N_PAST)[:, columns]
    mine, own = matrix[[number]][:, columns].astype(np.float64), compared[[number]]
    past = judge(mine, history[:, None, :], names, groups=[None], is_compared=own)
    near = matrix[chosen][:, columns].astype(np.float64)
    none = np.empty((0, len(chosen), len(names)))
    peers = judge(near, none, names, groups=[group] * len(chosen), is_compared=compared[chosen])
    both = Judgement(
        z_past=past.z_past,
        z_peers=peers.z_peers[:1],
        n_past=past.n_past,
        n_peers=peers.n_peers[:1],
        usual=past.usual,
        usual_of_peers=peers.usual_of_peers[:1],
        ratio=past.ratio,
        is_unusual=past.is_unusual | peers.is_unusual[:1],
    )
    when = _when(at, past_steps(rows, at))
    found = {
        name: _unusual(0, name, mine, both, place, when, row=number)
        for place, name in enumerate(names)
        if both.is_unusual[0, place]
    }
    return past, peers, found, names


def past_steps(rows: RunRows, at: Step) -> list[int]:
    """The recorded steps that make up the past of a step: those of the same kind before, oldest first."""
    timeline = rows.run.timeline
    place = timeline.position(at.step)
    of_kind = timeline.kinds[at.kind]
    before = of_kind[: int(np.searchsorted(of_kind, place))] if place is not None else of_kind[:0]
    return [timeline.records[i].step for i in before[-N_PAST:].tolist()]


def are_siblings(site: str, other: str) -> bool:
    """Whether two sites differ in exactly one part of the address, and not in the last.

    >>> are_siblings("encoder.3.mlp", "encoder.0.mlp"), are_siblings("a/out", "b/out"), are_siblings("h.0", "h.1")
    (True, True, False)
    """
    own, its = _BETWEEN.split(site), _BETWEEN.split(other)
    if len(own) != len(its) or own[-1] != its[-1]:
        return False
    n_other: int = sum(a != b for a, b in zip(own, its, strict=True))
    return n_other == 1


def past_matrix(rows: RunRows, at: Step, columns: Sequence[int]) -> tuple[list[int], NDArray[Any]]:
    """The steps of the past, and these statistics of all rows, `[step, row, statistic]`; damaged steps are NaN."""
    steps = past_steps(rows, at)
    past = np.full((len(steps), len(rows), len(columns)), np.nan)
    for place, step in enumerate(steps):
        try:
            past[place] = rows.recent(step, tuple(columns))
        except DamagedError as error:
            rows.run.archive.segments.note(error)
    return steps, past


def _when(at: Step, steps: Sequence[int]) -> str:
    kind = f"{at.kind} " if at.kind else ""
    n = plural(len(steps), f"{kind}step")
    return f"the {n} before ({steps[0]:,} to {steps[-1]:,})" if len(steps) > 1 else f"the {kind}step before"


def _unusual(
    place: int, name: str, values: NDArray[Any], found: Judgement, column: int, when: str, *, row: int | None = None
) -> Unusual:
    """One unusual statistic, in words."""
    at = (place, column)
    value, ratio, middle = float(values[at]), float(found.ratio[at]), float(found.usual_of_peers[at])
    z_past, z_peers, usual = float(found.z_past[at]), float(found.z_peers[at]), float(found.usual[at])
    title = statistic(name).title
    scores = [f"z {z_text(z_past)} against its past"] if math.isfinite(z_past) else []
    if math.isfinite(z_peers):
        scores.append(f"{z_text(z_peers)} against its {plural(int(found.n_peers[at]), 'peer')}")
    if abs(z_past) >= FAR:
        z = z_past
        text, what = _against(ratio, usual, "usual", z)
        about = f"{title} {figures(value)}: {what} {figures(usual)}, the median of {when}"
    else:
        z = z_peers
        apart = value / middle if middle else math.nan
        text, what = _against(apart, middle, "its peers", z)
        about = (
            f"{title} {figures(value)}: {what} {figures(middle)}, the median of the tensors of its role at this step"
        )
    return Unusual(
        row=place if row is None else row,
        statistic=name,
        z_past=_finite(z_past),
        z_peers=_finite(z_peers),
        ratio=_finite(ratio),
        is_above=z > 0,
        text=text,
        about=f"{about} ({', '.join(scores)}).",
    )


def _against(ratio: float, usual: float, than: str, z: float) -> tuple[str, str]:
    """A label, and the beginning of a comparison."""
    if math.isfinite(ratio) and ratio > 0:
        rounded = float(f"{ratio:.2g}")
        return f"×{figures(rounded, 2)} of {than}", f"{figures(ratio)} times"
    if usual == 0:
        return f"{than}ly 0" if than == "usual" else f"{than}: 0", "up from" if z > 0 else "down from"
    return f"far {'above' if z > 0 else 'below'} {than}", "up from" if z > 0 else "down from"


def z_text(z: float) -> str:
    """A z-score with few digits; large ones were clipped.

    >>> z_text(48.23), z_text(-99), z_text(5)
    ('48.2', '< −99', '5')
    """
    if abs(z) >= LARGEST:
        return f"> {LARGEST}" if z > 0 else f"< −{LARGEST}"
    return figures(round(z, 1)).replace("-", "−")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
