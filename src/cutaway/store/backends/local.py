"""Archives in a local folder.

Files are read with pread, not mapped: access to a truncated mapping kills the process. Only large activations are
mapped, from sealed segments, which no longer change. Every folder on the path is opened without following links, so a
link that leads out of the archive is detected even if it is created concurrently.
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
from cutaway.store.backends.entry_names import is_allowed, split_name
from cutaway.store.backends.file_handles import FILE_HANDLES, FileHandle

if TYPE_CHECKING:
    from typing_extensions import Buffer

_TEMPORARY = ".tmp-"
# POSIX guarantees 16, Linux and macOS have 1024; pwritev fails with EINVAL beyond it.
_IOV_MAX = 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe in a hostile archive would otherwise wait for a writer, forever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Linux reports a link under O_NOFOLLOW as ELOOP, FreeBSD as EMLINK, O_DIRECTORY as ENOTDIR.
_LINK_ERRORS = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)
_NO_HARD_LINKS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK)


class LocalBackend:
    """A folder; it may not exist yet."""

    def __init__(self, path: str) -> None:
        self._root = os.path.abspath(path)
        self.url = self._root

    def __repr__(self) -> str:
        return f"LocalBackend({self._root!r})"

    def names(self, folder: str = "") -> list[str]:
        parts = split_name(folder) if folder else ()
        with self._full_path_errors(folder):
            try:
                with self._folder(parts) as fd:
                    names = os.listdir(fd)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(name for name in names if is_allowed(name) and not name.startswith(_TEMPORARY))

    def size(self, name: str) -> int:
        return self._file(name)[1].st_size

    def read(self, name: str, start: int, n: int) -> bytes:
        if start < 0 or n < 0:
            raise InputError(f"cannot read {n} bytes from offset {start}: neither may be negative")
        try:
            return self._read(name, start, n)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            FILE_HANDLES.drop((self._root, name))  # NFS: another machine replaced the file
            return self._read(name, start, n)

    def map(self, name: str, start: int, n: int) -> memoryview:
        file, status = self._file(name)
        n = min(n, status.st_size - start)
        if n <= 0:
            return memoryview(b"")
        # mmap accepts only offsets that are multiples of the page size.
        skipped = start % mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(file.fd, n + skipped, access=mmap.ACCESS_READ, offset=start - skipped)
        return memoryview(mapped)[skipped:]

    def put(self, name: str, data: Buffer, *, new: bool = False, sync: bool = True) -> None:
        *folders, leaf = split_name(name)
        temporary = _TEMPORARY + token_hex(8)
        with self._full_path_errors(name), self._folder(folders, make=True) as folder:
            try:
                _write_new(temporary, folder, data, sync=sync)
                if not new:
                    os.replace(temporary, leaf, src_dir_fd=folder, dst_dir_fd=folder)
                # A hard link fails if the name exists, which a rename does not: this is what makes a lease exclusive.
                elif not _link(temporary, leaf, folder):
                    _write_new(leaf, folder, data, sync=sync)
            finally:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
            if sync:
                os.fsync(folder)

    def append(self, name: str) -> LocalAppender:
        *folders, leaf = split_name(name)
        with self._full_path_errors(name), self._folder(folders, make=True) as folder:
            return LocalAppender(os.open(leaf, _CREATE, 0o666, dir_fd=folder), f"{self._root}/{name}")

    def rename(self, old: str, new: str, *, sync: bool = False) -> None:
        *old_folders, old_leaf = split_name(old)
        *new_folders, new_leaf = split_name(new)
        with self._full_path_errors(old), self._folder(old_folders) as source, self._folder(new_folders) as target:
            # Checked by hand: rename() replaces an existing file silently, and sealed files are never replaced.
            os.stat(old_leaf, dir_fd=source, follow_symlinks=False)
            with suppress(FileNotFoundError):
                os.stat(new_leaf, dir_fd=target, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, f"already exists; {old!r} is unchanged", f"{self._root}/{new}")
            os.rename(old_leaf, new_leaf, src_dir_fd=source, dst_dir_fd=target)
            if sync:
                os.fsync(target)
        FILE_HANDLES.drop((self._root, old))

    def remove(self, name: str) -> None:
        *folders, leaf = split_name(name)
        with self._full_path_errors(name), self._folder(folders) as folder:
            os.unlink(leaf, dir_fd=folder)
        FILE_HANDLES.drop((self._root, name))

    def _read(self, name: str, start: int, n: int) -> bytes:
        file, status = self._file(name)
        n = min(n, status.st_size - start)  # bounds the allocation if the index has a wrong length
        if n <= 0:
            return b""
        data = os.pread(file.fd, n, start)
        if len(data) == n:
            return data
        pieces = [data]
        while pieces[-1] and n > (done := sum(map(len, pieces))):
            pieces.append(os.pread(file.fd, n - done, start + done))
        return b"".join(pieces)

    def _file(self, name: str) -> tuple[FileHandle, os.stat_result]:
        """A descriptor of the file that has this name now, and its status."""
        key = (self._root, name)
        file = FILE_HANDLES.find(key)
        if file is not None:  # the name was validated when the file was opened
            with suppress(OSError):
                status = os.stat(f"{self._root}/{name}")
                # An inode number is not reused while the file is open, so equality proves it is the same file.
                if status.st_ino == file.inode and status.st_dev == file.device:
                    return file, status
            FILE_HANDLES.drop(key)
        parts = split_name(name)
        with self._full_path_errors(name):
            try:
                fd = self._open(parts)
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
                # Too many open files: the cache holds some that can be reopened.
                FILE_HANDLES.clear()
                fd = self._open(parts)
        file = FileHandle(fd)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError(f"{self._root}/{name} is not a plain file and was not read")
        file.inode, file.device = status.st_ino, status.st_dev
        FILE_HANDLES.keep(key, file)
        return file, status

    def _open(self, parts: Sequence[str], *, is_resolved: bool = False) -> int:
        try:
            with self._folder(parts[:-1]) as folder:
                return os.open(parts[-1], _READ, dir_fd=folder)
        except NotADirectoryError as error:
            raise FileNotFoundError(errno.ENOENT, "a parent folder is a file") from error
        except OSError as error:
            if error.errno not in _LINK_ERRORS:
                raise
            if is_resolved:
                raise DamagedError(f"{self._root}/{'/'.join(parts)} is a broken link") from error
        return self._open(self._resolve_links(parts), is_resolved=True)

    @contextmanager
    def _folder(self, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
        try:
            fd = self._descend(parts, make=make)
        except OSError as error:
            if error.errno not in _LINK_ERRORS:
                raise
            fd = self._descend(self._resolve_links(parts), make=make)
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
        except FileExistsError:  # its message would read as "the file exists already"
            raise NotADirectoryError(errno.ENOTDIR, "is a file, not a folder", self._root) from None

    def _resolve_links(self, parts: Sequence[str]) -> tuple[str, ...]:
        """The same path with links resolved; DamagedError if it leaves the archive."""
        root = os.path.realpath(self._root)
        path = os.path.join(self._root, *parts)
        below = os.path.relpath(os.path.realpath(path), root)
        if below.split("/")[0] == "..":
            raise DamagedError(f"{path} is a link out of the archive and was not followed")
        return () if below == "." else tuple(below.split("/"))

    @contextmanager
    def _full_path_errors(self, name: str) -> Iterator[None]:
        """Put the full path into OSErrors, which otherwise name only the last part."""
        try:
            yield
        except OSError as error:
            if error.filename2 is not None or not os.path.isabs(error.filename or ""):
                error.filename, error.filename2 = f"{self._root}/{name}", None
            raise


class LocalAppender:
    """A growing file. Every write has an explicit offset: a failed one leaves neither a hole nor a misplaced byte."""

    def __init__(self, fd: int, path: str) -> None:
        self.size = 0
        self._fd = fd
        self._path = path
        self._pid = os.getpid()
        self._is_name_synced = False
        self._reach = 0
        """Upper bound of the bytes written; exceeds `size` only if truncating failed."""

    def write(self, parts: Sequence[Buffer]) -> int:
        fd = self._open()
        views = [view for view in map(_as_bytes, parts) if view.nbytes]
        start, stop = self.size, self.size + sum(view.nbytes for view in views)
        self._cut()
        # Noted before the write: after a failure, these bytes may exist behind the end and must be cut off.
        self._reach = max(self._reach, stop)
        try:
            _write_at(fd, views, start)
        except BaseException:
            self._cut()
            raise
        self.size = stop
        self._cut()
        # The bytes of a deleted file are gone when it is closed: a write that nobody can read has failed. (0.4 µs)
        if os.fstat(fd).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "was deleted while it was being written", self._path)
        return start

    def patch(self, offset: int, data: Buffer) -> None:
        view = _as_bytes(data)
        if offset < 0 or offset + view.nbytes > self.size:
            raise InputError(f"bytes {offset}–{offset + view.nbytes} are not written yet: the file has {self.size}")
        _write_at(self._open(), [view] if view.nbytes else [], offset)

    def sync(self) -> None:
        os.fsync(self._open())
        # Syncing a file does not make its name durable; on Linux that needs an fsync of the folder, once.
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
        try:
            self.close()
        except Exception:  # at exit, modules are gone; Python would print whatever is raised here
            pass

    def _open(self) -> int:
        if self._fd < 0:
            raise ValueError(f"{self._path} is closed")
        if self._pid != os.getpid():
            raise ValueError(f"{self._path} belongs to process {self._pid}; its forked children cannot write to it")
        return self._fd

    def _cut(self) -> None:
        # A child forked during a write must not truncate what its parent is writing.
        if self._reach > self.size and self._pid == os.getpid():
            with suppress(OSError):
                os.ftruncate(self._fd, self.size)
                self._reach = self.size


def _as_bytes(data: Buffer) -> memoryview:
    # memoryview.cast fails for complex numbers and empty arrays; NumPy takes every contiguous buffer.
    return np.frombuffer(memoryview(data), dtype=np.uint8).data


def _write_at(fd: int, views: list[memoryview], offset: int) -> None:
    first = 0
    while first < len(views):
        written = os.pwritev(fd, views[first : first + _IOV_MAX], offset)
        # Without this check, a file system that accepts nothing would make this an endless loop.
        if written == 0:
            raise OSError(errno.EIO, "the file accepts no more bytes")
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
    """Write a complete new file; remove it after an exception."""
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
    """Name a complete file, exclusively; False if the file system has no hard links."""
    try:
        os.link(temporary, leaf, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        # NFS: a retried request finds the link that the first one made if its reply was lost.
        if os.stat(temporary, dir_fd=folder).st_nlink != 2:
            raise
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            return False
        raise
    return True
