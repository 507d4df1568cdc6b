"""`cutaway.load`: whatever lies at a path, as the noun it is."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

from cutaway.core.errors import InputError, NotFoundError
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.shards import read_shards, shards_at
from cutaway.store.activations.unit_selection import Units
from cutaway.store.backends.backend import backend_for
from cutaway.store.reading.archive import CACHE_BYTES, Archive
from cutaway.store.results.result_file import read as read_result
from cutaway.store.runs.run import Run
from cutaway.store.runs.run_set import Runs, is_archive
from cutaway.store.traces.trace_file import read as read_trace

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace
    from cutaway.results.result import Result


def load(
    path: str | os.PathLike[str], *more: str | os.PathLike[str], cache_bytes: int = CACHE_BYTES
) -> Run | Runs | Trace | Activations | Result:
    """What was recorded or saved at a path, read lazily and without torch.

        run = cutaway.load("runs/base")          # a Run
        runs = cutaway.load("runs/")             # every run below a folder
        runs = cutaway.load("runs/lr-*")         # those that fit a pattern; or several paths
        trace = cutaway.load("net.trace")        # a Trace that was saved
        acts = cutaway.load("acts")              # Activations that were collected, also in shards
        ranking = cutaway.load("verbs")          # a result that was saved: a Ranking, an Evaluation, a Page

    Args:
        cache_bytes: how much of what was read is kept in memory, for each run.
    """
    paths = [_as_text(one) for one in (path, *more)]
    if len(paths) > 1 or _is_pattern(paths[0]):
        return Runs(paths, cache_bytes=cache_bytes)
    if _is_archive(paths[0]):
        return opened(paths[0], cache_bytes=cache_bytes)
    if os.path.isfile(paths[0]):
        raise NotFoundError(
            f"{paths[0]} is a file, and what cutaway.load reads are folders. A probe that was saved is read by its "
            "class, cutaway.probes.Linear.load(path); a file of NeuroX by cutaway.Activations.from_neurox(path)."
        )
    if shards := shards_at(paths[0]):
        source = read_shards(paths[0], shards, cache_bytes=cache_bytes)
        return Activations(source, Units.all(source.sites))
    runs = Runs(paths, cache_bytes=cache_bytes)
    if not len(runs):
        Archive(paths[0])  # says why nothing is there
        raise NotFoundError(f"{paths[0]} holds nothing that Cutaway wrote.")
    return runs


def opened(path: str, *, cache_bytes: int = CACHE_BYTES) -> Run | Trace | Activations | Result:
    """What one archive holds."""
    archive = Archive(path, cache_bytes=cache_bytes)
    if archive.kind == "run":
        return Run(archive)
    if archive.kind == "trace":
        return read_trace(archive)
    if archive.kind == "activations":
        return Activations.read(archive)
    if archive.kind == "result":
        found: Result = read_result(archive)
        return found
    raise InputError(f"{path} holds {archive.kind}, which this version of Cutaway cannot read as such yet.")


def _as_text(path: str | os.PathLike[str]) -> str:
    try:
        found = os.fspath(path)
    except TypeError:
        raise InputError(f"a path is text, not {path!r}.") from None
    if not isinstance(found, str) or "\0" in found:
        raise InputError(f"{found!r} is no path.")
    return found


def _is_pattern(path: str) -> bool:
    return glob.has_magic(path) and "://" not in path and not os.path.exists(path)


def _is_archive(path: str) -> bool:
    try:
        return is_archive(backend_for(path).names())
    except OSError as error:
        raise NotFoundError(f"{path!r} cannot be opened: {error.strerror or error}.") from error
