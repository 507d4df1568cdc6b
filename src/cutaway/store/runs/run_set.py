"""Several runs as one mapping, for comparisons."""

from __future__ import annotations

import glob
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import AmbiguousSiteError, InputError, InputTypeError, NotFoundError, SiteError, StoreError
from cutaway.core.formatting import listed, nearest, nearest_hint, plural
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.filenames import HEAD, rank_of
from cutaway.store.format.manifest import Head, kind_text
from cutaway.store.format.records import VALUE
from cutaway.store.reading.archive import CACHE_BYTES, Archive
from cutaway.store.runs.run import Run
from cutaway.store.runs.series import Curve, Series

# A limit, because load("/") would otherwise walk the whole disk.
MAX_FOLDERS = 20_000
_MAX_LISTED = 8
_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


class Runs(Mapping[str, Run]):
    """The runs at some paths, by name: `runs["base"]`. A run is read on first access.

    A run's name is its path relative to the folder you passed.
    """

    def __init__(self, paths: Sequence[str], *, cache_bytes: int = CACHE_BYTES) -> None:
        self._paths = tuple(paths)
        self._cache_bytes = cache_bytes
        self._run_paths: dict[str, str] = {}
        self._runs: dict[str, Run] = {}
        self._damage: dict[str, str] = {}
        self.refresh()

    @property
    def damage(self) -> Mapping[str, str]:
        """Runs that could not be read and were skipped → the reason."""
        return dict(self._damage)

    def refresh(self) -> bool:
        """Find new runs, and read new data of open ones; returns whether there was anything."""
        paths: dict[str, str] = {}
        for path in self._paths:
            for name, run_path in find_runs(path):
                # Two folders may have a run of the same name; the second is then named by its whole path.
                paths[name if paths.get(name, run_path) == run_path else run_path] = run_path
        is_new = paths != self._run_paths
        self._runs = {name: run for name, run in self._runs.items() if self._run_paths.get(name) == paths.get(name)}
        self._run_paths = paths
        self._damage = {name: why for name, why in self._damage.items() if name in paths}
        for name, run in self._runs.items():
            try:
                is_new |= run.refresh()
            except StoreError as error:
                self._damage[name] = str(error)
        return is_new

    def __getitem__(self, name: str) -> Run:
        run = self._runs.get(name)
        if run is None:
            if name not in self._run_paths:
                raise self._unknown(name)
            archive = Archive(self._run_paths[name], cache_bytes=self._cache_bytes)
            if archive.kind != "run":
                raise NotFoundError(
                    f"{archive.path} is {kind_text(archive.kind)}, not a run. Open it with cutaway.load."
                )
            run = self._runs[name] = Run(archive)
        return run

    def _unknown(self, name: object) -> Exception:
        known = listed(map(repr, self._run_paths), _MAX_LISTED) or "none"
        if not isinstance(name, str):
            return InputTypeError(f"runs are selected by name, not by {name!r}. Runs: {known}.")
        where = listed(self._paths, _MAX_LISTED)
        close = ", ".join(map(repr, nearest(name, self._run_paths)))
        return NotFoundError(f"no run {name!r} at {where}. {f'Nearest: {close}' if close else f'Runs there: {known}'}.")

    def __getattr__(self, name: str) -> Any:
        """Explains attributes that only a single run has: a folder of several runs was loaded where one was meant."""
        if name.startswith("_") or not hasattr(Run, name):
            raise AttributeError(f"'Runs' object has no attribute {name!r}", name=name, obj=self)
        first = next(iter(self._run_paths), "base")
        raise AttributeError(
            f"{plural(len(self), 'run')} loaded, and .{name} belongs to a single run. "
            f"Select one first: runs[{first!r}].{name}. Runs: {listed(map(repr, self), _MAX_LISTED)}.",
            name=name,
            obj=self,
        )

    def _map_runs(self, ask: Callable[[Run], _T | None]) -> dict[str, _T]:
        """Apply a function to each run, by name; skips runs that are damaged or of a newer version."""
        answers: dict[str, _T] = {}
        for name in self._run_paths:
            try:
                answer = ask(self[name])
            except StoreError as error:
                if str(error) != self._damage.get(name):
                    _LOG.warning("skipped %s: %s", self._run_paths[name], error)
                self._damage[name] = str(error)
                continue
            if answer is not None:
                answers[name] = answer
        return answers

    def __iter__(self) -> Iterator[str]:
        return iter(self._run_paths)

    def __len__(self) -> int:
        return len(self._run_paths)

    def __contains__(self, name: object) -> bool:
        return name in self._run_paths

    def series(self, site: str, *, of: str = VALUE) -> dict[str, Series]:
        """The series of one tensor in each run that recorded it.

        Args:
            site: the tensor.
            of: "value", "grad", "update"…
        """

        def ask(run: Run) -> Series | None:
            try:
                return run[site].of_(of)
            except AmbiguousSiteError:
                raise
            except SiteError:
                return None

        series = self._map_runs(ask)
        if not series:
            known = [name for sites in self._map_runs(lambda run: run.sites).values() for name in sites]
            near = "" if site in known else nearest_hint(str(site), known)
            raise SiteError(f"none of the {len(self)} runs has {of!r} of {site!r}.{near}")
        return series

    def curves(self, site: str, statistic: str, *, kind: str | None = None, of: str = VALUE) -> dict[str, Curve]:
        """One statistic of one tensor over the steps of each run that has it.

        Args:
            site: the tensor.
            statistic: the name of a recorded statistic, such as "std".
            kind: only steps of this kind.
            of: "value", "grad", "update"…
        """
        chosen = {series.run: series for series in self.series(site, of=of).values()}

        def ask(run: Run) -> Curve | None:
            if run not in chosen or statistic not in run.statistics or (kind is not None and kind not in run.kinds):
                return None
            return chosen[run].curve(statistic, kind=kind)

        curves = self._map_runs(ask)
        if not curves:
            self._check_statistics([statistic])
            kinds = dict.fromkeys(name for names in self._map_runs(lambda run: run.kinds).values() for name in names)
            if kind is not None and kind not in kinds:
                known = listed(map(repr, kinds), _MAX_LISTED) or "none"
                raise NotFoundError(f"none of the {len(self)} runs has steps of kind {kind!r}. Kinds: {known}.")
        return curves

    def _check_statistics(self, names: Iterable[str]) -> None:
        """Raise if no run has one of these statistics."""
        known = dict.fromkeys(name for names in self._map_runs(lambda run: run.statistics).values() for name in names)
        for name in names:
            if name not in known:
                near = nearest_hint(name, known) or f" They have: {listed(known, _MAX_LISTED)}."
                raise InputError(f"none of the {len(self)} runs has the statistic {name!r}.{near}")

    def scalars(self, name: str) -> dict[str, Curve]:
        """One logged scalar over the steps of each run that has it.

        Args:
            name: the name of the scalar.
        """
        curves = self._map_runs(lambda run: run.scalars.get(name))
        if not curves:
            logged = self._map_runs(lambda run: tuple(run.scalars)).values()
            known = list(dict.fromkeys(scalar for names in logged for scalar in names))
            names_text = listed(map(repr, nearest(name, known) or known), _MAX_LISTED) or "none"
            raise NotFoundError(f"none of the {len(self)} runs logged {name!r}. Logged scalars: {names_text}.")
        return curves

    def table(self, statistics: Iterable[str] | None = None, *, at: str = "**", of: str = VALUE) -> Any:
        """One row per run, step, tensor and pass.

        A pandas DataFrame if pandas is installed, else a list of dicts.

        Args:
            statistics: names of statistics; all by default. Runs without any of them are left out.
            at: the tensors, as a site pattern.
            of: "value", "grad", "update"…
        """
        chosen = None if statistics is None else [statistics] if isinstance(statistics, str) else list(statistics)

        def ask(run: Run) -> list[dict[str, Any]] | None:
            known = run.statistics if chosen is None else [name for name in chosen if name in run.statistics]
            series = run.matching_series(at, of)
            return run.records(series, known) if series and (known or not chosen) else None

        tables = self._map_runs(ask)
        if not tables and len(self):
            self._check_statistics(chosen or ())
            known = [name for sites in self._map_runs(lambda run: run.sites).values() for name in sites]
            raise SiteError(f"none of the {len(self)} runs has {of!r} of {at!r}.{nearest_hint(at, known)}")
        return to_dataframe({"run": name, **row} for name, rows in tables.items() for row in rows)

    def __repr__(self) -> str:
        return f"<Runs: {len(self)} ({listed(self, 6)})>"


def find_runs(path: str) -> list[tuple[str, str]]:
    """Name and path of every run at a path, below a folder, or matching a glob pattern."""
    if "://" in path:
        backend = backend_for(path)
        if is_archive(backend.names()):
            return [(path.rstrip("/").rpartition("/")[2], path)]
        return [(name, f"{path.rstrip('/')}/{name}") for name in backend.names() if is_archive(backend.names(name))]
    if glob.has_magic(path) and not os.path.exists(path):
        fixed = os.path.dirname(re.split(r"[*?[]", path)[0]) or "."
        return [(os.path.relpath(match, fixed), match) for match in sorted(glob.glob(path)) if _is_run(match)]
    if _is_run(path):
        return [(os.path.basename(os.path.abspath(path)), path)]
    search = find_folders(path, _is_run)
    if search.stopped:
        _LOG.warning("%s", search.stopped)
    return [(os.path.relpath(folder, path), folder) for folder in search.found]


@dataclass(frozen=True, slots=True)
class FolderSearch:
    """Folders that a search found.

    Attributes:
        found: their paths, sorted.
        stopped: a sentence that says where the search gave up; "" if it has seen every folder.
    """

    found: tuple[str, ...]
    stopped: str = ""


def find_folders(folder: str, is_wanted: Callable[[str], bool], most: int = MAX_FOLDERS) -> FolderSearch:
    """Folders at any depth below a folder that satisfy a predicate; does not descend into those.

    Skips links, so that a link to a parent cannot make a loop, and folders whose name starts with a dot. Level by
    level: if there are too many folders, the shallow ones have all been seen.

    Args:
        most: how many folders to look into at most.
    """
    found: list[str] = []
    level, n_seen = [folder], 0
    while level:
        below: list[str] = []
        for place, parent in enumerate(level):
            if n_seen >= most:
                n_left = len(level) - place + len(below)
                return FolderSearch(_sorted(found), _stop_text(folder, parent, most, n_left))
            n_seen += 1
            for name in _folder_names(parent):
                path = os.path.join(parent, name)
                if is_wanted(path):
                    found.append(path)
                elif not name.startswith("."):
                    below.append(path)
        level = below
    return FolderSearch(_sorted(found))


def _folder_names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as listing:
            return sorted(entry.name for entry in listing if entry.is_dir(follow_symlinks=False))
    except (OSError, ValueError):
        return []


def _sorted(paths: list[str]) -> tuple[str, ...]:
    # By path parts: as text, "a-b" would come between "a" and "a/b".
    return tuple(sorted(paths, key=lambda path: path.split(os.sep)))


def _stop_text(folder: str, at: str, most: int, n_left: int) -> str:
    return (
        f"the search below {folder} stopped after {most:,} folders, at {at}: {plural(n_left, 'known folder')} and what "
        "lies below them were not searched. Name a folder nearer to your runs."
    )


def is_archive(names: Sequence[str]) -> bool:
    """Whether a folder with these entries is an archive."""
    return HEAD in names or any(rank_of(name) is not None for name in names)


def _is_run(path: str) -> bool:
    """Whether a folder holds a run; an unreadable manifest counts as one, so that opening it reports the damage."""
    backend = backend_for(path)
    try:
        return is_archive(backend.names()) and Head.read(backend.read(HEAD, 0, 1 << 20)).kind == "run"
    except (StoreError, FileNotFoundError):
        return True
    except (OSError, ValueError):
        return False
