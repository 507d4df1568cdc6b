"""`cutaway ls`: prints a table of the archives in a folder."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from cutaway.cli.output import format_time, print_json, print_lines, table
from cutaway.cli.paths import ArchivePath, find_archives, state_of
from cutaway.core.errors import CutawayError
from cutaway.core.formatting import human_bytes
from cutaway.store.activations.activations import Activations
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import read_description
from cutaway.store.runs.run import Run
from cutaway.store.verification.verify import files_of


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """One row of the table."""

    name: str
    path: str
    kind: str
    n_steps: int | None
    last_step: int | None
    kinds: tuple[str, ...]
    """The step kinds of a run; the type of a result."""
    n_tensors: int | None
    n_bytes: int
    started: float | None
    """Seconds since 1970."""
    state: str
    """ "live", "ended", "killed", "unknown" (another machine may be writing) or "unreadable"."""
    damage: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="*", default=["."], help="archives, or folders of them (default: the current folder)"
    )
    parser.epilog = "examples:\n  cutaway ls runs/\n  cutaway ls runs/ --json"


def run(args: argparse.Namespace) -> int:
    rows = [summarize(place) for place in find_archives(args.path)]
    if args.json:
        print_json({"archives": rows})
        return 0
    head = ["name", "kind", "steps", "last", "kinds", "tensors", "size", "started", "state"]
    print_lines(*table(head, map(_cells, rows)))
    for row in rows:
        print_lines(*(f"{row.name}: {message}" for message in row.damage[:3]))
        if len(row.damage) > 3:
            print_lines(
                f"{row.name}: {len(row.damage) - 3:,} more places are damaged; `cutaway verify {row.path}` prints all."
            )
    return 0


def _cells(row: ArchiveSummary) -> list[Any]:
    kinds = ", ".join(filter(None, row.kinds))
    started = format_time(row.started) if row.started else ""
    size = human_bytes(row.n_bytes)
    return [row.name, row.kind, row.n_steps, row.last_step, kinds, row.n_tensors, size, started, row.state]


def summarize(place: ArchivePath) -> ArchiveSummary:
    """Summarize an archive in one row; an archive that cannot be opened gets the error as its damage."""
    try:
        archive = Archive(place.path)
        n_bytes = sum(max(size, 0) for size in files_of(archive.backend).values())
        sessions = archive.sessions()
        started = next((index.session.time for index in sessions if index.session), None)
        details = (n_bytes, started, state_of(archive), tuple(archive.damage))
        if archive.kind == "run":
            run = Run(archive)
            last = int(run.steps[-1]) if len(run) else None
            return ArchiveSummary(place.name, place.path, "run", len(run), last, run.kinds, len(run.sites), *details)
        if archive.kind == "activations":
            return _collection(place, archive, details)
        if archive.kind == "result":
            return _result(place, archive, details)
        n_arrays = sum(len(block) for name, block in archive.blocks.items() if name != "structure")
        return ArchiveSummary(place.name, place.path, archive.kind, None, None, (), n_arrays, *details)
    # One unreadable archive must not hide the others.
    except (CutawayError, OSError) as error:
        return ArchiveSummary(place.name, place.path, "", None, None, (), None, 0, None, "unreadable", (str(error),))


def _collection(
    place: ArchivePath, archive: Archive, details: tuple[int, float | None, str, tuple[str, ...]]
) -> ArchiveSummary:
    """Activations, including ones whose process was killed before anything was collected."""
    n_bytes, started, state, damage = details
    try:
        n_sites: int | None = len(Activations.read(archive).sites)
    except CutawayError as error:
        n_sites, damage = None, (*damage, str(error))
    return ArchiveSummary(
        place.name, place.path, "activations", None, None, (), n_sites, n_bytes, started, state, damage
    )


def _result(
    place: ArchivePath, archive: Archive, details: tuple[int, float | None, str, tuple[str, ...]]
) -> ArchiveSummary:
    """A result, including one whose process was killed before it was complete."""
    n_bytes, started, state, damage = details
    n_arrays = sum(map(len, archive.blocks.values()))
    kinds: tuple[str, ...] = ()
    try:
        kinds = (read_description(archive).type,)
    except CutawayError as error:
        damage = (*damage, str(error))
    return ArchiveSummary(
        place.name, place.path, "result", None, None, kinds, n_arrays, n_bytes, started, state, damage
    )
