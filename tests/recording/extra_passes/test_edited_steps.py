"""Steps under `cutaway.edit` are a kind of their own, described, and paired with the unedited pass of a fixed batch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.recording.training import Off, equal, left_behind
from torch import nn

import cutaway
from cutaway.capture import sessions

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

TOY = torch.arange(12.0).reshape(3, 4) / 12 - 0.3


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2))


def train(model: nn.Module, run: Any) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    copies = []
    for _ in range(4):
        copies.append(copy.deepcopy(model).eval())
        with run.step():
            model(torch.randn(5, 4)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    run.close()
    return left_behind(model, optimizer), copies


def test_each_edit_of_a_fixed_batch_is_paired_with_the_unedited_pass(tmp_path: Path) -> None:
    def make(model: Any) -> Any:
        run = cutaway.record(tmp_path / "run", model, every=1, samples=3)
        edits = {
            "silent": {"1": 0, "3.bias": 1},
            "half": lambda: cutaway.edit(model, "0", cutaway.edit.scale(0.5), units=[1, 2]),
        }
        run.fixed_batch("toy", TOY, every=2, edits=edits)
        return run

    model = mlp()
    left, copies = train(model, make(model))
    assert equal(left, train(mlp(), Off())[0])
    run = cutaway.load(tmp_path / "run")
    assert not run.problems
    assert run.kinds == ("toy", "toy/silent", "toy/half", "")
    for number, before in zip(run.steps_of("toy"), copies[::2], strict=True):
        plain, silent, half = run.at(number), run.at(number + 1), run.at(number + 2)
        assert plain.about["edited"] == [number + 1, number + 2]
        assert "edit" not in plain.about
        assert silent.about["unedited"] == half.about["unedited"] == number
        assert silent.about["edit"] == "'1' → 0; '3.bias' → 1"
        assert half.about["edit"] == "'0' (units 1, 2) → scale(0.5)"
        with torch.no_grad():
            assert np.array_equal(plain["3"].value, before(TOY).numpy())
            assert np.array_equal(silent["3"].value, np.ones((3, 2), np.float32))
            hidden = before[0](TOY)
            hidden[:, [1, 2]] *= 0.5
            assert np.array_equal(half["0"].value, hidden.numpy())
            assert np.array_equal(half["3"].value, before[1:](hidden).numpy())


def record_one(path: Path, model: nn.Module, act: Callable[[Any], None]) -> Any:
    with cutaway.record(path, model, every=1) as run:
        act(run)
    return cutaway.load(path)


def test_a_step_under_an_edit_is_a_kind_of_its_own(tmp_path: Path) -> None:
    model, other = mlp(), mlp()

    def act(run: Any) -> None:
        with run.step("eval"):
            model(TOY)
        with cutaway.edit(model, "1", 0), run.step("eval"):
            model(TOY)
        with run.step("eval"):  # known only while it runs
            with cutaway.edit(model, "0", torch.zeros(6)):
                model(TOY)
            with cutaway.edit(model, "1", lambda value: -value):
                model(TOY)
        with run.step(), cutaway.edit(other, "1", 0):  # another model
            other(TOY)
            model(TOY)
        with run.step(kind=None) as step, cutaway.edit(model[0], "weight", 0):
            model(TOY)
            step.kind = "late"

    run = record_one(tmp_path / "run", model, act)
    assert [step.kind for step in run] == ["eval", "eval/edited", "eval/edited", "", "late/edited"]
    assert [step.about.get("edit") for step in run] == [
        None,
        "'1' → 0",
        "'0' → a tensor [6]; '1' → <lambda>(value)",
        None,
        "'weight' → 0",
    ]
    assert not sessions.edit_listeners


def test_a_schedule_counts_edited_steps_separately(tmp_path: Path) -> None:
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every={"eval": 2, "eval/edited": 1}) as run:
        for _ in range(4):
            with run.step("eval"):
                model(TOY)
            with cutaway.edit(model, "1", 0), run.step("eval"):
                model(TOY)
    found = cutaway.load(tmp_path / "run")
    assert found.steps_of("eval").tolist() == [0, 4]
    assert found.steps_of("eval/edited").tolist() == [1, 3, 5, 7]


def test_a_pass_under_an_edit_of_the_program_is_marked(tmp_path: Path) -> None:
    model = mlp()

    def act(run: Any) -> None:
        run.fixed_batch("toy", TOY)
        with cutaway.edit(model, "1", 0), run.step():
            model(TOY)

    run = record_one(tmp_path / "run", model, act)
    assert run.kinds == ("toy/edited", "edited")
    assert run.at(0).about["edit"] == "'1' → 0"


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_an_edit_that_does_not_fit_is_reported_and_the_model_is_as_before(tmp_path: Path) -> None:
    model = mlp()

    def act(run: Any) -> None:
        run.fixed_batch("toy", TOY, edits={"wrong": {"7": 0}})
        with run.step():
            model(TOY)
        assert any("matches no module" in problem for problem in run.problems)

    run = record_one(tmp_path / "run", model, act)
    assert run.kinds == ("toy", "")
    assert not sessions.edits


def test_descriptions_name_what_is_changed_to_what() -> None:
    model = mlp()

    def described(*args: Any, **kwargs: Any) -> str:
        found: list[str] = []
        sessions.edit_listeners.append(lambda running: found.append(running.description))
        try:
            with cutaway.edit(model, *args, **kwargs):
                model(TOY)
        finally:
            sessions.edit_listeners.pop()
        return found[0]

    assert described(["0", "3"], 0) == "'0', '3' → 0"
    assert described("1", "0") == "'1' → the value at '0'"
    assert described("1#3", cutaway.edit.clamp(0, 1)) == "'1' (units 3) → clamp(0, 1)"
    assert (
        described("1", cutaway.edit.noise(0.1), index=np.s_[:, 2])
        == "'1' (index (slice(None, None, None), 2)) → noise(0.1)"
    )
    assert described("1", cutaway.edit.swap(torch.tanh)) == "'1' → swap(tanh)"
