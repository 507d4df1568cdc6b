"""One tensor at one step, for the inspector: statistics with marks, a picture, what its tables hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Array
from cutaway.core.errors import CutawayError, DamagedError, NotSavedError
from cutaway.core.statistics import N_SAMPLED, PER_SAMPLE, PER_UNIT, STATISTICS, size_of, statistic
from cutaway.core.zscores import robust_z
from cutaway.store.format.records import UPDATE, Row
from cutaway.store.runs.step import Step
from cutaway.views.run.companions import Beside, TokenValues, beside, by_token
from cutaway.views.run.kept_values import (
    Kept,
    array_beside,
    array_of_kept,
    kept,
    normalized,
    numbers_of_kept,
    one_sample,
    row_at,
)
from cutaway.views.run.outliers import APART, are_alike, z_of_row
from cutaway.views.run.rows import RunRows
from cutaway.views.run.sample_view import SampleItem, sample_item
from cutaway.views.values.image import Layout
from cutaway.views.values.summaries import Histogram
from cutaway.views.values.value_view import ValuePicture, finite_or_none, value_picture

TableSource = Literal["batch", "kept"]

N_HISTORY: Final = 200
"""Recorded steps of the same kind that count as recent."""
_MOST_PIXELS: Final = 16_384
_ZERO_SHARE: Final = PER_UNIT.index("zero_share")


@dataclass(frozen=True, slots=True)
class StatisticView:
    """One statistic at one step, and how far it is from what is usual."""

    name: str
    value: float | None
    """None where there is none, or it is not finite."""
    word: str
    """"nan", "inf" or "-inf" where that is the value; "" of a number, and where such tensors have no such statistic."""
    z_history: float | None
    """Robust z-score among this tensor's own last steps of the same kind; None where there are too few."""
    z_step: float | None
    """Robust z-score among the tensors of the same role at this step; None where there are too few."""
    n_history: int
    """How many earlier steps it was compared with."""
    n_step: int
    """How many other tensors it was compared with."""


@dataclass(frozen=True, slots=True)
class TableView:
    """A table that is fetched apart: one line for each unit or each sample."""

    columns: tuple[str, ...]
    n_rows: int
    source: TableSource
    """Whether it is of the whole batch, or only of the samples whose values were kept."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """A tensor that should be alike and is not: the same name in the module next door, or the next block."""

    row: int
    site: str
    n: int
    """How many such tensors there are; of several this is the one in the middle."""
    ratio: float
    """How many times the size of its values the own ones have; 0 where those are all zero."""


@dataclass(frozen=True, slots=True)
class TensorView:
    """One row of the matrix of a step, with all that is known of it."""

    row: int
    site: str
    """Without its pass."""
    of: str
    iteration: int
    pass_: int
    """Within its iteration, from 1."""
    step: int
    kind: str
    """Of the step."""
    role: str
    node: str
    part: str
    names: tuple[str, ...]
    statistics: tuple[StatisticView, ...]
    sibling: Sibling | None
    """Where one differs by powers of ten."""
    dead_units: int | None
    """Units that are zero for the whole batch; None where units were not recorded."""
    histogram: Histogram | None
    """Of at most 1,024 values of the whole tensor, as it was recorded."""
    dtype: str
    """Of the kept value; "" if none was kept."""
    shape: tuple[int, ...]
    """Of the kept value."""
    n_samples: int
    """How many samples its first dimension counts; 0 where it counts none."""
    sample: SampleItem | None
    """The chosen sample."""
    is_normalized: bool
    """Whether the picture is of deviations from the mean over the batch, in standard deviations."""
    picture: ValuePicture | None
    tokens: TokenValues | None
    beside: tuple[Beside, ...]
    units: TableView | None
    samples: TableView | None
    about_units: str
    """What has to be known of its units: why they are not known, or that an older version guessed them; else ""."""
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
    """All that is known of one row at one step. What is missing or damaged is told in `why_missing`.

    Statistics have two z-scores (`core/zscores.py`): `z_history` among the same row at up to 200 recorded steps of the
    same kind before this one, `z_step` among all rows of the same role and the same `of` at this step.

    Args:
        number: the viewer's number of the row.
        sample: one of the kept samples; None for the whole batch.
        is_normalized: whether the picture shows deviations from the mean over the batch, in standard deviations.
        is_each: whether each channel, head… is painted from its own lowest to its own highest value.
        tile: the one channel, head… to be shown alone.
    """
    row, at = rows.row(number), rows.run.at(step)
    problems: list[str] = []
    statistics: tuple[StatisticView, ...] = ()
    sibling: Sibling | None = None
    recorded: dict[str, float] = {}
    if rows.has(at, number):
        try:
            matrix = rows.matrix(at)
            recorded = dict(zip(rows.statistics, matrix[number].tolist(), strict=True))
            statistics = _statistics(rows, number, at, matrix)
            sibling = _sibling(rows, number, matrix)
        except DamagedError as error:
            problems.append(str(error))
    part = _Part(rows, row, at)
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
        beside=() if sample is None else beside(rows, at, number, sample),
        units=_table(part, "unit"),
        samples=_table(part, "samples"),
        about_units=_about_units(rows, at, row),
        why_missing=" ".join(dict.fromkeys(problems)),
    )


def tensor_values(
    rows: RunRows, number: int, *, step: int, sample: int | None = None, is_normalized: bool = False
) -> Array:
    """All kept values of a row at a step, or those of one sample without that dimension."""
    row, at = rows.row(number), rows.run.at(step)
    found = kept(rows.run, at, row)
    array = array_of_kept(found)
    if is_normalized:
        stats = dict(zip(rows.statistics, rows.matrix(at)[number].tolist(), strict=True))
        array = normalized(numbers_of_kept(found), found, array_beside(at, row, "unit"), stats)
    return array if sample is None else one_sample(array, found, sample)[0]


def unit_values(rows: RunRows, number: int, *, step: int) -> NDArray[np.float32]:
    """Statistics of each unit, `[unit, statistic]`: of the whole batch where recorded, else of what was kept."""
    return _filled(rows, rows.row(number), rows.run.at(step), "unit")


def sample_values(rows: RunRows, number: int, *, step: int) -> NDArray[np.float32]:
    """Statistics of each sample, `[sample, statistic]`: of the whole batch where recorded, else of what was kept."""
    return _filled(rows, rows.row(number), rows.run.at(step), "samples")


# statistics


def _statistics(rows: RunRows, number: int, at: Step, matrix: NDArray[Any]) -> tuple[StatisticView, ...]:
    names = rows.statistics
    values = matrix[number].astype(np.float64)
    z_history, n_history = robust_z(values, rows.history(number, at.step, most=N_HISTORY), names)
    z_step, n_step = z_of_row(rows, number, matrix)
    own = frozenset(at.statistics)
    is_finite = "nonfinite" in own and values[names.index("nonfinite")] == 0
    return tuple(
        StatisticView(
            name=name,
            value=finite_or_none(values[column]),
            word=_word(name, values[column], is_finite=is_finite),
            z_history=finite_or_none(z_history[column]) if statistic(name).is_tracked else None,
            z_step=finite_or_none(z_step[column]),
            n_history=int(n_history[column]),
            n_step=int(n_step[column]),
        )
        for column, name in enumerate(names)
        if name in own and statistic(name).part != "histogram"
    )


def _word(name: str, value: float, *, is_finite: bool) -> str:
    """What is said of a statistic that is no number.

    Args:
        is_finite: whether all elements of the tensor are.
    """
    if math.isfinite(value) or (is_finite and math.isnan(value) and statistic(name).undefined):
        return ""
    return str(value)


def _sibling(rows: RunRows, number: int, matrix: NDArray[Any]) -> Sibling | None:
    """The one in the middle of its siblings, where the own values are far larger or far smaller than its."""
    row = rows.row(number)
    size = size_of(rows.statistics)
    if size is None:
        return None
    alike = [
        other
        for other, found in enumerate(rows.rows)
        if (found.role, found.of, found.iteration, found.pass_) == (row.role, row.of, row.iteration, row.pass_)
        and are_alike(row.base, found.base)
    ]
    sizes = matrix[:, rows.statistics.index(size)].astype(np.float64)
    known = sorted((other for other in alike if 0 < sizes[other] < math.inf), key=lambda other: float(sizes[other]))
    if not known or not math.isfinite(sizes[number]):
        return None
    middle = known[len(known) // 2]
    ratio = float(sizes[number] / sizes[middle])
    return Sibling(middle, rows.row(middle).base, len(known), ratio) if not 1 / APART < ratio < APART else None


def _dead_units(at: Step, row: Row) -> int | None:
    try:
        units = array_beside(at, row, "unit")
    except CutawayError:
        return None
    return None if units is None else int((units[:, _ZERO_SHARE] >= 1).sum())


_BINS: Final = tuple(name for name, each in STATISTICS.items() if each.part == "histogram" and each.unit == "share")


def _histogram(recorded: Mapping[str, float]) -> Histogram | None:
    """The recorded shares as counts again."""
    shares = [recorded.get(name, math.nan) for name in _BINS]
    low, high, n = (recorded.get(name, math.nan) for name in ("low", "high", "count"))
    if not all(map(math.isfinite, [*shares, low, high, n])):
        return None
    n = min(n, N_SAMPLED)
    return Histogram(low, high, tuple(round(share * n) for share in shares))


# values


class _Part:
    """What is shown of the kept values; as much of it as could be read."""

    def __init__(self, rows: RunRows, row: Row, at: Step) -> None:
        self.rows, self.row, self.at = rows, row, at
        self.dtype, self.shape, self.n_samples = "", (), 0
        self.kept: Kept | None = None
        self.sample: SampleItem | None = None
        self.picture: ValuePicture | None = None
        self.tokens: TokenValues | None = None

    shape: tuple[int, ...]

    def read(
        self, sample: int | None, recorded: Mapping[str, float], *, is_normalized: bool, tile: int | None, is_each: bool
    ) -> None:
        found = self.kept = kept(self.rows.run, self.at, self.row)
        self.dtype, self.shape, self.n_samples = found.raw.dtype, found.shape, found.n_samples
        array = numbers_of_kept(found)
        if is_normalized:
            array = normalized(array, found, array_beside(self.at, self.row, "unit"), recorded)
        if sample is not None and found.n_samples:
            array = one_sample(array, found, sample)
        layout = Layout(found.unit_dimension, found.n_samples > 0, tile, is_each)
        dtype = "float32" if is_normalized else found.raw.dtype
        self.picture = value_picture(array, _MOST_PIXELS, layout=layout, dtype=dtype)
        if sample is not None and found.n_samples:
            text = value_picture(array[0], 0).text if self.picture.text else ""
            self.picture = replace(self.picture, shape=found.shape[1:], text=text)
        if sample is not None:
            self._tell(sample, array, found, tile)

    def _tell(self, sample: int, array: Array, found: Kept, tile: int | None) -> None:
        """What the sample is, and what the tensor holds for each of its tokens."""
        samples = self.at.samples
        if sample < len(samples):
            self.sample = sample_item(samples, sample)
            if found.n_samples and self.sample.tokens and array.ndim > 1:
                longest = max(len(tokens) for tokens in samples.fields["tokens"])
                self.tokens = by_token(array[0], self.sample.tokens, longest, tile)


# tables


def _about_units(rows: RunRows, at: Step, row: Row) -> str:
    own = row_at(at, row)
    layout = None if own is None else own.layout
    if layout is not None:
        return "" if layout.is_known else f"Which dimension counts units is not known: {layout.reason}."
    if rows.run.unit_rule == "graph" or own is None or row.of == UPDATE or row.role == "loss":
        return ""
    return "This run was recorded by an older version, which guessed from sizes which dimension counts units."


def _table(part: _Part, what: Literal["unit", "samples"]) -> TableView | None:
    """What the table of a row holds; None if there is none."""
    columns = PER_UNIT if what == "unit" else PER_SAMPLE
    try:
        recorded = array_beside(part.at, part.row, what)
    except CutawayError:
        return None
    if recorded is not None:
        return TableView(columns, len(recorded), "batch")
    n = 0 if part.kept is None else _n_of(part.kept, what)
    return TableView(columns, n, "kept") if n else None


def _n_of(found: Kept, what: Literal["unit", "samples"]) -> int:
    if not math.prod(found.shape):
        return 0
    if what == "samples":
        return found.n_samples
    return found.n_units


def _filled(rows: RunRows, row: Row, at: Step, what: Literal["unit", "samples"]) -> NDArray[np.float32]:
    recorded = array_beside(at, row, what)
    if recorded is not None:
        return np.ascontiguousarray(recorded, np.float32)
    found = kept(rows.run, at, row)
    if not _n_of(found, what):
        raise NotSavedError(f"what was kept of {row.site!r} at step {at.step} has no {what.removesuffix('s')}s.")
    values = numbers_of_kept(found)
    if what == "samples":
        each = values.reshape(len(values), -1).astype(np.float64)
    else:
        assert found.units is not None
        each = found.units.rows(values).reshape(-1, found.n_units).T.astype(np.float64)
    with np.errstate(all="ignore"):
        columns = [each.mean(1), np.abs(each).mean(1), each.std(1), np.abs(each).max(1)]
        if what == "unit":
            columns = [each.mean(1), each.std(1), each.min(1), each.max(1), (each == 0).mean(1)]
        return np.stack(columns, 1).astype(np.float32)
