"""The backend protocol; chooses the backend for a path or URL."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import unquote

from cutaway.core.errors import InputError, InputTypeError
from cutaway.store.backends.local import LocalBackend
from cutaway.store.backends.memory import MemoryBackend

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//?)")
_SUPPORTED = "use a plain path ('runs/base'), 'file:///…' or 'memory://…'"


class Appender(Protocol):
    """One growing file with one owner; not thread-safe."""

    size: int

    def write(self, parts: Sequence[Buffer]) -> int:
        """Append all parts; returns their start offset. On failure, truncate to the former size and raise OSError."""

    def patch(self, offset: int, data: Buffer) -> None:
        """Overwrite bytes that were already written."""

    def sync(self) -> None:
        """Return once everything written would survive a power loss."""

    def close(self) -> None:
        """Close the file; idempotent. A later write raises ValueError."""


class Backend(Protocol):
    """A folder of files.

    Names are relative and separated by "/"; ".." raises InputError. Anything that is not a plain file, or leads out of
    the folder, raises DamagedError.
    """

    url: str
    """The URL that `backend_for` maps to this backend."""

    def names(self, folder: str = "") -> list[str]:
        """The direct children, files and folders, sorted; empty if the folder does not exist."""

    def size(self, name: str) -> int:
        """Size of a file in bytes, or FileNotFoundError."""

    def read(self, name: str, start: int, n: int) -> bytes:
        """Read `n` bytes from `start`; fewer at the end of the file. FileNotFoundError."""

    def put(self, name: str, data: Buffer, *, new: bool = False, sync: bool = True) -> None:
        """Write a whole file atomically: readers see the old content or the new, never a mixture.

        Args:
            new: raise FileExistsError if the file exists; of several concurrent calls, one wins.
            sync: whether to wait until the bytes would survive a power loss; can take seconds on a busy disk.
        """

    def append(self, name: str) -> Appender:
        """Create a new file and its folders; FileExistsError if it exists."""

    def rename(self, old: str, new: str, *, sync: bool = False) -> None:
        """Move a file; FileExistsError if the target exists.

        Args:
            sync: whether to wait until the new name would survive a power loss.
        """

    def remove(self, name: str) -> None:
        """Remove a file, or FileNotFoundError."""


@runtime_checkable
class MappingBackend(Protocol):
    """A backend that can memory-map files."""

    def map(self, name: str, start: int, n: int) -> memoryview:
        """Map `n` bytes from `start`; fewer at the end of the file. FileNotFoundError.

        Only for files that no longer change: access to a truncated mapping kills the process.
        """


def backend_for(path: str | os.PathLike[str]) -> Backend:
    """The backend for a path or URL.

    >>> backend_for("memory://base/").url
    'memory://base'
    """
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputTypeError(f"{path!r} is not a path: {_SUPPORTED}")
    match = _SCHEME.match(text)
    if match is None:
        return LocalBackend(text)
    scheme, rest = match[1].lower(), text[match.end() :]
    if match[2] == "/":
        if isinstance(path, str):
            return LocalBackend(text)
        raise InputError(f"pathlib removed a slash from the URL {path!r}: pass the text '{scheme}://{rest}' instead")
    if scheme == "memory":
        return MemoryBackend(rest)
    if scheme == "file":
        host, slash, below = rest.partition("/")
        if not slash or host not in ("", "localhost") or "%00" in below:
            raise InputError(f"{text!r} is not a local file URL: write 'file:///absolute/path'")
        return LocalBackend("/" + unquote(below))
    raise InputError(f"{text!r}: unsupported scheme {scheme}://. Instead, {_SUPPORTED}")
