"""The folders that were opened: what of Cutaway's lies below them. Nothing outside of them is ever read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cutaway.core.errors import InputError, NotFoundError, StoreError
from cutaway.store.backends.backend import backend_for
from cutaway.store.backends.local import LocalBackend
from cutaway.store.format.filenames import HEAD, INDEX
from cutaway.store.runs.run_set import found_below, is_archive
from cutaway.views.run.run_view import item_id

Stamp = tuple[tuple[str, int, int, int], ...]
"""Of each file that says what is there: its name, number, size and time."""


@dataclass(frozen=True, slots=True)
class Place:
    """One run, saved trace, collection or saved result on disk."""

    id: str
    """Made of its name below the opened folder, so the same at every start."""
    name: str
    path: str
    root: str
    """The opened folder it lies below, with all links resolved."""

    def check(self) -> None:
        """Raise an error if it is gone, or has become a link that leads out of the opened folder."""
        if not os.path.isdir(self.path):
            raise NotFoundError(f"{self.name!r} was deleted or moved: {self.path} is not there any more.")
        real = os.path.realpath(self.path)
        if real != self.root and not real.startswith(self.root.rstrip(os.sep) + os.sep):
            raise NotFoundError(f"{self.name!r} is a link that leads out of the opened folder, and is not followed.")

    def stamp(self) -> Stamp:
        """Changes whenever something is written to it, or it is replaced by another."""
        found = []
        for folder in ("", *(entry for entry in _folders(self.path) if entry.startswith("rank-"))):
            try:
                with os.scandir(os.path.join(self.path, folder)) as entries:
                    for entry in entries:
                        if entry.name == HEAD or entry.name.endswith(INDEX):
                            status = entry.stat(follow_symlinks=False)
                            name = f"{folder}/{entry.name}"
                            found.append((name, status.st_ino, status.st_size, status.st_mtime_ns))
            except OSError:
                continue
        return tuple(sorted(found))


class Folders:
    """What lies at and below some paths: each something that Cutaway wrote, or a folder of such things.

    Args:
        paths: they must be there; that nothing is in them yet is no error.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(_local(path) for path in paths)
        for path in self.paths:
            if not os.path.isdir(path):
                what = "is no folder" if os.path.exists(path) else "is not there"
                raise NotFoundError(
                    f"{path} {what}, so nothing that Cutaway wrote is: name a folder that has, or will have, runs."
                )

    def places(self) -> dict[str, Place]:
        """Id → whatever is there now."""
        found: dict[str, Place] = {}
        seen: set[str] = set()
        for path in self.paths:
            root = os.path.realpath(path)
            for name, place in _below(path):
                real = os.path.realpath(place)
                if real in seen:
                    continue
                seen.add(real)
                id_ = item_id(name)
                if id_ in found:  # of the same name in another folder
                    name = real
                    id_ = item_id(name)
                found[id_] = Place(id_, name, place, root)
        return found


def _below(path: str) -> Iterator[tuple[str, str]]:
    if _is_archive(path):
        yield os.path.basename(os.path.abspath(path)), path
        return
    for place in found_below(path, _is_archive):  # which follows no links
        yield os.path.relpath(place, path), place


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
        raise InputError(f"{path!r} lies in the memory of one process, and the viewer is another.")
    return backend.url if "://" in path else path
