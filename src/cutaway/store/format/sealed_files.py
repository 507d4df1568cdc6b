"""Writes a sealed file under a temporary name, then renames it: readers see all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cutaway.store.backends.backend import Appender, Backend
from cutaway.store.format.filenames import SEALED


@contextmanager
def write_sealed(backend: Backend, stem: str, *, fsync: bool) -> Iterator[Appender]:
    """Context manager: writes the sealed file of a segment, which appears on exit; removes it if the block raises."""
    temporary = f"{stem}.sealing"
    file = backend.append(temporary)
    try:
        yield file
        if fsync:
            file.sync()
        file.close()
        backend.rename(temporary, stem + SEALED, sync=fsync)
    except BaseException:
        with suppress(OSError, ValueError):
            file.close()
            backend.remove(temporary)
        raise
