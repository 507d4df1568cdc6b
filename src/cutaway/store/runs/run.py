"""A recorded run, read lazily and without torch, also while it is being written."""

from __future__ import annotations

import operator
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from time import monotonic, sleep
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import AmbiguousSiteError, InputError, InputTypeError, NotFoundError, SiteError
from cutaway.core.formatting import hint, listed, nearest_hint, plural
from cutaway.core.sites import Site, spellings, split_pass
from cutaway.store.format.passes import PassKey, covers, primary_names
from cutaway.store.format.problems import lost_text, problems_of
from cutaway.store.format.records import STEPS, VALUE, Loss, Note, Row
from cutaway.store.reading.archive import Archive
from cutaway.store.reading.index import SessionIndex
from cutaway.store.runs.scalars import Scalars
from cutaway.store.runs.series import Series
from cutaway.store.runs.step import Step
from cutaway.store.runs.timeline import Timeline, lost_steps
from cutaway.store.runs.xarray_export import run_dataset

_MAX_LISTED = 8


class Run:
    """A run on disk: what was recorded during training, step by step.

    Open it with `cutaway.load`. It is a snapshot of the time of opening; `refresh` reads new data.
    """

    def __init__(self, archive: Archive, *, rank: int | None = None, session: int | None = None) -> None:
        if isinstance(archive, (str, os.PathLike)):
            raise InputTypeError(f"Run() got a path: open a run with cutaway.load({os.fspath(archive)!r}).")
        self._archive = archive
        self._rank = rank
        self._session = session
        self._n_changes = archive.n_changes
        """The archive version that this run has seen; another Run may have refreshed the archive."""

    @property
    def path(self) -> str:
        """The folder."""
        return self._archive.path

    @property
    def name(self) -> str:
        """The last part of the path."""
        return os.path.basename(self._archive.backend.url.rstrip("/")) or self.path

    @property
    def archive(self) -> Archive:
        """The archive that holds it."""
        return self._archive

    # Steps

    @property
    def steps(self) -> NDArray[np.int64]:
        """The recorded steps, of all kinds, in order."""
        return self.timeline.steps

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of recorded steps, in order of first occurrence."""
        return tuple(self.timeline.kinds)

    def steps_of(self, kind: str) -> NDArray[np.int64]:
        """The recorded steps of one kind.

        Args:
            kind: the kind of step, one of `kinds`.
        """
        return self.steps[self.positions_of(kind)]

    def __len__(self) -> int:
        return len(self.timeline)

    def at(self, step: int) -> Step:
        """One recorded step.

        Args:
            step: the number of a recorded step; negative numbers count from the end: -1 is the last recorded step.
        """
        try:
            step = operator.index(step)
        except TypeError:
            raise InputTypeError(f"a step must be an integer, got {step!r}.") from None
        timeline = self.timeline
        n = len(timeline)
        position = n + step if -n <= step < 0 else timeline.position(step)
        if position is None:
            if not n:
                raise NotFoundError(f"run {self.name!r} has no recorded steps yet.")
            if step < 0:
                raise NotFoundError(f"run {self.name!r} has {plural(n, 'recorded step')}: run.at(-1) to run.at(-{n}).")
            near = ", ".join(map(str, timeline.nearest(step)))
            raise NotFoundError(
                f"run {self.name!r} did not record step {step}. Nearest: {near}. run.steps lists all {n:,}."
            )
        return Step(self._archive, timeline.indexes[position], timeline.records[position])

    def __iter__(self) -> Iterator[Step]:
        timeline = self.timeline
        for index, record in zip(timeline.indexes, timeline.records, strict=True):
            yield Step(self._archive, index, record)

    # Tensors

    @property
    def sites(self) -> tuple[str, ...]:
        """Every tensor with a recorded value or statistics of it; tensors with several passes appear once."""
        return tuple(dict.fromkeys(row.base for row in self.rows if row.of == VALUE))

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Every recorded quantity of every tensor, one row per pass, in order of first occurrence."""
        rows = {(row.site, row.of, row.iteration): row for schema in self.timeline.schemas for row in schema.rows}
        return tuple(rows.values())

    @cached_property
    def statistics(self) -> tuple[str, ...]:
        """Names of the recorded statistics."""
        return tuple(dict.fromkeys(name for schema in self.timeline.schemas for name in schema.statistics))

    def __getitem__(self, site: str) -> Series:
        if not isinstance(site, str):
            meant = f" Step {site} is run.at({site})." if isinstance(site, (int, np.integer)) else ""
            raise InputTypeError(f"a site must be text, got {site!r}.{meant}")
        matches = self.match(site)
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = listed([repr(series.site) for series in matches], _MAX_LISTED)
            raise AmbiguousSiteError(
                f"{site!r} matches {len(matches)} tensors of run {self.name!r}: {names}. "
                f"Name one of them, or get all with run.match({site!r})."
            )
        name, pass_ = split_pass(site)
        if name in self._tensors:
            n_passes = max((key.pass_ for key in self.rows_of(self._tensors[name])), default=0)
            raise SiteError(
                f"{name!r} never has {plural(pass_, 'pass', 'passes')} in one iteration of run {self.name!r}; "
                f"the most is {n_passes}. "
                f"See run[{name!r}].passes; iteration= selects an iteration."
            )
        near = nearest_hint(site, self._tensors)
        known = f"run.sites lists all {len(self.sites):,}" if near else f"It has: {listed(map(repr, self.sites))}"
        raise SiteError(f"no site matches {site!r} in run {self.name!r}.{near} {known}.")

    def match(self, site: str) -> tuple[Series, ...]:
        """Every recorded tensor that a site or pattern matches, in order.

        Args:
            site: a site, or a pattern with `*` and `**`.
        """
        if not isinstance(site, str):
            return ()
        for spelled in spellings(site):
            matches = self._match(spelled)
            if matches:
                return matches
        return ()

    def _match(self, site: str) -> tuple[Series, ...]:
        # Fast path: an exact primary name needs no search through the aliases of all tensors.
        if any(site in schema.tensors.sites for schema in self.timeline.schemas):
            return (Series(self, site),)
        if site in self._tensors:
            return (Series(self, self._tensors[site]),)
        name, pass_ = split_pass(site)
        if name in self._tensors:
            picked = Series(self, self._tensors[name], pass_=pass_)
            return (picked,) if picked.has else ()
        try:
            pattern = Site.parse(site)
        except ValueError:  # SiteSyntaxError, or an integer with thousands of digits
            return ()
        any_pass = replace(pattern, pass_=None)
        names = [name for name in self._tensors if covers(any_pass, name)]
        sites = dict.fromkeys(self._tensors[name] for name in names)
        series = [Series(self, site, pass_=pattern.pass_) for site in sites if not self._is_alias_of(site, sites)]
        return tuple(each for each in series if each.has)

    def _is_alias_of(self, site: str, sites: Collection[str]) -> bool:
        """Whether a name is an alias for passes of tensors that are already in `sites`."""
        alias_sites = {home for schema in self.timeline.schemas for home in schema.tensors.alias_sites.get(site, ())}
        return bool(alias_sites) and alias_sites <= set(sites)

    def __contains__(self, site: object) -> bool:
        return isinstance(site, str) and bool(self.match(site))

    @cached_property
    def _tensors(self) -> dict[str, str]:
        """Every tensor name, without passes → its primary name."""
        return primary_names(schema.tensors for schema in self.timeline.schemas)

    @cached_property
    def _rows_by_name(self) -> dict[str, dict[PassKey, Row]]:
        """Cache of `rows_of`."""
        return {}

    # Scalars, notes, documents

    @cached_property
    def scalars(self) -> Scalars:
        """The logged numbers by name: `run.scalars["loss"].values`."""
        return Scalars(self.sessions)

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes, in order."""
        return tuple(note for index in self.sessions for note in index.notes)

    @property
    def documents(self) -> Mapping[str, Any]:
        """Plain data by name; later sessions replace earlier ones."""
        documents: dict[str, Any] = {}
        for index in self.sessions:
            documents |= index.documents
        return documents

    @property
    def unit_rule(self) -> Literal["graph", "sizes"]:
        """How the unit dimension of each tensor was determined.

        "graph": from the traced graph. "sizes": at least one session was recorded by an older Cutaway, which guessed
        from sizes and classes, so that per-unit statistics may be of samples or positions.
        """
        return "graph" if all("units" in index.documents for index in self.sessions) else "sizes"

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration that you passed."""
        return _table(self.documents.get("config"))

    @property
    def environment(self) -> Mapping[str, Any]:
        """Package versions and machine at the time of recording."""
        return _table(self.documents.get("environment"))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be written or was lost when the process ended, with the steps and the reason."""
        return tuple(loss for index in self.sessions for loss in index.losses)

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong while recording: failures, what could not be seen, and what could not be written.

        The recorder had the same list: `with cutaway.record(...) as run: ...; run.problems`.
        """
        return tuple(text for index in self.sessions for text in problems_of(index.notes, index.losses))

    @property
    def damage(self) -> tuple[str, ...]:
        """Damage on disk that opening and reading have found so far; `cutaway verify` checks every byte."""
        return tuple(self._archive.damage)

    # Sessions and ranks

    @property
    def sessions(self) -> list[SessionIndex]:
        """The sessions of this run: one for the first start, one per resume."""
        sessions = self._archive.sessions(self._rank)
        return sessions if self._session is None else [index for index in sessions if index.number == self._session]

    def session(self, number: int) -> Run:
        """What one session wrote, including steps that a later session recorded again.

        Args:
            number: the number of the session, from 1.
        """
        numbers = [index.number for index in self._archive.sessions(self._rank)]
        if number not in numbers:
            raise NotFoundError(
                f"run {self.name!r} has no session {number!r}. It has: {listed(map(str, numbers), _MAX_LISTED)}."
            )
        return Run(self._archive, rank=self._rank, session=number)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The recorded ranks. Without `rank(n)`, everything is about the first of them."""
        return tuple(self._archive.ranks)

    def rank(self, rank: int) -> Run:
        """What one rank wrote.

        Args:
            rank: one of `ranks`.
        """
        if rank not in self._archive.ranks:
            raise NotFoundError(
                f"run {self.name!r} has no rank {rank!r}. It has: {listed(map(str, self.ranks), _MAX_LISTED)}."
            )
        return Run(self._archive, rank=rank, session=self._session)

    # Live runs

    @property
    def is_live(self) -> bool | None:
        """Whether it is being written now; None if another machine may be writing."""
        return self._archive.is_live

    def refresh(self) -> bool:
        """Read what was written since; returns whether there was anything."""
        self._archive.refresh()
        is_new = self._archive.n_changes != self._n_changes
        if is_new:
            self._n_changes = self._archive.n_changes
            # Dropped, not updated: series recompute their positions when they see another timeline object.
            for name in ("timeline", "rows", "statistics", "scalars", "_tensors", "_rows_by_name"):
                self.__dict__.pop(name, None)
        return is_new

    def follow(self, *, every: float = 0.5, timeout: float | None = None) -> Iterator[Step]:
        """Iterate over new steps as they are recorded, until the run ends or `timeout` seconds pass without one.

        Steps that a resumed session records again count as new.

        Args:
            every: seconds between two looks at the disk.
            timeout: seconds without a new step after which the iteration ends; None for no limit.
        """
        seen = self.timeline
        known = seen.keys()
        quiet_since = monotonic()
        while True:
            # Asked before reading: a writer that closes between the two must not cost its last steps.
            was_live = self.is_live
            self.refresh()
            if self.timeline is not seen:
                seen = self.timeline
                for index, record in zip(seen.indexes, seen.records, strict=True):
                    if (index.number, record.step) not in known:
                        yield Step(self._archive, index, record)
                        quiet_since = monotonic()
                known |= seen.keys()
            if was_live is False or (timeout is not None and monotonic() - quiet_since > timeout):
                return
            sleep(every)

    # Tables

    def table(self, statistics: Iterable[str] | None = None, *, at: str = "**", of: str = VALUE) -> Any:
        """One row per step, tensor and pass: a pandas DataFrame if pandas is installed, else a list of dicts.

        Args:
            statistics: names of statistics; all by default.
            at: the tensors, as a site pattern.
            of: "value", "grad", "update"…
        """
        return to_dataframe(self.records(self._required_series(at, of), self.check_statistics(statistics)))

    def to_xarray(self, statistics: Iterable[str] | None = None, *, at: str = "**", of: str = VALUE) -> Any:
        """An xarray Dataset: one variable per statistic, over `step` and `site`; NaN if not recorded.

        If a step has several passes of a tensor, there is a third dimension, `pass`.

        Args:
            statistics: names of statistics; all by default.
            at: the tensors, as a site pattern.
            of: "value", "grad", "update"…
        """
        return run_dataset(self.check_statistics(statistics), self.steps, self._required_series(at, of))

    def _required_series(self, at: str, of: str) -> Sequence[Series]:
        chosen = self.matching_series(at, of)
        if not chosen:
            if not self.match(at):
                self[at]  # raises, with near matches
            known = list(dict.fromkeys(row.of for row in self.rows if not row.is_sample))
            raise SiteError(
                f"run {self.name!r} has no {of!r} of {at!r}.{hint(of, known)} It has: {listed(known, _MAX_LISTED)}."
            )
        return chosen

    def check_statistics(self, statistics: Iterable[str] | None) -> tuple[str, ...]:
        """Validate names of statistics; all if None."""
        if statistics is None:
            return self.statistics
        names = (statistics,) if isinstance(statistics, str) else tuple(statistics)
        for name in names:
            if name not in self.statistics:
                near = nearest_hint(str(name), self.statistics)
                known = listed(self.statistics, _MAX_LISTED) or "none"
                what = f"{near} run.statistics lists all {len(self.statistics)}." if near else f" It has: {known}."
                raise InputError(f"run {self.name!r} has no statistic {name!r}.{what}")
        return names

    def __repr__(self) -> str:
        lost = lost_steps(self.sessions)
        lost_part = f"; {lost_text(STEPS, lost)} {'was' if len(lost) == 1 else 'were'} lost" if lost else ""
        if not len(self):
            return f"<Run {self.name}: no recorded steps{lost_part}>"
        kinds = f", kinds {', '.join(map(repr, self.kinds))}" if len(self.kinds) > 1 else ""
        live = ", live" if self.is_live else ""
        steps = f"{self.steps[0]}–{self.steps[-1]}" if len(self) > 1 else str(self.steps[0])
        n = f"{plural(len(self), 'recorded step')} {steps}"
        counts = f"{plural(len(self.sites), 'tensor')}, {plural(len(self.scalars), 'scalar')}"
        return f"<Run {self.name}: {n}{kinds}, {counts}{live}{lost_part}>"

    # For other modules of this package

    @cached_property
    def timeline(self) -> Timeline:
        return Timeline(self.sessions)

    def matching_series(self, at: str, of: str) -> Sequence[Series]:
        """The series of a recorded quantity of all tensors that a pattern matches."""
        return [series for series in (match.of_(of) for match in self.match(at)) if series is not None]

    def records(self, chosen: Iterable[Series], statistics: Sequence[str]) -> list[dict[str, Any]]:
        """Table rows: one per step, tensor and pass."""
        rows = (row for series in chosen for row in series.records(statistics, has_site=True))
        return sorted(rows, key=lambda row: row["step"])

    def rows_of(self, name: str) -> dict[PassKey, Row]:
        """All recorded quantities and passes of a tensor, by any of its names → the newest row."""
        rows = self._rows_by_name.get(name)
        if rows is None:
            rows = self._rows_by_name[name] = {
                key: schema.rows[number]
                for schema in self.timeline.schemas
                for key, number in schema.tensors.rows(name).items()
            }
        return rows

    def positions_of(self, kind: str | None) -> NDArray[np.intp]:
        """Positions of the steps of a kind in the timeline; of all steps if None."""
        if kind is None:
            return np.arange(len(self.timeline))
        positions = self.timeline.kinds.get(kind)
        if positions is None:
            names = [repr(name) if name else "unnamed steps (kind='')" for name in self.kinds]
            known = listed(names, _MAX_LISTED) or "no steps"
            raise NotFoundError(
                f"run {self.name!r} has no steps of kind {kind!r}.{hint(kind, self.kinds)} It has: {known}."
            )
        return positions


def _table(content: Any) -> Mapping[str, Any]:
    return content if isinstance(content, dict) else {}
