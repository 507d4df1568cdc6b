"""A finished file is written beside and then renamed: whoever looks sees none of it, or all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cutaway.store.backends.backend import Appender, Backend
from cutaway.store.format.filenames import SEALED


@contextmanager
def sealing(backend: Backend, stem: str, *, fsync: bool) -> Iterator[Appender]:
    """A block that writes the sealed file of a segment; it is there when the block has ended, and not if it raises."""
    beside = f"{stem}.sealing"
    file = backend.append(beside)
    try:
        yield file
        if fsync:
            file.sync()
        file.close()
        backend.rename(beside, stem + SEALED, sync=fsync)
    except BaseException:
        with suppress(OSError, ValueError):
            file.close()
            backend.remove(beside)
        raise
