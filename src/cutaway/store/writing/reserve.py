"""Bytes on disk that are given back when the disk is full, so that the index can still say what is being lost.

A disk that is full when a run ends is the usual case: without a reserve, the run could not name the steps it lacks.
"""

from __future__ import annotations

from contextlib import suppress
from secrets import token_bytes
from time import monotonic

from cutaway.store.backends.backend import Backend

_N_FILES = 4
_BYTES = 4 << 10
_FIRST_PAUSE = 60.0
"""Seconds between the first two uses; each later pause is eight times as long, so that four files last for hours."""


class Reserve:
    """Files of random bytes in the folder of a session; their names begin with `.tmp-`, which readers ignore.

    Args:
        backend: the archive.
        folder: the folder of the rank.
        session: the number of the session; what a killed session before it has left is removed.
    """

    def __init__(self, backend: Backend, folder: str, session: int) -> None:
        self._backend = backend
        self._names: list[str] = []
        self._pause = 0.0
        self._last_use = 0.0
        if "://" in backend.url:  # memory is not a disk
            return
        for number in range(_N_FILES):
            with suppress(OSError):
                backend.remove(_name(folder, session - 1, number))
        with suppress(OSError):
            for number in range(_N_FILES):
                name = _name(folder, session, number)
                # Random, because a file system that compresses would keep no room for zeros.
                backend.put(name, token_bytes(_BYTES), sync=False)
                self._names.append(name)

    def release(self, *, is_last: bool = False) -> bool:
        """Give some room back; False if there is none left, or if it is too early.

        Args:
            is_last: give back everything, because the session ends.
        """
        if not self._names or (not is_last and (len(self._names) == 1 or monotonic() - self._last_use < self._pause)):
            return False
        self._last_use, self._pause = monotonic(), self._pause * 8 or _FIRST_PAUSE
        for name in [self._names.pop() for _ in range(len(self._names) if is_last else 1)]:
            with suppress(OSError):
                self._backend.remove(name)
        return True

    def close(self) -> None:
        """Remove the files that are left."""
        self.release(is_last=True)


def _name(folder: str, session: int, number: int) -> str:
    return f"{folder}/.tmp-reserve-{session:04d}-{number}"
