"""One numbering of the rows of a run across all its schemas, with matrices and curves in that numbering.

A run may change what it records, and each schema counts its rows from 0. The viewer needs one number per tensor that is
stable while the run grows. Numbers follow the order in which schemas were written, which never changes, so they are
also the same when the run is opened again.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError, NotFoundError
from cutaway.core.sites import split_pass
from cutaway.store.format.passes import PassKey
from cutaway.store.format.records import VALUE, Row, Schema, quantity_of
from cutaway.store.runs.filtered import RunFilter
from cutaway.store.runs.run import Run
from cutaway.store.runs.series import Band, Curve, Series
from cutaway.store.runs.step import Step

Key = tuple[str, str, int, int]
"""Tensor name without its pass, `of`, iteration, pass."""
Matrix = NDArray[np.floating[Any]]

_TABLES: Final = ("unit", "samples")
"""Rows with per-unit or per-sample tables of another row; they have no statistics."""
_MOST_SERIES: Final = 512
_MOST_RECENT: Final = 128


class RunRows:
    """The rows and statistics of a run by the viewer's numbers; `refresh` adds rows and never renumbers.

    >>> rows = RunRows(run)                                    # doctest: +SKIP
    >>> rows.number("encoder.0", "grad"), rows.matrix(40).shape    # doctest: +SKIP
    (17, (300, 33))
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._rows: list[Row] = []
        self._numbers: dict[Key, int] = {}
        self._statistics: dict[str, int] = {}
        self._seen: dict[int, Schema] = {}
        """Schemas by `id`; kept alive, so that no id is reused."""
        self._maps: dict[int, tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]] = {}
        self._series: dict[tuple[int, str | None], Series] = {}
        self._recent: dict[tuple[object, ...], Matrix] = {}
        self.digest = ""
        """Changes when rows or statistics are added."""
        self._add_schemas()

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every row, as its newest schema describes it."""
        return tuple(self._rows)

    @property
    def statistics(self) -> tuple[str, ...]:
        """The columns of every matrix."""
        return tuple(self._statistics)

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, number: int) -> Row:
        """One row by its number."""
        if not 0 <= number < len(self._rows):
            raise NotFoundError(f"run {self.run.name!r} has no row {number}: it has {len(self._rows):,}, from 0.")
        return self._rows[number]

    def number(self, site: str, of: str = VALUE, iteration: int = 0) -> int | None:
        """The number of a row by site, by default its first pass; None if there is none."""
        name, pass_ = split_pass(site)
        return self._numbers.get((name, of, iteration, pass_))

    def refresh(self) -> bool:
        """Reads new data of the run; returns whether there was any."""
        is_new = self.run.refresh()
        if is_new:
            self._add_schemas()
        return is_new

    def _add_schemas(self) -> None:
        """Numbers the rows of new schemas, also of steps that a later session overwrote."""
        schemas = (schema for index in self.run.sessions for schema in index.schemas.values())
        new = [schema for schema in schemas if id(schema) not in self._seen]
        for schema in new:
            self._seen[id(schema)] = schema
            for name in schema.statistics:
                self._statistics.setdefault(name, len(self._statistics))
            for row in schema.rows:
                if is_shown(row):
                    number = self._numbers.setdefault(_key(row), len(self._rows))
                    # Appends a new row, or replaces the one that an earlier schema described.
                    self._rows[number : number + 1] = [row]
        self._maps.clear()
        self.__dict__.pop("_n_passes", None)
        if new or not self.digest:
            # Names may hold lone surrogates, which UTF-8 refuses otherwise.
            named = repr((list(self._numbers), list(self._statistics)))
            self.digest = sha256(named.encode(errors="surrogatepass")).hexdigest()[:16]

    @cached_property
    def filter(self) -> RunFilter:
        """Applies filters to the run; keeps what it read of the samples."""
        return RunFilter(self.run)

    # one step

    def matrix(self, step: int | Step) -> Matrix:
        """All statistics of one step, `[row, statistic]`; NaN for missing rows or statistics."""
        at = self.run.at(step) if isinstance(step, int) else step
        schema_rows, rows, columns = self._map(at)
        out: Matrix = np.full((len(self._rows), len(self._statistics)), np.nan, at.matrix.dtype)
        out[rows[:, None], columns] = at.matrix[schema_rows]
        return out

    def recent(self, step: int, columns: tuple[int, ...]) -> Matrix:
        """Some statistics of one step, of the last steps that were asked for: neighbors share most of their past."""
        at = self.run.at(step)
        key = (step, at.session, self.digest, columns)
        found = self._recent.get(key)
        if found is None:
            while len(self._recent) >= _MOST_RECENT:
                self._recent.pop(next(iter(self._recent)), None)
            found = self._recent[key] = self.matrix(at)[:, list(columns)]
        return found

    def column(self, step: int | Step, statistic: str) -> Matrix:
        """One statistic of all rows at one step."""
        return self.matrix(step)[:, self.column_number(statistic)]

    def column_number(self, statistic: str) -> int:
        """The column of a statistic."""
        self.run.check_statistics([statistic])
        return self._statistics[statistic]

    def has(self, step: Step, number: int) -> bool:
        """Whether a row was recorded at a step."""
        row = self._rows[number]
        return step.row_number(row.site, row.of, row.iteration) is not None

    def _map(self, step: Step) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Shown rows of the step's schema, their numbers, and the columns of its statistics.

        A tensor is found by each of its names, as in a series.
        """
        found = self._maps.get(id(step.rows))
        if found is None:
            tensors = step.tensors
            keys = self._numbers
            places = [tensors.rows(name).get(PassKey(of, iteration, pass_)) for name, of, iteration, pass_ in keys]
            numbers = np.fromiter((i for i, place in enumerate(places) if place is not None), np.intp)
            own = np.fromiter((place for place in places if place is not None), np.intp)
            columns = np.fromiter((self._statistics[name] for name in step.statistics), np.intp)
            found = self._maps[id(step.rows)] = (own, numbers, columns)
        return found

    # over steps

    def series(self, number: int, *, kind: str | None = None) -> Series:
        """One row over all steps, or over those of one kind."""
        row = self.row(number)
        series = self._series.get((number, kind))
        if series is None:
            if len(self._series) >= _MOST_SERIES:
                self._series.clear()
            series = Series(self.run, row.base, of=row.of, iteration=row.iteration, pass_=row.pass_, kind=kind)
            self._series[number, kind] = series
        return series

    def curve(self, number: int, statistic: str, *, kind: str | None = None) -> Curve:
        """One statistic of one row, which is one pass, over the steps that have it."""
        self.run.check_statistics([statistic])
        series = self.series(number, kind=kind)
        if series.of not in series.has:  # a later session overwrote its steps
            return Curve(np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0))
        return series.curve(statistic)

    def band(
        self,
        number: int,
        statistic: str,
        *,
        kind: str | None = None,
        iteration: int | None = None,
        pass_: int | None = None,
    ) -> Band:
        """One statistic of the tensor of a row over steps, of its passes together: all, or those that are picked."""
        self.run.check_statistics([statistic])
        row = self.row(number)
        series = Series(self.run, row.base, of=row.of, iteration=iteration, pass_=pass_, kind=kind)
        if series.of not in series.has:
            none = np.empty(0, np.float32)
            return Band(np.empty(0, np.int64), none, none, none, np.empty(0))
        return series.band(statistic)

    def n_passes(self, row: Row) -> int:
        """The largest number of passes of a row's tensor in any step."""
        return self._n_passes.get(row.base, 1)

    def node_name(self, row: Row) -> str:
        """The node of the dependency graph that a row belongs to; also defined for a run without graph."""
        if row.node:
            return row.node
        site = f"{row.base}:{row.pass_}" if self.n_passes(row) > 1 else row.base
        return f"{site}~{row.iteration}" if row.iteration else site

    @cached_property
    def _n_passes(self) -> dict[str, int]:
        n_passes: dict[str, int] = {}
        for schema in self.run.timeline.schemas:
            for site in schema.tensors.sites:
                n_passes[site] = max(n_passes.get(site, 1), len(schema.tensors.passes(site)))
        return n_passes

    def history(self, number: int, before: int, *, most: int = 200) -> NDArray[Any]:
        """All statistics of a row at the last steps of the same kind before a step, `[step, statistic]`.

        Damaged data is NaN.
        """
        timeline, row = self.run.timeline, self.row(number)
        at = timeline.position(before)
        if at is None:
            raise NotFoundError(f"step {before} of run {self.run.name!r} was not recorded.")
        of_kind = timeline.kinds[timeline.records[at].kind]
        recent = of_kind[: int(np.searchsorted(of_kind, at))]
        chosen: list[int] = []
        for place in recent[::-1].tolist():
            record, index = timeline.records[place], timeline.indexes[place]
            schema = index.schemas.get(record.schema)
            if record.matrix is not None and schema is not None and _place(schema, row) is not None:
                chosen.append(place)
                if len(chosen) == most:
                    break
        groups: dict[tuple[int, int, int], list[int]] = {}
        for place in reversed(chosen):
            record = timeline.records[place]
            if record.matrix is not None:
                groups.setdefault((timeline.indexes[place].number, record.matrix[0], record.schema), []).append(place)
        parts = [self._history_of(row, places) for places in groups.values()]
        return np.concatenate([np.empty((0, len(self._statistics)), np.float64), *parts])

    def _history_of(self, row: Row, places: list[int]) -> NDArray[Any]:
        timeline = self.run.timeline
        index, records = timeline.indexes[places[0]], [timeline.records[place] for place in places]
        schema = index.schema_of(records[0].schema)
        number = _place(schema, row)
        out = np.full((len(places), len(self._statistics)), np.nan)
        try:
            values = self.run.archive.segments.rows(index, records, 0 if number is None else number)
        except DamagedError as error:
            self.run.archive.segments.note(error)
            return out
        out[:, [self._statistics[name] for name in schema.statistics]] = values
        return out


def is_shown(row: Row) -> bool:
    """Whether a row is a tensor with statistics: not what samples are, and no array about another row."""
    return not row.is_sample and quantity_of(row.of) not in _TABLES


def _place(schema: Schema, row: Row) -> int | None:
    return schema.row_number(row.site, row.of, row.iteration)


def _key(row: Row) -> Key:
    """The identity of a row; pass 1 is the same whether or not the step had more passes."""
    return row.base, row.of, row.iteration, row.pass_
