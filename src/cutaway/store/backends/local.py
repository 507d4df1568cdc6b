"""Archives in a folder of this machine's file systems.

Files are read by position, as a rule: a mapped file that is cut short kills the process that looks at it. Only large
activations are mapped, out of segments that were sealed, which nobody changes any more. Every folder on
the way is entered without following links, so that a link which leads out of the archive is noticed even if it is put
there at this very moment.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import TYPE_CHECKING

import numpy as np

from cutaway.core.errors import DamagedError, InputError
from cutaway.store.backends.entry_names import is_allowed, parts_of
from cutaway.store.backends.file_handles import HELD, Descriptor

if TYPE_CHECKING:
    from typing_extensions import Buffer

_TEMPORARY = ".tmp-"
_IOV_MAX = 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK_IN_THE_WAY = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)
_NO_HARD_LINKS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK)


class LocalBackend:
    """A folder, which need not be there yet."""

    def __init__(self, path: str) -> None:
        self._root = os.path.abspath(path)
        self.url = self._root

    def __repr__(self) -> str:
        return f"LocalBackend({self._root!r})"

    def names(self, folder: str = "") -> list[str]:
        parts = parts_of(folder) if folder else ()
        with self._telling(folder):
            try:
                with self._folder(parts) as fd:
                    found = os.listdir(fd)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(name for name in found if is_allowed(name) and not name.startswith(_TEMPORARY))

    def size(self, name: str) -> int:
        return self._file(name)[1].st_size

    def read(self, name: str, start: int, n: int) -> bytes:
        if start < 0 or n < 0:
            raise InputError(f"cannot read {n} bytes from {start} on: neither may be negative")
        try:
            return self._read(name, start, n)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            HELD.drop((self._root, name))  # another machine replaced the file
            return self._read(name, start, n)

    def map(self, name: str, start: int, n: int) -> memoryview:
        file, status = self._file(name)
        n = min(n, status.st_size - start)
        if n <= 0:
            return memoryview(b"")
        skipped = start % mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(file.fd, n + skipped, access=mmap.ACCESS_READ, offset=start - skipped)
        return memoryview(mapped)[skipped:]

    def put(self, name: str, data: Buffer, *, new: bool = False, sync: bool = True) -> None:
        *folders, leaf = parts_of(name)
        temporary = _TEMPORARY + token_hex(8)
        with self._telling(name), self._folder(folders, make=True) as folder:
            try:
                _write_new(temporary, folder, data, sync=sync)
                if not new:
                    os.replace(temporary, leaf, src_dir_fd=folder, dst_dir_fd=folder)
                elif not _link(temporary, leaf, folder):
                    _write_new(leaf, folder, data, sync=sync)
            finally:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
            if sync:
                os.fsync(folder)

    def append(self, name: str) -> LocalAppender:
        *folders, leaf = parts_of(name)
        with self._telling(name), self._folder(folders, make=True) as folder:
            return LocalAppender(os.open(leaf, _CREATE, 0o666, dir_fd=folder), f"{self._root}/{name}")

    def rename(self, old: str, new: str, *, sync: bool = False) -> None:
        *old_folders, old_leaf = parts_of(old)
        *new_folders, new_leaf = parts_of(new)
        with self._telling(old), self._folder(old_folders) as source, self._folder(new_folders) as target:
            os.stat(old_leaf, dir_fd=source, follow_symlinks=False)
            with suppress(FileNotFoundError):
                os.stat(new_leaf, dir_fd=target, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, f"is there already; {old!r} stays", f"{self._root}/{new}")
            os.rename(old_leaf, new_leaf, src_dir_fd=source, dst_dir_fd=target)
            if sync:
                os.fsync(target)
        HELD.drop((self._root, old))

    def remove(self, name: str) -> None:
        *folders, leaf = parts_of(name)
        with self._telling(name), self._folder(folders) as folder:
            os.unlink(leaf, dir_fd=folder)
        HELD.drop((self._root, name))

    def _read(self, name: str, start: int, n: int) -> bytes:
        file, status = self._file(name)
        n = min(n, status.st_size - start)  # a wrong length in an index must not become an allocation
        if n <= 0:
            return b""
        data = os.pread(file.fd, n, start)
        if len(data) == n:
            return data
        pieces = [data]
        while pieces[-1] and n > (done := sum(map(len, pieces))):
            pieces.append(os.pread(file.fd, n - done, start + done))
        return b"".join(pieces)

    def _file(self, name: str) -> tuple[Descriptor, os.stat_result]:
        """An open descriptor of the file that has this name now, and its status."""
        key = (self._root, name)
        file = HELD.find(key)
        if file is not None:  # its name was checked when it was opened
            with suppress(OSError):
                status = os.stat(f"{self._root}/{name}")
                # While a file is open, no other file can be given its number.
                if status.st_ino == file.inode and status.st_dev == file.device:
                    return file, status
            HELD.drop(key)
        parts = parts_of(name)
        with self._telling(name):
            try:
                fd = self._open(parts)
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
                HELD.clear()
                fd = self._open(parts)
        file = Descriptor(fd)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError(f"{self._root}/{name} is not a plain file, and is not read")
        file.inode, file.device = status.st_ino, status.st_dev
        HELD.keep(key, file)
        return file, status

    def _open(self, parts: Sequence[str], *, is_resolved: bool = False) -> int:
        try:
            with self._folder(parts[:-1]) as folder:
                return os.open(parts[-1], _READ, dir_fd=folder)
        except NotADirectoryError as error:
            raise FileNotFoundError(errno.ENOENT, "a folder on the way is a file") from error
        except OSError as error:
            if error.errno not in _LINK_IN_THE_WAY:
                raise
            if is_resolved:
                raise DamagedError(f"{self._root}/{'/'.join(parts)} is a link that leads nowhere") from error
        return self._open(self._resolved(parts), is_resolved=True)

    @contextmanager
    def _folder(self, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
        try:
            fd = self._descend(parts, make=make)
        except OSError as error:
            if error.errno not in _LINK_IN_THE_WAY:
                raise
            fd = self._descend(self._resolved(parts), make=make)
        try:
            yield fd
        finally:
            os.close(fd)

    def _descend(self, parts: Sequence[str], *, make: bool) -> int:
        if make:
            self._make_root()
        fd = os.open(self._root, _FOLDER)
        for part in parts:
            above = fd
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=above)
                fd = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
            finally:
                os.close(above)
        return fd

    def _make_root(self) -> None:
        try:
            os.makedirs(self._root, exist_ok=True)
        except FileExistsError:  # which would read as "the file is there already"
            raise NotADirectoryError(errno.ENOTDIR, "is a file, not a folder", self._root) from None

    def _resolved(self, parts: Sequence[str]) -> tuple[str, ...]:
        """The same place without links."""
        root = os.path.realpath(self._root)
        path = os.path.join(self._root, *parts)
        below = os.path.relpath(os.path.realpath(path), root)
        if below.split("/")[0] == "..":
            raise DamagedError(f"{path} leads out of the archive, and is not followed")
        return () if below == "." else tuple(below.split("/"))

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        """Errors name the whole path, not its last part."""
        try:
            yield
        except OSError as error:
            if error.filename2 is not None or not os.path.isabs(error.filename or ""):
                error.filename, error.filename2 = f"{self._root}/{name}", None
            raise


class LocalAppender:
    """A growing file. All writes say where: a failed one leaves neither a hole nor a misplaced byte."""

    def __init__(self, fd: int, path: str) -> None:
        self.size = 0
        self._fd = fd
        self._path = path
        self._pid = os.getpid()
        self._is_name_synced = False
        self._reach = 0
        """No byte beyond this can have been written; more than `size` only where cutting back has failed."""

    def write(self, parts: Sequence[Buffer]) -> int:
        fd = self._open()
        views = [view for view in map(_as_bytes, parts) if view.nbytes]
        start, stop = self.size, self.size + sum(view.nbytes for view in views)
        self._cut()
        self._reach = max(self._reach, stop)
        try:
            _write_at(fd, views, start)
        except BaseException:
            self._cut()
            raise
        self.size = stop
        self._cut()
        return start

    def patch(self, offset: int, data: Buffer) -> None:
        view = _as_bytes(data)
        if offset < 0 or offset + view.nbytes > self.size:
            raise InputError(f"bytes {offset}–{offset + view.nbytes} were not written yet: the file has {self.size}")
        _write_at(self._open(), [view] if view.nbytes else [], offset)

    def sync(self) -> None:
        os.fsync(self._open())
        if not self._is_name_synced:
            _sync_folder(os.path.dirname(self._path))
            self._is_name_synced = True

    def close(self) -> None:
        if self._fd < 0:
            return
        self._cut()
        fd, self._fd = self._fd, -1
        os.close(fd)

    def __del__(self) -> None:
        with suppress(OSError):
            self.close()

    def _open(self) -> int:
        if self._fd < 0:
            raise ValueError(f"{self._path} was closed")
        if self._pid != os.getpid():
            raise ValueError(f"{self._path} is written by process {self._pid}: its forked children may not")
        return self._fd

    def _cut(self) -> None:
        # A child, forked in the midst of a write, must not cut off what its parent is writing.
        if self._reach > self.size and self._pid == os.getpid():
            with suppress(OSError):
                os.ftruncate(self._fd, self.size)
                self._reach = self.size


def _as_bytes(data: Buffer) -> memoryview:
    # A memoryview cannot cast complex numbers or empty arrays; NumPy takes every contiguous buffer as it is.
    return np.frombuffer(memoryview(data), dtype=np.uint8).data


def _write_at(fd: int, views: list[memoryview], offset: int) -> None:
    first = 0
    while first < len(views):
        written = os.pwritev(fd, views[first : first + _IOV_MAX], offset)
        if written == 0:
            raise OSError(errno.EIO, "the file takes no more bytes")
        offset += written
        while first < len(views) and written >= views[first].nbytes:
            written -= views[first].nbytes
            first += 1
        if written:
            views[first] = views[first][written:]


def _sync_folder(path: str) -> None:
    fd = os.open(path, _FOLDER)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_new(leaf: str, folder: int, data: Buffer, *, sync: bool) -> None:
    """A new file, whole; nothing of it stays after an exception."""
    view = _as_bytes(data)
    fd = os.open(leaf, _CREATE, 0o666, dir_fd=folder)
    try:
        try:
            _write_at(fd, [view] if view.nbytes else [], 0)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(leaf, dir_fd=folder)
        raise


def _link(temporary: str, leaf: str, folder: int) -> bool:
    """Give a whole file its name, exclusively; False where the file system has no hard links."""
    try:
        os.link(temporary, leaf, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        # Over a network, a repeated request finds what the first one, whose answer was lost, has made.
        if os.stat(temporary, dir_fd=folder).st_nlink != 2:
            raise
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            return False
        raise
    return True
