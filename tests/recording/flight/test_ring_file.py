"""A ring on disk survives the kill of its process, and is read with the run."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import warm_python
from torch import nn

import cutaway
from cutaway.recording.flight.ring import KIND
from cutaway.store.backends.local import LocalBackend
from cutaway.store.format.records import Row, Schema, StepRecord
from cutaway.store.reading.flight_ring import read_ring
from cutaway.store.writing.flight_ring import FlightRing

KILLED = """
import os, signal, sys, torch, cutaway
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
flight = cutaway.Flight(steps=6, disk=True)
run = cutaway.record(sys.argv[1], model, every=8, flight=flight)
for number in range(21):
    with run.step(kind="train"):
        loss = model(torch.full((2, 4), float(number))).pow(2).mean()
        run.log(loss=loss)
        print(model[0](torch.full((2, 4), float(number))).norm().item(), flush=True)
with run.step():
    model(torch.ones(2, 4))
    run.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """A run whose process was killed in step 21, and the norms that it printed."""
    path = tmp_path_factory.mktemp("killed") / "run"
    done = warm_python.run(["-c", KILLED, str(path)])
    assert done.returncode == -signal.SIGKILL, done.stderr
    return path, [float(line) for line in done.stdout.split()]


def test_the_steps_of_a_killed_process_are_in_the_run(killed: tuple[Path, list[float]]) -> None:
    path, norms = killed
    run = cutaway.load(path)
    assert run.steps.tolist() == [0, 8, 15, 16, 17, 18, 19, 20]
    assert run.steps_of(KIND).tolist() == [15, 17, 18, 19, 20]  # step 16 was recorded
    assert run.damage == ()
    assert run.is_live is False
    step = run.at(20)
    assert step.about[KIND]["reason"] == "the process ended without closing the run"
    assert step.about["kind"] == "train"
    assert step.about["losses"]["loss"] > 0
    assert step["0"].stats["norm"].tolist() == pytest.approx([norms[20]] * 2)  # the script runs it twice
    assert run["2"].stats("norm", kind=KIND).shape == (5,)
    again = cutaway.load(path)
    assert again.refresh() is False
    assert again.steps.tolist() == run.steps.tolist()


def test_verify_tells_of_the_ring(killed: tuple[Path, list[float]]) -> None:
    verification = cutaway.store.verify(killed[0])
    assert not verification.damage
    assert any("ring of the flight recorder; the run has its 5 steps" in text for text in verification.remarks)


def test_a_resumed_run_keeps_the_ring_of_the_session_before(killed: tuple[Path, list[float]]) -> None:
    path, _ = killed
    model = nn.Linear(4, 2)
    with cutaway.record(path, model, every=1, resume=True, flight="disk") as run:
        assert run.number == 21
        with run.step():
            model(torch.ones(1, 4))
    loaded = cutaway.load(path)
    assert loaded.steps.tolist() == [0, 8, 15, 16, 17, 18, 19, 20, 21]
    assert [path.name for path in sorted((path / "rank-0").glob("*.flight"))] == ["0001.flight"]
    assert not cutaway.store.verify(path).damage


def test_a_run_that_closes_leaves_no_file(tmp_path: Path) -> None:
    model = nn.Linear(4, 2)
    with cutaway.record(tmp_path / "run", model, every=None, flight="disk") as run:
        for _ in range(3):
            with run.step():
                model(torch.ones(1, 4))
        assert list(tmp_path.rglob("*.flight"))
        run.flush()
        assert len(cutaway.load(tmp_path / "run")) == 0  # while it runs, its ring is its own
    assert not list(tmp_path.rglob("*.flight"))
    assert not cutaway.store.verify(tmp_path / "run").remarks


def test_a_ring_needs_a_local_folder() -> None:
    with pytest.raises(cutaway.errors.InputError, match="flight=True to keep the ring in memory"):
        cutaway.record("memory://ring-of-flight", nn.Linear(2, 2), flight="disk")


# the file itself


def step_of(number: int, **about: Any) -> StepRecord:
    return StepRecord(number, KIND, 1.0, 2.0, 0, None, None, about)


def schema_of(n_rows: int) -> Schema:
    return Schema(0, tuple(Row(f"layer.{number}") for number in range(n_rows)), ("mean", "norm", "nonfinite"))


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    (tmp_path / "rank-0").mkdir()
    return LocalBackend(str(tmp_path))


def steps_in(backend: LocalBackend) -> list[int]:
    return [step.step for step in read_ring(backend, "rank-0/0001.flight")[1]]


def test_a_ring_holds_the_last_steps_and_grows_with_them(backend: LocalBackend, tmp_path: Path) -> None:
    ring = FlightRing(backend, "rank-0", 1, 4)
    written = {}
    for number in range(9):
        n_rows = 3 if number < 6 else 3000  # more than the file had room for
        matrix = written[number] = np.random.default_rng(number).random((n_rows, 3), np.float32)
        ring.put(number % 4, step_of(number), schema_of(n_rows), matrix)
        assert steps_in(backend) == list(range(max(0, number - 3), number + 1))
    schemas, steps = read_ring(backend, "rank-0/0001.flight")
    sizes = {schema.id: len(schema.rows) for schema in schemas}
    for step in steps:
        assert step.matrix is not None
        assert step.matrix[0] == 0
        data = backend.read("rank-0/0001.flight", step.matrix[1], 12 * sizes[step.schema])
        assert np.array_equal(np.frombuffer(data, np.float32), written[step.step].ravel())
    ring.put(1, step_of(9, text="x" * 20_000), schema_of(3), written[0])  # a frame that is longer than its slot
    assert steps_in(backend) == [6, 7, 8, 9]
    ring.remove()
    assert [each.name for each in (tmp_path / "rank-0").iterdir()] == []


def test_a_torn_slot_loses_its_own_step_alone(backend: LocalBackend, tmp_path: Path) -> None:
    ring = FlightRing(backend, "rank-0", 1, 4)
    for number in range(4):
        ring.put(number, step_of(number), schema_of(3), np.full((3, 3), number, np.float32))
    file = tmp_path / "rank-0" / "0001.flight"
    _, steps = read_ring(backend, "rank-0/0001.flight")
    data = bytearray(file.read_bytes())
    for step, offset in ((1, 4), (2, -8)):  # a byte of a matrix; a byte of a frame
        matrix = steps[step].matrix
        assert matrix is not None
        at = matrix[1] + offset if offset > 0 else data.find(b"CUT1", matrix[1] - 4200) + 20
        data[at] ^= 0xFF
    file.write_bytes(bytes(data))
    assert steps_in(backend) == [0, 3]


@pytest.mark.parametrize("content", [b"", b"CUT1", bytes(4096), b"\xff" * 4096])
def test_a_file_that_is_no_ring_is_damage(tmp_path: Path, content: bytes) -> None:
    with cutaway.store.Writer(tmp_path / "run", kind="run") as writer:
        writer.step(3, schema=writer.schema([Row("a")], ["mean"]), matrix=np.ones((1, 1)))
    index = tmp_path / "run" / "rank-0" / "0001.index"
    data = index.read_bytes()
    index.write_bytes(data[: data.rindex(b"CUT1")])  # without its end record, as after a kill
    (tmp_path / "run" / "rank-0" / "0001.flight").write_bytes(content)
    run = cutaway.load(tmp_path / "run")
    assert run.steps.tolist() == [3]
    assert len(run.damage) == 1
    assert "ring of the flight recorder cannot be read" in run.damage[0]
