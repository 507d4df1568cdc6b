"""Sessions and ranks: resumes are numbered, what is run again counts instead, and two never write at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import warm_python
from tests.store.faults import (
    ROWS,
    SMALL,
    STATISTICS,
    Nursery,
    check,
    load,
    matrix_of,
    survey,
    verified,
    write_run,
    write_step,
)

from cutaway.core.errors import ExistsError, LeaseError, NotFoundError
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.records import Row
from cutaway.store.writing import lease as leases
from cutaway.store.writing.lease import Lease
from cutaway.store.writing.writer import Options, Writer

HERE = Path(__file__).parent


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4()}"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), min_size=1, max_size=5))
def test_a_later_session_counts_from_its_first_step_on(sessions: list[tuple[int, int]]) -> None:
    url = f"memory://{uuid4()}"
    truth: dict[int, int] = {}
    for number, (first, n_steps) in enumerate(sessions, 1):
        with Writer(url, kind="run", resume=number > 1, options=Options(limits=SMALL)) as writer:
            assert writer.session == number
            schema = writer.schema(ROWS, STATISTICS)
            for step in range(first, first + n_steps):
                writer.scalars(step, {"session": float(number)})
                writer.step(step, schema=schema, kind=f"{number}", matrix=matrix_of(step) + 1000 * number)
        if n_steps:
            truth = {step: session for step, session in truth.items() if step < first}
            truth |= dict.fromkeys(range(first, first + n_steps), number)
    run = load(url)
    assert run.steps.tolist() == sorted(truth)
    for step, number in truth.items():
        at = run.at(step)
        assert (at.session, at.kind) == (number, f"{number}")
        assert np.array_equal(at.matrix, matrix_of(step) + 1000 * number)
    if truth:
        curve = run["encoder.1"].stats("std")
        assert curve.tolist() == [matrix_of(step)[1, 1] + 1000 * number for step, number in sorted(truth.items())]
        logged = run.scalars["session"]
        assert dict(zip(logged.steps.tolist(), logged.values.tolist(), strict=True)) == truth
    for number, (first, n_steps) in enumerate(sessions, 1):  # nothing is gone
        assert run.session(number).steps.tolist() == list(range(first, first + n_steps))


def test_a_resume_may_have_another_schema(url: str) -> None:
    write_run(url, range(3))
    with Writer(url, kind="run", resume=True) as writer:
        schema = writer.schema([Row("new"), Row("encoder.1")], ["norm", "mean"])
        writer.step(3, schema=schema, matrix=np.array([[1, 2], [3, 4]]))
        writer.document("document 0", "replaced")
    run = load(url)
    assert run["encoder.1"].stats("mean").tolist() == [2, 10, 18, 4]
    assert run["new"].stats("norm").tolist() == [1]
    assert np.isnan(run["encoder.1"].stats("std")).tolist() == [False, False, False, True]
    assert run.documents["document 0"] == "replaced"
    assert run.session(1).documents["document 0"] == {"step": 0}
    with pytest.raises(NotFoundError, match=r"no session 3. It has: 1, 2"):
        run.session(3)


def test_ranks_write_side_by_side(tmp_path: Path) -> None:
    """Four processes of one job begin at the same moment in the same folder."""
    code = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from faults import *
rank = int(sys.argv[2])
with Writer(sys.argv[1], kind="run", rank=rank, world_size=4, options=Options(limits=SMALL)) as writer:
    for step in range(rank, 8):
        write_step(writer, step)
"""
    command = ["-c", code, str(tmp_path / "run")]
    children = [warm_python.start([*command, str(rank)], skips_teardown=True) for rank in range(4)]
    assert [child.communicate(60)[1] for child in children] == [""] * 4
    assert [child.returncode for child in children] == [0, 0, 0, 0]
    run = load(tmp_path / "run")
    assert run.ranks == (0, 1, 2, 3)
    assert not run.damage
    for rank in range(4):
        mine = run.rank(rank)
        check(survey(mine, range(rank, 8)), range(rank, 8))
        session = mine.sessions[0].session
        assert session is not None
        assert (session.rank, session.world_size, session.number) == (rank, 4, 1)
    assert run.steps.tolist() == list(range(8)), "without a rank, the first one counts"
    with pytest.raises(ExistsError, match="resume"):
        Writer(tmp_path / "run", kind="run", rank=2)


def test_a_run_is_taken_over_at_once_when_its_writer_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nursery = Nursery()
    path = tmp_path / "run"
    try:
        pid = nursery.start(path, 0, 30)
        acknowledged = nursery.first()
        with pytest.raises(LeaseError, match=f"process {pid} of this machine"):
            Writer(path, kind="run", resume=True)
        os.kill(pid, signal.SIGKILL)
        acknowledged = nursery.said(acknowledged)[0] or 0
        monkeypatch.setattr(leases, "sleep", lambda seconds: pytest.fail("it waited for a dead process"))
        with Writer(path, kind="run", resume=True) as writer:
            assert writer.session == 2
            write_step(writer, acknowledged + 1)
    finally:
        nursery.close()
    verified(load(path), range(acknowledged + 2))


def test_who_was_stopped_and_taken_over_stops_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run"
    code = f"""
import sys, warnings
sys.path.insert(0, {str(HERE)!r})
from faults import *
warnings.simplefilter("ignore")
writer = Writer(sys.argv[1], kind="run", options=Options(limits=SMALL, beat_every=0.02))
for step in range(5):
    write_step(writer, step)
writer.flush()
print("ready", flush=True)
sys.stdin.readline()
for step in range(5, 12):
    write_step(writer, step)
writer.close()
print(writer.acknowledged, *writer.problems, flush=True)
"""
    command = [sys.executable, "-c", code, str(path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGSTOP)
    lease = Lease.take(backend_for(path), "rank-0", force=True)
    before = [name for name in sorted(os.listdir(path / "rank-0")) if not name.startswith(".tmp-")]
    child.stdin.write("go on\n")
    child.stdin.flush()
    time.sleep(0.05)  # so that its next sign of life is due
    child.send_signal(signal.SIGCONT)
    said, _ = child.communicate(timeout=30)
    assert said.startswith("4 "), said
    assert "the writer stopped: session 2 has taken over" in said, said
    assert [name for name in sorted(os.listdir(path / "rank-0")) if not name.startswith(".tmp-")] == before
    lease.close()
    with Writer(path, kind="run", resume=True, options=Options(limits=SMALL)) as writer:
        assert writer.session == 3
        for step in range(5, 8):
            write_step(writer, step)
    check(survey(load(path), range(8)), range(8))


def test_a_silent_writer_of_another_machine_is_taken_over_after_a_while(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(leases, "identity", lambda: "another machine")
        other = Writer(url, kind="run", options=Options(limits=SMALL, beat_every=0.02))
        write_step(other, 0)
        other.flush()
    with pytest.raises(LeaseError, match="another machine"):
        Writer(url, kind="run", resume=True, options=Options(patience=1.0))
    monkeypatch.setattr(Lease, "beat", lambda self: None)  # it falls silent
    with Writer(url, kind="run", resume=True, options=Options(limits=SMALL, patience=0.2)) as writer:
        assert writer.session == 2
        write_step(writer, 1)
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(1, 5):
            write_step(other, step)
        other.close()
    assert any("taken over" in problem for problem in other.problems)
    check(survey(load(url), range(2)), range(2))


@pytest.mark.parametrize("jump", [-1e6, 1e6, -2e9])
def test_a_clock_that_jumps_changes_nothing_but_the_times(
    url: str, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    real = time.time
    offset = [0.0]

    def clock() -> float:
        return real() + offset[0]

    def patched(module: Any) -> None:
        if hasattr(module, "time") and not hasattr(module.time, "time"):
            monkeypatch.setattr(module, "time", clock)

    for name, module in list(sys.modules.items()):
        if name.startswith("cutaway.store."):
            patched(module)
    monkeypatch.setattr(time, "time", clock)
    with Writer(url, kind="run", options=Options(limits=SMALL, beat_every=0.01)) as writer:
        for step in range(8):
            write_step(writer, step)
            if step in (3, 5):
                writer.flush()
                offset[0] += jump if step == 3 else -jump / 2
            assert not writer.problems
        with pytest.raises(LeaseError):
            Writer(url, kind="run", resume=True)
        assert load(url).is_live
    write_run(url, range(8, 11), resume=True)
    run = load(url)
    check(survey(run, range(11)), range(11))
    times = [run.at(step).time for step in range(8)]
    assert abs(times[4] - times[3] - jump) < 100, "the clock did jump"
    elapsed = [run.at(step).elapsed for step in range(8)]
    assert elapsed == sorted(elapsed)
    assert 0 <= elapsed[0] <= elapsed[-1] < 100
