"""`run.fixed_batch`: each pass has the values of a copy of the model, and leaves the training alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.recording.training import Off, equal, left_behind
from torch import Tensor, nn

import cutaway
from cutaway.store.runs.run import Run

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


class Net(nn.Module):
    """Dropout, batch norm, a counter and a cache: what a pass changes if nobody puts it back."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm, self.drop = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3)
        self.head = nn.Linear(6, 2)
        self.n_calls, self.seen = 0, []  # type: ignore[var-annotated]

    def forward(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
        self.n_calls += 1
        self.seen.append(tuple(x.shape))
        hidden = self.drop(self.norm(self.body(x)).relu())
        return self.head(hidden if shift is None else hidden + shift)

    def encode(self, x: Tensor) -> Tensor:
        return self.norm(self.body(x))


TOY = torch.arange(12.0).reshape(3, 4) / 12


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def train(model: Any, run: Any, n_steps: int = 6, number: Callable[[int], int | None] = lambda n: None) -> Any:
    """Train; returns what is left behind, and a copy of the model before each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    torch.manual_seed(1)
    copies = []
    for n in range(n_steps):
        copies.append(copy.deepcopy(getattr(model, "_orig_mod", model)))
        with run.step(number=number(n)):
            loss = model(torch.randn(5, 4)).pow(2).mean()
            loss.backward()
            optimizer.step()
            if n % 2:  # else gradients are left from one step to the next
                optimizer.zero_grad()
    inner = getattr(model, "_orig_mod", model)
    return {**left_behind(inner, optimizer), "calls": (inner.n_calls, inner.seen), "mode": inner.training}, copies


def recorded(path: Path, model: Any, register: Callable[[Any], None], **settings: Any) -> tuple[Any, Any, Run]:
    with cutaway.record(path, model, **{"every": 2, "samples": 3, **settings}) as run:
        register(run)
        left, copies = train(model, run)
    return left, copies, cutaway.load(path)


@pytest.mark.parametrize("training", [False, True])
def test_the_training_is_untouched_and_each_pass_is_that_of_a_copy(tmp_path: Path, training: bool) -> None:
    def register(run: Any) -> None:
        batch = TOY.clone()
        run.fixed_batch("toy", batch, every=2, training=training)
        batch.zero_()  # the recorder has a copy

    left, copies, run = recorded(tmp_path / "run", net(), register)
    assert equal(left, train(net(), Off())[0])
    assert not run.problems
    assert len(run.steps_of("toy")) == 3
    for number, model in zip(run.steps_of("toy"), copies[::2], strict=True):
        step = run.at(number)
        assert step.about["fixed_batch"] == "toy"
        assert {row.of for row in step.rows} == {"value"}
        assert step["body.weight"].stats["norm"] == pytest.approx(model.body.weight.norm().item(), rel=1e-5)
        assert np.array_equal(step["."].value, output_of(model, training))
        assert np.array_equal(step[".@in.0"].value, TOY.numpy())


def output_of(model: Net, training: bool) -> Any:
    model.train(training)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        return model(TOY).numpy()


def test_a_pass_has_the_number_before_its_step_if_that_is_free(tmp_path: Path) -> None:
    _, _, run = recorded(tmp_path / "run", net(), lambda run: run.fixed_batch("toy", TOY, every=4), every=3)
    # Before the first step no number is free, so the steps are 1 to 6; 1 and 4 are recorded.
    assert run.steps_of("").tolist() == [1, 4]
    assert run.steps_of("toy").tolist() == [0, 5]


def test_numbers_of_the_user_are_kept(tmp_path: Path) -> None:
    with cutaway.record(tmp_path / "run", model := net(), every=3) as run:
        run.fixed_batch("toy", TOY, every=4)
        train(model, run, 8, number=lambda n: n)
    found = cutaway.load(tmp_path / "run")
    assert found.steps_of("").tolist() == [0, 3, 6]
    assert found.steps_of("toy").tolist() == [1, 4]
    assert not found.problems


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_a_pass_without_a_free_number_is_reported(tmp_path: Path) -> None:
    with cutaway.record(tmp_path / "run", model := net(), every=1) as run:
        run.fixed_batch("toy", TOY)
        train(model, run, 22, number=lambda n: n)
    assert cutaway.load(tmp_path / "run").kinds == ("",)
    assert any("needs step numbers of its own" in problem for problem in run.problems)


CALLS: dict[str, tuple[Any, Callable[[Net], Any] | None]] = {
    "tensor": (TOY, None),
    "tuple": ((TOY, torch.ones(6)), None),
    "list": ([TOY], None),
    "dict": ({"x": TOY, "shift": torch.ones(6)}, None),
    "forward": ({"words": TOY}, lambda model: lambda batch: model.encode(batch["words"])),
}


@pytest.mark.parametrize("way", CALLS)
def test_the_model_is_called_as_the_batch_says(tmp_path: Path, way: str) -> None:
    batch, forward = CALLS[way]
    model = net()
    options = {} if forward is None else {"forward": forward(model)}
    _, copies, run = recorded(tmp_path / "run", model, lambda run: run.fixed_batch("toy", batch, **options))
    step = run.at(run.steps_of("toy")[0])
    copies[0].eval()
    with torch.no_grad():
        if way == "forward":
            assert np.array_equal(step["norm"].value, copies[0].encode(TOY).numpy())
            assert "." not in {row.site for row in step.rows}
        else:
            got = copies[0](**batch) if isinstance(batch, dict) else copies[0](*batch) if way != "tensor" else None
            assert np.array_equal(step["."].value, (copies[0](TOY) if got is None else got).numpy())


def test_a_forward_may_name_tensors_and_even_run_backward(tmp_path: Path) -> None:
    model = net()

    def register(run: Any) -> None:
        def forward(batch: Tensor) -> None:
            with torch.enable_grad():
                loss = model(batch).pow(2).mean()
                loss.backward()
            run.tensor("loss", loss)
            run.samples(text=["a", "b", "c"])

        run.fixed_batch("toy", TOY, every=2, forward=forward)

    left, _, run = recorded(tmp_path / "run", model, register)
    assert equal(left, train(net(), Off())[0])
    step = run.at(run.steps_of("toy")[0])
    assert step["$loss"].stats["mean"] > 0
    assert step.samples.text == ["a", "b", "c"]
    assert not run.problems


@pytest.mark.parametrize("way", ["compiled", "in place", "a part"])
def test_a_compiled_model_runs_eagerly_and_is_not_compiled_again(tmp_path: Path, way: str) -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def compiled() -> Any:
        torch._dynamo.reset()
        graphs.clear()
        model = net()
        if way == "compiled":
            return torch.compile(model, backend=backend)
        if way == "in place":
            model.compile(backend=backend)
        else:
            model.head = torch.compile(model.head, backend=backend)
        return model

    plain = train(compiled(), Off())[0]
    n_graphs = len(graphs)
    left, copies, run = recorded(tmp_path / "run", compiled(), lambda run: run.fixed_batch("toy", TOY, every=3))
    assert len(graphs) == n_graphs
    assert equal(left, plain)
    step = run.at(run.steps_of("toy")[0])
    assert {"body", "norm", "head"} <= {row.site for row in step.rows}
    copies[0].eval()
    with torch.no_grad(), torch._dynamo.config.patch(disable=True):
        assert np.array_equal(step["."].value, copies[0](TOY).numpy())
        assert np.array_equal(step["body"].value, copies[0].body(TOY).numpy())


def test_a_lazy_model_is_initialized_by_the_training(tmp_path: Path) -> None:
    def trained(make: Callable[[Any], Any]) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.LazyLinear(3), nn.Tanh(), nn.Linear(3, 1))
        run = make(model)
        for _ in range(2):
            with run.step():
                model(torch.randn(3, 4)).sum().backward()
        run.close()
        return left_behind(model)

    def make(model: Any) -> Any:
        run = cutaway.record(tmp_path / "run", model, every=1)
        run.fixed_batch("toy", TOY, every=1)
        return run

    assert equal(trained(make), trained(lambda model: Off()))
    assert cutaway.load(tmp_path / "run").kinds == ("toy", "")


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_a_batch_that_fails_is_reported_once_and_left_out(tmp_path: Path) -> None:
    model = net()
    with pytest.warns(RuntimeWarning, match="the fixed batch 'wrong' failed and is not passed again"):
        left, _, run = recorded(
            tmp_path / "run", model, lambda run: run.fixed_batch("wrong", torch.ones(3, 5), every=1), every=1
        )
    assert equal(left, train(net(), Off())[0])
    assert run.kinds == ("",)
    assert len(run.problems) == 1


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_mistakes_are_said(tmp_path: Path) -> None:
    models = {"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)}
    with cutaway.record(tmp_path / "run", models, every=1) as run:
        run.fixed_batch("toy", TOY)
        run.fixed_batch(3, TOY, forward=models["a"])  # type: ignore[arg-type]
        run.fixed_batch("toy", TOY, forward=lambda x: models["b"](models["a"](x)))
        run.fixed_batch("toy", TOY, forward=models["a"])
        with run.step("toy"):
            models["a"](TOY)
    assert [problem for problem in run.problems if "several models" in problem]
    assert [problem for problem in run.problems if "the name is an int" in problem]
    assert [problem for problem in run.problems if "choose another name" in problem]
    assert [problem for problem in run.problems if "the name of a fixed batch" in problem]
    assert cutaway.load(tmp_path / "run").at(0)["b"].stats["count"] == 12


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_a_resumed_run_continues_the_schedule_of_the_same_batch(tmp_path: Path) -> None:
    for session, batch in enumerate((TOY, TOY, TOY + 1)):
        with cutaway.record(tmp_path / "run", model := net(), every=None, resume=session > 0) as run:
            run.fixed_batch("toy", batch, every=4)
            train(model, run, 3)
        assert len(run.problems) == (session == 2)
    assert "has another batch of this name" in run.problems[0]
    # Steps 0 and 4 of the training, which is numbered from 1.
    assert len(cutaway.load(tmp_path / "run").steps_of("toy")) == 2


def test_ddp_is_not_called_so_that_ranks_need_not_talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
        monkeypatch.setattr(model, "forward", lambda *_: pytest.fail("called"))
        with cutaway.record(tmp_path / "run", model, every=1, samples=2) as run:
            run.fixed_batch("toy", TOY)
            with run.step():
                pass
    finally:
        torch.distributed.destroy_process_group()
    step = cutaway.load(tmp_path / "run").at(0)
    assert step["module.0"].value.shape == (2, 3)


def test_a_recorder_that_is_off_does_nothing(tmp_path: Path) -> None:
    run = cutaway.record(tmp_path / "run", net(), enabled=False)
    run.fixed_batch("toy", TOY)
    with run.step():
        pass
    assert not (tmp_path / "run").exists()
