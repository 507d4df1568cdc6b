"""`begin_step` and `end_step`: a step without a `with` block, for callbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cutaway


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def one_step(net: nn.Module, run: Any) -> None:
    loss = net(torch.ones(5, 4)).pow(2).mean()
    loss.backward()
    run.log(loss=loss)
    net.zero_grad()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_begun_step_records_what_a_with_block_records(tmp_path: Path) -> None:
    net = model()
    with cutaway.record(tmp_path / "with", net, every=1, samples=2) as run:
        with run.step(kind="train", number=3, batch_size=5):
            one_step(net, run)
    with cutaway.record(tmp_path / "begun", net, every=1, samples=2) as run:
        step = run.begin_step(kind="train", number=3, batch_size=5)
        assert run.recording
        assert run.number == step.number == 3
        one_step(net, run)
        run.end_step()
        assert not run.recording
    expected, begun = (cutaway.load(tmp_path / name).at(3) for name in ("with", "begun"))
    assert begun.kind == "train"
    assert begun.rows == expected.rows
    assert np.array_equal(begun.matrix, expected.matrix, equal_nan=True)
    assert np.array_equal(begun["0"].value, expected["0"].value)


def test_a_step_that_is_still_open_is_written_when_the_run_is_closed(tmp_path: Path) -> None:
    net = model()
    run = cutaway.record(tmp_path / "run", net, every=1)
    run.begin_step()
    one_step(net, run)
    run.close()
    assert cutaway.load(tmp_path / "run").steps.tolist() == [0]


def test_the_wrong_order_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    net = model()
    with cutaway.record(tmp_path / "run", net, every=1) as run:
        with pytest.warns(RuntimeWarning, match=r"run\.end_step\(\) was called, but run\.begin_step\(\) has begun no"):
            run.end_step()
        run.begin_step()
        one_step(net, run)
        with pytest.warns(RuntimeWarning, match="call run.end_step"):
            run.begin_step()
        one_step(net, run)
        run.end_step()
    loaded = cutaway.load(tmp_path / "run")
    assert loaded.steps.tolist() == [0, 1]
    assert len(loaded.problems) == 2
    assert all("recording failed" not in problem for problem in loaded.problems)


def test_begin_step_inside_a_with_block_is_part_of_that_step(tmp_path: Path) -> None:
    net = model()
    with cutaway.record(tmp_path / "run", net, every=1) as run:
        with run.step():
            with pytest.warns(RuntimeWarning, match="inside another step"):
                run.begin_step()
            one_step(net, run)
            with pytest.warns(RuntimeWarning, match="begun no step"):
                run.end_step()
    assert cutaway.load(tmp_path / "run").steps.tolist() == [0]


def test_a_disabled_recorder_ignores_both(tmp_path: Path) -> None:
    with cutaway.record(tmp_path / "run", model(), enabled=False) as run:
        run.end_step()
        run.begin_step()
        run.end_step()
    assert not (tmp_path / "run").exists()
