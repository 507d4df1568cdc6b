"""A training that is resumed from a checkpoint into the same run goes on as if it had never stopped."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import warm_python
from tests.recording.training import equal, left_behind
from torch import nn

import cutaway
from cutaway.core.errors import ExistsError

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def setup() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def train(model: nn.Module, optimizer: Any, run: Any, numbers: range, *, are_given: bool = False) -> None:
    for number in numbers:
        kind = "long" if number % 5 == 4 else "short"
        with run.step(kind=kind, number=number if are_given else None):
            loss = model(torch.randn(6, 4)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)


@pytest.mark.parametrize("every", [1, 4, {"long": 1, "*": 3}, "x1.5", range(0, 40, 7)])
def test_a_resumed_training_is_the_uninterrupted_one(every: Any, tmp_path: Path) -> None:
    model, optimizer = setup()
    with cutaway.record(tmp_path / "whole", model, every=every) as run:
        train(model, optimizer, run, range(20))
    whole = left_behind(model, optimizer)

    model, optimizer = setup()
    with cutaway.record(tmp_path / "parts", model, every=every) as run:
        train(model, optimizer, run, range(12))
    checkpoint = copy.deepcopy((model.state_dict(), optimizer.state_dict(), torch.get_rng_state()))
    model, optimizer = setup()
    model.load_state_dict(checkpoint[0])
    optimizer.load_state_dict(checkpoint[1])
    torch.set_rng_state(checkpoint[2])
    with cutaway.record(tmp_path / "parts", model, every=every, resume=True) as run:
        assert run.number == 12
        train(model, optimizer, run, range(12, 20))
    parts = left_behind(model, optimizer)
    for what in whole:
        assert equal(whole[what], parts[what]), what
    a, b = cutaway.load(tmp_path / "whole"), cutaway.load(tmp_path / "parts")
    assert a.steps.tolist() == b.steps.tolist()
    for kind in ("long", "short"):
        assert a.steps_of(kind).tolist() == b.steps_of(kind).tolist()
    assert a.scalars["loss"].values.tolist() == b.scalars["loss"].values.tolist()
    for site in ("0", "3.weight", "1.running_mean"):
        assert a[site].stats("norm").tolist() == b[site].stats("norm").tolist()
    assert a["3.weight"].grad.stats("norm").tolist() == b["3.weight"].grad.stats("norm").tolist()


def test_going_back_to_an_earlier_checkpoint_runs_steps_again(tmp_path: Path) -> None:
    model, optimizer = setup()
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        train(model, optimizer, run, range(5))
        checkpoint = copy.deepcopy((model.state_dict(), optimizer.state_dict(), torch.get_rng_state()))
        train(model, optimizer, run, range(5, 12))
    first = cutaway.load(tmp_path / "run")["0"].stats("norm").tolist()
    model.load_state_dict(checkpoint[0])
    optimizer.load_state_dict(checkpoint[1])
    torch.set_rng_state(checkpoint[2])
    with cutaway.record(tmp_path / "run", model, every=1, resume=True) as run:
        train(model, optimizer, run, range(5, 9), are_given=True)
    found = cutaway.load(tmp_path / "run")
    assert found.steps.tolist() == list(range(9))
    assert found["0"].stats("norm").tolist() == first[:9]  # the same bits again
    assert found.session(1).steps.tolist() == list(range(12))


def test_nothing_to_resume_is_a_new_run_and_something_else_is_refused(tmp_path: Path) -> None:
    model, optimizer = setup()
    with cutaway.record(tmp_path / "run", model, every=1, resume=True) as run:
        train(model, optimizer, run, range(2))
    assert cutaway.load(tmp_path / "run").steps.tolist() == [0, 1]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(ExistsError):
        cutaway.record(tmp_path / "other", model, resume=True)
    assert (tmp_path / "other" / "file").read_text() == "mine"


def killed(path: Path, n_written: int, *, opened: int | None, last_scalar: int, kind: str = "") -> None:
    """What a kill leaves: steps, scalars that came further, and the announcement of the open step."""
    script = (
        "import os, sys, numpy as np\n"
        "from cutaway.store.format.records import Row\n"
        "from cutaway.store.writing.writer import Writer\n"
        f"writer = Writer({str(path)!r}, kind='run')\n"
        "schema = writer.schema([Row('0')], ['norm'])\n"
        f"for step in range({n_written}):\n"
        "    writer.open_step(step)\n"
        f"    writer.step(step, schema=schema, kind={kind!r}, matrix=np.ones((1, 1)))\n"
        f"writer.open_step({opened})\n"
        f"for step in range({last_scalar} + 1): writer.scalars(step, {{'loss': 1.0}})\n"
        "writer.flush()\n"
        "os._exit(9)\n"
    )
    assert warm_python.run(["-c", script]).returncode == 9


@pytest.mark.parametrize(
    ("opened", "last_scalar", "first", "lost"),
    [
        (3, 3, None, [3]),  # killed in step 3, whose loss was already on disk
        (3, 2, None, []),  # nothing of step 3 was written: it is run again
        (None, 3, None, []),  # step 3 was not to be recorded, or was discarded
        (3, 3, 7, [3, 4, 5, 6]),  # the program counts, and goes on behind a checkpoint
        (3, 3, 2, []),  # it goes back to an earlier one
    ],
)
def test_a_resumed_run_has_no_hole_that_is_not_among_its_losses(
    opened: int | None, last_scalar: int, first: int | None, lost: list[int], tmp_path: Path
) -> None:
    killed(tmp_path / "run", 3, opened=opened, last_scalar=last_scalar)
    model, _ = setup()
    with cutaway.record(tmp_path / "run", model, every=1, resume=True) as run:
        start = run.number if first is None else first
        for number in range(start, start + 3):
            with run.step(number=number):
                model(torch.randn(6, 4))
        problems = run.problems
    found = cutaway.load(tmp_path / "run")
    assert sorted(step for loss in found.losses for step in loss.steps) == lost
    assert set(found.steps.tolist()) | set(lost) >= set(range(start + 3)) - ({3} if opened is None else set())
    assert found.problems == problems
    assert bool(lost) == ("lost" in repr(found))


def test_a_step_that_is_discarded_is_not_announced_as_lost(tmp_path: Path) -> None:
    model, _ = setup()
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        with run.step():
            model(torch.randn(6, 4))
        with run.step() as step:
            model(torch.randn(6, 4))
            step.discard()
    assert cutaway.load(tmp_path / "run").documents["open_step"] is None
