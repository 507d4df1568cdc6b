"""The served folders and the archives in them. Nothing outside them is ever read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cutaway.core.errors import InputError, NotFoundError, StoreError
from cutaway.store.backends.backend import backend_for
from cutaway.store.backends.local import LocalBackend
from cutaway.store.format.filenames import HEAD, INDEX
from cutaway.store.runs.run_set import MAX_FOLDERS, find_folders, is_archive
from cutaway.views.run.run_view import item_id

Fingerprint = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size and mtime of each file that describes the archive."""


@dataclass(frozen=True, slots=True)
class ArchiveLocation:
    """A run, saved trace, activations or saved result on disk."""

    id: str
    """Derived from the name relative to the served folder, so it is stable across restarts."""
    name: str
    path: str
    root: str
    """The served folder that holds it, with links resolved."""

    def check(self) -> None:
        """Raise NotFoundError if it was deleted, or became a link that leaves the served folder."""
        if not os.path.isdir(self.path):
            raise NotFoundError(f"{self.name!r} was deleted or moved: {self.path} no longer exists.")
        real = os.path.realpath(self.path)
        if real != self.root and not real.startswith(self.root.rstrip(os.sep) + os.sep):
            raise NotFoundError(f"{self.name!r} is a link to outside the served folder; such links are not followed.")

    def fingerprint(self) -> Fingerprint:
        """Changes whenever the archive is written to or replaced."""
        files = []
        for folder in ("", *(entry for entry in _folders(self.path) if entry.startswith("rank-"))):
            try:
                with os.scandir(os.path.join(self.path, folder)) as entries:
                    for entry in entries:
                        if entry.name == HEAD or entry.name.endswith(INDEX):
                            # With the inode: a run that is deleted and recorded again may have files of equal size.
                            status = entry.stat(follow_symlinks=False)
                            name = f"{folder}/{entry.name}"
                            files.append((name, status.st_ino, status.st_size, status.st_mtime_ns))
            except OSError:
                continue
        return tuple(sorted(files))


class Folders:
    """The archives at and below some paths.

    Args:
        paths: folders that exist; they may still be empty.
        most_folders: how many folders to look into below each path.
    """

    def __init__(self, paths: Sequence[str], *, most_folders: int = MAX_FOLDERS) -> None:
        self.stopped: tuple[str, ...] = ()
        """Where the last search gave up, one sentence per path; empty if it has seen every folder."""
        self._most_folders = most_folders
        self.paths = tuple(_local(path) for path in paths)
        for path in self.paths:
            if not os.path.isdir(path):
                what = "is not a folder" if os.path.exists(path) else "does not exist"
                raise NotFoundError(f"no Cutaway archive at {path}: it {what}. Name a folder that holds runs.")

    def locations(self) -> dict[str, ArchiveLocation]:
        """The archives that exist now, by id."""
        archives: dict[str, ArchiveLocation] = {}
        seen: set[str] = set()
        stopped: list[str] = []
        for path in self.paths:
            root = os.path.realpath(path)
            for name, location in self._below(path, stopped):
                real = os.path.realpath(location)
                if real in seen:
                    continue
                seen.add(real)
                id_ = item_id(name)
                if id_ in archives:  # another served folder has an archive of this name
                    name = real
                    id_ = item_id(name)
                archives[id_] = ArchiveLocation(id_, name, location, root)
        self.stopped = tuple(stopped)
        return archives

    def _below(self, path: str, stopped: list[str]) -> Iterator[tuple[str, str]]:
        if _is_archive(path):
            yield os.path.basename(os.path.abspath(path)), path
            return
        search = find_folders(path, _is_archive, self._most_folders)  # does not follow links
        if search.stopped:
            stopped.append(search.stopped)
        for location in search.found:
            yield os.path.relpath(location, path), location


def _is_archive(path: str) -> bool:
    try:
        return is_archive(backend_for(path).names())
    except (OSError, StoreError):
        return False


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _local(path: str) -> str:
    backend = backend_for(path)
    if not isinstance(backend, LocalBackend):
        raise InputError(f"{path!r} is in the memory of another process. Serve a folder on disk.")
    return backend.url if "://" in path else path
