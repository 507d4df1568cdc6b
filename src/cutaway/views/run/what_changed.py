"""What changed at a step: the verdict on a curve, the most unusual tensors and the most unusual samples.

This is the panel that a click on a spike opens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError
from cutaway.core.statistics import statistic
from cutaway.core.unusual import HELP, Contents, Judgement, contents_of, judge, judged_statistics
from cutaway.core.zscores import MIN_REFERENCES, peer_group
from cutaway.store.runs.filtered import RunFilter
from cutaway.store.runs.step import Step
from cutaway.views.run.changed_samples import ChangedSample, SampleStrip, changed_samples
from cutaway.views.run.outliers import compared_rows, past_matrix
from cutaway.views.run.rows import Matrix, RunRows
from cutaway.views.run.spikes_view import CurveSource, curve_name, spikes_of, verdict
from cutaway.views.values.value_view import finite_or_none

_MOST_TENSORS: Final = 40


@dataclass(frozen=True, slots=True)
class ChangedTensor:
    """The most unusual statistic of one row at the step."""

    row: int
    statistic: str
    value: float | None
    """None if it is not finite; `broken` says what it is."""
    broken: str
    """"NaN" or "Inf" if the tensor has such elements and had none before; else ""."""
    usual: float | None
    """The median over the steps before; None if there are too few."""
    ratio: float | None
    """The value divided by `usual`; None for signed statistics, and if it was usually 0."""
    z_past: float | None
    """Robust z-score against its past."""
    z_peers: float | None
    """Robust z-score against tensors of the same role at this step."""
    n_past: int
    n_peers: int
    is_unusual: bool


@dataclass(frozen=True, slots=True)
class WhatChanged:
    """What changed at one step."""

    step: int
    name: str
    """What the curve shows."""
    verdict: tuple[str, ...]
    """A sentence in pieces; every second one is a number."""
    kind: str
    """Kind of the step; "" if it has none or was not recorded."""
    is_recorded: bool
    """Whether the step was recorded; else only logged values are known."""
    nearest: tuple[int, ...]
    """The nearest recorded steps, if this one was not."""
    tensors: tuple[ChangedTensor, ...]
    """The most unusual first."""
    n_tensors: int
    """Number of rows that were compared."""
    n_unusual: int
    about_tensors: str
    """Why there are none, or that there were too few steps before; else ""."""
    samples: tuple[ChangedSample, ...]
    """The samples of the batch, the largest share of the loss or the most unusual first."""
    order: str
    """What the samples are ordered by, as a phrase."""
    n_batch: int
    """Number of samples in the batch if it is known, else of the kept ones."""
    n_kept: int
    about_samples: str
    """What is missing about the samples, and how to record it; "" if nothing is."""
    strips: tuple[SampleStrip, ...]
    """One number per sample, for the unusual tensors that have one."""
    n_spikes: int
    """Number of spikes of the curve whose step was recorded with ids of samples."""
    help: str
    """What unusual means."""


def what_changed(
    rows: RunRows,
    source: CurveSource,
    step: int,
    *,
    samples: RunFilter | None = None,
    passing: Collection[int] | None = None,
) -> WhatChanged:
    """Everything that is unusual at a step. What was not recorded is named, never left out.

    Args:
        source: the curve that the verdict is about.
        step: a step with a value on that curve, recorded or not.
        samples: reads ids of samples at other steps, to tell which samples recur; by default nothing is known of them.
        passing: the kept samples that pass the filters, by number; all by default.
    """
    run = rows.run
    place = run.timeline.position(step)
    name, sentence = curve_name(rows, source), verdict(rows, source, step)
    if place is None:
        nearest = tuple(run.timeline.nearest(step, 2))
        why = f"step {step:,} was not recorded: only logged values are known."
        return WhatChanged(
            *(step, name, sentence, "", False, nearest, (), 0, 0, why),
            *((), "", 0, 0, why, (), 0, HELP),
        )
    at = run.at(step)
    tensors, n_compared, about = _changed_tensors(rows, at, besides=f"${source.scalar}")
    found = changed_samples(
        rows,
        at,
        [(tensor.row, tensor.statistic) for tensor in tensors if tensor.is_unusual or tensor.broken],
        loss=source.scalar,
        spikes=[spike.step for spike in spikes_of(rows, source)],
        reader=samples,
        passing=passing,
    )
    return WhatChanged(
        step=step,
        name=name,
        verdict=sentence,
        kind=at.kind,
        is_recorded=True,
        nearest=(),
        tensors=tuple(tensors[:_MOST_TENSORS]),
        n_tensors=n_compared,
        n_unusual=sum(tensor.is_unusual for tensor in tensors),
        about_tensors=about,
        samples=found.samples,
        order=found.order,
        n_batch=found.n_batch,
        n_kept=found.n_kept,
        about_samples=found.about,
        strips=found.strips,
        n_spikes=found.n_spikes,
        help=HELP,
    )


def _changed_tensors(rows: RunRows, at: Step, *, besides: str) -> tuple[list[ChangedTensor], int, str]:
    """Every compared row with its most unusual statistic, strongest first; how many; and what could not be told.

    Args:
        besides: the tensor of the scalar itself, which the verdict is about.
    """
    try:
        matrix = rows.matrix(at)
    except DamagedError as error:
        return [], 0, str(error)
    names = judged_statistics(rows.statistics)
    columns = [rows.statistics.index(name) for name in names]
    steps, past = past_matrix(rows, at, columns)
    compared = compared_rows(rows, matrix)
    groups = [peer_group(row.role, row.of) for row in rows.rows]
    judged = judge(matrix[:, columns], past, names, groups=groups, is_compared=compared)
    broken = _newly_broken(rows, matrix, steps)
    is_there = ~np.isnan(matrix).all(axis=1) & (compared | np.array([bool(text) for text in broken], bool))
    is_there &= np.array([row.base != besides for row in rows.rows], bool)
    tensors = [
        _tensor(number, names, matrix[number, columns], judged, broken[number])
        for number in np.flatnonzero(is_there).tolist()
    ]
    tensors.sort(key=_strength, reverse=True)
    about = ""
    if len(steps) < MIN_REFERENCES:
        kind = f"{at.kind} " if at.kind and len(rows.run.kinds) > 1 else ""
        n = "No" if not steps else f"Only {len(steps)}"
        about = (
            f"{n} {kind}{'step was' if len(steps) == 1 else 'steps were'} recorded before this one, and at least "
            f"{MIN_REFERENCES} are needed to compare tensors with their past. They are compared with their peers only."
        )
    return tensors, int(is_there.sum()), about


def _newly_broken(rows: RunRows, matrix: Matrix, steps: Sequence[int]) -> list[str]:
    """By row, "NaN" or "Inf" if it holds some and held none at the step of its kind before; else ""."""
    now = contents_of(matrix, rows.statistics)
    try:
        before = contents_of(rows.matrix(steps[-1]), rows.statistics) if steps else np.zeros(len(now), np.uint8)
    except DamagedError:
        before = np.zeros(len(now), np.uint8)
    names = {int(Contents.NAN): "NaN", int(Contents.INF): "Inf"}
    return [names.get(int(own), "") if own != was else "" for own, was in zip(now, before, strict=True)]


def _tensor(number: int, names: Sequence[str], values: NDArray[Any], judged: Judgement, broken: str) -> ChangedTensor:
    column = _strongest(number, names, judged)
    return ChangedTensor(
        row=number,
        statistic=names[column],
        value=finite_or_none(float(values[column])),
        broken=broken,
        usual=finite_or_none(float(judged.usual[number, column])),
        ratio=finite_or_none(float(judged.ratio[number, column])),
        z_past=finite_or_none(float(judged.z_past[number, column])),
        z_peers=finite_or_none(float(judged.z_peers[number, column])),
        n_past=int(judged.n_past[number, column]),
        n_peers=int(judged.n_peers[number, column]),
        is_unusual=bool(judged.is_unusual[number, column]) or bool(broken),
    )


def _strongest(number: int, names: Sequence[str], judged: Judgement) -> int:
    """The column to show: the most unusual magnitude, the farthest off of several; else the most unusual other one."""
    with np.errstate(all="ignore"):
        off = np.nan_to_num(np.abs(np.log10(judged.ratio[number])), nan=0.0, posinf=0.0)
    about = [statistic(name) for name in names]
    # Only comparable ones have a z-score against peers, so they are preferred to the norm.
    kinds = [2 * each.is_comparable or each.scale == "log" for each in about]
    keys = zip(judged.is_unusual[number], kinds, judged.strength[number], off, strict=True)
    return max(enumerate(keys), key=lambda item: item[1])[0]


def _strength(tensor: ChangedTensor) -> tuple[bool, bool, float, float]:
    """What tensors are ordered by: broken ones, then unusual ones, by z-score; clipped ones by their ratio."""
    z = max(abs(tensor.z_past or 0.0), abs(tensor.z_peers or 0.0))
    off = abs(float(np.log10(tensor.ratio))) if tensor.ratio else 0.0
    return bool(tensor.broken), tensor.is_unusual, z, off
