"""One writer at a time, and the next one when the last is over."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.core.errors import InputError, LeaseError
from cutaway.store.backends.backend import Backend, backend_for
from cutaway.store.writing import lease as leases
from cutaway.store.writing import processes
from cutaway.store.writing.lease import Lease, state

FOLDER = "rank-0"


@pytest.fixture(params=["local", "memory"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return backend_for(str(tmp_path / "run") if request.param == "local" else f"memory://{uuid4()}")


@pytest.fixture
def local(tmp_path: Path) -> Backend:
    return backend_for(tmp_path / "run")


class Clock:
    """Stands in for the clock while a lease is watched: sleeping takes no time, and can trigger what others do."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for event in [event for event in self.events if event[0] <= self.now]:
            self.events.remove(event)
            event[1]()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(leases, "monotonic", clock.monotonic)
    monkeypatch.setattr(leases, "sleep", clock.sleep)
    return clock


def content(backend: Backend, number: int = 1) -> dict[str, object]:
    return json.loads(backend.read(f"{FOLDER}/{number:04d}.lease", 0, 9999))


def change(backend: Backend, number: int = 1, **to: object) -> None:
    backend.put(f"{FOLDER}/{number:04d}.lease", json.dumps(content(backend, number) | to).encode())


def elsewhere(backend: Backend) -> Lease:
    """A lease as another machine would have written it."""
    lease = Lease.take(backend, FOLDER)
    change(backend, identity="other/boot/pid:[1]", host="other")
    return lease


def child(code: str, *args: str) -> subprocess.Popen[str]:
    head = (
        "import sys, time\n"
        "from cutaway.store.backends.backend import backend_for\n"
        "from cutaway.store.writing.lease import *\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + code, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_sessions_are_numbered_one_after_the_other(backend: Backend) -> None:
    assert state(backend, FOLDER) is None
    for number in (1, 2, 3):
        lease = Lease.take(backend, FOLDER)
        assert lease.number == number
        found = state(backend, FOLDER)
        assert found == leases.LeaseState(number, False, os.uname().nodename, os.getpid(), True, True)
        lease.beat()
        lease.beat()
        assert content(backend, number)["beat"] == 2
        lease.close()
        lease.close()
        found = state(backend, FOLDER)
        assert found is not None
        assert (found.number, found.closed, found.is_alive) == (number, True, False)
    assert backend.names(FOLDER) == ["0001.lease", "0002.lease", "0003.lease"]


def test_ranks_do_not_disturb_each_other(backend: Backend) -> None:
    assert Lease.take(backend, "rank-0").number == Lease.take(backend, "rank-1").number == 1


def test_this_process_cannot_write_twice_at_once(backend: Backend) -> None:
    lease = Lease.take(backend, FOLDER)
    with pytest.raises(LeaseError, match=r"rank-0 is being written by this process. Close it first"):
        Lease.take(backend, FOLDER)
    lease.beat()
    assert Lease.take(backend, FOLDER, force=True).number == 2
    with pytest.raises(LeaseError, match="session 2 has taken over"):
        lease.beat()
    assert content(backend)["beat"] == 1


def test_a_closed_lease_does_not_beat(backend: Backend) -> None:
    lease = Lease.take(backend, FOLDER)
    lease.close()
    with pytest.raises(LeaseError, match="is closed"):
        lease.beat()
    assert content(backend)["closed"] is True


def test_of_two_processes_one_wins_each_number(local: Backend) -> None:
    code = (
        "for line in sys.stdin:\n"
        "    try: lease = Lease.take(backend_for(sys.argv[1]), line.strip()); print('won', lease.number, flush=True)\n"
        "    except LeaseError: print('lost', flush=True)\n"
    )
    racers = [child(code, local.url) for _ in range(2)]
    for round_ in range(20):
        for racer in racers:
            racer.stdin.write(f"rank-{round_}\n")
        for racer in racers:
            racer.stdin.flush()
        answers = [racer.stdout.readline().strip() for racer in racers]
        assert sorted(answers) == ["lost", "won 1"]
    for racer in racers:
        racer.stdin.close()
        assert racer.wait(20) == 0
        racer.stdout.close()


def test_of_many_who_see_the_same_closed_lease_one_wins(backend: Backend) -> None:
    Lease.take(backend, FOLDER).close()
    start, won, lost = threading.Barrier(8), [], []

    def attempt() -> None:
        start.wait()
        try:
            won.append(Lease.take(backend, FOLDER).number)
        except LeaseError as error:
            lost.append(str(error))

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [2]
    assert len(lost) == 7


def test_a_race_lost_at_the_last_moment_is_said(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Lease.take(backend, FOLDER)
    first.close()
    monkeypatch.setattr(leases, "_wait_for_end", lambda *_: backend.put(f"{FOLDER}/0002.lease", b"{}"))
    with pytest.raises(LeaseError, match="another process started session 2"):
        Lease.take(backend, FOLDER)


@pytest.mark.parametrize("is_reaped", [True, False])
def test_a_killed_writer_is_taken_over_at_once(local: Backend, is_reaped: bool, clock: Clock) -> None:
    writer = child("Lease.take(backend_for(sys.argv[1]), 'rank-0'); print('on', flush=True); time.sleep(60)", local.url)
    assert writer.stdout.readline() == "on\n"
    with pytest.raises(LeaseError, match=f"by process {writer.pid} of this machine"):
        Lease.take(local, FOLDER)
    found = state(local, FOLDER)
    assert found is not None
    assert (found.is_alive, found.is_same_machine, found.pid) == (True, True, writer.pid)
    writer.kill()
    if is_reaped:
        writer.wait(10)
    else:  # its parent may never ask how it ended
        while processes._status(writer.pid)[0] != "Z":
            time.sleep(0.01)
    found = state(local, FOLDER)
    assert found is not None
    assert found.is_alive is False
    assert Lease.take(local, FOLDER).number == 2
    assert clock.now == 0
    writer.wait(10)
    writer.stdout.close()
    writer.stdin.close()


def test_a_process_with_the_number_of_a_dead_one_is_not_mistaken_for_it(backend: Backend) -> None:
    Lease.take(backend, FOLDER)
    change(backend, started=processes.start_ticks(os.getpid()) - 1)
    found = state(backend, FOLDER)
    assert found is not None
    assert found.is_alive is False
    assert Lease.take(backend, FOLDER).number == 2


def test_another_machine_that_is_silent_is_taken_over_after_a_while(
    backend: Backend, caplog: pytest.LogCaptureFixture, clock: Clock
) -> None:
    old = elsewhere(backend)
    found = state(backend, FOLDER)
    assert found is not None
    assert (found.is_same_machine, found.is_alive, found.host) == (False, None, "other")
    with caplog.at_level(logging.WARNING):
        assert Lease.take(backend, FOLDER, patience=0.4).number == 2
    assert clock.now == pytest.approx(0.4)
    assert "silent for 0.4 seconds" in caplog.text
    with pytest.raises(LeaseError, match="session 2 has taken over"):
        old.beat()


def test_force_does_not_watch(backend: Backend, clock: Clock) -> None:
    elsewhere(backend)
    assert Lease.take(backend, FOLDER, patience=60, force=True).number == 2
    assert clock.now == 0


@pytest.mark.parametrize("jump", [-1e9, 1e9, None])
def test_another_machine_that_beats_is_left_alone_whatever_the_clock_says(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, jump: float | None, clock: Clock
) -> None:
    elsewhere(backend)
    real, calls, here = time.time, [], threading.current_thread()

    def time_of_day() -> float:
        if threading.current_thread() is not here:
            return real()  # a server of other tests goes on
        if jump is None:
            pytest.fail("the time of day was asked for")
        calls.append(0)
        return real() + jump * len(calls)

    monkeypatch.setattr(time, "time", time_of_day)
    clock.events.append((0.2, lambda: change(backend, beat=1)))
    with pytest.raises(LeaseError, match=r"by process \d+ of 'other', on another machine"):
        Lease.take(backend, FOLDER, patience=4)
    assert 0.2 <= clock.now < 4
    assert backend.names(FOLDER) == ["0001.lease"]


@pytest.mark.parametrize("jump", [-1e9, 1e9])
def test_a_clock_that_jumps_shortens_no_patience(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, jump: float, clock: Clock
) -> None:
    elsewhere(backend)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    Lease.take(backend, FOLDER, patience=0.3)
    assert clock.now == pytest.approx(0.3)


def test_another_machine_that_closes_while_we_watch_is_followed_at_once(backend: Backend, clock: Clock) -> None:
    elsewhere(backend)
    clock.events.append((0.2, lambda: change(backend, closed=True)))
    assert Lease.take(backend, FOLDER, patience=4).number == 2
    assert 0.2 <= clock.now < 4


def test_a_container_or_a_restart_of_the_machine_is_another_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = processes.identity()
    assert mine.startswith(os.uname().nodename)
    assert mine == processes.identity()
    real = os.readlink
    monkeypatch.setattr(os, "readlink", lambda path: "pid:[7]" if "ns/pid" in path else real(path))
    assert processes.identity() != mine


DAMAGED = [
    b"",
    b"garbage",
    b"\xff\xfe",
    b"[" * 60_000,
    b"{}",
    b"null",
    b'{"pid": 1}',
    b"9" * 5000,
    b"x" * 70_000,
]


@pytest.mark.parametrize("raw", DAMAGED, ids=lambda raw: f"{raw[:8]!r}×{len(raw)}")
def test_a_damaged_lease_counts_as_a_silent_one(backend: Backend, raw: bytes, clock: Clock) -> None:
    backend.put(f"{FOLDER}/0007.lease", raw)
    assert state(backend, FOLDER) == leases.LeaseState(7, False, "", None, False, None)
    assert Lease.take(backend, FOLDER, patience=0.1).number == 8
    assert clock.now == pytest.approx(0.1)


@pytest.mark.parametrize("raw", [b"", b"x" * 70_000])
def test_a_damaged_lease_that_changes_is_left_alone(backend: Backend, raw: bytes) -> None:
    backend.put(f"{FOLDER}/0001.lease", raw)
    threading.Timer(0.1, backend.put, [f"{FOLDER}/0001.lease", raw + b"+"]).start()
    with pytest.raises(LeaseError, match="an unreadable lease"):
        Lease.take(backend, FOLDER, patience=4)


@pytest.mark.parametrize(
    "wrong", [{"pid": 0}, {"pid": -1}, {"pid": "1"}, {"pid": 2**40}, {"pid": True}, {"host": 3}, {"closed": 1}]
)
def test_a_lease_with_absurd_content_is_damaged(backend: Backend, wrong: dict[str, object]) -> None:
    Lease.take(backend, FOLDER)
    change(backend, **wrong)
    found = state(backend, FOLDER)
    assert found is not None
    assert (found.pid, found.is_alive) == (None, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([field.name for field in leases.fields(leases._Content)]), JSON))
def test_no_content_of_a_lease_crashes_its_reader(wrong: dict[str, object]) -> None:
    backend = backend_for("memory://lease-content")
    lease = Lease.take(backend, FOLDER, force=True)
    change(backend, lease.number, **wrong)
    found = state(backend, FOLDER)
    assert found is not None
    assert found.is_alive in (True, False, None)


def test_a_huge_lease_is_not_read_whole(local: Backend) -> None:
    Lease.take(local, FOLDER).close()
    path = f"{local.url}/{FOLDER}/0002.lease"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    assert state(local, FOLDER) == leases.LeaseState(2, False, "", None, False, None)
    assert Lease.take(local, FOLDER, patience=0.1).number == 3


def test_a_lease_that_is_no_file_is_damaged(local: Backend) -> None:
    Lease.take(local, FOLDER).close()
    os.mkfifo(f"{local.url}/{FOLDER}/0002.lease")
    assert Lease.take(local, FOLDER, patience=0.1).number == 3


def test_a_number_is_never_given_twice(backend: Backend) -> None:
    backend.put(f"{FOLDER}/0004.index", b"")
    for name in ("00009.lease", "12.lease", "0010.lease.bak", "٠٠٩٩.lease", "0011-v0001.part"):
        backend.put(f"{FOLDER}/{name}", b"")
    lease = Lease.take(backend, FOLDER)
    assert lease.number == 5
    lease.close()
    backend.put(f"{FOLDER}/0005.index", b"")
    backend.remove(f"{FOLDER}/0005.lease")
    assert Lease.take(backend, FOLDER).number == 6


def test_numbers_may_grow_past_four_digits_and_end_somewhere(backend: Backend) -> None:
    backend.put(f"{FOLDER}/9999.index", b"")
    lease = Lease.take(backend, FOLDER)
    assert lease.number == 10_000
    lease.close()
    assert Lease.take(backend, FOLDER).number == 10_001
    backend.put(f"{FOLDER}/999999999.index", b"")
    with pytest.raises(LeaseError, match="highest possible number"):
        Lease.take(backend, FOLDER)


def test_a_lease_that_was_removed_or_replaced_is_lost(backend: Backend) -> None:
    lease = Lease.take(backend, FOLDER)
    mine = content(backend)
    change(backend, token="another")
    with pytest.raises(LeaseError, match="removed or replaced"):
        lease.beat()
    lease.close()
    assert content(backend) == mine | {"token": "another"}
    backend.remove(f"{FOLDER}/0001.lease")
    other = Lease.take(backend, FOLDER)
    backend.remove(f"{FOLDER}/0001.lease")
    with pytest.raises(LeaseError, match="removed or replaced"):
        other.beat()
    other.close()
    assert backend.names(FOLDER) == []


def test_a_forked_child_neither_beats_nor_closes(local: Backend) -> None:
    lease = Lease.take(local, FOLDER)
    pid = os.fork()
    if pid == 0:
        try:
            lease.close()
            lease.beat()
        except LeaseError as error:
            os._exit(0 if "the parent of this process" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert content(local)["closed"] is False
    lease.beat()


def test_a_beat_never_undoes_a_close(backend: Backend) -> None:
    for number in range(1, 11):
        lease = Lease.take(backend, FOLDER)

        def beat() -> None:
            try:
                while True:
                    lease.beat()
            except LeaseError:
                pass

        thread = threading.Thread(target=beat)
        thread.start()
        lease.close()
        thread.join()
        assert content(backend, number)["closed"] is True


def test_wrong_times_are_refused(backend: Backend) -> None:
    for wrong in ({"patience": -1}, {"patience": float("nan")}, {"beat_every": 0}, {"beat_every": float("inf")}):
        with pytest.raises(InputError, match="seconds"):
            Lease.take(backend, FOLDER, **wrong)
    assert backend.names() == []
