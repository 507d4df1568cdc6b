"""Archives in the memory of this process, for tests and temporary data."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import TYPE_CHECKING

from cutaway.core.errors import InputError
from cutaway.store.backends.entry_names import split_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FOLDERS: dict[str, dict[str, bytearray]] = {}
_LOCK = RLock()


class MemoryBackend:
    """Files by name; every backend of the same URL in this process shares them.

    >>> MemoryBackend("demo").put("a/b", b"hello")
    >>> MemoryBackend("demo").read("a/b", 1, 3)
    b'ell'
    """

    def __init__(self, path: str) -> None:
        path = "/".join(part for part in path.split("/") if part)
        if not path:
            raise InputError("'memory://' needs a name, as in 'memory://base'")
        split_name(path)
        self.url = f"memory://{path}"
        with _LOCK:
            self._files = _FOLDERS.setdefault(self.url, {})

    def names(self, folder: str = "") -> list[str]:
        above = "/".join((*split_name(folder), "")) if folder else ""
        with _LOCK:
            return sorted({name[len(above) :].split("/")[0] for name in self._files if name.startswith(above)})

    def size(self, name: str) -> int:
        with _LOCK:
            return len(self._file(name))

    def read(self, name: str, start: int, n: int) -> bytes:
        if start < 0 or n < 0:
            raise InputError(f"cannot read {n} bytes from offset {start}: neither may be negative")
        with _LOCK:
            return bytes(memoryview(self._file(name))[start : start + n])

    def put(self, name: str, data: Buffer, *, new: bool = False, sync: bool = True) -> None:
        with _LOCK:
            self._make(name, bytearray(data), new=new)

    def append(self, name: str) -> MemoryAppender:
        data = bytearray()
        with _LOCK:
            self._make(name, data, new=True)
        return MemoryAppender(data)

    def rename(self, old: str, new: str, *, sync: bool = False) -> None:
        with _LOCK:
            self._make(new, self._file(old), new=True)
            del self._files[old]

    def remove(self, name: str) -> None:
        with _LOCK:
            self._file(name)
            del self._files[name]

    def _file(self, name: str) -> bytearray:
        split_name(name)
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(2, "no such file", f"{self.url}/{name}") from None

    def _make(self, name: str, data: bytearray, *, new: bool) -> None:
        parts = split_name(name)
        where = f"{self.url}/{name}"
        if any("/".join(parts[:n]) in self._files for n in range(1, len(parts))):
            raise NotADirectoryError(20, "a parent folder is a file", where)
        if any(other.startswith(name + "/") for other in self._files):
            raise (FileExistsError if new else IsADirectoryError)(21, "is a folder", where)
        if new and name in self._files:
            raise FileExistsError(17, "already exists", where)
        self._files[name] = data


class MemoryAppender:
    """A growing file in memory."""

    def __init__(self, data: bytearray) -> None:
        self.size = 0
        self._data: bytearray | None = data

    def write(self, parts: Sequence[Buffer]) -> int:
        data = self._open()
        joined = b"".join(parts)
        with _LOCK:
            data += joined
            self.size = len(data)
        return self.size - len(joined)

    def patch(self, offset: int, data: Buffer) -> None:
        target, source = self._open(), bytes(data)
        if offset < 0 or offset + len(source) > self.size:
            raise InputError(f"bytes {offset}–{offset + len(source)} are not written yet: the file has {self.size}")
        with _LOCK:
            target[offset : offset + len(source)] = source

    def sync(self) -> None:
        self._open()

    def close(self) -> None:
        self._data = None

    def _open(self) -> bytearray:
        if self._data is None:
            raise ValueError("this file is closed")
        return self._data
