"""The writer: what it takes, in which order it reaches the disk, and how it ends whatever the program does."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import safetensors.numpy
from tests.store.faults import (
    ROWS,
    SMALL,
    STATISTICS,
    Fault,
    check,
    faulty,
    load,
    matrix_of,
    survey,
    verified,
    write_step,
)

from cutaway.core.arrays import Raw
from cutaway.core.errors import ExistsError, InputError, LeaseError
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.frames import MAX_ENTRIES
from cutaway.store.format.records import Row
from cutaway.store.format.segments import Limits
from cutaway.store.writing import thread as working
from cutaway.store.writing.lease import Lease
from cutaway.store.writing.session_files import SessionFiles
from cutaway.store.writing.writer import Options, Writer

HERE = Path(__file__).parent.parent
PROGRAM = """
import sys, os, time, threading
sys.path.insert(0, {here!r})
from faults import *
writer = Writer(sys.argv[1], kind="run", options=Options(limits=SMALL))
for step in range(5):
    write_step(writer, step)
"""


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4()}"


def program(path: Path, rest: str, *, rc: int = 0) -> str:
    """Run a program that writes five steps and then goes on as told."""
    code = PROGRAM.format(here=str(HERE)) + rest
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        # A shell starts background jobs with SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == rc, done.stderr
    return done.stdout + done.stderr


# how a program ends


@pytest.mark.parametrize(
    ("rest", "rc"),
    [
        ("", 0),
        ("writer.close(); writer.close()", 0),
        ("del writer", 0),
        ("sys.exit(3)", 3),
        ("raise ValueError", 1),
        ("with writer: raise KeyboardInterrupt", -signal.SIGINT),
        ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_whatever_way_a_program_ends_all_that_was_handed_in_is_there(tmp_path: Path, rest: str, rc: int) -> None:
    program(tmp_path / "run", rest, rc=rc)
    run = load(tmp_path / "run")
    verified(run, range(5))
    assert run.sessions[0].is_ended
    assert run.is_live is False


@pytest.mark.parametrize("ending", ["os._exit(0)", "sys.exit(0)", "del writer; gc.collect(); sys.exit(0)"])
def test_a_forked_child_neither_writes_nor_hangs(tmp_path: Path, ending: str) -> None:
    said = program(
        tmp_path / "run",
        f"""
import gc
pid = os.fork()
if not pid:
    for step in range(90, 100):
        write_step(writer, step)
    writer.note("from the child")
    assert writer.flush()
    writer.close()
    {ending}
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
for step in range(5, 9):
    write_step(writer, step)
writer.close()
print(writer.problems)
""",
    )
    assert said.split("\n")[:2] == ["0", "()"]
    run = load(tmp_path / "run")
    check(survey(run, range(9)), range(9))
    assert "from the child" not in [note.text for note in run.notes]


def test_workers_that_are_forked_while_it_writes_do_no_harm(tmp_path: Path) -> None:
    """As a DataLoader does: many children, born at any moment of the writing."""
    said = program(
        tmp_path / "run",
        """
import multiprocessing
def work(n):
    return n
for round_ in range(4):
    for step in range(5 + 10 * round_, 15 + 10 * round_):
        write_step(writer, step)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(work, range(8)) == list(range(8))
writer.close()
print(writer.problems)
""",
    )
    assert said.startswith("()"), said
    check(survey(load(tmp_path / "run"), range(45)), range(45))


def test_an_exception_in_the_with_brings_all_to_disk(url: str) -> None:
    def interrupted() -> None:
        with Writer(url, kind="run", options=Options(limits=SMALL)) as writer:
            for step in range(4):
                write_step(writer, step)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    check(survey(load(url), range(4)), range(4))
    assert load(url).sessions[0].is_ended


def test_a_writer_that_was_forgotten_ends_by_itself(url: str) -> None:
    writer = Writer(url, kind="run")
    write_step(writer, 0)
    thread = writer._worker._thread
    del writer
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
    run = load(url)
    verified(run, [0])
    assert run.sessions[0].is_ended


def test_what_comes_after_the_end_is_a_problem_and_no_error(url: str) -> None:
    writer = Writer(url, kind="run")
    write_step(writer, 0)
    writer.close()
    with pytest.warns(RuntimeWarning, match="already closed"):
        write_step(writer, 1)
    writer.scalars(2, {"loss": 1.0})
    assert writer.flush()
    writer.close()
    assert any("step 1 could not be written: the writer is already closed" in p for p in writer.problems)
    assert load(url).steps.tolist() == [0]


# a worker with a bug


def test_a_worker_that_dies_of_a_bug_does_not_stop_the_program(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(self: Any) -> None:
        raise SystemExit("a bug")

    writer = Writer(url, kind="run", options=Options(queue_bytes=3000))
    write_step(writer, 0)
    assert writer.flush()
    monkeypatch.setattr(working.WriterThread, "_housekeep", dies)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(1, 50):
            write_step(writer, step)
        assert writer.flush(timeout=10)
        writer.close()
    assert any("the writer stopped: SystemExit: a bug" in problem for problem in writer.problems)
    run = load(url)
    verified(run, [0])
    assert run.is_live is False
    assert any("a bug" in loss.reason for loss in run.losses)
    assert not run.sessions[0].is_ended


def test_a_flush_does_not_wait_for_a_worker_that_dies(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def dies(self: SessionFiles, *rest: Any) -> None:
        go.wait(10)
        raise SystemExit

    monkeypatch.setattr(SessionFiles, "step", dies)
    writer = Writer(url, kind="run")
    for step in range(3):
        write_step(writer, step)
    threading.Timer(0.05, go.set).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert writer.flush(timeout=20)
        writer.close()


# back-pressure


def test_with_a_slow_disk_the_program_waits_and_memory_does_not_grow(url: str) -> None:
    array = Raw.of(np.zeros(10_000, np.uint8))
    limit, waiting = 45_000, []
    with faulty(Fault(slow=lambda: time.sleep(0.002))):
        with Writer(url, kind="run", options=Options(queue_bytes=limit)) as writer:
            schema = writer.schema(ROWS)
            for step in range(40):
                writer.step(step, schema=schema, values={0: array})
                waiting.append(writer.n_waiting_bytes)
            assert writer.seconds_waited > 0.01
    assert max(waiting) <= limit
    assert max(waiting) > 2 * 10_000
    assert len(load(url)) == 40


def test_small_things_without_arrays_are_bounded_as_well(url: str) -> None:
    waiting = []
    with faulty(Fault(slow=lambda: time.sleep(0.001))):
        with Writer(url, kind="run", options=Options(queue_bytes=20_000)) as writer:
            schema = writer.schema(ROWS)
            for step in range(100):
                writer.step(step, schema=schema)
                writer.note("n")
                waiting.append(writer.n_waiting_bytes)
            assert writer.seconds_waited > 0
    assert max(waiting) <= 20_000
    run = load(url)
    assert (len(run), len(run.notes)) == (100, 100)


def test_very_many_scalars_wait_for_a_slow_disk_too(url: str) -> None:
    is_slow = threading.Event()
    with faulty(Fault(slow=lambda: time.sleep(0.05 if is_slow.is_set() else 0))):
        with Writer(url, kind="run", options=Options(queue_bytes=4 << 20)) as writer:
            is_slow.set()
            for step in range(60_000):
                writer.scalars(step, {"loss": step / 2})
            assert writer.n_waiting_bytes <= 4 << 20
            is_slow.clear()
    curve = load(url).scalars["loss"]
    assert np.array_equal(curve.steps, np.arange(60_000))
    assert np.array_equal(curve.values, np.arange(60_000) / 2)


def test_more_scalars_at_once_than_one_record_holds(url: str) -> None:
    names = [f"s{number}" for number in range(MAX_ENTRIES + 5)]
    with Writer(url, kind="run") as writer:
        writer.scalars(3, {name: float(number) for number, name in enumerate(names)})
    run = load(url)
    assert not run.damage
    assert len(run.scalars) == len(names)
    assert run.scalars[names[-1]].values.tolist() == [MAX_ENTRIES + 4]


# what it takes


@pytest.mark.parametrize(
    "content",
    [list(range(MAX_ENTRIES + 1)), {1: 2}, 1 << 70, object(), b"x" * (65 << 20)],
    ids=["long list", "numbers as keys", "large number", "object", "many bytes"],
)
def test_what_no_reader_would_take_is_refused_at_once(url: str, content: Any) -> None:
    with Writer(url, kind="run") as writer:
        with pytest.raises(InputError):
            writer.document("content", content)
        with pytest.raises(InputError):
            writer.note("n", about={"content": content})
        with pytest.raises(InputError):
            writer.step(0, schema=writer.schema(ROWS), about={"content": content})
        write_step(writer, 0)
    verified(load(url), [0])


def test_what_a_reader_would_skip_is_refused_at_once(url: str) -> None:
    with Writer(url, kind="run") as writer:
        schema = writer.schema(ROWS)
        wrong: Any = {b"bytes": 1}
        for ask in (
            lambda: writer.note("n", step=-1),
            lambda: writer.note(7),  # type: ignore[arg-type]
            lambda: writer.note("n", about=wrong),
            lambda: writer.document(7, 1),  # type: ignore[arg-type]
            lambda: writer.block("b", {}, wrong),
            lambda: writer.step(0, schema=schema, about=wrong),
            lambda: writer.step(0, schema=schema, kind=7),  # type: ignore[arg-type]
            lambda: writer.schema([Row("a", iteration=-1)]),
        ):
            with pytest.raises(InputError):
                ask()
        write_step(writer, 0)
    run = load(url)
    assert not run.damage
    verified(run, [0])


def test_arrays_that_are_not_what_they_say_are_refused(url: str) -> None:
    with Writer(url, kind="run") as writer:
        schema = writer.schema(ROWS, STATISTICS)
        with pytest.raises(InputError, match=r"got 4 bytes for float32 \[2\], which needs 8"):
            writer.step(0, schema=schema, values={0: Raw("float32", (2,), b"1234")})
        with pytest.raises(InputError, match="rows"):
            writer.step(0, schema=schema, values={9: Raw("uint8", (1,), b"1")})
        with pytest.raises(InputError, match="shape"):
            writer.step(0, schema=schema, matrix=np.zeros((1, 1)))
        with pytest.raises(InputError, match="does not belong to this writer"):
            writer.step(0, schema=99)
        write_step(writer, 4)
        with pytest.raises(InputError, match="must increase"):
            writer.step(4, schema=schema)
    assert load(url).steps.tolist() == [4]


def test_an_array_that_was_handed_in_as_a_matrix_may_change_at_once(url: str) -> None:
    with faulty(Fault(slow=lambda: time.sleep(0.01))):
        with Writer(url, kind="run") as writer:
            matrix = matrix_of(0)
            writer.step(0, schema=writer.schema(ROWS, STATISTICS), matrix=matrix)
            matrix[:] = 99
    assert np.array_equal(load(url).at(0).matrix, matrix_of(0))


# where it writes


def test_nothing_that_is_there_is_overwritten(url: str, tmp_path: Path) -> None:
    with Writer(url, kind="run") as writer:
        write_step(writer, 0)
    with pytest.raises(ExistsError, match="resume=True"):
        Writer(url, kind="run")
    with pytest.raises(ExistsError, match="is a run, not a trace"):
        Writer(url, kind="trace", resume=True)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ExistsError, match=r"other files \(mine.txt"):
        Writer(tmp_path, kind="run", resume=True)
    verified(load(url), [0])


def test_a_run_that_could_not_be_begun_leaves_the_place_free(url: str) -> None:
    for at in range(4):
        with faulty(Fault(at)), pytest.raises(OSError, match="No space"):
            Writer(f"{url}-{at}", kind="run")
        with Writer(f"{url}-{at}", kind="run") as writer:
            write_step(writer, 0)
        verified(load(f"{url}-{at}"), [0])


# a session that lost its right to write


@pytest.mark.filterwarnings("ignore:cutaway")
def test_a_session_that_was_taken_over_touches_no_name_any_more(url: str) -> None:
    writer = Writer(url, kind="run", options=Options(limits=SMALL, beat_every=1000))
    for step in range(2):
        write_step(writer, step)
    writer.flush()
    Lease.take(backend_for(url), "rank-0", force=True)
    before = backend_for(url).names("rank-0")
    for step in range(2, 9):  # at step 3 a segment is full: before it is sealed, the lease is looked at
        write_step(writer, step)
    writer.close()
    assert "the writer stopped: session 2 has taken over" in writer.problems[0]
    assert backend_for(url).names("rank-0") == before
    assert writer.acknowledged == 2
    run = load(url)
    verified(run, range(3))
    assert len(run) == 3
    assert {step for loss in run.losses if loss.what == "steps" for step in loss.steps} == set(range(3, 9))
    assert "taken over" in run.losses[0].reason


def test_a_folder_that_was_replaced_under_a_writer_is_left_alone(tmp_path: Path) -> None:
    """The run was deleted and begun anew while somebody still wrote: the new one must not suffer."""
    path = tmp_path / "run"
    old = Writer(path, kind="run", options=Options(limits=SMALL, beat_every=1000))
    for step in range(2):
        write_step(old, step)
    old.flush()
    os.rename(path, tmp_path / "deleted")
    new = Writer(path, kind="run", options=Options(limits=SMALL))
    for step in range(2):
        write_step(new, step)
    new.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(2, 9):
            write_step(old, step)
        old.close()
    assert any("removed or replaced" in problem for problem in old.problems)
    for step in range(2, 9):
        write_step(new, step)
    new.close()
    assert not new.problems
    check(survey(load(path), range(9)), range(9))


def test_a_second_writer_is_refused_while_the_first_lives(url: str) -> None:
    with Writer(url, kind="run"):
        with pytest.raises(LeaseError, match="this process"):
            Writer(url, kind="run", resume=True)


# order on disk


def test_fsync_waits_for_what_a_frame_points_to_then_for_the_frame(url: str) -> None:
    began = 0
    with faulty(Fault()) as fault:
        with Writer(url, kind="run", options=Options(limits=SMALL, fsync=True)) as writer:
            for step in range(7):
                write_step(writer, step)
                writer.flush()
                assert writer.acknowledged == step
                calls = [(what, name.rpartition(".")[2], name) for what, name in fault.calls[began:]]
                began = len(fault.calls)
                index = [what for what, ending, _ in calls if ending == "index"]
                assert index[-2:] == ["write", "sync"]
                last = max(number for number, call in enumerate(calls) if call[:2] == ("write", "index"))
                growing = {name for what, ending, name in calls if (what, ending) == ("write", "part")}
                assert len({name[:-9] for name in growing}) == 2, "values and statistics"
                for name in growing:
                    mine = [(number, what) for number, (what, _, other) in enumerate(calls) if other == name]
                    wrote = max(number for number, what in mine if what == "write")
                    if ("rename", "part", name) not in calls and ("remove", "part", name) not in calls:
                        assert wrote < max(number for number, what in mine if what == "sync") < last, name
    for number, (what, name) in enumerate(fault.calls):
        if what == "rename":
            assert ("sync", name.replace(".safetensors", ".sealing")) in fault.calls[:number]
        if what == "remove" and name.endswith(".part"):
            # The seal is on disk before the growing file goes.
            renamed = fault.calls.index(("rename", name.replace(".part", ".safetensors")))
            between = fault.calls[renamed:number]
            assert ("sync", "rank-0/0001.index") in between or "-v" in name


def test_without_fsync_nothing_waits_for_the_disk(url: str) -> None:
    with faulty(Fault()) as fault, Writer(url, kind="run") as writer:
        write_step(writer, 0)
    assert "sync" not in {what for what, _ in fault.calls}


def test_segments_of_statistics_roll_by_size_too(url: str) -> None:
    with Writer(url, kind="run", options=Options(limits=Limits(bytes=100))) as writer:
        schema = writer.schema(ROWS, STATISTICS)
        for step in range(20):
            writer.step(step, schema=schema, matrix=matrix_of(step))
    run = load(url)
    assert len([name for name in backend_for(url).names("rank-0") if "-s" in name]) == 4
    for step in range(20):
        assert np.array_equal(run.at(step).matrix, matrix_of(step))


@pytest.mark.parametrize("header", [0, 700, 1 << 20])
def test_sealed_files_with_odd_names_and_dtypes_are_valid_for_stock_tools(url: str, header: int) -> None:
    sites = ["plain", 'quo"te', "back\\slash", "é", "\U0001f600", "half \ud800", "line\nbreak", "x" * 300]
    rows = [Row(site) for site in sites]
    arrays = [np.arange(3).astype(kind) for kind in ("f4", "c16", "i2", "?", "f8", "c8", "u1", "f2")]
    with Writer(url, kind="run", options=Options(limits=Limits(steps=4, header=header))) as writer:
        schema = writer.schema(rows)
        for step in range(9):
            writer.step(step, schema=schema, values={row: Raw.of(array) for row, array in enumerate(arrays)})
    names = [name for name in backend_for(url).names("rank-0") if name.endswith(".safetensors")]
    assert len(names) >= 3
    assert not [name for name in backend_for(url).names("rank-0") if name.endswith((".part", ".sealing"))]
    tensors = {}
    for name in names:
        tensors |= safetensors.numpy.load(backend_for(url).read(f"rank-0/{name}", 0, 1 << 30))
    assert len(tensors) == 9 * len(sites)
    assert np.array_equal(tensors["8/value/plain"], arrays[0])
    assert np.array_equal(tensors["0/value/é"], arrays[3])
    run = load(url)
    for step in range(9):
        for site, array in zip(sites, arrays, strict=True):
            assert np.array_equal(run.at(step)[site].value, array)


def test_scalars_do_not_overtake_steps_that_were_queued_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill, whatever is on disk is a prefix of what the program recorded."""
    written: list[tuple[str, int]] = []
    is_open = threading.Event()
    real_step, real_record = SessionFiles.step, SessionFiles.record

    def step(self: SessionFiles, about: Any, *rest: Any) -> None:
        is_open.wait(10)
        written.append(("step", about.step))
        real_step(self, about, *rest)

    def record(self: SessionFiles, record: Any) -> None:
        if record["type"] == "scalars":
            steps = np.frombuffer(record["series"]["loss"][0], "<i8")
            written.extend(("loss", int(step)) for step in steps)
        real_record(self, record)

    monkeypatch.setattr(SessionFiles, "step", step)
    monkeypatch.setattr(SessionFiles, "record", record)
    monkeypatch.setattr("cutaway.store.writing.thread._SCALARS_EVERY", 0.0)
    with Writer(f"memory://{uuid4()}", kind="run") as writer:
        schema = writer.schema([Row("a")], ["mean"])
        for number in range(6):
            writer.scalars(number, {"loss": 1.0})
            writer.step(number, schema=schema, matrix=np.ones((1, 1)))
        is_open.set()
    assert written == [(what, number) for number in range(6) for what in ("loss", "step")]
