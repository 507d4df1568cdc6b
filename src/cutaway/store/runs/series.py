"""One recorded tensor over the steps of a run, with one or more passes per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cutaway.core.arrays import Array
from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import DamagedError, InputTypeError, SiteError
from cutaway.core.formatting import hint, listed, plural
from cutaway.store.format.passes import PASS_DTYPE, Pass, PassKey, is_selected, pass_name
from cutaway.store.format.records import GRAD, UPDATE, VALUE, Row, Schema
from cutaway.store.runs.timeline import Group, Timeline
from cutaway.store.runs.xarray_export import series_dataset

if TYPE_CHECKING:
    from cutaway.store.runs.run import Run

_HEAD: Final = ("step", "kind", "site", "iteration", "pass")
"""The first columns of a table."""
_MAX_LISTED: Final = 8
_COUNT: Final = "count"
"""The statistic with the number of elements of a tensor."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Numbers over steps."""

    steps: NDArray[np.int64]
    values: Array
    """One per step; `[step, pass]` for a tensor with several passes."""
    elapsed: NDArray[np.float64]
    """Seconds since the start of the session."""

    def __len__(self) -> int:
        return len(self.steps)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """The values alone."""
        return np.array(self.values, dtype=dtype, copy=copy)


@dataclass(frozen=True, slots=True)
class Band:
    """Numbers over steps, aggregated over the passes of each step."""

    steps: NDArray[np.int64]
    values: Array
    """Mean over the passes, weighted by their number of elements."""
    low: Array
    """Minimum over the passes."""
    high: Array
    """Maximum over the passes."""
    elapsed: NDArray[np.float64]
    """Seconds since the start of the session."""

    def __len__(self) -> int:
        return len(self.steps)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        raise InputTypeError("a band has three arrays: use band.values (the mean), band.low or band.high.")


@dataclass(frozen=True, slots=True)
class _Part:
    """Steps whose statistics are stored together, and the rows of one tensor in them."""

    group: Group
    schema: Schema
    passes: tuple[Pass, ...]
    """In order of execution."""
    rows: tuple[int | None, ...]
    """Row number per pass; None if not recorded."""
    positions: NDArray[np.intp]
    """Positions of the steps in the timeline."""


@dataclass(frozen=True, slots=True)
class _TimelinePositions:
    """Everything derived from the timeline."""

    timeline: Timeline
    parts: list[_Part]
    positions: NDArray[np.intp]
    """Positions in the timeline of the steps at which it was recorded."""
    n_passes: int


class Series:
    """One tensor of a run, or its gradient, over all steps or those of one kind.

    Args:
        site: any name of the tensor, without a pass.
        iteration: the selected iteration; None for all.
        pass_: the selected pass within each iteration, from 1; None for all.
    """

    def __init__(
        self,
        run: Run,
        site: str,
        *,
        of: str = VALUE,
        iteration: int | None = None,
        pass_: int | None = None,
        kind: str | None = None,
    ) -> None:
        self.run = run
        self.site = site
        self.of = of
        """ "value", "grad", "grad/<loss>", "grad@2", "inner_grad", "update"…"""
        self.iteration = iteration
        self.pass_ = pass_
        self.kind = kind
        self._last_positions: _TimelinePositions | None = None
        if kind is not None:
            run.positions_of(kind)

    # Description

    @property
    def row(self) -> Row:
        """Its row in the newest schema; with several passes, that of the first."""
        keys = [key for key in self._selected_keys if key.of == self.of]
        if not keys:
            known = listed(dict.fromkeys(key.of for key in self._selected_keys), _MAX_LISTED) or "nothing"
            where = "" if self.iteration is None else f" in iteration {self.iteration}"
            name = pass_name(self.site, self.pass_)
            raise SiteError(f"{name!r} has no {self.of!r}{where}. It has: {known}.")
        return self._rows[min(keys)]

    @property
    def _rows(self) -> dict[PassKey, Row]:
        """Everything recorded of the tensor, in any pass."""
        return self.run.rows_of(self.site)

    @property
    def _selected_keys(self) -> list[PassKey]:
        return [key for key in self._rows if is_selected(key.where, self.iteration, self.pass_)]

    @property
    def role(self) -> str:
        """The role of the tensor: "input", "parameter", "loss"…"""
        return self.row.role

    @property
    def names(self) -> tuple[str, ...]:
        """Its aliases."""
        return self.row.bare_names

    @property
    def has(self) -> tuple[str, ...]:
        """The recorded quantities of this tensor: "value", "grad"…"""
        return tuple(dict.fromkeys(key.of for key in self._selected_keys))

    @property
    def iterations(self) -> tuple[int, ...]:
        """The iterations in which it was recorded; 0 outside `run.iteration()`."""
        return tuple(sorted({key.iteration for key in self._rows if key.of == self.of}))

    # Related series

    @property
    def grad(self) -> Series:
        """The gradient of the tensor: the sum over all `backward()` calls of a step."""
        return self.other(GRAD)

    @property
    def update(self) -> Series:
        """The optimizer's update of the tensor."""
        return self.other(UPDATE)

    def update_ratio(self, *, kind: str | None = None) -> Curve:
        """The size of each update relative to the parameter: the ratio of their norms, over the steps.

        Args:
            kind: only steps of this kind.
        """
        update, parameter = self.update.curve("norm", kind=kind), self.curve("norm", kind=kind)
        both, first, second = np.intersect1d(update.steps, parameter.steps, assume_unique=True, return_indices=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            return Curve(both, update.values[first] / parameter.values[second], update.elapsed[first])

    def other(self, of: str, *, iteration: int | None = None) -> Series:
        """Another quantity of the same tensor (its gradient, its update), or another iteration: `other("grad/aux")`.

        Args:
            of: "value", "grad", "grad/<loss>", "update"…: one of `has`.
            iteration: only passes of this iteration; None keeps the current selection.
        """
        series = self.of_(of, iteration=iteration)
        if series is None:
            name = pass_name(self.site, self.pass_)
            wanted = self.iteration if iteration is None else iteration
            where = "" if wanted is None else f" in iteration {wanted}"
            known = listed(self.has, _MAX_LISTED)
            raise SiteError(
                f"{name!r} of run {self.run.name!r} has no {of!r}{where}.{hint(of, self.has)} It has: {known}."
            )
        return series

    def of_(self, of: str, *, iteration: int | None = None) -> Series | None:
        """Like `other`, but returns None if it was not recorded."""
        series = self._like(of=of, iteration=iteration)
        return series if of in series.has else None

    def where(self, *, kind: str | None = None, iteration: int | None = None, pass_: int | None = None) -> Series:
        """The same tensor, restricted to one kind of step, one iteration or one pass; None keeps the current selection.

        Args:
            kind: the kind of step, such as "train".
            iteration: the iteration, from 1; 0 for outside `run.iteration()`.
            pass_: the pass within each iteration, from 1.
        """
        series = self._like(kind=kind, iteration=iteration, pass_=pass_)
        series.row  # noqa: B018  (raises if nothing matches)
        return series

    def _like(
        self,
        *,
        of: str | None = None,
        kind: str | None = None,
        iteration: int | None = None,
        pass_: int | None = None,
    ) -> Series:
        return Series(
            self.run,
            self.site,
            of=self.of if of is None else of,
            iteration=self.iteration if iteration is None else iteration,
            pass_=self.pass_ if pass_ is None else pass_,
            kind=self.kind if kind is None else kind,
        )

    # Statistics over steps

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """The numbers of the only statistic; refuses if there are several."""
        names = self.run.statistics
        if len(names) != 1:
            known = listed(names, _MAX_LISTED) or "none"
            raise InputTypeError(
                f"{self!r} has {plural(len(names), 'statistic')}: {known}. Choose one, as in .stats('std'), or get a "
                "value of one step with run.at(step)[site]."
            )
        return np.array(self.stats(names[0]), dtype=dtype, copy=copy)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The steps with recorded statistics of any of its passes, in order."""
        return self.run.timeline.steps[self._timeline_positions.positions]

    @property
    def kinds(self) -> list[str]:
        """The kind of each step."""
        records = self.run.timeline.records
        return [records[position].kind for position in self._timeline_positions.positions]

    @property
    def n_passes(self) -> int:
        """The maximum number of passes per step: the width of `stats`."""
        return self._timeline_positions.n_passes

    @property
    def passes(self) -> NDArray[np.void]:
        """The pass of each number in `stats`, in the same shape: records of `iteration` and `pass`.

        Iterations are 0 outside `run.iteration()`; passes count from 1 within an iteration. Both are 0 where a step has
        no further pass.
        """
        passes = np.zeros(self._shape, PASS_DTYPE)
        for part in self._timeline_positions.parts:
            for column, pass_ in enumerate(part.passes):
                passes[self._at(part, column)] = pass_
        return passes[self._timeline_positions.positions]

    def stats(self, statistic: str, *, kind: str | None = None, iteration: int | None = None) -> Array:
        """One statistic over the steps: `run["encoder.2"].stats("std")`, as long as `steps`; NaN if missing.

        If steps have several passes, the array is `[step, pass]`, with the passes of each step in execution order and
        padded with NaN to the maximum number of passes; `passes` tells which is which. Damaged values count as
        missing and are reported in `run.damage`.

        Args:
            statistic: the name of a recorded statistic, such as "std".
            kind: only steps of this kind; the width stays the same.
            iteration: only passes of this iteration.
        """
        self.run.check_statistics([statistic])
        restricted = self._restricted(kind, iteration)
        return restricted._values(statistic)[restricted._timeline_positions.positions]

    def curve(self, statistic: str, *, kind: str | None = None, iteration: int | None = None) -> Curve:
        """One statistic with its steps and times; `np.asarray(curve)` is its values.

        Args:
            statistic: the name of a recorded statistic, such as "std".
            kind: only steps of this kind.
            iteration: only passes of this iteration.
        """
        restricted = self._restricted(kind, iteration)
        return Curve(restricted.steps, restricted.stats(statistic), restricted._elapsed())

    def band(self, statistic: str, *, kind: str | None = None, iteration: int | None = None) -> Band:
        """One statistic aggregated over the passes of each step: mean, minimum and maximum.

        The mean is weighted by the number of elements of each pass if the statistic `count` was recorded. A pass that
        is not finite makes the mean not finite.

        Args:
            statistic: the name of a recorded statistic, such as "std".
            kind: only steps of this kind.
            iteration: only passes of this iteration.
        """
        restricted = self._restricted(kind, iteration)
        values, elapsed = restricted.stats(statistic), restricted._elapsed()
        if values.ndim == 1:
            return Band(restricted.steps, values, values, values, elapsed)
        is_there = restricted.is_there
        weights = (
            restricted.stats(_COUNT).astype(np.float64) if _COUNT in self.run.statistics else np.ones(values.shape)
        )
        with np.errstate(all="ignore"):
            # Absent passes must not count, but a NaN that was recorded must: a mean that hides it would be wrong.
            weighted = np.where(is_there, weights * values, 0).sum(1)
            mean = weighted / np.where(is_there, weights, 0).sum(1)
        low = np.where(is_there, values, np.inf).min(1)
        high = np.where(is_there, values, -np.inf).max(1)
        return Band(restricted.steps, mean.astype(values.dtype), low, high, elapsed)

    @property
    def is_there(self) -> NDArray[np.bool_]:
        """Whether each number of `stats` was recorded, in the same shape: False for padding."""
        is_recorded = np.zeros(self._shape, bool)
        for part in self._timeline_positions.parts:
            for column, row in enumerate(part.rows):
                is_recorded[self._at(part, column)] = row is not None
        return is_recorded[self._timeline_positions.positions]

    def _restricted(self, kind: str | None, iteration: int | None) -> Series:
        return self if kind is None and iteration is None else self.where(kind=kind, iteration=iteration)

    def _elapsed(self) -> NDArray[np.float64]:
        records, positions = self.run.timeline.records, self._timeline_positions.positions
        return np.fromiter((records[position].elapsed for position in positions), np.float64, len(positions))

    def _values(self, statistic: str) -> Array:
        """One statistic at every position of the timeline."""
        segments = self.run.archive.segments
        placed = self._timeline_positions
        # Sessions of one run may differ in dtype; the wider one holds the numbers of all exactly.
        dtype = np.result_type(*{part.schema.dtype for part in placed.parts}, np.float32)
        values = np.full(self._shape, np.nan, dtype)
        failure: DamagedError | None = None
        n_read = 0
        for part in placed.parts:
            if statistic not in part.schema.statistics:
                continue
            number = part.schema.statistics.index(statistic)
            for column, row in enumerate(part.rows):
                if row is None:
                    continue
                try:
                    curve = segments.curve(part.group.index, part.group.steps, row, number)
                    values[self._at(part, column)] = curve
                    n_read += 1
                except DamagedError as error:
                    failure = error
                    segments.note(error)
        if failure is not None and not n_read:
            raise failure
        return values

    @property
    def _shape(self) -> tuple[int, ...]:
        """The shape of a statistic at every position of the timeline."""
        placed = self._timeline_positions
        n = len(placed.timeline)
        return (n, placed.n_passes) if placed.n_passes > 1 else (n,)

    def _at(self, part: _Part, column: int) -> Any:
        """The index of a pass of some steps in an array of that shape."""
        return (part.positions, column) if self._timeline_positions.n_passes > 1 else part.positions

    @property
    def _timeline_positions(self) -> _TimelinePositions:
        """Recomputed after the run was refreshed."""
        timeline = self.run.timeline
        if self._last_positions is None or self._last_positions.timeline is not timeline:
            self.row  # noqa: B018  (raises if nothing matches)
            passes = {id(schema): self._passes_in(schema) for schema in timeline.schemas}
            parts = []
            for group in timeline.groups:
                schema = group.index.schemas.get(group.schema)
                if schema is not None and (part := self._part(group, schema, passes[id(schema)])) is not None:
                    parts.append(part)
            positions = np.sort(np.concatenate([np.empty(0, np.intp), *(part.positions for part in parts)]))
            if self.kind is not None:
                positions = np.intersect1d(positions, self.run.positions_of(self.kind), assume_unique=True)
            # The width is that of the whole run, so that arrays of different kinds can be compared.
            n_passes = max(map(len, passes.values()), default=1)
            self._last_positions = _TimelinePositions(timeline, parts, positions, n_passes)
        return self._last_positions

    def _passes_in(self, schema: Schema) -> tuple[Pass, ...]:
        passes = schema.tensors.passes(self.site)
        if self.iteration is None and self.pass_ is None:
            return passes
        return tuple(pass_ for pass_ in passes if is_selected(pass_, self.iteration, self.pass_))

    def _part(self, group: Group, schema: Schema, passes: tuple[Pass, ...]) -> _Part | None:
        """None if none of these passes has the selected quantity."""
        rows = schema.tensors.rows(self.site)
        numbers = tuple(rows.get(PassKey(self.of, *pass_)) for pass_ in passes)
        if all(row is None for row in numbers):
            return None
        return _Part(group, schema, passes, numbers, np.asarray(group.positions, np.intp))

    # Tables

    def table(self) -> Any:
        """One row per step and pass: a pandas DataFrame if pandas is installed, else a list of dicts."""
        return to_dataframe(self.records(self.run.statistics))

    def records(self, statistics: Sequence[str], *, has_site: bool = False) -> list[dict[str, Any]]:
        """Table rows: step, kind, iteration, pass, then the statistics.

        Args:
            statistics: names of statistics.
            has_site: whether to add the column `site`.
        """
        at = np.nonzero(self.is_there)
        passes, kinds, steps = self.passes[at], self.kinds, self.steps[at[0]].tolist()
        columns: dict[str, list[Any]] = {"step": steps, "kind": [kinds[position] for position in at[0].tolist()]}
        if has_site:
            columns["site"] = [self.site] * len(steps)
        columns |= {name: passes[name].tolist() for name in ("iteration", "pass")}
        # A statistic with the name of one of these columns is replaced by the column.
        columns = {name: self.stats(name)[at].tolist() for name in statistics} | columns
        names = [name for name in dict.fromkeys((*_HEAD, *statistics)) if name in columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*map(columns.__getitem__, names), strict=True)]

    def to_xarray(self) -> Any:
        """An xarray Dataset: one variable per statistic, over `step`, and `pass` if steps have several."""
        return series_dataset(self.run.statistics, self)

    def __repr__(self) -> str:
        of = "" if self.of == VALUE else f" {self.of}"
        kind = "" if self.kind is None else f" of kind {self.kind!r}"
        where = "" if self.iteration is None else f", iteration {self.iteration}"
        several = f", up to {self.n_passes} passes each" if self.n_passes > 1 else ""
        return (
            f"<Series {pass_name(self.site, self.pass_)}{of}{where}: {plural(len(self.steps), 'step')}{kind}{several}>"
        )
