"""A step is traced unless compiled code runs in it; then nothing changes how that code is compiled and runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.recording.training import equal, left_behind
from torch import Tensor, nn

import cutaway
from cutaway.capture.patches import compiled_entry
from cutaway.store.runs.run import Run
from cutaway.views.run.arrangement import dependencies_of
from cutaway.views.run.rows import RunRows

NOTE = "the dependency graph comes from autograd"


class Model(nn.Module):
    """Calls a function between two layers."""

    def __init__(self, function: Callable[[Tensor], Tensor] = torch.relu) -> None:
        super().__init__()
        self.one, self.two, self.function = nn.Linear(3, 3), nn.Linear(3, 3), function

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.two(self.function(self.one(x))).tanh()
        return result


class Counting:
    """A backend that counts what it compiles."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, graph: Any, example: Any) -> Any:
        self.n += 1
        return graph.forward


@pytest.fixture(autouse=True)
def something_compiled() -> None:
    """The process has compiled something that no step here runs."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))


def train(path: Path | None, model: nn.Module, call: Callable[[Tensor], Tensor], **settings: Any) -> dict[str, Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    with cutaway.record(path or "", model, **{"every": 1, "enabled": path is not None, **settings}) as run:
        for _ in range(4):
            with run.step():
                call(torch.randn(4, 3)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    return left_behind(model, optimizer)


def links(path: Path) -> set[tuple[str, str]]:
    run = cutaway.load(path)
    assert isinstance(run, Run)
    graph, *_ = dependencies_of(RunRows(run), None)
    return {(link.parent, link.child) for link in graph.links}


def test_what_was_compiled_before_does_not_matter(tmp_path: Path) -> None:
    model = Model()
    train(tmp_path / "run", model, model)
    assert cutaway.load(tmp_path / "run").problems == ()
    assert (".@in.0", "one") in links(tmp_path / "run")  # autograd does not know the input


def test_code_that_disables_the_compiler_is_not_compiled_code(tmp_path: Path) -> None:
    model = Model(torch.compiler.disable(torch.relu))
    train(tmp_path / "run", model, model)
    assert cutaway.load(tmp_path / "run").problems == ()


def inside(backend: Any) -> tuple[nn.Module, Any]:
    model = Model(torch.compile(lambda x: x.relu() * 2, backend=backend))
    return model, model


def around(backend: Any) -> tuple[nn.Module, Any]:
    model = Model()
    return model, torch.compile(model, backend=backend)


def itself(backend: Any) -> tuple[nn.Module, Any]:
    model = torch.compile(Model(), backend=backend)
    return model, model


@pytest.mark.parametrize("make", [inside, around, itself])
def test_compiled_code_in_the_step_runs_as_without_us(make: Any, tmp_path: Path) -> None:
    results = []
    for path in (None, tmp_path / "run"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        backend = Counting()
        results.append((train(path, *make(backend), samples=2), backend.n))
    (plain, n_plain), (recorded, n_recorded) = results
    assert n_plain == n_recorded == 1
    for what in plain:
        assert equal(plain[what], recorded[what]), what
    run = cutaway.load(tmp_path / "run")
    assert any(NOTE in problem for problem in run.problems)
    assert {step.about["structure"] for step in run} != {""}
    assert run.at(0)["."].value.shape == run.at(3)["."].value.shape == (2, 3)
    assert (".@in.0", ".") in links(tmp_path / "run")
    if make is inside:
        assert {("one", "two"), ("one.weight", "one")} <= links(tmp_path / "run")
        assert run.at(0)["one"].value.shape == (2, 3)


def test_ops_beside_compiled_code_are_reported_and_leave_no_rows(tmp_path: Path) -> None:
    model, call = inside("eager")
    with pytest.warns(RuntimeWarning, match="is an op, which cannot be recorded because compiled code runs"):
        train(tmp_path / "run", model, call, at=["one", "./tanh", "one/linear"])
    assert cutaway.load(tmp_path / "run").sites == ("one",)


def test_a_step_that_is_kept_afterwards_can_run_compiled_code(tmp_path: Path) -> None:
    model, call = inside("eager")
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for _ in range(2):
            with run.step(kind=None):
                call(torch.randn(8, 3)).sum().backward()
                run.keep("odd", samples=2, by="anomaly")
    found = cutaway.load(tmp_path / "run")
    assert all(step["one"].value.shape == (2, 3) for step in found)


def test_samples_of_a_sequence_first_model_are_found(tmp_path: Path) -> None:
    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.cell = nn.Linear(3, 3), nn.LSTM(3, 5)
            self.function = torch.compile(lambda x: x * 2, backend="eager")

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.cell(self.function(self.embedding(x)))[0]
            return result

    model = Sequences()
    with cutaway.record(tmp_path / "run", model, every=1, samples=2) as run:
        for _ in range(2):
            with run.step():
                model(torch.randn(7, 4, 3)).sum().backward()
    found = cutaway.load(tmp_path / "run")
    assert [step["cell@out.0"].value.shape for step in found] == [(7, 2, 5)] * 2


def test_higher_order_operators_compile_themselves_and_are_traced(tmp_path: Path) -> None:
    def choose(x: Tensor) -> Tensor:
        result: Tensor = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,))
        return result

    model = Model(choose)
    train(tmp_path / "run", model, model)
    assert not any(NOTE in problem for problem in cutaway.load(tmp_path / "run").problems)
    assert (".@in.0", "one") in links(tmp_path / "run")


@pytest.mark.slow  # imports the compiler in a process of its own
def test_the_compiler_may_be_loaded_inside_the_step(tmp_path: Path) -> None:
    code = f"""
import sys, torch, cutaway
from torch import nn
made = []
def backend(graph, example):
    made.append(graph)
    return graph.forward
class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.function = nn.Linear(3, 3), None
    def forward(self, x):
        x = self.one(x)
        if self.function is None:
            self.function = torch.compile(lambda x: x * 2, backend=backend)
        return self.function(x)
model = Lazy()
assert "torch._dynamo" not in sys.modules
with cutaway.record({str(tmp_path / "run")!r}, model, every=1) as run:
    for _ in range(3):
        with run.step():
            model(torch.ones(2, 3)).sum().backward()
assert len(made) == 1, made
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    run = cutaway.load(tmp_path / "run")
    assert any(NOTE in problem for problem in run.problems)
    assert run.at(2).about["structure"]


def test_nothing_is_left_in_torch(tmp_path: Path) -> None:
    before = torch._dynamo.eval_frame._callback_from_stance
    for make in (lambda: inside("eager"), lambda: (Model(),) * 2):
        train(tmp_path / "run", *make())
        assert torch._dynamo.eval_frame._callback_from_stance is before
        assert not torch._C._len_torch_function_stack()
        assert torch._dynamo.eval_frame._stance.stance == "default"
    assert not compiled_entry._callbacks
