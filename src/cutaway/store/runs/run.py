"""A recorded run, read back: lazily, without torch, while it is still being written if need be."""

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

from cutaway.core.errors import AmbiguousSiteError, InputError, NotFoundError, SiteError
from cutaway.core.sites import Site, split_pass
from cutaway.core.formatting import nearest
from cutaway.core.dataframes import to_dataframe
from cutaway.store.reading.archive import Archive
from cutaway.store.reading.index import SessionIndex
from cutaway.store.runs.step import Step
from cutaway.store.format.passes import PassKey, covers, sites_of
from cutaway.store.format.records import VALUE, Loss, Note, Row
from cutaway.store.runs.scalars import Scalars
from cutaway.store.runs.series import Series
from cutaway.store.runs.timeline import Timeline
from cutaway.store.runs.xarray_export import run_dataset

_MOST_LISTED = 8


class Run:
    """A run on disk: what was recorded of a training, step by step.

    Made by `cutaway.load`. It shows the run as it was when it was opened; `refresh` reads what came since.
    """

    def __init__(self, archive: Archive, *, rank: int | None = None, session: int | None = None) -> None:
        self._archive = archive
        self._rank = rank
        self._session = session
        self._n_changes = archive.n_changes
        """What of the archive this run has seen; another one may have refreshed it."""

    @property
    def path(self) -> str:
        """Where it lies."""
        return self._archive.path

    @property
    def name(self) -> str:
        """The last part of the path."""
        return os.path.basename(self._archive.backend.url.rstrip("/")) or self.path

    @property
    def archive(self) -> Archive:
        """The folder behind it."""
        return self._archive

    # when

    @property
    def steps(self) -> NDArray[np.int64]:
        """The recorded steps, of all kinds, in order."""
        return self.timeline.steps

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of step that were recorded, in the order they first were."""
        return tuple(self.timeline.kinds)

    def steps_of(self, kind: str) -> NDArray[np.int64]:
        """The recorded steps of one kind."""
        return self.steps[self.places_of(kind)]

    def __len__(self) -> int:
        return len(self.timeline)

    def at(self, step: int) -> Step:
        """One recorded step; -1 is the last one, -2 the one before."""
        try:
            step = operator.index(step)
        except TypeError:
            raise InputError(f"a step is a whole number, not {step!r}.") from None
        timeline = self.timeline
        place = len(timeline) + step if -len(timeline) <= step < 0 else timeline.place(step)
        if place is None:
            if not len(timeline):
                raise NotFoundError(f"run {self.name!r} has no recorded steps yet.")
            listed = ", ".join(map(str, timeline.nearest(step)))
            raise NotFoundError(f"step {step} of run {self.name!r} was not recorded. Nearest: {listed}.")
        return Step(self._archive, timeline.indexes[place], timeline.records[place])

    def __iter__(self) -> Iterator[Step]:
        timeline = self.timeline
        for index, record in zip(timeline.indexes, timeline.records, strict=True):
            yield Step(self._archive, index, record)

    # what

    @property
    def sites(self) -> tuple[str, ...]:
        """Every tensor whose value, or statistics of it, was recorded; one that made several passes once."""
        return tuple(dict.fromkeys(row.base for row in self.rows if row.of == VALUE))

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Every tensor that was recorded and what of it, each pass by itself, in the order they first were."""
        found = {(row.site, row.of, row.iteration): row for schema in self.timeline.schemas for row in schema.rows}
        return tuple(found.values())

    @cached_property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics that were recorded."""
        return tuple(dict.fromkeys(name for schema in self.timeline.schemas for name in schema.statistics))

    def __getitem__(self, site: str) -> Series:
        found = self.match(site)
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(repr(series.site) for series in found[:_MOST_LISTED])
            more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
            raise AmbiguousSiteError(
                f"{site!r} fits {len(found)} tensors of run {self.name!r}: {listed}{more}. "
                f"Ask for one of them, or for all with run.match({site!r})."
            )
        name, pass_ = split_pass(str(site))
        if name in self._tensors:
            most = max((key.pass_ for key in self.rows_of(self._tensors[name])), default=0)
            raise SiteError(
                f"{name!r} never made {pass_} passes within one iteration in run {self.name!r}: the most is {most}. "
                f"run[{name!r}].passes says which it made, and iteration= picks an iteration."
            )
        close = nearest(str(site), self._tensors)
        near = f" Nearest: {', '.join(map(repr, close))}." if close else ""
        raise SiteError(
            f"no site matches {site!r} in run {self.name!r}.{near} run.sites lists all {len(self.sites):,}."
        )

    def match(self, site: str) -> tuple[Series, ...]:
        """Every recorded tensor that a site or pattern covers, in order."""
        if not isinstance(site, str):
            return ()
        # What is called so itself needs no look at the further names of all others, which takes longer.
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
        except ValueError:  # SiteSyntaxError, or a number of thousands of digits
            return ()
        any_pass = replace(pattern, pass_=None)
        names = [name for name in self._tensors if covers(any_pass, name)]
        sites = dict.fromkeys(self._tensors[name] for name in names)
        found = [Series(self, site, pass_=pattern.pass_) for site in sites if not self._is_among(site, sites)]
        return tuple(series for series in found if series.has)

    def _is_among(self, site: str, sites: Collection[str]) -> bool:
        """Whether a name stands for some passes of tensors that are among others anyway."""
        homes = {home for schema in self.timeline.schemas for home in schema.tensors.homes.get(site, ())}
        return bool(homes) and homes <= set(sites)

    def __contains__(self, site: object) -> bool:
        return isinstance(site, str) and bool(self.match(site))

    @cached_property
    def _tensors(self) -> dict[str, str]:
        """Every name of a tensor, without passes → its first one."""
        return sites_of(schema.tensors for schema in self.timeline.schemas)

    @cached_property
    def _rows_by_name(self) -> dict[str, dict[PassKey, Row]]:
        """As far as they were asked for."""
        return {}

    # beside

    @cached_property
    def scalars(self) -> Scalars:
        """The logged numbers by name: `run.scalars["loss"].values`."""
        return Scalars(self.sessions)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was noted, in the order it was."""
        return tuple(note for index in self.sessions for note in index.notes)

    @property
    def documents(self) -> Mapping[str, Any]:
        """Plain data by name; what a later session wrote goes before."""
        found: dict[str, Any] = {}
        for index in self.sessions:
            found |= index.documents
        return found

    @property
    def unit_rule(self) -> Literal["graph", "sizes"]:
        """How it was decided which dimension of a tensor counts units.

        "graph": from the traced graph; "sizes": by an older Cutaway, at least in one session, which guessed from sizes
        and classes, so that statistics of each unit may be those of samples or positions.
        """
        return "graph" if all("units" in index.documents for index in self.sessions) else "sizes"

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration that the user gave."""
        return _table(self.documents.get("config"))

    @property
    def environment(self) -> Mapping[str, Any]:
        """Versions and machine, as they were."""
        return _table(self.documents.get("environment"))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be written, and why."""
        return tuple(loss for index in self.sessions for loss in index.losses)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is damaged, as far as opening it has shown; `cutaway verify` looks at every byte."""
        return tuple(self._archive.problems)

    # sessions and ranks

    @property
    def sessions(self) -> list[SessionIndex]:
        """The sessions that count here: one for the first start, one for each resume."""
        found = self._archive.sessions(self._rank)
        return found if self._session is None else [index for index in found if index.number == self._session]

    def session(self, number: int) -> Run:
        """What one session wrote, also where a later one ran the same steps again."""
        numbers = [index.number for index in self._archive.sessions(self._rank)]
        if number not in numbers:
            raise NotFoundError(f"run {self.name!r} has no session {number}. It has: {', '.join(map(str, numbers))}.")
        return Run(self._archive, rank=self._rank, session=number)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that wrote. Without `rank(n)`, everything here is about the first of them."""
        return tuple(self._archive.ranks)

    def rank(self, rank: int) -> Run:
        """What one rank wrote."""
        if rank not in self._archive.ranks:
            raise NotFoundError(f"run {self.name!r} has no rank {rank}. It has: {', '.join(map(str, self.ranks))}.")
        return Run(self._archive, rank=rank, session=self._session)

    # live

    @property
    def is_live(self) -> bool | None:
        """Whether it is being written now; None where another machine may be writing it."""
        return self._archive.is_live

    def refresh(self) -> bool:
        """Read what was written since; whether there was anything."""
        self._archive.refresh()
        is_new = self._archive.n_changes != self._n_changes
        if is_new:
            self._n_changes = self._archive.n_changes
            for name in ("timeline", "rows", "statistics", "scalars", "_tensors", "_rows_by_name"):
                self.__dict__.pop(name, None)
        return is_new

    def follow(self, *, every: float = 0.5, timeout: float | None = None) -> Iterator[Step]:
        """Each new step as it is recorded, until the run ends or nothing came for `timeout` seconds.

        Steps that a resumed session runs again are new ones.
        """
        seen = self.timeline
        lasts = seen.lasts()
        quiet_since = monotonic()
        while True:
            was_live = self.is_live
            self.refresh()
            if self.timeline is not seen:
                seen = self.timeline
                for index, record in zip(seen.indexes, seen.records, strict=True):
                    if record.step > lasts.get(index.number, -1):
                        yield Step(self._archive, index, record)
                        lasts[index.number] = record.step
                        quiet_since = monotonic()
            if was_live is False or (timeout is not None and monotonic() - quiet_since > timeout):
                return
            sleep(every)

    # showing

    def table(self, statistics: Iterable[str] | None = None, *, at: str = "**", of: str = VALUE) -> Any:
        """One row for each step, tensor and pass: a pandas DataFrame where pandas is installed, else a list of dicts.

        Args:
            statistics: which ones; all if none are named.
            at: which tensors.
            of: "value", "grad", "update"…
        """
        return to_dataframe(self.records(self._chosen(at, of), self.checked(statistics)))

    def to_xarray(self, statistics: Iterable[str] | None = None, *, at: str = "**", of: str = VALUE) -> Any:
        """An xarray Dataset: one variable for each statistic, over `step` and `site`; NaN where there is none.

        Where a step has several passes of a tensor there is a third dimension, `pass`.
        """
        return run_dataset(self.checked(statistics), self.steps, self._chosen(at, of))

    def _chosen(self, at: str, of: str) -> Sequence[Series]:
        chosen = self.chosen(at, of)
        if not chosen:
            self[at]  # says what is there instead
            raise SiteError(f"no {of!r} was recorded of {at!r} in run {self.name!r}.")
        return chosen

    def checked(self, statistics: Iterable[str] | None) -> tuple[str, ...]:
        """Names of statistics that are there; all if none are named."""
        if statistics is None:
            return self.statistics
        names = (statistics,) if isinstance(statistics, str) else tuple(statistics)
        for name in names:
            if name not in self.statistics:
                near = ", ".join(map(repr, nearest(name, self.statistics)))
                known = ", ".join(self.statistics[:_MOST_LISTED]) or "none"
                what = (
                    f"Nearest: {near}. run.statistics lists all {len(self.statistics)}" if near else f"It has: {known}"
                )
                raise InputError(f"run {self.name!r} has no statistic {name!r}. {what}.")
        return names

    def __repr__(self) -> str:
        if not len(self):
            return f"<Run {self.name}: no recorded steps>"
        kinds = f", kinds {', '.join(map(repr, self.kinds))}" if len(self.kinds) > 1 else ""
        live = ", live" if self.is_live else ""
        n = f"{len(self):,} recorded steps {self.steps[0]}–{self.steps[-1]}"
        return f"<Run {self.name}: {n}{kinds}, {len(self.sites):,} tensors, {len(self.scalars):,} scalars{live}>"

    # for the other files of this layer

    @cached_property
    def timeline(self) -> Timeline:
        return Timeline(self.sessions)

    def chosen(self, at: str, of: str) -> Sequence[Series]:
        """What was recorded of the tensors that a pattern covers."""
        return [series for series in (found.of_(of) for found in self.match(at)) if series is not None]

    def records(self, chosen: Iterable[Series], statistics: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of a table: one for each step, tensor and pass."""
        rows = (row for series in chosen for row in series.records(statistics, has_site=True))
        return sorted(rows, key=lambda row: row["step"])

    def rows_of(self, name: str) -> dict[PassKey, Row]:
        """What was recorded of a tensor, by any of its names: what of it in which pass → the newest row."""
        found = self._rows_by_name.get(name)
        if found is None:
            found = self._rows_by_name[name] = {
                key: schema.rows[number]
                for schema in self.timeline.schemas
                for key, number in schema.tensors.rows(name).items()
            }
        return found

    def places_of(self, kind: str | None) -> NDArray[np.intp]:
        """Where the steps of a kind stand; all if none is named."""
        if kind is None:
            return np.arange(len(self.timeline))
        found = self.timeline.kinds.get(kind)
        if found is None:
            known = ", ".join(map(repr, self.kinds)) or "none"
            raise NotFoundError(f"run {self.name!r} has no steps of kind {kind!r}. It has: {known}.")
        return found


def _table(content: Any) -> Mapping[str, Any]:
    return content if isinstance(content, dict) else {}
