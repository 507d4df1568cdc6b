"""Archives in a folder: the contract, and what only real file systems do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.store.contract import BackendContract

from cutaway.core.errors import DamagedError
from cutaway.store.backends import file_handles
from cutaway.store.backends.backend import Backend, MappingBackend
from cutaway.store.backends.local import LocalBackend


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    return LocalBackend(str(tmp_path / "not" / "yet"))


class TestLocal(BackendContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        return LocalBackend(str(tmp_path / "not" / "yet"))


class TestLocalWithoutHardLinks(BackendContract):
    """As on FAT, and on some network file systems."""

    @pytest.fixture
    def backend(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(errno.EPERM, "no hard links here")

        monkeypatch.setattr(os, "link", refuse)
        return LocalBackend(str(tmp_path / "run"))


def files(backend: Backend) -> list[str]:
    return sorted(os.listdir(backend.url))


def in_a_process(code: str, *args: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_root_that_is_a_file_is_not_mistaken_for_a_lost_race(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    backend = LocalBackend(str(tmp_path / "x"))
    assert backend.names() == []
    with pytest.raises(NotADirectoryError, match="is a file"):
        backend.put("a", b"", new=True)
    assert (tmp_path / "x").read_text() == "mine"


def test_the_opened_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    LocalBackend(str(tmp_path / "link")).put("r/x", b"1")
    assert (tmp_path / "real/r/x").read_bytes() == b"1"
    assert LocalBackend(str(tmp_path / "link")).read("r/x", 0, 1) == b"1"


def test_links_that_lead_out_are_refused_and_links_that_stay_are_followed(backend: Backend, tmp_path: Path) -> None:
    backend.put("rank-0/x", b"inside")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("secret")
    root = Path(backend.url)
    (root / "file").symlink_to(outside / "x")
    (root / "relative").symlink_to("../../outside/x")
    (root / "rank-1").symlink_to(outside)
    (root / "chain").symlink_to("file")
    (root / "loop").symlink_to("loop")
    (root / "gone").symlink_to("nowhere")
    (root / "good").symlink_to("rank-0/x")
    (root / "rank-2").symlink_to("rank-0")
    for name in ("file", "relative", "rank-1/x", "chain"):
        for ask in (lambda: backend.read(name, 0, 9), lambda: backend.size(name)):
            with pytest.raises(DamagedError, match="link out of the archive"):
                ask()
    with pytest.raises(DamagedError, match="link out of the archive"):
        backend.names("rank-1")
    for write in (
        lambda: backend.put("rank-1/y", b"1"),
        lambda: backend.append("rank-1/y"),
        lambda: backend.remove("rank-1/x"),
        lambda: backend.rename("rank-1/x", "stolen"),
        lambda: backend.rename("rank-0/x", "rank-1/y"),
    ):
        with pytest.raises(DamagedError, match="link out of the archive"):
            write()
    assert os.listdir(outside) == ["x"]
    with pytest.raises(DamagedError, match="broken link"):
        backend.read("loop", 0, 9)
    with pytest.raises(FileNotFoundError):
        backend.read("gone", 0, 9)
    assert backend.read("good", 0, 9) == backend.read("rank-2/x", 0, 9) == b"inside"
    assert backend.names("rank-2") == ["x"]


def test_a_file_that_becomes_a_link_out_is_refused_although_it_was_open(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    backend.put("x", b"inside")
    assert backend.read("x", 0, 9) == b"inside"
    os.unlink(f"{backend.url}/x")
    os.symlink(tmp_path / "secret", f"{backend.url}/x")
    with pytest.raises(DamagedError, match="link out of the archive"):
        backend.read("x", 0, 9)


def test_putting_replaces_a_link_and_not_what_it_leads_to(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    backend.put("a", b"")
    os.symlink(tmp_path / "mine", f"{backend.url}/x")
    with pytest.raises(FileExistsError):
        backend.append("x")
    with pytest.raises(FileExistsError):
        backend.put("x", b"2", new=True)
    backend.put("x", b"2")
    assert (tmp_path / "mine").read_text() == "mine"
    assert backend.read("x", 0, 9) == b"2"


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket"])
def test_what_is_no_plain_file_never_blocks(backend: Backend, kind: str, tmp_path: Path) -> None:
    backend.put("a", b"")
    path = f"{backend.url}/0001.index"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    else:
        os.mknod(path, 0o140600)
    # A call that blocks here never returns: nobody writes into the pipe.
    with pytest.raises((DamagedError, OSError)):
        backend.read("0001.index", 0, 9)
    with pytest.raises((DamagedError, OSError)):
        backend.size("0001.index")


def test_names_that_cannot_be_asked_for_are_not_listed(backend: Backend) -> None:
    backend.put("good", b"")
    for name in (b"back\\slash", b"not-utf8-\xff", b"new\nline", b".tmp-left-by-a-kill"):
        with open(backend.url.encode() + b"/" + name, "wb"):
            pass
    assert backend.names() == ["good"]


def test_files_replaced_behind_our_back_are_noticed(backend: Backend) -> None:
    for n in range(200):
        beside, path = f"{backend.url}/beside", f"{backend.url}/x"
        os.makedirs(backend.url, exist_ok=True)
        if n % 2:
            os.unlink(path)
            with pytest.raises(FileNotFoundError):
                backend.read("x", 0, 9)
        with open(beside, "w") as file:
            file.write(str(n))
        os.replace(beside, path)
        assert backend.read("x", 0, 9) == str(n).encode()


def test_a_file_cut_short_gives_fewer_bytes(backend: Backend) -> None:
    backend.put("x", bytes(1 << 16))
    assert len(backend.read("x", 0, 1 << 16)) == 1 << 16
    os.truncate(f"{backend.url}/x", 5000)
    assert backend.read("x", 0, 1 << 16) == bytes(5000)
    assert backend.read("x", 6000, 10) == b""


def test_few_descriptors_are_held_and_none_leak(backend: Backend) -> None:
    for n in range(200):
        backend.put(f"{n % 7}/{n}", b"1", sync=False)
    for _ in range(2):
        for n in range(200):
            backend.read(f"{n % 7}/{n}", 0, 1)
        for wrong in ("none", "0"):
            with pytest.raises((FileNotFoundError, DamagedError)):
                backend.read(wrong, 0, 1)
    held = [link for link in map(_target, os.listdir("/proc/self/fd")) if link.startswith(backend.url)]
    assert 0 < len(held) <= 64
    file_handles.FILE_HANDLES.clear()
    assert not [link for link in map(_target, os.listdir("/proc/self/fd")) if link.startswith(backend.url)]


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:
        return ""


def test_where_no_descriptor_is_left_the_held_ones_are_given_up(backend: Backend) -> None:
    for n in range(40):
        backend.put(f"{n}", b"%d" % n, sync=False)
    code = (
        "import resource, sys; from cutaway.store.backends.local import LocalBackend\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)); backend = LocalBackend(sys.argv[1])\n"
        "print(all(backend.read(str(n), 0, 9) == b'%d' % n for n in range(40)))"
    )
    assert in_a_process(code, backend.url) == "True\n"


def test_a_forked_child_reads_though_a_thread_held_the_lock(backend: Backend) -> None:
    backend.put("x", b"1")
    with file_handles.FILE_HANDLES._locked():
        pid = os.fork()
        if pid == 0:
            os._exit(0 if backend.read("x", 0, 1) == b"1" else 1)
    end = time.monotonic() + 10
    while not (done := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.01)
    if not done[0]:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert done == (pid, 0)


def test_short_writes_are_gone_on_with(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.pwritev, []

    def few(fd: int, parts: list[memoryview], offset: int) -> int:
        calls.append(len(parts))
        return real(fd, [parts[0][:3]], offset)

    monkeypatch.setattr(os, "pwritev", few)
    file = backend.append("x")
    file.write([b"0123456789", b"", b"abc", b"defg"])
    assert backend.read("x", 0, 99) == b"0123456789abcdefg"
    assert calls == [3, 3, 3, 3, 2, 1, 1]
    backend.put("y", b"0123456789")
    assert backend.read("y", 0, 99) == b"0123456789"


def fail_after(monkeypatch: pytest.MonkeyPatch, n: int, code: int, *, truncate: bool = True) -> None:
    """The disk takes n bytes more, then fails; truncating works or does not."""
    real, left = os.pwritev, [n]

    def write(fd: int, parts: list[memoryview], offset: int) -> int:
        data = b"".join(parts)[: left[0]]
        if not data:
            raise OSError(code, os.strerror(code))
        left[0] -= len(data)
        return real(fd, [data], offset)

    def refuse(fd: int, size: int) -> None:
        raise OSError(errno.EIO, "cannot cut")

    monkeypatch.setattr(os, "pwritev", write)
    if not truncate:
        monkeypatch.setattr(os, "ftruncate", refuse)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EFBIG])
@pytest.mark.parametrize("taken", [0, 1, 5, 9])
def test_a_failed_write_is_cut_back(backend: Backend, monkeypatch: pytest.MonkeyPatch, code: int, taken: int) -> None:
    file = backend.append("x")
    file.write([b"good"])
    with monkeypatch.context() as patch:
        fail_after(patch, taken, code)
        with pytest.raises(OSError, match=os.strerror(code)):
            file.write([b"01234", b"56789"])
        assert (file.size, backend.size("x")) == (4, 4)
    assert file.write([b"after"]) == 4
    assert backend.read("x", 0, 99) == b"goodafter"


def test_where_cutting_back_fails_too_the_next_write_goes_to_the_right_place(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = backend.append("x")
    file.write([b"good"])
    with monkeypatch.context() as patch:
        fail_after(patch, 8, errno.ENOSPC, truncate=False)
        with pytest.raises(OSError, match="No space"):
            file.write([b"0123456789"])
    assert (file.size, backend.size("x")) == (4, 12)
    with monkeypatch.context() as patch:
        fail_after(patch, 99, errno.EIO, truncate=False)
        assert file.write([b"ab"]) == 4
        assert backend.read("x", 0, 6) == b"goodab"
    assert file.write([b"c"]) == 6
    assert backend.read("x", 0, 99) == b"goodabc"


def test_closing_tries_once_more_to_cut_back(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    file = backend.append("x")
    file.write([b"good"])
    with monkeypatch.context() as patch:
        fail_after(patch, 8, errno.ENOSPC, truncate=False)
        with pytest.raises(OSError, match="No space"):
            file.write([b"0123456789"])
    file.close()
    assert backend.read("x", 0, 99) == b"good"


def test_a_real_limit_on_the_size_of_a_file(backend: Backend) -> None:
    code = (
        "import errno, resource, sys; from cutaway.store.backends.local import LocalBackend\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "backend = LocalBackend(sys.argv[1]); file = backend.append('x'); file.write([b'a' * 6000])\n"
        "for ask in (lambda: file.write([b'b' * 3000, b'c' * 3000]), lambda: backend.put('y', b'd' * 20_000),\n"
        "            lambda: backend.put('z', b'd' * 20_000, new=True)):\n"
        "    try: ask()\n"
        "    except OSError as error: print(errno.errorcode[error.errno], file.size)\n"
        "print(file.write([b'e' * 4000]))"
    )
    assert in_a_process(code, backend.url) == "EFBIG 6000\n" * 3 + "6000\n"
    assert backend.read("x", 0, 99_999) == b"a" * 6000 + b"e" * 4000
    assert files(backend) == ["x"]


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("broken", ["pwritev", "fsync", "replace", "link", "close"])
def test_a_failed_put_leaves_the_old_file_and_nothing_else(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, broken: str, new: bool
) -> None:
    backend.put("old", b"old")
    name = "fresh" if new else "old"
    real, calls = getattr(os, broken), []

    def fail_once(*args: object, **kwargs: object) -> object:
        calls.append(broken)
        if len(calls) > 1:
            return real(*args, **kwargs)
        if broken == "close":
            real(*args)
        raise KeyboardInterrupt if broken == "pwritev" else OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        if broken in ("replace", "link") and (broken == "link") != new:
            pytest.skip("not on this way")
        patch.setattr(os, broken, fail_once)
        with pytest.raises((OSError, KeyboardInterrupt)):
            backend.put(name, b"new", new=new)
    assert calls
    assert files(backend) == ["old"]
    assert backend.read("old", 0, 9) == b"old"


def test_a_child_forked_in_the_midst_of_a_write_cuts_nothing(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    file = backend.append("x")
    file.write([b"good"])
    real = os.pwritev

    def fork_after(fd: int, parts: list[memoryview], offset: int) -> int:
        written = real(fd, parts, offset)
        monkeypatch.setattr(os, "pwritev", real)
        pid = os.fork()
        if pid == 0:
            try:
                file.write([b"child"])
            except ValueError:
                file.close()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        return written

    monkeypatch.setattr(os, "pwritev", fork_after)
    file.write([b"more"])
    assert backend.read("x", 0, 99) == b"goodmore"


def test_errors_name_the_whole_path(backend: Backend) -> None:
    backend.put("rank-0/x", b"1")
    for ask in (
        lambda: backend.read("rank-0/none", 0, 1),
        lambda: backend.remove("rank-0/none"),
        lambda: backend.append("rank-0/x"),
        lambda: backend.put("rank-0/x", b"", new=True),
    ):
        with pytest.raises(OSError, match=f"{backend.url}/rank-0/"):
            ask()


def test_new_files_have_the_usual_rights(backend: Backend) -> None:
    before = os.umask(0o027)
    try:
        backend.put("a", b"")
        backend.put("b", b"", new=True)
        backend.append("c").close()
    finally:
        os.umask(before)
    assert [os.stat(f"{backend.url}/{name}").st_mode & 0o777 for name in "abc"] == [0o640] * 3


def test_a_file_is_opened_once_for_many_reads(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    backend.put("rank-0/x", bytes(1 << 20))
    real, opened = os.open, []
    monkeypatch.setattr(os, "open", lambda *args, **kwargs: opened.append(args[0]) or real(*args, **kwargs))
    for n in range(500):
        assert len(backend.read("rank-0/x", n * 1000, 16_384)) == 16_384
    assert opened.count("x") == 1
    assert len(opened) <= 3, "the folders on the way, and the file"


def test_a_process_that_ends_with_open_files_says_nothing(backend: Backend) -> None:
    code = (
        "import sys; from cutaway.store.backends.local import LocalBackend\n"
        "backend = LocalBackend(sys.argv[1]); file = backend.append('x'); file.write([b'1'])\n"
        "print(backend.read('x', 0, 1))"
    )
    assert in_a_process(code, backend.url) == "b'1'\n"


def test_any_part_of_a_file_is_mapped_as_it_would_be_read(backend: Backend) -> None:
    assert isinstance(backend, MappingBackend)
    data = os.urandom(20_000)
    backend.put("rank-0/x", data)
    for start, n in [(0, 1), (1, 9), (4095, 2), (4096, 4096), (8191, 11_000), (19_990, 500), (20_000, 5), (7, 0)]:
        found = backend.map("rank-0/x", start, n)
        assert bytes(found) == data[start : start + n]
        assert found.readonly
    with pytest.raises(FileNotFoundError):
        backend.map("rank-0/none", 0, 1)
    os.symlink("/etc/passwd", f"{backend.url}/rank-0/link")
    with pytest.raises(DamagedError, match="link out of the archive"):
        backend.map("rank-0/link", 0, 1)


def test_what_was_mapped_stays_when_the_file_gets_another_name_or_goes(backend: Backend) -> None:
    assert isinstance(backend, MappingBackend)
    backend.put("rank-0/x", b"0123456789")
    found = backend.map("rank-0/x", 2, 5)
    backend.rename("rank-0/x", "rank-0/y")
    backend.remove("rank-0/y")
    assert bytes(found) == b"23456"
