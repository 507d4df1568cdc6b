"""A disk that is full or fails: the program goes on, the run says what is missing, and all the rest is there."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
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
    write_run,
    write_step,
)

from cutaway.core.arrays import Raw
from cutaway.store.backends.backend import backend_for
from cutaway.store.backends.file_handles import FILE_HANDLES
from cutaway.store.runs.run import Run
from cutaway.store.verification.verify import verify
from cutaway.store.writing.writer import Options, Writer

N_STEPS = 8
STEPS = range(N_STEPS)
QUICK = Options(limits=SMALL, beat_every=0.01)


def lost_steps(run: Run) -> set[int]:
    return {step for loss in run.losses if loss.what == "steps" for step in loss.steps}


def stock_tools_read(url: str) -> None:
    backend = backend_for(url)
    for name in backend.names("rank-0"):
        if name.endswith(".safetensors"):
            safetensors.numpy.load(backend.read(f"rank-0/{name}", 0, 1 << 30))


def n_calls(url: str, *, fsync: bool) -> int:
    with faulty(Fault()) as fault:
        write_run(url, STEPS, options=Options(limits=SMALL, fsync=fsync))
    return fault.n_calls


@pytest.mark.parametrize(
    ("fsync", "code"),
    [(False, errno.ENOSPC), (True, errno.EIO), pytest.param(True, errno.ENOSPC, marks=pytest.mark.slow)],
)
def test_one_failure_of_any_call_costs_one_step_at_most(fsync: bool, code: int) -> None:
    n_lost = []
    for at in range(n_calls(f"memory://{uuid4()}", fsync=fsync)):
        url = f"memory://{uuid4()}"
        with faulty(Fault(at, code=code)) as fault, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                writer = Writer(url, kind="run", options=Options(limits=SMALL, fsync=fsync))
            except OSError:
                assert at < 5  # a run that cannot even be begun says so at once, and can be begun again
                write_run(url, STEPS)
                check(survey(load(url), STEPS), STEPS)
                continue
            for step in STEPS:
                write_step(writer, step)
            writer.close()
        if at >= fault.n_calls:
            continue  # scalars went together, and it took fewer calls this time
        run = load(url)
        missing = check(survey(run, STEPS), STEPS, is_whole=False)
        lost = set(STEPS) - set(run.steps.tolist())
        what = fault.calls[at]
        assert len(lost) <= 1, what
        # Where only waiting for the disk has failed, a step is there and may yet be lost.
        assert lost <= lost_steps(run), what
        assert lost_steps(run) == lost or what[0] == "sync", what
        assert len([w for w in warned if w.category is RuntimeWarning]) <= 1
        if lost:
            assert any(problem.startswith(f"step {min(lost)} could not be written") for problem in writer.problems)
            assert os.strerror(code) in run.losses[0].reason
        # Documents, notes and scalars were tried again: only what belongs to the step itself is missing.
        words = {key for key in missing if key.startswith(("note", "document", "loss"))}
        assert not words, (what, words)
        assert {int(key.split()[1]) for key in missing if key.startswith(("matrix", "value"))} <= lost, what
        stock_tools_read(url)
        n_lost.append(len(lost))
    assert 0 < sum(n_lost) < len(n_lost)


@pytest.mark.parametrize("room", range(2000, 9000, 250))
def test_a_disk_that_is_full_for_a_while(room: int) -> None:
    url = f"memory://{uuid4()}"
    with faulty(Fault(room=room)) as fault, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        writer = Writer(url, kind="run", options=QUICK)
        for step in range(20):
            write_step(writer, step)
        writer.flush()
        assert any("the disk is full" in problem for problem in writer.problems)
        fault.room = None
        for step in range(20, 26):
            write_step(writer, step)
        writer.close()
    assert len([w for w in warned if w.category is RuntimeWarning]) == 1
    assert writer.acknowledged == 25
    run = load(url)
    lost = set(range(26)) - set(run.steps.tolist())
    assert lost
    assert lost == lost_steps(run)
    assert max(lost) < 20
    missing = check(survey(run, range(26)), range(26), is_whole=False)
    assert not {key for key in missing if key.startswith(("note", "document", "loss"))}
    assert run.documents["latest"] == 25, "what was tried again does not take the place of what came later"
    assert run.sessions[0].is_ended
    stock_tools_read(url)


@pytest.mark.parametrize("room", range(3900, 4500, 40))
def test_a_disk_that_stays_full(room: int) -> None:
    url = f"memory://{uuid4()}"
    with faulty(Fault(room=room)), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        writer = Writer(url, kind="run", options=QUICK)
        for step in range(60):
            write_step(writer, step)
        writer.flush()
        n_files = len(backend_for(url).names("rank-0"))
        for step in range(60, 200):
            write_step(writer, step)
        writer.close()
    assert len(backend_for(url).names("rank-0")) <= n_files, "a full disk does not fill up with empty files"
    assert len([w for w in warned if w.category is RuntimeWarning]) == 1
    run = load(url)
    known = run.steps.tolist()
    assert known == list(range(len(known)))
    check(survey(run, known), known)
    assert writer.acknowledged == known[-1]
    # It says that it is whole only where it says what is missing.
    assert not run.sessions[0].is_ended or len(lost_steps(run)) == 200 - len(known)
    stock_tools_read(url)


def test_a_program_that_turns_warnings_into_errors_goes_on() -> None:
    url = f"memory://{uuid4()}"
    with faulty(Fault(at=12, until=40)), warnings.catch_warnings():
        warnings.simplefilter("error")
        writer = Writer(url, kind="run", options=QUICK)
        for step in range(20):
            write_step(writer, step)
        writer.close()
        write_step(writer, 20)  # too late, and no error either
    assert any("already closed" in problem for problem in writer.problems)
    run = load(url)
    assert set(run.steps.tolist()) | lost_steps(run) == set(range(20))


@pytest.mark.filterwarnings("ignore:cutaway")
def test_blocks_that_failed_are_told() -> None:
    url = f"memory://{uuid4()}"
    with faulty(Fault(room=600)) as fault, Writer(url, kind="run", options=QUICK) as writer:
        writer.block("large", {"a": Raw.of(np.zeros(1000))})
        writer.flush()
        assert "block 'large' could not be written: the disk is full" in writer.problems[0]
        fault.room = None
        writer.block("small", {"a": Raw.of(np.arange(3))})
    run = load(url)
    assert [loss.what for loss in run.losses] == ["block 'large'"]
    assert set(run.archive.blocks) == {"small"}
    assert run.archive.blocks["small"]["a"].tolist() == [0, 1, 2]
    stock_tools_read(url)


@pytest.mark.filterwarnings("ignore:cutaway")
def test_very_many_documents_on_a_full_disk_do_not_fill_the_memory() -> None:
    url = f"memory://{uuid4()}"
    with faulty(Fault(room=1000)), Writer(url, kind="run", options=QUICK) as writer:
        for number in range(80):
            writer.document(f"{number}", "x" * (1 << 20))
        writer.flush()
        assert 50 << 20 < writer._worker._retry_bytes <= 64 << 20
        assert any("could not be written: the disk is full" in problem for problem in writer.problems)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of one mebibyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode
    except OSError:
        done = 1
    if done:
        pytest.skip("file systems cannot be mounted here")
    yield place
    FILE_HANDLES.clear()
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.filterwarnings("ignore:cutaway")
def test_a_real_disk_that_is_full_for_a_while(disk: Path) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    path = disk / "run"

    def write(writer: Writer, step: int) -> None:
        values = {0: Raw.of(np.full((50, 100), step, np.float32))}
        writer.document(f"{step}", step)
        writer.step(step, schema=writer.schema(ROWS, STATISTICS), matrix=matrix_of(step), values=values)

    with Writer(path, kind="run", options=Options(beat_every=0.01)) as writer:
        for step in range(40):
            write(writer, step)
        writer.flush()
        assert "the disk is full" in writer.problems[0]
        ballast.unlink()
        for step in range(40, 50):
            write(writer, step)
    run = load(path)
    there = set(run.steps.tolist())
    assert {0, *range(40, 50)} <= there
    assert 0 < len(lost_steps(run)) < 40
    assert lost_steps(run) == set(range(50)) - there
    assert run.documents == {f"{step}": step for step in range(50)}
    for step in there:
        assert (run.at(step)["encoder.0"].value == step).all()
        assert np.array_equal(run.at(step).matrix, matrix_of(step))
    for file in (path / "rank-0").glob("*.safetensors"):
        safetensors.numpy.load_file(file)


def test_a_run_whose_disk_stayed_full_names_the_lost_steps(disk: Path) -> None:
    (disk / "ballast").write_bytes(bytes(480_000))
    path = disk / "run"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with Writer(path, kind="run", options=Options(beat_every=0.01)) as writer:
            for step in range(0, 3000, 10):
                schema = writer.schema(ROWS, STATISTICS)
                values = {0: Raw.of(np.full((50, 100), step, np.float32))}
                writer.step(step, schema=schema, matrix=matrix_of(step), values=values)
    messages = [str(w.message) for w in warned if w.category is RuntimeWarning]
    assert len(messages) == 1, messages
    assert "the disk is full" in messages[0]
    assert "Steps are lost until writing succeeds again; training continues" in messages[0]
    run = load(path)
    there = run.steps.tolist()
    lost = sorted(set(range(0, 3000, 10)) - set(there))
    assert len(there) > 0
    assert len(lost) > 200
    assert sorted(lost_steps(run)) == lost
    assert run.sessions[0].is_ended, "what is missing is known"
    assert repr(run).endswith(f"; {len(lost)} steps ({lost[0]}–{lost[-1]}) were lost>")
    assert run.problems == writer.problems[:1]
    checked = verify(path)
    assert checked
    assert any("steps" in loss and "the disk is full" in loss for loss in checked.losses)
    assert checked.cost == "Everything that was written is intact."
    assert not list((path / "rank-0").glob(".tmp-*"))


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_folder_that_is_deleted_during_the_run_acknowledges_nothing_more(tmp_path: Path, is_moved: bool) -> None:
    path = tmp_path / "run"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with Writer(path, kind="run", options=Options(limits=SMALL, beat_every=0.01 if is_moved else 60)) as writer:
            for step in range(4):
                write_step(writer, step)
            writer.flush()
            assert writer.acknowledged == 3
            if is_moved:
                path.rename(tmp_path / "elsewhere")
            else:
                shutil.rmtree(path)
            for step in range(4, 12):
                write_step(writer, step)
            writer.flush()
            assert writer.acknowledged == 3 or is_moved
    messages = [str(w.message) for w in warned if w.category is RuntimeWarning]
    assert len(messages) == 1, messages
    assert "the writer stopped: " in messages[0]
    if is_moved:
        moved = load(tmp_path / "elsewhere")
        assert max(moved.steps) == writer.acknowledged, "what was acknowledged is where the folder went"
    else:
        assert "the folder of the run was deleted or moved" in messages[0]
        assert "What is recorded after step 3 is lost" in messages[0]
        assert any("steps 4–11 could not be written" in problem for problem in writer.problems)
    assert not path.exists(), "it does not come back as a folder with a single file"


def test_a_full_disk_is_printed_once_and_nothing_at_exit(disk: Path) -> None:
    code = f"""
import numpy as np, sys
from cutaway.core.arrays import Raw
from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer
writer = Writer({str(disk / "run")!r}, kind="run")
writer.itself = writer  # only the garbage collector, or nobody, frees it
for step in range(60):
    values = {{0: Raw.of(np.zeros((50, 100), np.float32))}}
    writer.step(step, schema=writer.schema([Row("a")]), values=values)
    writer.document("d", step)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("the disk is full") == 1, done.stderr
    assert "Exception ignored" not in done.stderr
    assert "Traceback" not in done.stderr
