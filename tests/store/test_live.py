"""Readers of a run that is being written: whole steps only, never fewer than before, also at the moment of sealing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from tests import warm_python
from tests.store.faults import ROWS, SMALL, STATISTICS, check, load, matrix_of, survey, values_of, write_step

from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Options, Writer

HERE = Path(__file__).parent
WRITING = f"""
import sys, time
sys.path.insert(0, {str(HERE)!r})
from faults import *
n_steps, pause = int(sys.argv[2]), float(sys.argv[3])
with Writer(sys.argv[1], kind="run", options=Options(limits=SMALL)) as writer:
    for step in range(n_steps):
        write_step(writer, step)
        if step % 3 == 0:
            writer.flush()
        if step == 0:
            print("ready", flush=True)
        time.sleep(pause)
"""


def writing(path: Path, n_steps: int, pause: float = 0.0) -> warm_python.Program:
    """Another process that writes a run; its first step is on disk."""
    child = warm_python.start(["-c", WRITING, str(path), str(n_steps), str(pause)], skips_teardown=True)
    assert child.stdout.readline() == "ready\n"
    return child


def ended(child: warm_python.Program) -> None:
    with child:
        assert child.wait(60) == 0


def one_of(run: Run, step: int) -> None:
    """A step is whole: its statistics and all its values."""
    at = run.at(step)
    assert np.array_equal(at.matrix, matrix_of(step))
    values = values_of(step)
    assert np.array_equal(at["encoder.0"].value, values[0])
    grad = at["encoder.0"].grad
    assert grad is not None
    assert np.array_equal(grad.value, values[2])


@pytest.mark.parametrize("n_steps", [300, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_reader_in_another_process_sees_whole_steps_and_ever_more(tmp_path: Path, n_steps: int) -> None:
    child = writing(tmp_path / "run", n_steps, pause=0.001)
    run = load(tmp_path / "run")
    before: list[int] = []
    n_looks = 0
    while before[-1:] != [n_steps - 1]:
        run.refresh()
        steps = run.steps.tolist()
        assert steps[: len(before)] == before
        assert steps == list(range(len(steps)))
        for step in {*steps[-8:], *steps[:: max(1, len(steps) // 5)]}:
            one_of(run, step)
        curve = run["encoder.1"].stats("mean")
        assert np.array_equal(curve, [matrix_of(step)[1, 0] for step in steps])
        assert not run.damage
        # The scalars of a step are there before the step is.
        assert set(steps) <= set(run.scalars["loss"].steps.tolist())
        assert {f"document {step}" for step in steps if step % 4 == 0} <= set(run.documents)
        before = steps
        n_looks += 1
    ended(child)
    assert n_looks > 3
    run.refresh()
    assert run.is_live is False
    check(survey(run, range(n_steps)), range(n_steps))


def test_a_reader_that_is_not_refreshed_can_read_what_is_sealed_meanwhile(tmp_path: Path) -> None:
    """It knows of no seal, and finds the files under other names from one moment to the next."""
    child = writing(tmp_path / "run", 250, pause=0.002)
    n_looks = 0
    while child.poll() is None:
        run = load(tmp_path / "run")
        steps = run.steps.tolist()[-7:]
        for _ in range(4):
            for step in steps:
                one_of(run, step)
            curve = run["encoder.0"].grad.curve("std")
            wanted = [matrix_of(step)[2, 1] for step in curve.steps.tolist()]
            assert np.array_equal(curve.values, wanted)
        assert not run.damage
        n_looks += 1
    ended(child)
    assert n_looks > 3


def test_readers_in_the_same_process_hammer_at_the_moment_of_sealing() -> None:
    url = f"memory://{uuid4()}"
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            run = load(url)
            while not stop.is_set():
                run.refresh()
                for step in run.steps.tolist()[-5:]:
                    one_of(run, step)
        except BaseException as error:
            failures.append(error)

    with Writer(url, kind="run", options=Options(limits=SMALL)) as writer:
        write_step(writer, 0)
        writer.flush()
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for step in range(1, 200):
            write_step(writer, step)
            writer.flush()
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]


def test_follow_gives_each_step_once_and_ends_with_the_run(tmp_path: Path) -> None:
    child = writing(tmp_path / "run", 60, pause=0.005)
    run = load(tmp_path / "run")
    there = run.steps.tolist()
    followed = []
    for step in run.follow(every=0.01, timeout=30):
        followed.append(step.step)
        assert np.array_equal(step.matrix, matrix_of(step.step))
    ended(child)
    assert there + followed == list(range(60))


def test_follow_goes_on_over_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "run"
    first = Writer(path, kind="run", options=Options(limits=SMALL))
    write_step(first, 0)
    first.flush()
    run = load(path)

    def rest() -> Iterator[int]:
        for step in range(1, 4):
            write_step(first, step)
        first.close()
        with Writer(path, kind="run", resume=True) as second:
            for step in range(4, 7):
                write_step(second, step)
                second.flush()
                time.sleep(0.02)
                yield step

    thread = threading.Thread(target=lambda: list(rest()))
    following = run.follow(every=0.001, timeout=5)
    thread.start()
    found = [step.step for step in following]
    thread.join()
    assert found == sorted(set(found))
    assert found[0] == 1
    assert load(path).steps.tolist() == list(range(7))


def test_a_reader_without_rights_to_write_disturbs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with Writer(path, kind="run", options=Options(limits=SMALL)) as writer:
        for step in range(5):
            write_step(writer, step)
        writer.flush()
        before = {file.name: file.read_bytes() for file in (path / "rank-0").iterdir()}
        check(survey(load(path), range(5)), range(5))
        assert {file.name: file.read_bytes() for file in (path / "rank-0").iterdir()} == before
        schema = writer.schema(ROWS, STATISTICS)
        writer.step(5, schema=schema)
    assert len(load(path)) == 6
