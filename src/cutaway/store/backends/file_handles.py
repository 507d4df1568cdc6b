"""Open files, kept for the next read.

Opening a file takes longer than reading a tensor from it. Whoever asks for a descriptor here must see for themselves
that its file still has the name they look for.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock
from time import monotonic

_MOST_HELD = 64
_HELD_FOR = 1.0
"""Seconds. Opening anew is what makes network file systems look at the server again."""


class Descriptor:
    """An open file, closed when nobody holds it: another thread may read while it falls out of the cache."""

    __slots__ = ("device", "fd", "inode", "since")
    _close = staticmethod(os.close)  # `os` may be gone when a process ends

    def __init__(self, fd: int) -> None:
        self.fd, self.inode, self.device, self.since = fd, -1, -1, monotonic()

    def __del__(self) -> None:
        self._close(self.fd)


class Descriptors:
    """The files read last, of all backends: each process may open only so many."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._files: OrderedDict[tuple[str, str], Descriptor] = OrderedDict()

    def find(self, key: tuple[str, str]) -> Descriptor | None:
        with self._locked():
            file = self._files.get(key)
            if file is None or monotonic() - file.since > _HELD_FOR:
                return None
            self._files.move_to_end(key)
            return file

    def keep(self, key: tuple[str, str], file: Descriptor) -> None:
        with self._locked():
            self._files[key] = file
            self._files.move_to_end(key)
            if len(self._files) > _MOST_HELD:
                self._files.popitem(last=False)

    def drop(self, key: tuple[str, str]) -> None:
        with self._locked():
            self._files.pop(key, None)

    def clear(self) -> None:
        with self._locked():
            self._files.clear()

    def _locked(self) -> Lock:
        if self._pid != os.getpid():
            self._begin()  # another thread may have held the lock when this process was forked
        return self._lock


HELD = Descriptors()
