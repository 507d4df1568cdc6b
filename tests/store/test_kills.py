"""`kill -9` whenever it comes: what was acknowledged is there, and the next session begins at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from tests.store.faults import FOLDER, SMALL, Fault, Nursery, check, faulty, load, survey, verified, write_run

from cutaway.core.errors import NotFoundError
from cutaway.store.writing.writer import Options

HOWS = ["half", "kill", "after"]
CHILD = Options(limits=SMALL, beat_every=0.005)


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.mark.parametrize(
    ("seed", "n_kills"), [(0, 5), (1, 5), *(pytest.param(seed, 10, marks=pytest.mark.slow) for seed in range(2, 12))]
)
def test_a_kill_at_any_moment_costs_nothing_that_was_acknowledged(
    nursery: Nursery, tmp_path: Path, seed: int, n_kills: int
) -> None:
    rng = np.random.default_rng(seed)
    path = tmp_path / "run"
    first, n_sessions = 0, 0
    for kill in range(n_kills):
        pid = nursery.start(path, first, int(rng.integers(1, 200)))
        seen = nursery.first() if kill % 2 else None
        time.sleep(float(rng.uniform(0, 0.1)))
        os.kill(pid, signal.SIGKILL)
        acknowledged, last = nursery.said(seen)
        assert last in ("", "closing", "closed"), last
        n_sessions = sessions_of(path, n_sessions)
        if acknowledged is not None:
            run = load(path)
            assert run.archive.sessions()[-1].session is not None
            assert run.is_live is False
            assert not run.damage
            assert int(run.steps[-1]) >= acknowledged
            verified(run, range(acknowledged + 1))
            # What is there beyond was written, and not told before the kill came: it is right as well.
            check(survey(run, run.steps.tolist()), run.steps.tolist())
            stock_tools_read(path)
            first = max(0, acknowledged + 1 - int(rng.integers(0, 4)))  # some steps are run again
    resume(path, first)


def sessions_of(path: Path, before: int) -> int:
    names = os.listdir(path / FOLDER) if (path / FOLDER).is_dir() else []
    number = max((int(name[:4]) for name in names if name.endswith(".lease")), default=0)
    assert number in (before, before + 1)
    return number


def resume(path: Path, first: int) -> None:
    """The next session gets the next number, and what it writes reads back beside the rest."""
    names = os.listdir(path / FOLDER) if (path / FOLDER).is_dir() else []
    last = max((int(name[:4]) for name in names if name[:4].isdigit()), default=0)
    write_run(path, range(first, first + 7), options=CHILD, resume=True)
    run = load(path)
    assert run.sessions[-1].number == last + 1
    assert run.sessions[-1].is_ended
    verified(run, range(first + 7))
    assert run.steps[-1] == first + 6
    assert not run.losses


def stock_tools_read(path: Path) -> None:
    for file in (path / FOLDER).glob("*.safetensors"):
        safetensors.numpy.load_file(file)


@pytest.mark.parametrize(
    ("every", "hows"),
    [(2, HOWS), *(pytest.param(1, [how], marks=pytest.mark.slow) for how in HOWS)],
)
def test_a_kill_at_every_single_call(nursery: Nursery, tmp_path: Path, every: int, hows: list[str]) -> None:
    """Creation, writing, rolling, sealing, closing: before, in the midst of, and after each change of a file."""
    with faulty(Fault()) as fault:
        write_run(tmp_path / "count", range(7))
    assert {what for what, _ in fault.calls} == {"put", "append", "write", "rename", "remove"}
    n_acknowledged = []
    for number, at in enumerate(range(0, fault.n_calls, every)):
        how = hows[number % len(hows)]
        path = tmp_path / f"{at}"
        nursery.start(path, 0, 7, fault=Fault(at, how))
        acknowledged, _ = nursery.said()
        n_acknowledged.append(acknowledged)
        if acknowledged is None:
            try:
                run = load(path)
            except NotFoundError:
                assert at < 2
            else:
                check(survey(run, run.steps.tolist()), run.steps.tolist())
        else:
            run = load(path)
            verified(run, range(acknowledged + 1))
            assert not run.damage
            stock_tools_read(path)
        resume(path, 0 if acknowledged is None else acknowledged + 1)
    assert {None, 6} <= set(n_acknowledged)


@pytest.mark.parametrize("how", HOWS)
def test_a_kill_at_every_call_of_a_resume(nursery: Nursery, tmp_path: Path, how: str) -> None:
    for at in range(12):
        path = tmp_path / f"{at}"
        write_run(path, range(5))
        nursery.start(path, 5, 3, fault=Fault(at, how))
        acknowledged, _ = nursery.said()
        run = load(path)
        verified(run, range(5 if acknowledged is None else acknowledged + 1))
        resume(path, 5 if acknowledged is None else acknowledged + 1)


def test_a_run_that_was_only_begun_can_be_begun_again(nursery: Nursery, tmp_path: Path) -> None:
    for at in range(3):  # cutaway.json, the lease, the index
        path = tmp_path / f"{at}"
        nursery.start(path, 0, 3, fault=Fault(at, "kill"))
        assert nursery.said() == (None, "")
        write_run(path, range(4))
        verified(load(path), range(4))
