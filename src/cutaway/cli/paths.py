"""Finds the archives that command-line paths name; options that several commands share."""

from __future__ import annotations

import argparse
import glob
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from cutaway.core.errors import InputError, NotFoundError, StoreError
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.filenames import rank_folder
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.store.runs.run_set import find_folders, is_archive
from cutaway.store.writing.lease import state as lease_state

_LOG = logging.getLogger(__name__)
State = Literal["live", "ended", "killed", "unknown"]


@dataclass(frozen=True, slots=True)
class ArchivePath:
    """Name and path of an archive."""

    name: str
    path: str


def find_archives(paths: list[str]) -> list[ArchivePath]:
    """Find every archive at or below the paths, without duplicates."""
    archives: dict[str, ArchivePath] = {}
    for path in paths:
        for match in _below(path):
            # By real path: an archive that is named twice, or through a link, is listed once.
            archives.setdefault(os.path.realpath(match.path) if "://" not in path else match.path, match)
    if not archives:
        reason = f": {_reason(paths[0])}" if len(paths) == 1 else ""
        raise NotFoundError(
            f"no Cutaway archive at {', '.join(map(repr, paths))}{reason}. Give a run, or a folder of runs."
        )
    return list(archives.values())


def _reason(path: str) -> str:
    """Why there is no archive at a path."""
    if glob.has_magic(path):
        return "the pattern matches none"
    if not os.path.exists(path):
        return "the path does not exist"
    if not os.path.isdir(path):
        return "it is a file, and archives are folders"
    return "the folder and its subfolders hold none" if os.listdir(path) else "the folder is empty"


def runs_at(paths: list[str], *, rank: int | None = None, session: int | None = None) -> dict[str, Run]:
    """Open the runs at the paths, by name; skips archives of other kinds as long as there is a run."""
    runs: dict[str, Run] = {}
    others: list[str] = []
    for place in find_archives(paths):
        archive = Archive(place.path)
        if archive.kind != "run":
            others.append(place.path)
            continue
        run = Run(archive)
        run = run if rank is None else run.rank(rank)
        run = run if session is None else run.session(session)
        # Two folders may hold runs of the same name.
        runs[place.name if place.name not in runs else place.path] = run
    if not runs:
        raise InputError(f"{others[0]} is not a run: `cutaway info {others[0]}` shows what it holds.")
    return runs


def damage_of(runs: Mapping[str, Run]) -> list[str]:
    """Damage that reading has found so far: the printed output lacks the damaged parts."""
    return list(dict.fromkeys(f"{run.path}: {message}" for run in runs.values() for message in run.damage))


def holds_archives(path: str) -> bool:
    """Whether a path holds a Cutaway archive."""
    try:
        return bool(path) and next(_below(path), None) is not None
    except InputError:
        return False


def state_of(archive: Archive) -> State:
    """Whether the archive is being written, was closed, or was cut off."""
    is_live = archive.is_live
    if is_live:
        return "live"
    if is_live is None:
        return "unknown"
    for rank, sessions in archive.ranks.items():
        # The newest session decides: earlier ones may have been killed and resumed.
        if sessions and not sessions[max(sessions)].is_ended:
            lease = lease_state(archive.backend, rank_folder(rank))
            if lease is None or not lease.closed:
                return "killed"
    return "ended"


def add_steps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--steps", type=step_range, metavar="A:B", help="steps A up to, not including, B; one number for one step"
    )


def step_range(text: str) -> slice:
    """
    >>> step_range("100:200"), step_range("7"), step_range("100:")
    (slice(100, 200, None), slice(7, 8, None), slice(100, None, None))
    """
    first, colon, last = text.partition(":")
    try:
        if not colon:
            return slice(int(first), int(first) + 1)
        return slice(int(first) if first else None, int(last) if last else None)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a step range: write 100:200, 100:, :200 or 100") from None


def has_step(steps: slice | None, step: int | None) -> bool:
    """Whether `steps` includes a step."""
    if steps is None:
        return True
    if step is None:
        return False
    return (steps.start is None or step >= steps.start) and (steps.stop is None or step < steps.stop)


def _below(path: str) -> Iterator[ArchivePath]:
    """The archives at a path, below a folder, or matching a glob pattern, sorted by name."""
    if _is_archive(path):
        yield ArchivePath(
            path.rstrip("/").rpartition("/")[2] if "://" in path else os.path.basename(os.path.abspath(path)), path
        )
    elif "://" in path:
        for name in backend_for(path).names():
            if _is_archive(f"{path.rstrip('/')}/{name}"):
                yield ArchivePath(name, f"{path.rstrip('/')}/{name}")
    elif glob.has_magic(path) and not os.path.exists(path):
        for place in sorted(glob.glob(path)):
            yield from (ArchivePath(os.path.normpath(match.path), match.path) for match in _below(place))
    else:
        search = find_folders(path, _is_archive)
        if search.stopped:
            _LOG.warning("%s", search.stopped)
        for place in search.found:
            yield ArchivePath(os.path.relpath(place, path), place)


def _is_archive(path: str) -> bool:
    try:
        return is_archive(backend_for(path).names())
    except (OSError, StoreError):
        return False
