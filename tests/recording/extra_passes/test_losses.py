"""`run.backward`: the gradients of each loss are those of separate calls, and the training is that of the plain sum."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.recording.training import equal, left_behind
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import cutaway
from cutaway.core.errors import InputError, InputTypeError
from cutaway.store.runs.run import Run

SITES = ("body", "norm", "head", "body.weight", "norm.weight", "head.bias")


class Net(nn.Module):
    """Dropout and batch norm show random numbers and buffers that an extra pass would change."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm, self.drop = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3)
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.drop(self.norm(self.body(x)).tanh())
        return self.head(hidden), hidden


def losses_of(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    scores, hidden = model(x)
    return scores.pow(2).mean(), 0.1 * hidden.abs().mean(), 1e-2 * model.get_parameter("head.weight").pow(2).sum()


def train(backward: Callable[..., None], step: Callable[[], Any], model: nn.Module, n_steps: int = 3) -> dict[str, Any]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(1)
    for _ in range(n_steps):
        x = torch.randn(5, 4)
        with step():
            main, aux, size = losses_of(model, x)
            backward(main, aux, size)
            optimizer.step()
            optimizer.zero_grad()
    return left_behind(model, optimizer)


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def plain(model: nn.Module, **options: Any) -> dict[str, Any]:
    from contextlib import nullcontext

    return train(lambda a, b, c: (a + b + c).backward(**options), nullcontext, model)


def recorded(path: Path, model: nn.Module, *, every: Any = 1, **options: Any) -> tuple[dict[str, Any], Run]:
    with cutaway.record(path, model, every=every, samples=5) as run:
        left = train(lambda a, b, c: run.backward(main=a, aux=b, size=c, **options), run.step, model)
    return left, cutaway.load(path)


@pytest.mark.parametrize("options", [{}, {"retain_graph": True}, {"create_graph": True}], ids=str)
@pytest.mark.parametrize("every", [1, [1], None], ids=str)
@pytest.mark.filterwarnings("ignore:Using backward")
def test_the_training_is_that_of_the_plain_sum(tmp_path: Path, options: dict[str, Any], every: Any) -> None:
    left, run = recorded(tmp_path / "run", net(), every=every, **options)
    assert equal(left, plain(net(), **options))
    assert not run.problems


def test_each_part_is_what_a_separate_call_gives(tmp_path: Path) -> None:
    _, run = recorded(tmp_path / "run", net())
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(1)
    for number in range(3):
        seen: dict[str, Tensor] = {}
        handles = [
            module.register_forward_hook(lambda _, __, result, name=name: seen.update({name: result}))
            for name, module in model.named_modules()
            if name in SITES
        ]
        losses = dict(zip(("main", "aux", "size"), losses_of(model, torch.randn(5, 4)), strict=True))
        for handle in handles:
            handle.remove()
        seen.update(model.named_parameters())
        step = run.at(number)
        for name, loss in losses.items():
            for site in SITES:
                (grad,) = torch.autograd.grad(loss, seen[site], retain_graph=True, allow_unused=True)
                if grad is None:
                    assert f"grad/{name}" not in run[site].has
                    continue
                got = step[site].other(f"grad/{name}")
                if site in ("body", "norm", "head"):
                    assert np.array_equal(got.value, grad.numpy()), (site, name)
                assert got.stats["norm"] == pytest.approx(grad.norm().item(), rel=1e-5)
        sum(losses.values()).backward()
        assert step["body"].grad.stats["abs_mean"] > 0
        optimizer.step()
        optimizer.zero_grad()


def test_the_parts_are_those_of_run_gradients(tmp_path: Path) -> None:
    _, run = recorded(tmp_path / "parts", net())
    with cutaway.record(tmp_path / "primitive", model := net(), every=1, samples=5) as recorder, recorder.step():
        torch.manual_seed(1)
        losses = losses_of(model, torch.randn(5, 4))
        for name, loss in zip(("main", "aux", "size"), losses, strict=True):
            with recorder.gradients(name):
                loss.backward(retain_graph=True)
    primitive, step = cutaway.load(tmp_path / "primitive"), run.at(0)
    of = {(row.site, row.of) for row in primitive.rows if row.of.startswith("grad/")}
    assert of == {(row.site, row.of) for row in run.rows if row.of.startswith("grad/")}
    for site, name in of:
        mine, theirs = step[site].other(name), primitive.at(0)[site].other(name)
        np.testing.assert_array_equal(list(mine.stats.values()), list(theirs.stats.values()))
        if site in ("body", "norm", "head"):
            assert np.array_equal(mine.value, theirs.value)


def test_parts_of_several_micro_batches_are_summed(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    batches = torch.randn(2, 4, 3)
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        for x in batches:
            y = model(x)
            run.backward({"main loss": y.pow(2).mean()}, aux=y.mean())
    want = sum(torch.autograd.grad(model(x).pow(2).mean(), model.weight)[0] for x in batches)
    got = cutaway.load(tmp_path / "run").at(0)["weight"].other("grad/main loss")
    assert got.stats["norm"] == pytest.approx(want.norm().item(), rel=1e-5)


def test_inputs_limit_the_backward_pass_and_its_parts(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        y = model(torch.randn(4, 3))
        run.backward(a=y.mean(), b=y.pow(2).mean(), inputs=[model[2].weight])
    assert model[0].weight.grad is None
    assert model[2].weight.grad is not None
    step = cutaway.load(tmp_path / "run")
    assert {"grad/a", "grad/b"} <= set(step["2.weight"].has)
    assert "grad/a" not in step["0.weight"].has


def test_one_loss_needs_no_extra_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(3, 2)
    monkeypatch.setattr(torch.autograd, "grad", lambda *_, **__: pytest.fail("an extra pass"))
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        run.backward(main=checkpoint(model, torch.randn(4, 3), use_reentrant=False).mean())
    assert "grad/main" in cutaway.load(tmp_path / "run")["weight"].has


def test_numbers_and_losses_without_a_graph_have_no_part(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        run.backward(main=model(torch.ones(4, 3)).mean(), aux=torch.tensor(1.0), off=0.0)  # type: ignore[arg-type]
    run = cutaway.load(tmp_path / "run")
    assert run["weight"].has == ("value", "grad", "grad/main")
    assert not run.problems


# what an extra pass would run


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 2 * grad


COUNT = [0]


def counted(*_: Any) -> None:
    COUNT[0] += 1


def hook_on_an_output(model: Net, x: Tensor) -> Tensor:
    hidden = model.body(x)
    hidden.register_hook(counted)
    return model.head(hidden)


def hook_on_a_node(model: Net, x: Tensor) -> Tensor:
    hidden = model.body(x)
    hidden.grad_fn.register_hook(counted)
    return model.head(hidden)


def retained(model: Net, x: Tensor) -> Tensor:
    hidden = model.body(x)
    hidden.retain_grad()
    model.kept = hidden  # type: ignore[assignment]
    return model.head(hidden)


def module_hook(model: Net, x: Tensor) -> Tensor:
    if not model.head._backward_hooks:
        model.head.register_full_backward_hook(counted)
    return model.head(model.body(x))


def parameter_hook(model: Net, x: Tensor) -> Tensor:
    return model.head(model.body(x))


def function(model: Net, x: Tensor) -> Tensor:
    return model.head(Doubled.apply(model.body(x)))


def reentrant(model: Net, x: Tensor) -> Tensor:
    return model.head(
        checkpoint(nn.Sequential(model.body, model.norm, model.drop), x.requires_grad_(), use_reentrant=True)
    )


def checkpointed(model: Net, x: Tensor) -> Tensor:
    return model.head(checkpoint(nn.Sequential(model.body, model.norm, model.drop), x, use_reentrant=False))


def offloaded(model: Net, x: Tensor) -> Tensor:
    with torch.autograd.graph.save_on_cpu():
        return model.head(model.body(x).tanh())


EFFECTS: dict[Any, str] = {
    hook_on_an_output: "a hook of the program",
    hook_on_a_node: "a hook of the program",
    retained: "retain_grad",
    module_hook: "a hook of the program",
    parameter_hook: "a hook of the program",
    function: "the backward of Doubled is Python code",
    reentrant: "checkpointed",
    checkpointed: "checkpointed",
    offloaded: "saved tensors have hooks",
}


@pytest.mark.parametrize("forward", EFFECTS, ids=lambda forward: forward.__name__)
def test_nothing_of_the_program_runs_twice(tmp_path: Path, forward: Callable[..., Tensor]) -> None:
    def run_steps(backward: Callable[[Tensor, Tensor], None], step: Callable[[], Any], model: Net) -> Any:
        torch.manual_seed(1)
        COUNT[0] = 0
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            with step():
                y = forward(model, torch.randn(4, 4))
                backward(y.pow(2).mean(), y.abs().mean())
            optimizer.step()
            optimizer.zero_grad()
        kept = getattr(model, "kept", None)
        return COUNT[0], None if kept is None else kept.grad.clone(), left_behind(model, optimizer)

    from contextlib import nullcontext

    models = net(), net()
    if forward is parameter_hook:
        for model in models:
            model.body.weight.register_hook(counted)
    want = run_steps(lambda a, b: (a + b).backward(), nullcontext, models[0])
    with cutaway.record(tmp_path / "run", models[1], every=1) as run:
        got = run_steps(lambda a, b: run.backward(main=a, aux=b), run.step, models[1])
    assert equal(want, got)
    found = cutaway.load(tmp_path / "run")
    assert "grad/main" not in found["head.weight"].has
    notes = [problem for problem in found.problems if "grad/main, grad/aux" in problem]
    assert len(notes) == 1
    assert EFFECTS[forward] in notes[0]
    assert "run.gradients" in notes[0]


def test_a_graph_from_before_the_step_is_left_alone(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        y = model(torch.ones(4, 3))
        with run.step():
            model(torch.ones(4, 3))
            run.backward(main=y.mean(), aux=y.pow(2).mean())
    assert any("before the step" in problem for problem in cutaway.load(tmp_path / "run").problems)


def test_forward_hooks_and_a_traced_step_do_not_count_as_hooks_of_the_graph(tmp_path: Path) -> None:
    model = net()
    model.body.register_forward_hook(counted)
    _, run = recorded(tmp_path / "run", model)
    assert not run.problems
    assert "grad/aux" in run["body.weight"].has


def test_a_failed_extra_pass_leaves_no_partial_gradient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, n_calls = torch.autograd.grad, [0]

    def broken(*args: Any, **kwargs: Any) -> Any:
        n_calls[0] += 1
        result = original(*args, **kwargs)
        if n_calls[0] == 2:
            raise torch.OutOfMemoryError("broken on purpose")
        return result

    monkeypatch.setattr(torch.autograd, "grad", broken)
    with pytest.warns(RuntimeWarning, match="broken on purpose"):
        left, run = recorded(tmp_path / "run", net())
    monkeypatch.undo()
    assert equal(left, plain(net()))
    has = [{row.of for row in step.rows if row.site in ("body", "body.weight")} for step in run]
    assert "grad/main" in has[0]
    assert not {"grad/aux", "grad/size"} & has[0]
    assert "grad/aux" in has[1]


def test_without_gradients_there_is_no_extra_pass(tmp_path: Path) -> None:
    with cutaway.record(tmp_path / "run", model := nn.Linear(3, 2), every=1, gradients=False) as run, run.step():
        y = model(torch.ones(4, 3))
        run.backward(main=y.mean(), aux=y.pow(2).mean())
    assert model.weight.grad is not None
    assert cutaway.load(tmp_path / "run")["weight"].has == ("value",)


def test_a_recorder_that_is_off_runs_the_plain_pass(tmp_path: Path) -> None:
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    b.load_state_dict(copy.deepcopy(a.state_dict()))
    run = cutaway.record(tmp_path / "run", a, enabled=False)
    y, z = a(torch.ones(4, 3)), b(torch.ones(4, 3))
    run.backward(main=y.mean(), aux=y.pow(2).mean())
    (z.mean() + z.pow(2).mean()).backward()
    assert torch.equal(a.weight.grad, b.weight.grad)


def test_losses_need_names(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        with pytest.raises(InputTypeError, match="Name each loss"):
            run.backward(model(torch.ones(4, 3)).mean())  # type: ignore[arg-type]
        with pytest.raises(InputError, match="got no loss"):
            run.backward()


def test_a_compiled_model_gets_a_note(tmp_path: Path) -> None:
    models = net(), net()
    compiled = [torch.compile(model, backend="aot_eager") for model in models]
    left, run = recorded(tmp_path / "run", compiled[0])
    assert equal(left, plain(compiled[1]))
    assert any("a part of the model is compiled" in problem for problem in run.problems)


def test_a_distributed_program_gets_a_note(tmp_path: Path) -> None:
    model = net()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
            wrapped = nn.parallel.DistributedDataParallel(model)
            scores, hidden = wrapped(torch.randn(5, 4))
            run.backward(main=scores.mean(), aux=hidden.mean())
    finally:
        torch.distributed.destroy_process_group()
    assert model.head.weight.grad is not None
    assert any("the program is distributed" in problem for problem in run.problems)
