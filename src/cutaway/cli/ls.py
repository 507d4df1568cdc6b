"""`cutaway ls`: a table of the archives below a folder."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from cutaway.cli.output import say, say_json, table, when
from cutaway.cli.paths import Place, places, state_of
from cutaway.core.errors import CutawayError
from cutaway.core.formatting import human_bytes
from cutaway.store.activations.activations import Activations
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import described
from cutaway.store.runs.run import Run
from cutaway.store.verification.verify import files_of


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the table."""

    name: str
    path: str
    kind: str
    n_steps: int | None
    last_step: int | None
    kinds: tuple[str, ...]
    """Of the steps of a run; the type of a result."""
    n_tensors: int | None
    n_bytes: int
    started: float | None
    """Seconds since 1970."""
    state: str
    """ "live", "ended", "killed", "unknown" (another machine may be writing) or "unreadable"."""
    problems: tuple[str, ...] = ()


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="*", default=["."], help="folders, runs, traces, activations or results; here if none is named"
    )
    parser.epilog = "examples:\n  cutaway ls runs/\n  cutaway ls runs/ --json"


def run(args: argparse.Namespace) -> int:
    found = [listed(place) for place in places(args.path)]
    if args.json:
        say_json({"archives": found})
        return 0
    head = ["name", "kind", "steps", "last", "kinds", "tensors", "size", "started", "state"]
    say(*table(head, map(_cells, found)))
    for one in found:
        say(*(f"{one.name}: {problem}" for problem in one.problems[:3]))
        if len(one.problems) > 3:
            say(f"{one.name}: {len(one.problems) - 3:,} problems more; `cutaway verify {one.path}` says all.")
    return 0


def _cells(one: Listed) -> list[Any]:
    kinds = ", ".join(filter(None, one.kinds))
    started = when(one.started) if one.started else ""
    size = human_bytes(one.n_bytes)
    return [one.name, one.kind, one.n_steps, one.last_step, kinds, one.n_tensors, size, started, one.state]


def listed(place: Place) -> Listed:
    """What can be said of an archive in one line; what cannot be opened says why."""
    try:
        archive = Archive(place.path)
        n_bytes = sum(max(size, 0) for size in files_of(archive.backend).values())
        sessions = archive.sessions()
        started = next((index.session.time for index in sessions if index.session), None)
        beside = (n_bytes, started, state_of(archive), tuple(archive.problems))
        if archive.kind == "run":
            found = Run(archive)
            last = int(found.steps[-1]) if len(found) else None
            return Listed(place.name, place.path, "run", len(found), last, found.kinds, len(found.sites), *beside)
        if archive.kind == "activations":
            return _collection(place, archive, beside)
        if archive.kind == "result":
            return _result(place, archive, beside)
        n_arrays = sum(len(block) for name, block in archive.blocks.items() if name != "structure")
        return Listed(place.name, place.path, archive.kind, None, None, (), n_arrays, *beside)
    except (CutawayError, OSError) as error:
        return Listed(place.name, place.path, "", None, None, (), None, 0, None, "unreadable", (str(error),))


def _collection(place: Place, archive: Archive, beside: tuple[int, float | None, str, tuple[str, ...]]) -> Listed:
    """Activations; also such as were killed before anything was collected."""
    n_bytes, started, state, problems = beside
    try:
        n_sites: int | None = len(Activations.read(archive).sites)
    except CutawayError as error:
        n_sites, problems = None, (*problems, str(error))
    return Listed(place.name, place.path, "activations", None, None, (), n_sites, n_bytes, started, state, problems)


def _result(place: Place, archive: Archive, beside: tuple[int, float | None, str, tuple[str, ...]]) -> Listed:
    """A result; also one that was killed before it was whole."""
    n_bytes, started, state, problems = beside
    n_arrays = sum(map(len, archive.blocks.values()))
    kinds: tuple[str, ...] = ()
    try:
        kinds = (described(archive).type,)
    except CutawayError as error:
        problems = (*problems, str(error))
    return Listed(place.name, place.path, "result", None, None, kinds, n_arrays, n_bytes, started, state, problems)
