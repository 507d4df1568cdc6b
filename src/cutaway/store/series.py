"""One recorded tensor over the steps of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Array
from cutaway.core.errors import DamagedError, SiteError
from cutaway.core.tables import framed
from cutaway.store.records import GRAD, UPDATE, VALUE, Row, Schema
from cutaway.store.timeline import Group, Timeline
from cutaway.store.xarrays import series_dataset

if TYPE_CHECKING:
    from cutaway.store.run import Run


@dataclass(frozen=True, slots=True)
class Curve:
    """Numbers over steps."""

    steps: NDArray[np.int64]
    values: Array
    elapsed: NDArray[np.float64]
    """Seconds since the session began."""

    def __len__(self) -> int:
        return len(self.steps)


class Series:
    """One tensor of a run, or its gradient, over all steps, or those of one kind."""

    def __init__(self, run: Run, site: str, *, of: str = VALUE, iteration: int = 0, kind: str | None = None) -> None:
        self.run = run
        self.site = site
        self.of = of
        """ "value", "grad", "grad/<loss>", "grad@2", "inner_grad", "update"…"""
        self.iteration = iteration
        self.kind = kind
        self._last_placed: tuple[Timeline, list[tuple[Group, Schema, int]], NDArray[np.intp]] | None = None
        if kind is not None:
            run.places_of(kind)

    # what it is

    @property
    def row(self) -> Row:
        """What the newest schema says of it."""
        rows = self._rows
        found = rows.get((self.of, self.iteration))
        if found is None:
            known = ", ".join(sorted({of for of, _ in rows}))
            raise SiteError(
                f"of {self.site!r} no {self.of!r} was recorded in iteration {self.iteration}, only: {known}."
            )
        return found

    @property
    def _rows(self) -> dict[tuple[str, int], Row]:
        return self.run.rows_of(self.site)

    @property
    def role(self) -> str:
        """What the tensor is for: "input", "parameter", "loss"…"""
        return self.row.role

    @property
    def names(self) -> tuple[str, ...]:
        """Its further names."""
        return self.row.names

    @property
    def has(self) -> tuple[str, ...]:
        """What was recorded of this tensor: "value", "grad"…"""
        return tuple(dict.fromkeys(of for of, _ in self._rows))

    @property
    def iterations(self) -> tuple[int, ...]:
        """The iterations in which it was recorded; 0 where steps have none."""
        return tuple(sorted(iteration for of, iteration in self._rows if of == self.of))

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
            raise SiteError(
                f"of {self.site!r} no {of!r} was recorded in run {self.run.name!r}, only: {', '.join(self.has)}."
            )
        return found

    def of_(self, of: str, *, iteration: int | None = None) -> Series | None:
        """Like `other`, but None where there is none."""
        iteration = self.iteration if iteration is None else iteration
        if (of, iteration) not in self._rows:
            return None
        return Series(self.run, self.site, of=of, iteration=iteration, kind=self.kind)

    def where(self, *, kind: str | None) -> Series:
        """The same tensor at the steps of one kind."""
        return Series(self.run, self.site, of=self.of, iteration=self.iteration, kind=kind)

    # over steps

    @property
    def steps(self) -> NDArray[np.int64]:
        """The steps at which statistics of it were recorded, in order."""
        return self.run.timeline.steps[self._places]

    @property
    def kinds(self) -> list[str]:
        """The kind of each of these steps."""
        records = self.run.timeline.records
        return [records[place].kind for place in self._places]

    def stats(self, statistic: str, *, kind: str | None = None) -> Array:
        """One statistic over the steps: `run["encoder.2"].stats("std")`, as long as `steps`; NaN if missing.

        What is damaged counts as missing, and `run.problems` says so.
        """
        self.run.checked([statistic])
        chosen = self if kind is None else self.where(kind=kind)
        return self._values(statistic)[chosen._places]

    def curve(self, statistic: str, *, kind: str | None = None) -> Curve:
        """One statistic with the steps and times it belongs to."""
        values = self.stats(statistic, kind=kind)
        chosen = self if kind is None else self.where(kind=kind)
        timeline, places = self.run.timeline, chosen._places
        records = timeline.records
        elapsed = np.fromiter((records[place].elapsed for place in places), np.float64, len(places))
        return Curve(timeline.steps[places], values, elapsed)

    def _values(self, statistic: str) -> Array:
        """One statistic at every place of the timeline."""
        segments = self.run.archive.segments
        groups = [(group, schema, row) for group, schema, row in self._groups if statistic in schema.statistics]
        dtype = np.result_type(*{schema.dtype for _, schema, _ in self._groups}, np.float32)
        values = np.full(len(self.run.timeline), np.nan, dtype)
        problem: DamagedError | None = None
        n_read = 0
        for group, schema, row in groups:
            try:
                column = schema.statistics.index(statistic)
                values[group.places] = segments.curve(group.index, group.steps, row, column)
                n_read += 1
            except DamagedError as error:
                problem = error
                segments.note(error)
        if problem is not None and not n_read:
            raise problem
        return values

    @property
    def _groups(self) -> list[tuple[Group, Schema, int]]:
        """Where its statistics lie: groups of steps, their schema, and its row in each."""
        return self._placed[1]

    @property
    def _places(self) -> NDArray[np.intp]:
        """Where the steps at which it was recorded stand in the timeline."""
        return self._placed[2]

    @property
    def _placed(self) -> tuple[Timeline, list[tuple[Group, Schema, int]], NDArray[np.intp]]:
        """All that follows from the timeline, found again after the run was refreshed."""
        timeline = self.run.timeline
        if self._last_placed is None or self._last_placed[0] is not timeline:
            self.row  # noqa: B018  (says so where nothing of the kind was recorded)
            groups = []
            for group in timeline.groups:
                schema = group.index.schemas.get(group.schema)
                row = None if schema is None else schema.row_numbers.get((self.site, self.of, self.iteration))
                if schema is not None and row is not None:
                    groups.append((group, schema, row))
            places = np.asarray(sorted(place for group, _, _ in groups for place in group.places), np.intp)
            if self.kind is not None:
                places = np.intersect1d(places, self.run.places_of(self.kind), assume_unique=True)
            self._last_placed = (timeline, groups, places)
        return self._last_placed

    # showing

    def table(self) -> Any:
        """One row a step: a pandas DataFrame where pandas is installed, else a list of dicts."""
        columns = {name: self.stats(name).tolist() for name in self.run.statistics}
        heads = zip(self.steps.tolist(), self.kinds, strict=True)
        return framed(
            {"step": step, "kind": kind, **{name: column[number] for name, column in columns.items()}}
            for number, (step, kind) in enumerate(heads)
        )

    def to_xarray(self) -> Any:
        """An xarray Dataset: one variable for each statistic, over `step`."""
        return series_dataset(self.run.statistics, self)

    def __repr__(self) -> str:
        of = "" if self.of == VALUE else f" {self.of}"
        kind = "" if self.kind is None else f" of kind {self.kind!r}"
        return f"<Series {self.site}{of}: {len(self.steps):,} steps{kind}>"
