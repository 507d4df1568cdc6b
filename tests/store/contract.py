"""What every backend must do: subclass `BackendContract` and give it a `backend` fixture."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutaway.core.errors import DamagedError, InputError
from cutaway.store.backends.backend import Backend, backend_for

WRONG_NAMES = [
    "",
    "/etc/passwd",
    "..",
    "../x",
    "a/../../x",
    "a/..",
    ".",
    "./a",
    "a//b",
    "a/",
    "a\\b",
    "..\\x",
    "a\0b",
    "a\nb",
    "\udc80",
    "x" * 256,
    "a/" * 600 + "a",
    None,
    7,
    b"bytes",
]

# One method serves all subclasses, and each example cleans up after itself.
SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]


class BackendContract:
    """An empty `backend` is made anew for each test by the fixture of the subclass."""

    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError

    def test_its_url_leads_to_the_same_files(self, backend: Backend) -> None:
        backend.put("rank-0/a", b"1")
        assert backend_for(backend.url).read("rank-0/a", 0, 9) == b"1"
        assert backend_for(backend.url).url == backend.url

    @pytest.mark.parametrize("name", WRONG_NAMES, ids=lambda name: repr(name)[:20])
    def test_a_name_that_could_lead_elsewhere_is_refused(self, backend: Backend, name: str) -> None:
        backend.put("there", b"1")
        for ask in (
            lambda: backend.size(name),
            lambda: backend.read(name, 0, 1),
            lambda: backend.put(name, b""),
            lambda: backend.put(name, b"", new=True),
            lambda: backend.append(name),
            lambda: backend.remove(name),
            lambda: backend.rename(name, "x"),
            lambda: backend.rename("there", name),
        ):
            with pytest.raises(InputError, match="archive"):
                ask()
        if name:
            with pytest.raises(InputError, match="archive"):
                backend.names(name)
        assert backend.names() == ["there"]

    def test_names_are_the_direct_children_in_order(self, backend: Backend) -> None:
        assert backend.names() == backend.names("rank-0") == []
        for name in ("rank-0/b", "rank-0/a", "rank-10/a", "rank-0/deep/er/c", "z", "rank-0.txt"):
            backend.put(name, b"")
        assert backend.names() == sorted(["rank-0", "rank-0.txt", "rank-10", "z"])
        assert backend.names("rank-0") == ["a", "b", "deep"]
        assert backend.names("rank-0/deep") == ["er"]
        assert backend.names("rank") == backend.names("z") == []

    def test_what_is_not_there_is_not_found(self, backend: Backend) -> None:
        backend.put("file", b"1")
        for name in ("a", "b/c", "file/below"):
            with pytest.raises(FileNotFoundError):
                backend.size(name)
            with pytest.raises(FileNotFoundError):
                backend.read(name, 0, 1)
        for name in ("a", "b/c"):
            with pytest.raises(FileNotFoundError):
                backend.remove(name)
            with pytest.raises(FileNotFoundError):
                backend.rename(name, "d")
        assert backend.names() == ["file"]

    def test_a_folder_is_no_file(self, backend: Backend) -> None:
        backend.put("folder/file", b"1")
        with pytest.raises((FileNotFoundError, DamagedError)):
            backend.read("folder", 0, 1)
        with pytest.raises((FileNotFoundError, DamagedError)):
            backend.size("folder")
        with pytest.raises(OSError, match="folder"):
            backend.put("folder", b"2")
        with pytest.raises(FileExistsError):
            backend.append("folder")
        with pytest.raises(OSError, match="file"):
            backend.put("folder/file/below", b"2")
        assert backend.read("folder/file", 0, 9) == b"1"

    @settings(max_examples=60, deadline=None, suppress_health_check=SHARED)
    @given(data=st.binary(max_size=40), start=st.integers(0, 50), n=st.integers(0, 2**70))
    def test_a_read_is_a_slice(self, backend: Backend, data: bytes, start: int, n: int) -> None:
        backend.put("x", data)
        assert backend.size("x") == len(data)
        assert backend.read("x", start, n) == data[start : start + n]

    def test_negative_places_are_refused(self, backend: Backend) -> None:
        backend.put("x", b"abc")
        for start, n in ((-1, 1), (0, -1)):
            with pytest.raises(InputError, match="negative"):
                backend.read("x", start, n)

    def test_put_replaces_and_new_does_not(self, backend: Backend) -> None:
        backend.put("x", b"longer than the next")
        assert backend.read("x", 0, 99) == b"longer than the next"
        backend.put("x", b"second", sync=False)
        assert backend.read("x", 0, 99) == b"second"
        with pytest.raises(FileExistsError):
            backend.put("x", b"third", new=True)
        assert backend.read("x", 0, 99) == b"second"
        assert backend.names() == ["x"]

    def test_of_many_who_put_a_new_file_one_wins(self, backend: Backend) -> None:
        for round_ in range(10):
            start = threading.Barrier(8)

            def attempt(who: int) -> int | None:
                start.wait()
                try:
                    backend.put(f"r/{round_}", bytes([who]) * 100, new=True, sync=False)
                except FileExistsError:
                    return None
                return who

            with ThreadPoolExecutor(8) as pool:
                winners = [who for who in pool.map(attempt, range(8)) if who is not None]
            assert len(winners) == 1
            assert backend.read(f"r/{round_}", 0, 999) == bytes(winners) * 100

    def test_a_reader_never_sees_a_half_put(self, backend: Backend) -> None:
        backend.put("x", bytes(5000))
        stop = threading.Event()

        def rewrite() -> None:
            n = 0
            while not stop.is_set():
                n = n % 250 + 1
                backend.put("x", bytes([n]) * 5000, sync=False)

        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(rewrite)
            try:
                for _ in range(400):
                    data = backend.read("x", 0, 9999)
                    assert len(data) == 5000
                    assert len(set(data)) == 1
            finally:
                stop.set()
            done.result()

    def test_appended_parts_lie_back_to_back(self, backend: Backend) -> None:
        file = backend.append("rank-0/x.part")
        assert file.size == backend.size("rank-0/x.part") == 0
        grid = np.arange(6, dtype="<f4").reshape(2, 3)
        parts = [b"ab", bytearray(b"c"), memoryview(b"de"), b"", grid, np.zeros((0, 3)), np.ones(2, "c8")]
        assert file.write(parts) == 0
        assert file.write([]) == file.size == 5 + 24 + 16
        assert file.write([b"z"]) == 45
        # What was written can be read at once, before the file is closed.
        assert backend.read("rank-0/x.part", 0, 99) == b"abcde" + grid.tobytes() + np.ones(2, "c8").tobytes() + b"z"
        file.sync()
        file.close()
        file.close()
        assert backend.size("rank-0/x.part") == file.size == 46

    @settings(max_examples=25, deadline=None, suppress_health_check=SHARED)
    @given(st.lists(st.lists(st.binary(max_size=9), max_size=6), max_size=6))
    def test_appending_joins(self, backend: Backend, writes: list[list[bytes]]) -> None:
        file = backend.append("x")
        whole = b""
        for parts in writes:
            assert file.write(parts) == len(whole)
            whole += b"".join(parts)
            assert backend.read("x", 0, 999) == whole
        file.close()
        backend.remove("x")

    def test_more_parts_than_one_call_of_the_system_takes(self, backend: Backend) -> None:
        parts = [str(n).encode() for n in range(5000)]
        file = backend.append("x")
        file.write(parts)
        file.close()
        assert backend.read("x", 0, 1 << 20) == b"".join(parts)

    def test_appending_begins_a_new_file_only(self, backend: Backend) -> None:
        backend.put("x", b"kept")
        with pytest.raises(FileExistsError):
            backend.append("x")
        assert backend.read("x", 0, 9) == b"kept"

    def test_a_patch_changes_what_was_written_and_nothing_else(self, backend: Backend) -> None:
        file = backend.append("x")
        file.write([b"0123456789"])
        file.patch(2, b"ab")
        file.patch(10, b"")
        assert file.write([b"end"]) == 10
        for offset, data in ((12, b"xx"), (-1, b"x"), (99, b"x")):
            with pytest.raises(InputError, match="not written"):
                file.patch(offset, data)
        assert backend.read("x", 0, 99) == b"01ab456789end"

    def test_a_closed_file_takes_nothing(self, backend: Backend) -> None:
        file = backend.append("x")
        file.write([b"1"])
        file.close()
        for ask in (lambda: file.write([b"2"]), lambda: file.patch(0, b"2"), file.sync):
            with pytest.raises(ValueError, match="closed"):
                ask()
        assert backend.read("x", 0, 9) == b"1"

    def test_a_part_that_is_no_bytes_leaves_the_file_as_it_was(self, backend: Backend) -> None:
        file = backend.append("x")
        file.write([b"1"])
        for wrong in ("text", None, np.arange(9)[::2]):
            with pytest.raises((TypeError, ValueError, BufferError)):
                file.write([b"2", wrong])
        assert (file.size, file.write([b"3"]), backend.read("x", 0, 9)) == (1, 1, b"13")

    def test_a_renamed_file_is_found_under_its_new_name_and_still_grows(self, backend: Backend) -> None:
        file = backend.append("r/x.part")
        file.write([b"12"])
        assert backend.read("r/x.part", 0, 9) == b"12"
        backend.rename("r/x.part", "r/x.safetensors")
        file.write([b"3"])
        assert backend.read("r/x.safetensors", 0, 9) == b"123"
        with pytest.raises(FileNotFoundError):
            backend.read("r/x.part", 0, 9)
        assert backend.names("r") == ["x.safetensors"]

    def test_renaming_never_overwrites(self, backend: Backend) -> None:
        backend.put("a", b"1")
        backend.put("b", b"2")
        with pytest.raises(FileExistsError):
            backend.rename("a", "b")
        assert (backend.read("a", 0, 9), backend.read("b", 0, 9)) == (b"1", b"2")

    def test_a_name_that_is_removed_and_made_again_has_the_new_bytes(self, backend: Backend) -> None:
        for round_ in range(20):
            data = bytes([round_]) * 10
            file = backend.append("x")
            file.write([data])
            file.close()
            assert backend.read("x", 0, 99) == data
            backend.remove("x")
            with pytest.raises(FileNotFoundError):
                backend.read("x", 0, 99)
        backend.put("y", b"other")
        backend.put("x", b"before")
        assert backend.read("x", 0, 99) == b"before"
        backend.remove("x")
        backend.rename("y", "x")
        assert backend.read("x", 0, 99) == b"other"

    def test_many_threads_read_many_files(self, backend: Backend) -> None:
        for n in range(150):
            backend.put(f"f/{n}", n.to_bytes(2, "big") * 50, sync=False)

        def look(seed: int) -> bool:
            order = np.random.default_rng(seed).integers(0, 150, 400)
            return all(backend.read(f"f/{n}", 10, 20) == int(n).to_bytes(2, "big") * 10 for n in order)

        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(look, range(6)))
