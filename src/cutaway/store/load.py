"""`cutaway.load`: opens whatever a path holds."""

from __future__ import annotations

import glob
import os
import warnings
from typing import TYPE_CHECKING, Any, TypeVar, overload

from cutaway.core.errors import InputError, InputTypeError, NotFoundError
from cutaway.core.formatting import plural, type_text
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.shards import read_shards, shards_at
from cutaway.store.activations.unit_selection import Units
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.filenames import HEAD
from cutaway.store.format.manifest import kind_text
from cutaway.store.reading.archive import CACHE_BYTES, Archive
from cutaway.store.results.result_file import read as read_result
from cutaway.store.runs.run import Run
from cutaway.store.runs.run_set import Runs, find_runs, is_archive
from cutaway.store.traces.trace_file import read as read_trace
from cutaway.store.writing.folders import newer_siblings

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace
    from cutaway.results.result import Result

Loaded = TypeVar("Loaded")
_mentioned: set[str] = set()
"""Runs whose newer siblings were mentioned."""


@overload
def load(path: str | os.PathLike[str], *, expect: type[Loaded], cache_bytes: int = CACHE_BYTES) -> Loaded: ...


@overload
def load(
    path: str | os.PathLike[str], *, cache_bytes: int = CACHE_BYTES
) -> Run | Runs | Trace | Activations | Result: ...


@overload
def load(
    path: str | os.PathLike[str],
    second: str | os.PathLike[str],
    /,
    *more: str | os.PathLike[str],
    cache_bytes: int = CACHE_BYTES,
) -> Runs: ...


def load(
    path: str | os.PathLike[str],
    *more: str | os.PathLike[str],
    expect: type[Any] | None = None,
    cache_bytes: int = CACHE_BYTES,
) -> Any:
    """Open what was recorded or saved at a path; reads lazily and without torch.

        run = cutaway.load("runs/base")          # a Run
        runs = cutaway.load("runs/")             # every run in a folder
        runs = cutaway.load("runs/lr-*")         # those that match a pattern; or several paths
        trace = cutaway.load("net.trace")        # a saved Trace
        acts = cutaway.load("acts")              # collected Activations, also in shards
        ranking = cutaway.load("verbs")          # a saved result: a Ranking, an Evaluation, a Page

    The path alone decides what is returned, so a type checker sees a union of these classes. `expect` states the class:
    type checkers and editors then know it, and a path that holds something else raises an error.

        run = cutaway.load("runs/base", expect=cutaway.Run)

    A run that is not the newest of its name (`runs/base`, while a later one became `runs/base-2`) is opened with a
    warning that names the newest.

    Args:
        path: a folder that Cutaway wrote, a folder of runs, or a glob pattern of runs.
        more: further paths or patterns of runs.
        expect: the class that the path must hold, such as `cutaway.Run` or `cutaway.Trace`; None for any.
        cache_bytes: how many bytes of read data to cache, per run.
    """
    if expect is not None and not isinstance(expect, type):
        raise InputTypeError(f"expect={expect!r}: must be a class, such as cutaway.Run.")
    found = _load(path, *more, cache_bytes=cache_bytes)
    if expect is not None and not isinstance(found, expect):
        raise InputTypeError(f"{_as_text(path)} holds {type_text(found)}, and expect= asks for {expect.__name__}.")
    return found


def _load(
    path: str | os.PathLike[str], *more: str | os.PathLike[str], cache_bytes: int
) -> Run | Runs | Trace | Activations | Result:
    paths = [_as_text(given) for given in (path, *more)]
    if len(paths) > 1 or _is_pattern(paths[0]):
        for given in paths:
            _check_runs_at(given)
        return Runs(paths, cache_bytes=cache_bytes)
    if _is_archive(paths[0]):
        opened = open_archive(paths[0], cache_bytes=cache_bytes)
        if isinstance(opened, Run):
            _mention_newer(opened)
        return opened
    if os.path.isfile(paths[0]):
        raise NotFoundError(f"{paths[0]} is a file, and cutaway.load reads folders. {_file_hint(paths[0])}")
    if shards := shards_at(paths[0]):
        source = read_shards(paths[0], shards, cache_bytes=cache_bytes)
        return Activations(source, Units.all(source.sites))
    runs = Runs(paths, cache_bytes=cache_bytes)
    if not len(runs):
        Archive(paths[0])  # raises, with the reason
        raise NotFoundError(f"no Cutaway archive at {paths[0]}.")
    return runs


def open_archive(path: str, *, cache_bytes: int = CACHE_BYTES) -> Run | Trace | Activations | Result:
    """Open one archive as the class of its kind."""
    archive = Archive(path, cache_bytes=cache_bytes)
    if archive.kind == "run":
        return Run(archive)
    if archive.kind == "trace":
        return read_trace(archive)
    if archive.kind == "activations":
        return Activations.read(archive)
    if archive.kind == "result":
        result: Result = read_result(archive)
        return result
    raise InputError(f"{path} is {kind_text(archive.kind)}, which this version of Cutaway cannot load.")


def _mention_newer(run: Run) -> None:
    """Warn, once a process, if a later run asked for the same path and was numbered."""
    if run.archive.head is None or run.archive.backend.url in _mentioned:
        return
    newer = newer_siblings(run.path, run.archive.head)
    if newer:
        _mentioned.add(run.archive.backend.url)
        others = f" ({plural(len(newer), 'newer run')})" if len(newer) > 1 else ""
        warnings.warn(
            f"cutaway: {run.path} is not the newest run of this name: {newer[-1]} was recorded later{others}. "
            "cutaway.load(run.path) opens the one that a recorder wrote.",
            UserWarning,
            stacklevel=4,
        )


def _check_runs_at(path: str) -> None:
    if find_runs(path):
        return
    if _is_pattern(path):
        raise NotFoundError(f"no run matches {path!r}. cutaway.load(folder) opens all runs below a folder.")
    if os.path.isfile(path):
        raise NotFoundError(f"{path} is a file, and runs are folders. {_file_hint(path)}")
    kind = Archive(path).kind  # raises, with the reason, if there is no archive
    raise NotFoundError(f"{path} holds no run but {kind}. Several paths can be loaded together only if all are runs.")


def _file_hint(path: str) -> str:
    """What to do with a file instead."""
    folder, name = os.path.split(path)
    if name == HEAD:
        return f"Pass the folder of the archive: {folder or '.'!r}."
    if name.endswith((".pt", ".pth", ".bin", ".ckpt")):
        return "This looks like a checkpoint: load it into your model with torch.load, then record or trace the model."
    if name.endswith((".hdf5", ".h5", ".json")):
        return "If NeuroX wrote it: cutaway.Activations.from_neurox(path)."
    return "A saved probe is loaded with its class: cutaway.probes.Linear.load(path)."


def _as_text(path: str | os.PathLike[str]) -> str:
    try:
        text = os.fspath(path)
    except TypeError:
        hint = " Pass several as arguments: cutaway.load(*paths)." if isinstance(path, (list, tuple)) else ""
        raise InputTypeError(f"a path must be text or a pathlib.Path, got {path!r}.{hint}") from None
    if not isinstance(text, str) or "\0" in text:
        raise InputTypeError(f"{text!r} is not a path.")
    return text


def _is_pattern(path: str) -> bool:
    return glob.has_magic(path) and "://" not in path and not os.path.exists(path)


def _is_archive(path: str) -> bool:
    try:
        return is_archive(backend_for(path).names())
    except OSError as error:
        raise NotFoundError(f"cannot open {path!r}: {error.strerror or error}.") from error
