"""LRU cache of open file descriptors.

Opening a file takes longer than reading a tensor from it. The caller must check that the cached descriptor still
belongs to the file of that name.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock
from time import monotonic

# A process may often open only 256 or 1,024 files, and the program needs most of them.
_MAX_HANDLES = 64
_MAX_AGE = 1.0
"""Seconds. Network file systems revalidate with the server only when a file is opened."""


class FileHandle:
    """An open file, closed by its last owner: another thread may still read while the cache evicts it."""

    __slots__ = ("device", "fd", "inode", "since")
    _close = staticmethod(os.close)  # the module `os` may be cleared at interpreter exit

    def __init__(self, fd: int) -> None:
        self.fd, self.inode, self.device, self.since = fd, -1, -1, monotonic()

    def __del__(self) -> None:
        try:
            self._close(self.fd)
        except Exception:  # somebody closed the descriptor; Python would print whatever is raised here
            pass


class FileHandleCache:
    """The most recently read files of all backends, bounded because a process may open only so many."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._files: OrderedDict[tuple[str, str], FileHandle] = OrderedDict()

    def find(self, key: tuple[str, str]) -> FileHandle | None:
        with self._locked():
            file = self._files.get(key)
            if file is None or monotonic() - file.since > _MAX_AGE:
                return None
            self._files.move_to_end(key)
            return file

    def keep(self, key: tuple[str, str], file: FileHandle) -> None:
        with self._locked():
            self._files[key] = file
            self._files.move_to_end(key)
            if len(self._files) > _MAX_HANDLES:
                self._files.popitem(last=False)

    def drop(self, key: tuple[str, str]) -> None:
        with self._locked():
            self._files.pop(key, None)

    def clear(self) -> None:
        with self._locked():
            self._files.clear()

    def _locked(self) -> Lock:
        if self._pid != os.getpid():
            self._reset()  # after a fork, another thread of the parent may have held the lock
        return self._lock


FILE_HANDLES = FileHandleCache()
