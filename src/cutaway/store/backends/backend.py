"""Where the files of an archive lie: what a place must offer, and which place a path means."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import unquote

from cutaway.core.errors import InputError
from cutaway.store.backends.local import LocalBackend
from cutaway.store.backends.memory import MemoryBackend

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//?)")
_WORK = "a plain path ('runs/base'), 'file:///…' and 'memory://…' work"


class Appender(Protocol):
    """One growing file, with one owner: not to be shared between threads."""

    size: int

    def write(self, parts: Sequence[Buffer]) -> int:
        """Append all parts; the offset at which they begin. On failure cut back to the former size, raise OSError."""

    def patch(self, offset: int, data: Buffer) -> None:
        """Overwrite bytes that were already written."""

    def sync(self) -> None:
        """Return when what was written would survive a power loss."""

    def close(self) -> None:
        """Let go of the file; a second time does nothing, a write afterwards is a ValueError."""


class Backend(Protocol):
    """A folder of files, wherever it lies.

    Names are relative, parted by "/", never "..": others are refused with InputError. What is no plain file, or leads
    out of the folder, is refused with DamagedError.
    """

    url: str
    """What `backend_for` makes this backend of again."""

    def names(self, folder: str = "") -> list[str]:
        """The direct children, files and folders, sorted; none if the folder is not there."""

    def size(self, name: str) -> int:
        """Bytes of a file, or FileNotFoundError."""

    def read(self, name: str, start: int, n: int) -> bytes:
        """`n` bytes from `start`; fewer at the end of the file. FileNotFoundError."""

    def put(self, name: str, data: Buffer, *, new: bool = False, sync: bool = True) -> None:
        """Write a whole file: readers see the old one or the new one, never a part.

        Args:
            new: FileExistsError if the file is there; of several who try, one wins.
            sync: whether to wait until the bytes would survive a power loss. That can take seconds on a busy disk.
        """

    def append(self, name: str) -> Appender:
        """Begin a new file, and the folders it lies in; FileExistsError if it is there."""

    def rename(self, old: str, new: str, *, sync: bool = False) -> None:
        """Move a file; FileExistsError rather than overwrite another.

        Args:
            sync: whether to wait until the new name would survive a power loss.
        """

    def remove(self, name: str) -> None:
        """Remove a file, or FileNotFoundError."""


@runtime_checkable
class MappingBackend(Protocol):
    """A backend that can also map files into memory."""

    def map(self, name: str, start: int, n: int) -> memoryview:
        """`n` bytes from `start`, read as they are looked at; fewer at the end of the file. FileNotFoundError.

        Only for files that nobody changes any more.
        """


def backend_for(path: str | os.PathLike[str]) -> Backend:
    """The place that a path or URL means.

    >>> backend_for("memory://base/").url
    'memory://base'
    """
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"{path!r} is not a path: {_WORK}")
    found = _SCHEME.match(text)
    if found is None:
        return LocalBackend(text)
    scheme, rest = found[1].lower(), text[found.end() :]
    if found[2] == "/":
        if isinstance(path, str):
            return LocalBackend(text)
        raise InputError(f"{path!r} was a URL before pathlib took a slash from it: pass '{scheme}://{rest}' as text")
    if scheme == "memory":
        return MemoryBackend(rest)
    if scheme == "file":
        host, slash, below = rest.partition("/")
        if not slash or host not in ("", "localhost") or "%00" in below:
            raise InputError(f"{text!r} names no file of this machine: write 'file:///absolute/path'")
        return LocalBackend("/" + unquote(below))
    raise InputError(f"{text!r}: nothing here reads {scheme}://. For now {_WORK}")
