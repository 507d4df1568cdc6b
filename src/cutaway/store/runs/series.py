"""One recorded tensor over the steps of a run, in one pass a step or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Array
from cutaway.core.errors import DamagedError, SiteError
from cutaway.core.dataframes import to_dataframe
from cutaway.store.format.passes import PASS_DTYPE, Pass, PassKey, is_picked, pass_name
from cutaway.store.format.records import GRAD, UPDATE, VALUE, Row, Schema
from cutaway.store.runs.timeline import Group, Timeline
from cutaway.store.runs.xarray_export import series_dataset

if TYPE_CHECKING:
    from cutaway.store.runs.run import Run

_HEAD: Final = ("step", "kind", "site", "iteration", "pass")
"""The first columns of a table."""
_COUNT: Final = "count"
"""The statistic that says how many elements a tensor has."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Numbers over steps."""

    steps: NDArray[np.int64]
    values: Array
    """One a step; of a tensor with several passes, `[step, pass]`."""
    elapsed: NDArray[np.float64]
    """Seconds since the session began."""

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, slots=True)
class Band:
    """Numbers over steps, of all passes of each step together."""

    steps: NDArray[np.int64]
    values: Array
    """The mean over the passes, each of which counts as many times as it has elements."""
    low: Array
    """The smallest of the passes."""
    high: Array
    """The largest of the passes."""
    elapsed: NDArray[np.float64]
    """Seconds since the session began."""

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, slots=True)
class _Part:
    """Steps whose statistics lie together, and where those of one tensor lie among them."""

    group: Group
    schema: Schema
    passes: tuple[Pass, ...]
    """In order of execution."""
    rows: tuple[int | None, ...]
    """By pass; None where this was not recorded of it."""
    places: NDArray[np.intp]
    """Where the steps stand in the timeline."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """All that follows from the timeline."""

    timeline: Timeline
    parts: list[_Part]
    places: NDArray[np.intp]
    """Where the steps at which it was recorded stand in the timeline."""
    n_passes: int


class Series:
    """One tensor of a run, or its gradient, over all steps, or those of one kind.

    Args:
        site: any name of the tensor, without a pass.
        iteration: the one that is picked; None for all.
        pass_: the pass within each iteration that is picked, from 1; None for all.
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
        self._last_placed: _Placed | None = None
        if kind is not None:
            run.places_of(kind)

    # what it is

    @property
    def row(self) -> Row:
        """What the newest schema says of it; of several passes, what it says of the first."""
        found = [key for key in self._picked if key.of == self.of]
        if not found:
            known = ", ".join(dict.fromkeys(key.of for key in self._picked)) or "nothing"
            where = "" if self.iteration is None else f" in iteration {self.iteration}"
            name = pass_name(self.site, self.pass_)
            raise SiteError(f"of {name!r} no {self.of!r} was recorded{where}, only: {known}.")
        return self._rows[min(found)]

    @property
    def _rows(self) -> dict[PassKey, Row]:
        """All that was recorded of the tensor, in any pass."""
        return self.run.rows_of(self.site)

    @property
    def _picked(self) -> list[PassKey]:
        return [key for key in self._rows if is_picked(key.where, self.iteration, self.pass_)]

    @property
    def role(self) -> str:
        """What the tensor is for: "input", "parameter", "loss"…"""
        return self.row.role

    @property
    def names(self) -> tuple[str, ...]:
        """Its further names."""
        return self.row.bare_names

    @property
    def has(self) -> tuple[str, ...]:
        """What was recorded of this tensor: "value", "grad"…"""
        return tuple(dict.fromkeys(key.of for key in self._picked))

    @property
    def iterations(self) -> tuple[int, ...]:
        """The iterations in which it was recorded; 0 where steps have none."""
        return tuple(sorted({key.iteration for key in self._rows if key.of == self.of}))

    # others like it

    @property
    def grad(self) -> Series:
        """The gradient of the same tensor: the sum over all `backward()` calls of a step."""
        return self.other(GRAD)

    @property
    def update(self) -> Series:
        """What the optimizer changed in the same tensor."""
        return self.other(UPDATE)

    def update_ratio(self, *, kind: str | None = None) -> Curve:
        """How large each update was beside the parameter itself: the norms of both, divided, over the steps."""
        update, own = self.update.curve("norm", kind=kind), self.curve("norm", kind=kind)
        both, first, second = np.intersect1d(update.steps, own.steps, assume_unique=True, return_indices=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            return Curve(both, update.values[first] / own.values[second], update.elapsed[first])

    def other(self, of: str, *, iteration: int | None = None) -> Series:
        """The same tensor, but its gradient, its update or another iteration: `other("grad/aux")`."""
        found = self.of_(of, iteration=iteration)
        if found is None:
            name = pass_name(self.site, self.pass_)
            wanted = self.iteration if iteration is None else iteration
            where = "" if wanted is None else f" in iteration {wanted}"
            raise SiteError(
                f"of {name!r} no {of!r} was recorded{where} in run {self.run.name!r}, only: {', '.join(self.has)}."
            )
        return found

    def of_(self, of: str, *, iteration: int | None = None) -> Series | None:
        """Like `other`, but None where there is none."""
        found = self._like(of=of, iteration=iteration)
        return found if of in found.has else None

    def where(self, *, kind: str | None = None, iteration: int | None = None, pass_: int | None = None) -> Series:
        """The same tensor at the steps of one kind, in one iteration, in one pass of each; what is not said stays."""
        found = self._like(kind=kind, iteration=iteration, pass_=pass_)
        found.row  # noqa: B018  (says so where nothing of the kind was recorded)
        return found

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

    # over steps

    @property
    def steps(self) -> NDArray[np.int64]:
        """The steps at which statistics of any of its passes were recorded, in order."""
        return self.run.timeline.steps[self._placed.places]

    @property
    def kinds(self) -> list[str]:
        """The kind of each of these steps."""
        records = self.run.timeline.records
        return [records[place].kind for place in self._placed.places]

    @property
    def n_passes(self) -> int:
        """The most passes that a step of the run has: the width of `stats`."""
        return self._placed.n_passes

    @property
    def passes(self) -> NDArray[np.void]:
        """Which pass each number of `stats` is of, in the same shape: records of `iteration` and `pass`.

        Iterations are 0 outside of `run.iteration()`; passes count from 1 within an iteration. Both are 0 where a
        step has no further pass.
        """
        found = np.zeros(self._shape, PASS_DTYPE)
        for part in self._placed.parts:
            for column, pass_ in enumerate(part.passes):
                found[self._at(part, column)] = pass_
        return found[self._placed.places]

    def stats(self, statistic: str, *, kind: str | None = None, iteration: int | None = None) -> Array:
        """One statistic over the steps: `run["encoder.2"].stats("std")`, as long as `steps`; NaN if missing.

        Where a step has several passes, it is `[step, pass]`, the passes of each step in order of execution: as wide
        as the most of any step, NaN where a step has fewer. `passes` says which they are. What is damaged counts as
        missing, and `run.problems` says so.

        Args:
            kind: only the steps of this kind; the width stays.
            iteration: only the passes of this iteration.
        """
        self.run.checked([statistic])
        chosen = self._chosen(kind, iteration)
        return chosen._values(statistic)[chosen._placed.places]

    def curve(self, statistic: str, *, kind: str | None = None, iteration: int | None = None) -> Curve:
        """One statistic with the steps and times it belongs to."""
        chosen = self._chosen(kind, iteration)
        return Curve(chosen.steps, chosen.stats(statistic), chosen._elapsed())

    def band(self, statistic: str, *, kind: str | None = None, iteration: int | None = None) -> Band:
        """One statistic of all passes of a step together: their mean, the smallest and the largest.

        In the mean a pass counts as many times as it has elements, where the statistic `count` was recorded, and once
        where it was not. What is not finite in one pass is not finite in the mean.
        """
        chosen = self._chosen(kind, iteration)
        values, elapsed = chosen.stats(statistic), chosen._elapsed()
        if values.ndim == 1:
            return Band(chosen.steps, values, values, values, elapsed)
        is_there = chosen.is_there
        weights = chosen.stats(_COUNT).astype(np.float64) if _COUNT in self.run.statistics else np.ones(values.shape)
        with np.errstate(all="ignore"):
            # What is not there must not count, and what is there and NaN must: a mean that hid it would be wrong.
            weighted = np.where(is_there, weights * values, 0).sum(1)
            mean = weighted / np.where(is_there, weights, 0).sum(1)
        low = np.where(is_there, values, np.inf).min(1)
        high = np.where(is_there, values, -np.inf).max(1)
        return Band(chosen.steps, mean.astype(values.dtype), low, high, elapsed)

    @property
    def is_there(self) -> NDArray[np.bool_]:
        """Whether each number of `stats` was recorded, in the same shape: False where it stands for no pass."""
        found = np.zeros(self._shape, bool)
        for part in self._placed.parts:
            for column, row in enumerate(part.rows):
                found[self._at(part, column)] = row is not None
        return found[self._placed.places]

    def _chosen(self, kind: str | None, iteration: int | None) -> Series:
        return self if kind is None and iteration is None else self.where(kind=kind, iteration=iteration)

    def _elapsed(self) -> NDArray[np.float64]:
        records, places = self.run.timeline.records, self._placed.places
        return np.fromiter((records[place].elapsed for place in places), np.float64, len(places))

    def _values(self, statistic: str) -> Array:
        """One statistic at every place of the timeline."""
        segments = self.run.archive.segments
        placed = self._placed
        dtype = np.result_type(*{part.schema.dtype for part in placed.parts}, np.float32)
        values = np.full(self._shape, np.nan, dtype)
        problem: DamagedError | None = None
        n_read = 0
        for part in placed.parts:
            if statistic not in part.schema.statistics:
                continue
            number = part.schema.statistics.index(statistic)
            for column, row in enumerate(part.rows):
                if row is None:
                    continue
                try:
                    found = segments.curve(part.group.index, part.group.steps, row, number)
                    values[self._at(part, column)] = found
                    n_read += 1
                except DamagedError as error:
                    problem = error
                    segments.note(error)
        if problem is not None and not n_read:
            raise problem
        return values

    @property
    def _shape(self) -> tuple[int, ...]:
        """Of a statistic at every place of the timeline."""
        placed = self._placed
        n = len(placed.timeline)
        return (n, placed.n_passes) if placed.n_passes > 1 else (n,)

    def _at(self, part: _Part, column: int) -> Any:
        """Where a pass of some steps stands in what has that shape."""
        return (part.places, column) if self._placed.n_passes > 1 else part.places

    @property
    def _placed(self) -> _Placed:
        """Found again after the run was refreshed."""
        timeline = self.run.timeline
        if self._last_placed is None or self._last_placed.timeline is not timeline:
            self.row  # noqa: B018  (says so where nothing of the kind was recorded)
            passes = {id(schema): self._passes_in(schema) for schema in timeline.schemas}
            parts = []
            for group in timeline.groups:
                schema = group.index.schemas.get(group.schema)
                if schema is not None and (part := self._part(group, schema, passes[id(schema)])) is not None:
                    parts.append(part)
            places = np.sort(np.concatenate([np.empty(0, np.intp), *(part.places for part in parts)]))
            if self.kind is not None:
                places = np.intersect1d(places, self.run.places_of(self.kind), assume_unique=True)
            # The width is that of the whole run, so that arrays of several kinds can be laid beside each other.
            n_passes = max(map(len, passes.values()), default=1)
            self._last_placed = _Placed(timeline, parts, places, n_passes)
        return self._last_placed

    def _passes_in(self, schema: Schema) -> tuple[Pass, ...]:
        passes = schema.tensors.passes(self.site)
        if self.iteration is None and self.pass_ is None:
            return passes
        return tuple(pass_ for pass_ in passes if is_picked(pass_, self.iteration, self.pass_))

    def _part(self, group: Group, schema: Schema, passes: tuple[Pass, ...]) -> _Part | None:
        """None where none of these passes has what is asked of the tensor."""
        rows = schema.tensors.rows(self.site)
        found = tuple(rows.get(PassKey(self.of, *pass_)) for pass_ in passes)
        if all(row is None for row in found):
            return None
        return _Part(group, schema, passes, found, np.asarray(group.places, np.intp))

    # showing

    def table(self) -> Any:
        """One row for each step and pass: a pandas DataFrame where pandas is installed, else a list of dicts."""
        return to_dataframe(self.records(self.run.statistics))

    def records(self, statistics: Sequence[str], *, has_site: bool = False) -> list[dict[str, Any]]:
        """The rows of a table: step, kind, iteration, pass, then the statistics.

        Args:
            has_site: whether each row says which tensor it is of.
        """
        at = np.nonzero(self.is_there)
        passes, kinds, steps = self.passes[at], self.kinds, self.steps[at[0]].tolist()
        columns: dict[str, list[Any]] = {"step": steps, "kind": [kinds[place] for place in at[0].tolist()]}
        if has_site:
            columns["site"] = [self.site] * len(steps)
        columns |= {name: passes[name].tolist() for name in ("iteration", "pass")}
        # A statistic that is called like one of these gives way to it.
        columns = {name: self.stats(name)[at].tolist() for name in statistics} | columns
        names = [name for name in dict.fromkeys((*_HEAD, *statistics)) if name in columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*map(columns.__getitem__, names), strict=True)]

    def to_xarray(self) -> Any:
        """An xarray Dataset: one variable for each statistic, over `step`, and `pass` where a step has several."""
        return series_dataset(self.run.statistics, self)

    def __repr__(self) -> str:
        of = "" if self.of == VALUE else f" {self.of}"
        kind = "" if self.kind is None else f" of kind {self.kind!r}"
        where = "" if self.iteration is None else f", iteration {self.iteration}"
        several = f", up to {self.n_passes} passes each" if self.n_passes > 1 else ""
        return f"<Series {pass_name(self.site, self.pass_)}{of}{where}: {len(self.steps):,} steps{kind}{several}>"
