"""Claims the folder of an archive: a new one, the next free one, or the one that is continued."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count

from cutaway.core.errors import DamagedError, ExistsError
from cutaway.core.formatting import listed
from cutaway.store.backends.backend import Backend, backend_for
from cutaway.store.format.filenames import HEAD, rank_folder, rank_of, session_of
from cutaway.store.format.frames import scan
from cutaway.store.format.manifest import Head, Kind, kind_text

_MAX_HEAD = 1 << 20


def open_folder(backend: Backend, path: str, kind: Kind, rank: int, *, resume: bool) -> Head:
    """Create the archive, or continue an existing one; ExistsError if the rank has written there and may not go on."""
    names = backend.names()
    head: Head | None = None
    if HEAD in names:
        try:
            head = Head.read(backend.read(HEAD, 0, _MAX_HEAD))
        except DamagedError as error:
            if not resume or not any(_kinds(backend, names)):
                message = f"{path} has a damaged cutaway.json ({error}). Move the folder away first."
                raise ExistsError(message) from error
    for found_kind in {head.kind} if head else _kinds(backend, names):
        if found_kind != kind:
            raise ExistsError(f"{path} is {kind_text(found_kind)}, not {kind_text(kind)}. Use another path.")
    if not resume and has_sessions(backend, rank):
        raise ExistsError(
            f"{path} already has {kind_text(kind)} and is not overwritten. "
            f"{'Continue it with resume=True, or use' if kind == 'run' else 'Use'} another path."
        )
    if head is not None:
        return head
    if HEAD in names:
        return Head(kind, "", "")  # damaged; another session's file is not replaced
    _check_others(path, names)
    head = Head.new(kind)
    try:
        backend.put(HEAD, head.packed(), new=True)
    except FileExistsError:  # another rank of the same job created it first
        return open_folder(backend, path, kind, rank, resume=resume)
    return head


def claim_free_folder(path: str, kind: Kind, *, job: str = "") -> str:
    """Claim the first free folder of `path`, `path-2`, `path-3`, …, and return it.

    Whoever creates `cutaway.json` owns the folder; of several processes that start at the same moment, one does.

    Args:
        path: the folder that was asked for. If it has another kind of archive, or other files, ExistsError.
        kind: the kind of archive.
        job: identifies the job, for its other ranks; see `find_folder_of_job`.
    """
    for number, candidate in numbered_paths(path):
        backend = backend_for(candidate)
        names = backend.names()
        if number > 1 and any(not name.startswith(".") for name in names):
            continue
        if HEAD not in names and not any(rank_of(name) is not None for name in names):
            if not names and _exists(candidate) and "://" not in candidate and not os.path.isdir(candidate):
                if number > 1:
                    continue
                raise ExistsError(f"{path} is a file, or is inside one. Use the path of a new or empty folder.")
            _check_others(path, names)
            asked = os.path.basename(_stem(path)) if number > 1 else ""
            with suppress(FileExistsError):
                backend.put(HEAD, Head.new(kind, asked=asked, job=job).packed(), new=True)
                return candidate
        if number == 1:
            _check_kind(backend, path, names, kind)
    raise AssertionError("unreachable: numbers do not end")


def release_folder(path: str) -> None:
    """Undo `claim_free_folder` of a folder in which no session has begun."""
    backend = backend_for(path)
    if backend.names() == [HEAD]:
        backend.remove(HEAD)


def find_folder_of_job(path: str, job: str, rank: int) -> str | None:
    """The folder that rank 0 of a job claimed for `path` and in which this rank has not written; None if none yet."""
    for _, candidate in numbered_paths(path):
        backend = backend_for(candidate)
        head = read_head(backend)
        if head is not None and head.job == job and not has_sessions(backend, rank):
            return candidate
        if not _exists(candidate):
            return None
    return None


def newer_siblings(path: str, head: Head) -> list[str]:
    """Folders `path-2`, `path-3`, … of runs that asked for `path` after it was taken, the newest last."""
    stem = _stem(path)
    siblings = []
    for number in _sibling_numbers(stem):
        sibling = read_head(backend_for(f"{stem}-{number}"))
        if sibling is not None and sibling.asked == os.path.basename(stem) and sibling.created >= head.created:
            siblings.append((sibling.created, number))
    return [f"{stem}-{number}" for _, number in sorted(siblings)]


def numbered_paths(path: str) -> Iterator[tuple[int, str]]:
    """
    >>> paths = numbered_paths("runs/base/")
    >>> next(paths), next(paths), next(paths)
    ((1, 'runs/base/'), (2, 'runs/base-2'), (3, 'runs/base-3'))
    """
    yield 1, path
    # Appended to any name: "lr-3" may be one of several names that the user counts, so "lr-4" is not its successor.
    for number in count(2):
        yield number, f"{_stem(path)}-{number}"


def has_sessions(backend: Backend, rank: int) -> bool:
    """Whether a rank has written to an archive."""
    return any(session_of(name) is not None for name in backend.names(rank_folder(rank)))


def read_head(backend: Backend) -> Head | None:
    """The manifest of an archive; None if there is none that can be read."""
    try:
        return Head.read(backend.read(HEAD, 0, _MAX_HEAD))
    except (DamagedError, OSError):
        return None


def _stem(path: str) -> str:
    stem = path.rstrip("/")
    is_relative = os.path.basename(stem) in ("", ".", "..")
    return os.path.abspath(path) if is_relative and "://" not in path else stem


def _exists(path: str) -> bool:
    return bool(backend_for(path).names()) if "://" in path else os.path.lexists(path)


def _sibling_numbers(stem: str) -> list[int]:
    """The numbers of existing folders `stem-2`, `stem-3`, …"""
    if "://" in stem:  # these cannot be listed; without a gap, looking them up one by one finds all
        numbers = []
        for number in count(2):
            if not backend_for(f"{stem}-{number}").names():
                break
            numbers.append(number)
        return numbers
    start = f"{os.path.basename(stem)}-"
    try:
        names = os.listdir(os.path.dirname(stem) or ".")
    except OSError:
        return []
    ends = (name.removeprefix(start) for name in names if name.startswith(start))
    return [int(end) for end in ends if end.isascii() and end.isdigit() and end == str(int(end)) and int(end) > 1]


def _check_kind(backend: Backend, path: str, names: Sequence[str], kind: Kind) -> None:
    """ExistsError if the folder has another kind of archive."""
    head = read_head(backend)
    for found_kind in {head.kind} if head else _kinds(backend, names):
        if found_kind != kind:
            raise ExistsError(f"{path} is {kind_text(found_kind)}, not {kind_text(kind)}. Use another path.")


def _check_others(path: str, names: Sequence[str]) -> None:
    """ExistsError if the folder belongs to someone else: only an empty or new one becomes an archive."""
    others = [name for name in names if rank_of(name) is None and not name.startswith(".")]
    if others:
        raise ExistsError(f"{path} has other files ({listed(sorted(others), 3)}). Use an empty or new folder.")


def _kinds(backend: Backend, names: Sequence[str]) -> set[str]:
    """The kinds in the session records."""
    kinds = set()
    for folder in names:
        if rank_of(folder) is not None:
            for name in backend.names(folder):
                if session_of(name) is not None:
                    first = scan(backend.read(f"{folder}/{name}", 0, 1 << 16), is_last=False).records[:1]
                    kinds |= {record["kind"] for record in first if isinstance(record.get("kind"), str)}
    return kinds
