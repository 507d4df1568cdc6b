"""One tensor at one step for the inspector: statistics with z-scores, a picture, and its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Array
from cutaway.core.errors import CutawayError, DamagedError, NotSavedError
from cutaway.core.statistics import N_SAMPLED, PER_SAMPLE, PER_UNIT, STATISTICS, magnitude_statistic, statistic
from cutaway.core.unusual import HELP, Contents, contents_of
from cutaway.store.format.records import UPDATE, Row
from cutaway.store.runs.step import Step
from cutaway.views.run.companions import Companion, TokenValues, by_token, companions
from cutaway.views.run.kept_values import (
    KeptValues,
    kept_array,
    kept_numbers,
    kept_values,
    one_sample,
    recorded_table,
    row_at,
    standardize,
)
from cutaway.views.run.outliers import SIBLING_RATIO, Unusual, are_siblings, judge_row
from cutaway.views.run.rows import RunRows
from cutaway.views.run.sample_view import SampleItem, sample_item
from cutaway.views.run.training_marks import TrainingMark, training_marks
from cutaway.views.values.image import Layout
from cutaway.views.values.summaries import Histogram
from cutaway.views.values.value_view import ValuePicture, finite_or_none, value_picture

TableSource = Literal["batch", "kept"]

_MOST_PIXELS: Final = 16_384
_ZERO_SHARE: Final = PER_UNIT.index("zero_share")


@dataclass(frozen=True, slots=True)
class StatisticView:
    """One statistic at one step, with its z-scores."""

    name: str
    value: float | None
    """None if there is none, or it is not finite."""
    non_finite: str
    """"nan", "inf" or "-inf" if that is the value; "" for a number, and for statistics the tensor cannot have."""
    z_past: float | None
    """Robust z-score against its own past (`core/unusual.py`); None if that is too short."""
    z_peers: float | None
    """Robust z-score among tensors of the same role at this step; None if there are too few."""
    n_past: int
    """Number of earlier steps compared with."""
    n_peers: int
    """Number of other tensors compared with."""
    usual: float | None
    """The median of its past."""
    unusual: Unusual | None
    """What is unusual about it; None for nothing."""


@dataclass(frozen=True, slots=True)
class TableView:
    """A table that is fetched separately: one row per unit or sample."""

    columns: tuple[str, ...]
    n_rows: int
    source: TableSource
    """Whether it covers the whole batch, or only the kept samples."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """A tensor of the same name in a sibling module or another block, with a very different magnitude."""

    row: int
    site: str
    n: int
    """Number of siblings; of several this is the median."""
    ratio: float
    """Magnitude of this tensor divided by that of the sibling; 0 if this tensor is all zero."""


@dataclass(frozen=True, slots=True)
class TensorView:
    """One row at one step, with everything known about it."""

    row: int
    site: str
    """Without its pass."""
    of: str
    iteration: int
    pass_: int
    """Within its iteration, from 1."""
    step: int
    kind: str
    """Kind of the step."""
    role: str
    node: str
    part: str
    names: tuple[str, ...]
    statistics: tuple[StatisticView, ...]
    contents: int
    """What the tensor holds: a code of `core.unusual.Contents`."""
    training: TrainingMark | None
    """Whether training does not reach the tensor."""
    unusual_help: str
    """What "unusual" means."""
    sibling: Sibling | None
    """A sibling that differs by a factor of 100 or more."""
    dead_units: int | None
    """Number of units that are zero for the whole batch; None if units were not recorded."""
    histogram: Histogram | None
    """Histogram of up to 1,024 recorded values of the whole tensor."""
    dtype: str
    """Dtype of the kept value; "" if none was kept."""
    shape: tuple[int, ...]
    """Shape of the kept value."""
    n_samples: int
    """Size of the first dimension if it is the samples, else 0."""
    sample: SampleItem | None
    """The chosen sample."""
    is_normalized: bool
    """Whether the picture shows z-scores over the batch."""
    picture: ValuePicture | None
    tokens: TokenValues | None
    companions: tuple[Companion, ...]
    units: TableView | None
    samples: TableView | None
    about_units: str
    """Why units are unknown, or that an older version guessed them; else ""."""
    why_missing: str
    """Why there is no picture; "" if there is one."""


def tensor_view(
    rows: RunRows,
    number: int,
    *,
    step: int,
    sample: int | None = None,
    is_normalized: bool = False,
    is_each: bool = False,
    tile: int | None = None,
) -> TensorView:
    """Everything known about one row at one step. `why_missing` reports what is missing or damaged.

    Statistics have two z-scores (`core/unusual.py`): `z_past` among the 50 recorded steps of the same kind before,
    `z_peers` among all rows of the same role and the same `of` at this step.

    Args:
        number: the viewer's number of the row.
        sample: one of the kept samples; None for the whole batch.
        is_normalized: whether the picture shows z-scores over the batch.
        is_each: whether each channel, head… has its own color scale.
        tile: the channel, head… to show alone.
    """
    row, at = rows.row(number), rows.run.at(step)
    problems: list[str] = []
    statistics: tuple[StatisticView, ...] = ()
    sibling: Sibling | None = None
    recorded: dict[str, float] = {}
    contents = int(Contents.MISSING)
    if rows.has(at, number):
        try:
            matrix = rows.matrix(at)
            recorded = dict(zip(rows.statistics, matrix[number].tolist(), strict=True))
            statistics = _statistics(rows, number, at, matrix)
            contents = int(contents_of(matrix[[number]], rows.statistics)[0])
            sibling = _sibling(rows, number, matrix)
        except DamagedError as error:
            problems.append(str(error))
    part = _ValueReader(rows, row, at)
    try:
        part.read(sample, recorded, is_normalized=is_normalized, tile=tile, is_each=is_each)
    except CutawayError as error:
        problems.append(str(error))
    return TensorView(
        row=number,
        site=row.base,
        of=row.of,
        iteration=row.iteration,
        pass_=row.pass_,
        step=at.step,
        kind=at.kind,
        role=row.role,
        node=row.node,
        part=row.part,
        names=row.bare_names,
        statistics=statistics,
        contents=contents,
        training=_training(rows, row, at),
        unusual_help=HELP,
        sibling=sibling,
        dead_units=_dead_units(at, row),
        histogram=_histogram(recorded),
        dtype=part.dtype,
        shape=part.shape,
        n_samples=part.n_samples,
        sample=part.sample,
        is_normalized=is_normalized,
        picture=part.picture,
        tokens=part.tokens,
        companions=() if sample is None else companions(rows, at, number, sample),
        units=_table(part, "unit"),
        samples=_table(part, "samples"),
        about_units=_about_units(rows, at, row),
        why_missing=" ".join(dict.fromkeys(problems)),
    )


def tensor_values(
    rows: RunRows, number: int, *, step: int, sample: int | None = None, is_normalized: bool = False
) -> Array:
    """All kept values of a row at a step, or those of one sample without the sample dimension."""
    row, at = rows.row(number), rows.run.at(step)
    kept = kept_values(rows.run, at, row)
    array = kept_array(kept)
    if is_normalized:
        stats = dict(zip(rows.statistics, rows.matrix(at)[number].tolist(), strict=True))
        array = standardize(kept_numbers(kept), kept, recorded_table(at, row, "unit"), stats)
    return array if sample is None else one_sample(array, kept, sample)[0]


def unit_values(rows: RunRows, number: int, *, step: int) -> NDArray[np.float32]:
    """Statistics per unit, `[unit, statistic]`: of the whole batch if recorded, else of the kept values."""
    return _table_values(rows, rows.row(number), rows.run.at(step), "unit")


def sample_values(rows: RunRows, number: int, *, step: int) -> NDArray[np.float32]:
    """Statistics per sample, `[sample, statistic]`: of the whole batch if recorded, else of the kept values."""
    return _table_values(rows, rows.row(number), rows.run.at(step), "samples")


# statistics


def _statistics(rows: RunRows, number: int, at: Step, matrix: NDArray[Any]) -> tuple[StatisticView, ...]:
    names = rows.statistics
    values = matrix[number].astype(np.float64)
    past, peers, unusual, judged = judge_row(rows, number, at, matrix)
    own = frozenset(at.statistics)
    is_finite = "nonfinite" in own and values[names.index("nonfinite")] == 0
    views = []
    for column, name in enumerate(names):
        if name not in own or statistic(name).part == "histogram":
            continue
        place = judged.index(name) if name in judged else None
        views.append(
            StatisticView(
                name=name,
                value=finite_or_none(values[column]),
                non_finite=_non_finite(name, values[column], is_finite=is_finite),
                z_past=None if place is None else finite_or_none(past.z_past[0, place]),
                z_peers=None if place is None else finite_or_none(peers.z_peers[0, place]),
                n_past=0 if place is None else int(past.n_past[0, place]),
                n_peers=0 if place is None else int(peers.n_peers[0, place]),
                usual=None if place is None else finite_or_none(past.usual[0, place]),
                unusual=unusual.get(name),
            )
        )
    return tuple(views)


def _training(rows: RunRows, row: Row, at: Step) -> TrainingMark | None:
    """The mark of the row's tensor, also where the row is its gradient."""
    own = rows.number(f"{row.base}:{row.pass_}", iteration=row.iteration)
    return next((mark for mark in training_marks(rows, at) if mark.row == own), None)


def _non_finite(name: str, value: float, *, is_finite: bool) -> str:
    """The text for a statistic that is not a finite number.

    Args:
        is_finite: whether all elements of the tensor are finite.
    """
    if math.isfinite(value) or (is_finite and math.isnan(value) and statistic(name).undefined):
        return ""
    return str(value)


def _sibling(rows: RunRows, number: int, matrix: NDArray[Any]) -> Sibling | None:
    """The median sibling, if its magnitude is very different."""
    row = rows.row(number)
    size = magnitude_statistic(rows.statistics)
    if size is None:
        return None
    alike = [
        other
        for other, found in enumerate(rows.rows)
        if (found.role, found.of, found.iteration, found.pass_) == (row.role, row.of, row.iteration, row.pass_)
        and are_siblings(row.base, found.base)
    ]
    sizes = matrix[:, rows.statistics.index(size)].astype(np.float64)
    known = sorted((other for other in alike if 0 < sizes[other] < math.inf), key=lambda other: float(sizes[other]))
    if not known or not math.isfinite(sizes[number]):
        return None
    # An element instead of the median of values: the message names a site.
    middle = known[len(known) // 2]
    ratio = float(sizes[number] / sizes[middle])
    return (
        Sibling(middle, rows.row(middle).base, len(known), ratio)
        if not 1 / SIBLING_RATIO < ratio < SIBLING_RATIO
        else None
    )


def _dead_units(at: Step, row: Row) -> int | None:
    try:
        units = recorded_table(at, row, "unit")
    except CutawayError:
        return None
    return None if units is None else int((units[:, _ZERO_SHARE] >= 1).sum())


_BINS: Final = tuple(name for name, each in STATISTICS.items() if each.part == "histogram" and each.unit == "share")


def _histogram(recorded: Mapping[str, float]) -> Histogram | None:
    """The recorded histogram, with shares converted back to counts."""
    shares = [recorded.get(name, math.nan) for name in _BINS]
    low, high, n = (recorded.get(name, math.nan) for name in ("low", "high", "count"))
    if not all(map(math.isfinite, [*shares, low, high, n])):
        return None
    # The recorder counts at most this many elements.
    n = min(n, N_SAMPLED)
    return Histogram(low, high, tuple(round(share * n) for share in shares))


# values


class _ValueReader:
    """Reads the kept values for display, as far as possible."""

    def __init__(self, rows: RunRows, row: Row, at: Step) -> None:
        self.rows, self.row, self.at = rows, row, at
        self.dtype, self.shape, self.n_samples = "", (), 0
        self.kept: KeptValues | None = None
        self.sample: SampleItem | None = None
        self.picture: ValuePicture | None = None
        self.tokens: TokenValues | None = None

    shape: tuple[int, ...]

    def read(
        self, sample: int | None, recorded: Mapping[str, float], *, is_normalized: bool, tile: int | None, is_each: bool
    ) -> None:
        kept = self.kept = kept_values(self.rows.run, self.at, self.row)
        self.dtype, self.shape, self.n_samples = kept.raw.dtype, kept.shape, kept.n_samples
        array = kept_numbers(kept)
        if is_normalized:
            array = standardize(array, kept, recorded_table(self.at, self.row, "unit"), recorded)
        if sample is not None and kept.n_samples:
            array = one_sample(array, kept, sample)
        layout = Layout(kept.unit_dimension, kept.n_samples > 0, tile, is_each)
        dtype = "float32" if is_normalized else kept.raw.dtype
        self.picture = value_picture(array, _MOST_PIXELS, layout=layout, dtype=dtype)
        if sample is not None and kept.n_samples:
            text = value_picture(array[0], 0).text if self.picture.text else ""
            self.picture = replace(self.picture, shape=kept.shape[1:], text=text)
        if sample is not None:
            self._describe_sample(sample, array, kept, tile)

    def _describe_sample(self, sample: int, array: Array, found: KeptValues, tile: int | None) -> None:
        """Sets the sample, and the values of the tensor per token."""
        samples = self.at.samples
        if sample < len(samples):
            self.sample = sample_item(samples, sample)
            if found.n_samples and self.sample.tokens and array.ndim > 1:
                longest = max(len(tokens) for tokens in samples.fields["tokens"])
                self.tokens = by_token(array[0], self.sample.tokens, longest, tile)
        elif found.n_samples:  # its values were kept, and nothing else is known about it
            self.sample = SampleItem(sample, "", "", "", (), None, ())


# tables


def _about_units(rows: RunRows, at: Step, row: Row) -> str:
    own = row_at(at, row)
    layout = None if own is None else own.layout
    if layout is not None:
        return "" if layout.is_known else f"The unit dimension is unknown: {layout.reason}."
    if rows.run.unit_rule == "graph" or own is None or row.of == UPDATE or row.role == "loss":
        return ""
    return "This run was recorded by an older version, which guessed the unit dimension from sizes."


def _table(part: _ValueReader, what: Literal["unit", "samples"]) -> TableView | None:
    """The table of a row; None if there is none."""
    columns = PER_UNIT if what == "unit" else PER_SAMPLE
    try:
        recorded = recorded_table(part.at, part.row, what)
    except CutawayError:
        return None
    if recorded is not None:
        return TableView(columns, len(recorded), "batch")
    n = 0 if part.kept is None else _n_table_rows(part.kept, what)
    return TableView(columns, n, "kept") if n else None


def _n_table_rows(found: KeptValues, what: Literal["unit", "samples"]) -> int:
    if not math.prod(found.shape):
        return 0
    if what == "samples":
        return found.n_samples
    return found.n_units


def _table_values(rows: RunRows, row: Row, at: Step, what: Literal["unit", "samples"]) -> NDArray[np.float32]:
    recorded = recorded_table(at, row, what)
    if recorded is not None:
        return np.ascontiguousarray(recorded, np.float32)
    kept = kept_values(rows.run, at, row)
    if not _n_table_rows(kept, what):
        raise NotSavedError(f"the kept values of {row.site!r} at step {at.step} have no {what.removesuffix('s')}s.")
    values = kept_numbers(kept)
    if what == "samples":
        each = values.reshape(len(values), -1).astype(np.float64)
    else:
        assert kept.units is not None
        each = kept.units.rows(values).reshape(-1, kept.n_units).T.astype(np.float64)
    with np.errstate(all="ignore"):
        columns = [each.mean(1), np.abs(each).mean(1), each.std(1), np.abs(each).max(1)]
        if what == "unit":
            columns = [each.mean(1), each.std(1), each.min(1), each.max(1), (each == 0).mean(1)]
        return np.stack(columns, 1).astype(np.float32)
