"""Several runs, asked at once."""

from __future__ import annotations

import glob
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from cutaway.core.errors import AmbiguousSiteError, NotFoundError, SiteError, StoreError
from cutaway.core.formatting import nearest
from cutaway.core.dataframes import to_dataframe
from cutaway.store.reading.archive import CACHE_BYTES, Archive
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.manifest import Head
from cutaway.store.format.filenames import HEAD, rank_of
from cutaway.store.format.records import VALUE
from cutaway.store.runs.run import Run
from cutaway.store.runs.series import Curve, Series

_DEEPEST = 4
_LOG = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


class Runs(Mapping[str, Run]):
    """The runs at some paths, by name: `runs["base"]`. Those that are not asked for are not read.

    A run's name is its path below the folder that was given.
    """

    def __init__(self, paths: Sequence[str], *, cache_bytes: int = CACHE_BYTES) -> None:
        self._paths = tuple(paths)
        self._cache_bytes = cache_bytes
        self._places: dict[str, str] = {}
        self._runs: dict[str, Run] = {}
        self._problems: dict[str, str] = {}
        self.refresh()

    @property
    def problems(self) -> Mapping[str, str]:
        """Runs that could not be read, and were left out where all were asked → why."""
        return dict(self._problems)

    def refresh(self) -> bool:
        """Find new runs, and read what was written to those already opened; whether there was anything."""
        found: dict[str, str] = {}
        for path in self._paths:
            for name, place in runs_below(path):
                found[name if found.get(name, place) == place else place] = place
        is_new = found != self._places
        self._runs = {name: run for name, run in self._runs.items() if self._places.get(name) == found.get(name)}
        self._places = found
        self._problems = {name: why for name, why in self._problems.items() if name in found}
        for name, run in self._runs.items():
            try:
                is_new |= run.refresh()
            except StoreError as error:
                self._problems[name] = str(error)
        return is_new

    def __getitem__(self, name: str) -> Run:
        run = self._runs.get(name)
        if run is None:
            if name not in self._places:
                close = ", ".join(map(repr, nearest(name, self._places) or list(self._places)[:8]))
                raise NotFoundError(
                    f"there is no run {name!r} at {', '.join(self._paths)}. There are: {close or 'none'}."
                )
            archive = Archive(self._places[name], cache_bytes=self._cache_bytes)
            if archive.kind != "run":
                raise NotFoundError(f"{archive.path} holds a {archive.kind}, not a run: cutaway.load opens it.")
            run = self._runs[name] = Run(archive)
        return run

    def _each(self, ask: Callable[[Run], _Answer | None]) -> dict[str, _Answer]:
        """What each run answers, by name; one that is damaged, or of a newer version, is left out."""
        found: dict[str, _Answer] = {}
        for name in self._places:
            try:
                answer = ask(self[name])
            except StoreError as error:
                if str(error) != self._problems.get(name):
                    _LOG.warning("%s is left out: %s", self._places[name], error)
                self._problems[name] = str(error)
                continue
            if answer is not None:
                found[name] = answer
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def series(self, site: str, *, of: str = VALUE) -> dict[str, Series]:
        """One tensor in each of the runs that recorded it."""

        def ask(run: Run) -> Series | None:
            try:
                return run[site].of_(of)
            except AmbiguousSiteError:
                raise
            except SiteError:
                return None

        found = self._each(ask)
        if not found:
            raise SiteError(f"none of the {len(self)} runs recorded {of!r} of {site!r}.")
        return found

    def curves(self, site: str, statistic: str, *, kind: str | None = None, of: str = VALUE) -> dict[str, Curve]:
        """One statistic of one tensor over the steps of each run that has it."""
        chosen = {series.run: series for series in self.series(site, of=of).values()}

        def ask(run: Run) -> Curve | None:
            if run not in chosen or statistic not in run.statistics or (kind is not None and kind not in run.kinds):
                return None
            return chosen[run].curve(statistic, kind=kind)

        return self._each(ask)

    def scalars(self, name: str) -> dict[str, Curve]:
        """One logged number over the steps of each run that has it."""
        found = self._each(lambda run: run.scalars.get(name))
        if not found:
            logged = self._each(lambda run: tuple(run.scalars)).values()
            known = list(dict.fromkeys(scalar for names in logged for scalar in names))
            listed = ", ".join(map(repr, nearest(name, known) or known[:8])) or "none"
            raise NotFoundError(f"none of the {len(self)} runs logged {name!r}. They logged: {listed}.")
        return found

    def table(self, statistics: Iterable[str] | None = None, *, at: str = "**", of: str = VALUE) -> Any:
        """One row for each run, step, tensor and pass.

        A pandas DataFrame where pandas is installed, else a list of dicts.
        """
        chosen = None if statistics is None else [statistics] if isinstance(statistics, str) else list(statistics)

        def ask(run: Run) -> list[dict[str, Any]] | None:
            known = run.statistics if chosen is None else [name for name in chosen if name in run.statistics]
            series = run.chosen(at, of)
            return run.records(series, known) if series and (known or not chosen) else None

        tables = self._each(ask)
        if not tables and len(self):
            asked = "" if chosen is None else f", with the statistics {', '.join(map(repr, chosen))}"
            raise SiteError(f"none of the {len(self)} runs recorded {of!r} of {at!r}{asked}.")
        return to_dataframe({"run": name, **row} for name, rows in tables.items() for row in rows)

    def __repr__(self) -> str:
        listed = ", ".join(list(self)[:6])
        return f"<Runs: {len(self)} ({listed}{', …' if len(self) > 6 else ''})>"


def runs_below(path: str) -> list[tuple[str, str]]:
    """Name and path of every run at a path, below a folder, or fitting a pattern."""
    if "://" in path:
        backend = backend_for(path)
        if is_archive(backend.names()):
            return [(path.rstrip("/").rpartition("/")[2], path)]
        return [(name, f"{path.rstrip('/')}/{name}") for name in backend.names() if is_archive(backend.names(name))]
    if glob.has_magic(path) and not os.path.exists(path):
        fixed = os.path.dirname(re.split(r"[*?[]", path)[0]) or "."
        return [(os.path.relpath(place, fixed), place) for place in sorted(glob.glob(path)) if _is_run(place)]
    if _is_run(path):
        return [(os.path.basename(os.path.abspath(path)), path)]
    return [(os.path.relpath(place, path), place) for place in found_below(path, _is_run)]


def found_below(folder: str, is_wanted: Callable[[str], bool], depth: int = _DEEPEST) -> Iterator[str]:
    """The folders below one that are wanted, in order of their names; what is wanted is not entered."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))
    except (OSError, ValueError):
        return
    for name in entries:
        place = os.path.join(folder, name)
        if is_wanted(place):
            yield place
        elif depth > 1 and not name.startswith("."):
            yield from found_below(place, is_wanted, depth - 1)


def is_archive(names: Sequence[str]) -> bool:
    """Whether a folder with this in it is one of Cutaway's."""
    return HEAD in names or any(rank_of(name) is not None for name in names)


def _is_run(place: str) -> bool:
    """Whether a folder holds a run; one that does not say what it holds counts as one, and asking it tells."""
    backend = backend_for(place)
    try:
        return is_archive(backend.names()) and Head.read(backend.read(HEAD, 0, 1 << 20)).kind == "run"
    except (StoreError, FileNotFoundError):
        return True
    except (OSError, ValueError):
        return False
