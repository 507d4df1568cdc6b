"""What the paths on a command line mean: archives, their state, and the options that several commands share."""

from __future__ import annotations

import argparse
import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cutaway.core.errors import InputError, NotFoundError, StoreError
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.filenames import rank_folder
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.store.runs.run_set import found_below, is_archive
from cutaway.store.writing.lease import state as lease_state

_DEEPEST: Final = 4
State = Literal["live", "ended", "killed", "unknown"]


@dataclass(frozen=True, slots=True)
class Place:
    """An archive by its name and path."""

    name: str
    path: str


def places(paths: list[str]) -> list[Place]:
    """Every archive at or below some paths, each once."""
    found: dict[str, Place] = {}
    for path in paths:
        for place in _below(path):
            found.setdefault(os.path.realpath(place.path) if "://" not in path else place.path, place)
    if not found:
        listed = ", ".join(map(repr, paths))
        raise NotFoundError(f"{listed} {'hold' if len(paths) > 1 else 'holds'} nothing that Cutaway wrote.")
    return list(found.values())


def runs_at(paths: list[str], *, rank: int | None = None, session: int | None = None) -> dict[str, Run]:
    """The runs at some paths by their names; traces are passed over where there are runs."""
    found: dict[str, Run] = {}
    others: list[str] = []
    for place in places(paths):
        archive = Archive(place.path)
        if archive.kind != "run":
            others.append(place.path)
            continue
        run = Run(archive)
        run = run if rank is None else run.rank(rank)
        run = run if session is None else run.session(session)
        found[place.name if place.name not in found else place.path] = run
    if not found:
        raise InputError(f"{others[0]} holds no run: `cutaway info {others[0]}` says what it is.")
    return found


def problems_of(runs: Mapping[str, Run]) -> list[str]:
    """What is damaged in some runs, as far as reading has shown: what was printed lacks it."""
    found = [f"{run.path}: {problem}" for run in runs.values() for problem in run.problems]
    return list(dict.fromkeys(found))


def holds_archives(path: str) -> bool:
    """Whether there is anything of Cutaway's at a path."""
    try:
        return bool(path) and next(_below(path), None) is not None
    except InputError:
        return False


def state_of(archive: Archive) -> State:
    """Whether it is being written, was closed, or broke off."""
    is_live = archive.is_live
    if is_live:
        return "live"
    if is_live is None:
        return "unknown"
    for rank, sessions in archive.ranks.items():
        if sessions and not sessions[max(sessions)].is_ended:
            lease = lease_state(archive.backend, rank_folder(rank))
            if lease is None or not lease.closed:
                return "killed"
    return "ended"


def add_steps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--steps", type=step_range, metavar="A:B", help="steps from A to before B; one number for one step"
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
        raise argparse.ArgumentTypeError(f"{text!r} is not written as 100:200, 100:, :200 or 100") from None


def has_step(steps: slice | None, step: int | None) -> bool:
    """Whether a step is among those asked for."""
    if steps is None:
        return True
    if step is None:
        return False
    return (steps.start is None or step >= steps.start) and (steps.stop is None or step < steps.stop)


def _below(path: str) -> Iterator[Place]:
    """The archives at a path, below a folder, or fitting a pattern, in order of their names."""
    if _is_archive(path):
        yield Place(
            path.rstrip("/").rpartition("/")[2] if "://" in path else os.path.basename(os.path.abspath(path)), path
        )
    elif "://" in path:
        for name in backend_for(path).names():
            if _is_archive(f"{path.rstrip('/')}/{name}"):
                yield Place(name, f"{path.rstrip('/')}/{name}")
    elif glob.has_magic(path) and not os.path.exists(path):
        for place in sorted(glob.glob(path)):
            yield from (Place(os.path.normpath(one.path), one.path) for one in _below(place))
    else:
        for place in found_below(path, _is_archive):
            yield Place(os.path.relpath(place, path), place)


def _is_archive(path: str) -> bool:
    try:
        return is_archive(backend_for(path).names())
    except (OSError, StoreError):
        return False
