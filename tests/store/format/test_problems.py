"""What went wrong while recording is one list, in the recorder and in the loaded run."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import torch
from tests.store.faults import Fault, faulty
from torch import nn

import cutaway
from cutaway.recording.statistics import summary
from cutaway.store import Row, Run, Writer
from cutaway.store.format.problems import is_problem, lost_text
from cutaway.store.format.records import Note


def load(path: Any) -> Run:
    run = cutaway.load(path)
    assert isinstance(run, Run)
    return run


def train(run: Any, model: nn.Module, n: int = 2) -> None:
    for _ in range(n):
        with run.step():
            model(torch.randn(3, 4)).sum().backward()


@pytest.mark.filterwarnings("ignore:cutaway")
def test_a_loaded_run_has_the_problems_of_its_recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, n_calls = summary.Summary.add, 0

    def broken(*args: Any, **kwargs: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            raise ArithmeticError("broken on purpose")
        return real(*args, **kwargs)

    monkeypatch.setattr(summary.Summary, "add", broken)
    model = nn.Sequential(nn.Linear(4, 4))
    with cutaway.record(tmp_path / "run", model, every=1, graph=False) as run:
        train(run, model)
        run.note("a note of the user", level="error")
        inside = run.problems
    assert inside == run.problems
    assert isinstance(inside, tuple)
    failed, untraced = sorted(inside, key=lambda text: "not traced" in text)
    assert failed == "step 0: recording failed, training continues: ArithmeticError: broken on purpose"
    assert untraced.startswith("step ")
    loaded = load(tmp_path / "run")
    assert loaded.problems == inside
    assert loaded.damage == ()
    assert "a note of the user" in [note.text for note in loaded.notes]


@pytest.mark.filterwarnings("ignore:cutaway")
def test_a_resumed_run_has_the_problems_of_all_its_sessions(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    with cutaway.record(tmp_path / "run", model, every=1, graph=False) as first:
        train(first, model)
    assert len(first.problems) == 1
    with cutaway.record(tmp_path / "run", model, every=1, graph=False, resume=True) as second:
        assert second.problems == first.problems
        train(second, model)
        with second.step(number=0):
            pass
    assert second.problems[:1] == first.problems
    assert any("is not greater than the last step" in problem for problem in second.problems)
    loaded = load(tmp_path / "run")
    assert loaded.problems == second.problems
    assert loaded.session(1).problems == first.problems


def test_what_a_full_disk_has_cost_is_among_the_problems() -> None:
    url = f"memory://{uuid4()}"
    with faulty(Fault(room=3000)) as fault, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Writer(url, kind="run") as writer:
            schema = writer.schema([Row("x")])
            for step in range(40):
                writer.step(step, schema=schema, about={"text": "x" * 200})
            writer.flush()
            assert writer.problems
            fault.room = None
            writer.step(40, schema=schema)
    run = load(url)
    lost = sorted(set(range(41)) - set(run.steps.tolist()))
    assert lost
    assert run.problems == writer.problems
    assert run.problems[0].startswith(f"{lost_text('steps', tuple(lost))} could not be written: the disk is full")


@pytest.mark.parametrize(
    "text",
    [
        "recording failed, and the training goes on: ValueError: no",
        "recording failed at step 3, and the training goes on: ValueError: no",
        "recording failed, training continues: ValueError: no",
        "updates are left out: the copy they need is larger than most_update_bytes",
        "updates were not recorded: the copy they need is larger than most_update_bytes",
        "the gradient of 'encoder.0' is left out: it came twice",
        "the gradient of '0' was not recorded: it came in several backward() calls, and the graph was not retained",
        "gradients of torch.autograd.grad(is_grads_batched=True) are left out: they are many in one tensor",
        "gradients of a backward pass were not recorded: Cutaway cannot tell whether backward() or others started it",
        "the unit dimension of '1' and 3 others is unknown, so there are no statistics per unit: it is reduced",
        "the graph of the model was not traced, so units are known of torch's own layers only",
        "the model was not traced (the program uses torch.compile, or graph=False): only layers of torch.nn",
        "1,024 tensors of a traced step were overwritten before it was known what their dimensions are",
    ],
)
def test_problems_of_earlier_versions_are_recognized_by_their_words(text: str) -> None:
    assert is_problem(Note(text, 3, 0.0))


@pytest.mark.parametrize(
    "text", ["warming up", "updates are slow today", "the run ended with ValueError: no", "the gradient of x exploded"]
)
def test_notes_of_the_user_are_no_problems(text: str) -> None:
    assert not is_problem(Note(text, 3, 0.0, "error"))
