"""What a recorder works with: each way of training, against plain torch."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.recording.training import equal, left_behind
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import cutaway
from cutaway.store.runs.run import Run

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def norm(tensor: Tensor | None) -> Any:
    assert tensor is not None
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    return pytest.approx(float(dense.double().norm() if not dense.is_complex() else dense.abs().norm()), rel=1e-4)


def loaded(path: Path, *mistakes: str) -> Run:
    """The run, which has no problems but these mistakes of the program."""
    found = cutaway.load(path)
    assert isinstance(found, Run)
    assert not found.damage
    errors = [note.text for note in found.notes if note.level == "error"]
    assert len(errors) == len(mistakes)
    assert all(mistake in error for mistake, error in zip(mistakes, errors, strict=True))
    return found


Loop = Callable[[nn.Module, Any], Any]


def both_ways(
    path: Path, build: Callable[[], nn.Module], loop: Loop, mistakes: Sequence[str] = (), **settings: Any
) -> tuple[Run, Any]:
    """Train with a recorder and without; the same bits are left. Gives the run and what the plain loop gave."""

    class Off:
        recording = False

        def __getattr__(self, name: str) -> Any:
            return lambda *args, **kwargs: nullcontext()

    def once(run_of: Callable[[nn.Module], Any]) -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = build()
        torch.manual_seed(1)
        run = run_of(model)
        given = loop(model, run)
        if not isinstance(run, Off):
            run.close()
        return given, left_behind(model)

    given, plain = once(lambda model: Off())
    _, recorded = once(lambda model: cutaway.record(path, model, **{"every": 1, "samples": 2, **settings}))
    for what in plain:
        assert equal(plain[what], recorded[what]), f"{what} differ"
    return loaded(path, *mistakes), given


# optimizers


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("has_scaler", [False, True])
def test_autocast_with_and_without_a_scaler(precision: torch.dtype, has_scaler: bool, tmp_path: Path) -> None:
    def loop(model: nn.Module, run: Any) -> list[dict[str, Tensor]]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=has_scaler, init_scale=64.0)
        grads = []
        for _ in range(3):
            with run.step():
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision is torch.bfloat16):
                    loss = model(torch.randn(5, 4)).float().pow(2).mean()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                grads.append({name: p.grad.clone() for name, p in model.named_parameters()})
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=False)
        return grads

    run, grads = both_ways(tmp_path / "run", mlp, loop)
    for number, of_step in enumerate(grads):
        for name, grad in of_step.items():
            assert run.at(number)[name].grad.stats["norm"] == norm(grad)
    assert run.at(0)["0"].dtype == str(precision).removeprefix("torch.")


def test_a_step_that_the_scaler_skips_has_no_update(tmp_path: Path) -> None:
    def loop(model: nn.Module, run: Any) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        for number in range(3):
            with run.step():
                loss = model(torch.randn(5, 4)).pow(2).mean() * (float("inf") if number == 1 else 1)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                run.log(scale=scaler.get_scale())
            optimizer.zero_grad()

    run, _ = both_ways(tmp_path / "run", mlp, loop)
    assert run.scalars["scale"].values.tolist() == [64, 32, 32]
    assert run.at(1)["0.weight"].update is None
    assert run.at(1)["0.weight"].grad.stats["nonfinite"] == 1
    assert run.at(2)["0.weight"].update is not None


def test_a_fused_optimizer_unscales_by_itself_and_is_recorded_unscaled(tmp_path: Path) -> None:
    def loop(model: nn.Module, run: Any) -> list[Tensor]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        grads = []
        for _ in range(2):
            with run.step():
                scaler.scale(model(torch.randn(5, 4)).pow(2).mean()).backward()
                grads.append(model[0].weight.grad / 1024)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        return grads

    run, grads = both_ways(tmp_path / "run", mlp, loop)
    for number, grad in enumerate(grads):
        assert run.at(number)["0.weight"].grad.stats["norm"] == norm(grad)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "foreach": lambda p: torch.optim.RMSprop(p, lr=0.1, foreach=True),
    "groups": lambda p: torch.optim.SGD([{"params": one, "lr": 0.1 / n} for n, one in enumerate(p, 1)], momentum=0.9),
    "own": lambda p: Own(p),
}


class Own(torch.optim.Optimizer):
    """Overwrites the gradients in place, as some optimizers do."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.sign_()
                    parameter.add_(parameter.grad, alpha=-group["lr"])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_are_as_the_optimizer_reads_them_and_updates_as_it_makes_them(name: str, tmp_path: Path) -> None:
    def loop(model: nn.Module, run: Any) -> list[tuple[Tensor, Tensor, Tensor]]:
        optimizer = OPTIMIZERS[name](model.parameters())
        found = []
        for _ in range(3):
            with run.step():
                model(torch.randn(5, 4)).pow(2).mean().backward()
                before, grad = model[0].weight.detach().clone(), model[0].weight.grad.clone()
                optimizer.step()
                found.append((before, grad, model[0].weight.detach() - before))
                optimizer.zero_grad()
        return found

    run, found = both_ways(tmp_path / "run", mlp, loop)
    for number, (before, grad, update) in enumerate(found):
        moment = run.at(number)["0.weight"]
        assert moment.stats["norm"] == norm(before)
        assert moment.grad.stats["norm"] == norm(grad)
        assert moment.update.stats["norm"] == norm(update)


@pytest.mark.parametrize("lazy", [True, False])
def test_an_optimizer_that_is_given_a_closure(lazy: bool, tmp_path: Path) -> None:
    def loop(model: nn.Module, run: Any) -> list[tuple[Tensor, Tensor]]:
        optimizer: Any = torch.optim.LBFGS(model.parameters(), max_iter=3) if lazy else torch.optim.SGD(
            model.parameters(), lr=0.1
        )  # fmt: skip
        found = []
        for _ in range(2):
            x = torch.randn(5, 4)
            with run.step():

                def closure(x: Tensor = x) -> Tensor:
                    optimizer.zero_grad()
                    loss = model(x).pow(2).mean()
                    loss.backward()
                    return loss

                before = model[0].weight.detach().clone()
                optimizer.step(closure)
                found.append((model[0].weight.grad.clone(), model[0].weight.detach() - before))
        return found

    run, found = both_ways(tmp_path / "run", mlp, loop)
    for number, (grad, update) in enumerate(found):
        assert run.at(number)["0.weight"].grad.stats["norm"] == norm(grad)
        assert run.at(number)["0.weight"].update.stats["norm"] == norm(update)


def test_several_steps_of_an_optimizer_in_one_step_are_numbered(tmp_path: Path) -> None:
    def loop(model: nn.Module, run: Any) -> list[Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        grads = []
        with run.step():
            for _ in range(3):
                model(torch.randn(5, 4)).pow(2).mean().backward()
                grads.append(model[0].weight.grad.clone())
                optimizer.step()
                optimizer.zero_grad()
        return grads

    run, grads = both_ways(tmp_path / "run", mlp, loop)
    moment = run.at(0)["0.weight"]
    for number, grad in enumerate(grads, 1):
        end = f"@{number}" if number > 1 else ""
        assert moment.other(f"grad{end}").stats["norm"] == norm(grad)
        assert moment.other(f"update{end}").stats["norm"] == norm(grad * 0.1)
    assert [row.of for row in run.rows if row.site == "0.weight"].count("value") == 1


def test_without_an_optimizer_and_with_one_outside_all_steps(tmp_path: Path) -> None:
    def loop(model: nn.Module, run: Any) -> list[Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        grads = []
        for _ in range(2):
            with run.step():
                model(torch.randn(5, 4)).pow(2).mean().backward()
                grads.append(model[0].weight.grad.clone())
            optimizer.step()
            optimizer.zero_grad()
        return grads

    run, grads = both_ways(tmp_path / "run", mlp, loop, ["move optimizer.step() into"])
    for number, grad in enumerate(grads):
        assert run.at(number)["0.weight"].grad.stats["norm"] == norm(grad)
        assert run.at(number)["0.weight"].update is None


def test_accumulation_over_several_steps(tmp_path: Path) -> None:
    def loop(model: nn.Module, run: Any) -> list[Tensor]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        grads = []
        for number in range(8):
            with run.step():
                (model(torch.randn(5, 4)).pow(2).mean() / 4).backward()
                grads.append(model[2].bias.grad.clone())
                if number % 4 == 3:
                    optimizer.step()
                    optimizer.zero_grad()
        return grads

    run, grads = both_ways(tmp_path / "run", mlp, loop)
    assert run["2.bias"].grad.stats("norm").tolist() == [norm(grad) for grad in grads]
    assert [run.at(number)["2.bias"].update is not None for number in range(8)] == [False, False, False, True] * 2


def test_one_loss_name_over_several_backward_passes(tmp_path: Path) -> None:
    def loop(model: nn.Module, run: Any) -> Tensor:
        with run.step():
            for _ in range(2):
                with run.gradients("size"):
                    model(torch.ones(2, 4)).pow(2).sum().backward()
        return model[0].weight.grad.clone()

    run, grad = both_ways(tmp_path / "run", mlp, loop)
    moment = run.at(0)["0.weight"]
    assert moment.other("grad/size").stats["norm"] == moment.grad.stats["norm"] == norm(grad)
    assert [row.of for row in run.rows if row.site == "0.weight"] == ["value", "grad", "grad/size"]
    assert "0.weight:2" not in run


# checkpoints


class Loops(nn.Module):
    """One module several times in a checkpointed segment, and in several segments."""

    def __init__(self, reentrant: bool | None, is_nested: bool) -> None:
        super().__init__()
        self.first, self.cell, self.drop = nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout(0.3)
        self.reentrant, self.is_nested = reentrant, is_nested

    def inner(self, x: Tensor) -> Tensor:
        return self.drop(self.cell(x).sin())

    def segment(self, x: Tensor) -> Tensor:
        x = self.cell(x).tanh()
        return self.again(self.inner, x) if self.is_nested else self.inner(x)

    def again(self, function: Any, x: Tensor) -> Any:
        return function(x) if self.reentrant is None else checkpoint(function, x, use_reentrant=self.reentrant)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for _ in range(3):
            x = self.again(self.segment, x)
        return self.cell(x)


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_inside_checkpoints_belong_to_the_right_pass(
    reentrant: bool, is_nested: bool, tmp_path: Path
) -> None:
    def loop(model: nn.Module, run: Any) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            with run.step():
                model(torch.randn(3, 4)).pow(2).sum().backward()
                optimizer.step()
                optimizer.zero_grad()

    run, _ = both_ways(tmp_path / "a", lambda: Loops(reentrant, is_nested), loop)
    plain, _ = both_ways(tmp_path / "b", lambda: Loops(None, False), loop)
    for number in range(2):
        for pass_ in range(1, 8):
            here, there = run.at(number)[f"cell:{pass_}"], plain.at(number)[f"cell:{pass_}"]
            assert np.allclose(here.value, there.value)
            if here.grad is not None or not is_nested:
                assert np.allclose(here.grad.value, there.grad.value, atol=1e-6), pass_
    assert set(run.sites) == set(plain.sites)
    assert "cell:8" not in run
    assert run.at(0)["cell:7"].grad is not None


def test_checkpoints_inside_iterations(tmp_path: Path) -> None:
    def loop(model: Any, run: Any) -> None:
        x = torch.randn(3, 4)
        with run.step():
            for _ in range(3):
                with run.iteration():
                    x = checkpoint(model, x, use_reentrant=True) if run.recording is not None else x
            x.requires_grad and x.sum().backward()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.cell(x + 0 * self.cell.weight.sum()).tanh()

    run, _ = both_ways(tmp_path / "run", Net, loop)
    assert run.at(0)["cell"].other("value", iteration=3).value.shape == (2, 4)


# compiled


def counting() -> tuple[list[Any], Callable[..., Any]]:
    made: list[Any] = []

    def backend(graph: Any, example: Any) -> Any:
        made.append(graph)
        return graph.forward

    return made, backend


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.two(self.one(x).relu()).relu())


def whole(model: Any, backend: Any) -> Any:
    return torch.compile(model, backend=backend)


def in_place(model: Any, backend: Any) -> Any:
    model.compile(backend=backend)
    return model


def part(model: Any, backend: Any) -> Any:
    model.two = torch.compile(model.two, backend=backend)
    return model


def part_in_place(model: Any, backend: Any) -> Any:
    model.two.compile(backend=backend)
    return model


def forward_only(model: Any, backend: Any) -> Any:
    model.forward = torch.compile(model.forward, backend=backend)
    return model


def function(model: Any, backend: Any) -> Any:
    return torch.compile(lambda x: model(x) * 2, backend=backend)


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize("way", [whole, in_place, part, part_in_place, forward_only, function])
@pytest.mark.parametrize("given", ["model", "compiled"])
def test_what_is_compiled_runs_and_is_compiled_as_without_us(
    way: Any, is_warm: bool, given: str, tmp_path: Path
) -> None:
    def once(path: Path | None) -> tuple[int, Any]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        made, backend = counting()
        model = Blocks()
        compiled = way(model, backend)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        subject = compiled if given == "compiled" and isinstance(compiled, nn.Module) else model
        run = cutaway.record(path or tmp_path, subject, every=2, enabled=path is not None, samples=1)
        for number in range(5):
            if number or not is_warm:
                with run.step():
                    compiled(torch.randn(3, 4)).sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
            else:
                compiled(torch.randn(3, 4)).sum().backward()
        compiled(torch.randn(3, 4))
        run.close()
        return len(made), left_behind(model)

    n_plain, plain = once(None)
    n_recorded, recorded = once(tmp_path / "run")
    assert n_recorded == n_plain
    plain.pop("hooks"), recorded.pop("hooks")
    for what in plain:
        assert equal(plain[what], recorded[what]), what
    run = loaded(tmp_path / "run", *(["no call of the model was seen"] if way is function else []))
    assert run["head.weight"].grad.stats("norm").min() > 0
    if way in (part, part_in_place):
        step = run.at(0)
        assert {"one", "two", "head"} <= set(run.sites)
        assert step["two"].grad is not None
    if way in (whole, in_place, forward_only):
        assert run.at(0)["."].value.shape == (1, 2)


# models of all sorts


def test_parameters_that_are_tied_and_frozen(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 4)
            self.body = nn.Linear(4, 4).requires_grad_(False)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.body(self.table(ids)))

    def loop(model: Any, run: Any) -> Tensor:
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for _ in range(2):
            with run.step():
                model(torch.tensor([[1, 2], [3, 3]])).pow(2).mean().backward()
                grad = model.head.weight.grad.clone()
                optimizer.step()
                optimizer.zero_grad()
        return grad

    run, grad = both_ways(tmp_path / "run", Tied, loop)
    assert run["head.weight"].site == run["table.weight"].site
    assert run.at(1)["head.weight"].grad.stats["norm"] == norm(grad)
    assert run.at(1)["body.weight"].grad is None
    assert run.at(1)[".@in.0"].value.tolist() == [[1, 2], [3, 3]]


def test_adapters_that_come_later_and_modules_that_are_replaced(tmp_path: Path) -> None:
    class Lora(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Linear(base.in_features, 2, bias=False)
            self.up = nn.Linear(2, base.out_features, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.base(x) + self.up(self.down(x))

    def loop(model: Any, run: Any) -> list[Tensor]:
        grads = []
        for number in range(4):
            if number == 2:
                model[0] = Lora(model[0])
                model[2] = nn.Linear(8, 5)
            optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
            with run.step():
                model(torch.randn(3, 4)).pow(2).mean().backward()
                grads.append(model[2].weight.grad.clone())
                optimizer.step()
                optimizer.zero_grad()
        return grads

    run, grads = both_ways(tmp_path / "run", mlp, loop)
    assert "0.down" not in run.at(1)
    assert "0.down" in run.at(2)
    assert run.at(2)["0.base.weight"].grad is None
    assert run.at(3)["0.up.weight"].grad is not None
    assert [run.at(n)["2.weight"].grad.stats["norm"] for n in range(4)] == [norm(grad) for grad in grads]
    assert "0.up" in run.documents["modules"]["address"]


def test_parametrized_and_lazy_modules(tmp_path: Path) -> None:
    def build() -> nn.Module:
        return nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
            nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
            nn.utils.spectral_norm(nn.Linear(4, 4)),
            nn.LazyLinear(3),
        )

    def loop(model: nn.Module, run: Any) -> None:
        optimizer: Any = None
        for _ in range(3):
            with run.step():
                model(torch.randn(3, 4)).pow(2).mean().backward()
                optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
                optimizer.step()
                optimizer.zero_grad()

    run, _ = both_ways(tmp_path / "run", build, loop)
    assert run["0.parametrizations.weight.original0"].grad.stats("norm").shape == (3,)
    assert run["3.weight"].update.stats("norm").shape == (3,)
    assert "2.weight_orig" in run.sites


def test_a_lazy_module_that_never_ran_is_no_trouble(tmp_path: Path) -> None:
    run = cutaway.record(tmp_path / "run", nn.Sequential(nn.LazyLinear(3)), every=1, samples=1)
    with run.step():
        pass
    run.close()  # the end of a `with` block would warn that the model was never called
    loaded(tmp_path / "run")


def test_hooks_that_replace_results_are_heeded(tmp_path: Path) -> None:
    model = mlp()
    model[0].register_forward_hook(lambda module, args, result: result * 2)
    model[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    x = torch.randn(3, 4)
    with cutaway.record(tmp_path / "run", model, every=1, samples=3) as run:
        for _ in range(2):
            with run.step():
                with pytest.raises(RuntimeError):
                    model(torch.randn(3, 5))
                model(x)
    step = loaded(tmp_path / "run").at(1)
    assert np.array_equal(step["0"].value, (nn.functional.linear(x + 1, model[0].weight, model[0].bias) * 2).detach())
    assert len(model[0]._forward_hooks) == 1
    assert "0:2" not in loaded(tmp_path / "run")


def test_results_of_every_sort(tmp_path: Path) -> None:
    @dataclass
    class Answer:
        value: Tensor
        extra: Any = None

    class Part(nn.Module):
        def __init__(self, give: Callable[[Tensor], Any]) -> None:
            super().__init__()
            self.give = give

        def forward(self, x: Tensor) -> Any:
            return self.give(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dict = Part(lambda x: {"a": x + 1, "b/c": [x + 2, 3]})
            self.twice = Part(lambda x: (y := x * 2, (y, {"z": y})))
            self.data = Part(lambda x: Answer(x + 3))
            self.none = Part(lambda x: None)
            self.number = Part(lambda x: 3.5)
            self.lazily = Part(lambda x: (x + n for n in range(3)))
            self.same = Part(lambda x: x)
            self.view = Part(lambda x: x[:, ::2])
            self.writes = Part(lambda x: x.mul_(2))

        def forward(self, x: Tensor) -> Any:
            self.dict(x), self.twice(x), self.none(x), self.number(x)
            assert len(list(self.lazily(x))) == 3
            x = self.same(x)
            return Answer(self.writes(self.view(self.data(x).value) + 0), {"more": x})

    x = torch.arange(8.0).reshape(2, 4)
    with cutaway.record(tmp_path / "run", Model(), every=1, samples=2) as run:
        with run.step():
            run._cycle.models.root(x)
    step = loaded(tmp_path / "run").at(0)
    assert np.array_equal(step["dict@out.a"].value, x + 1)
    assert np.array_equal(step["twice@out.0"].value, x * 2)
    assert step["twice@out.1.0"].site == "twice@out.0"
    assert step["same"].site == ".@in.0"
    assert np.array_equal(step["view"].value, (x + 3)[:, ::2])
    assert np.array_equal(step["writes"].value, (x + 3)[:, ::2] * 2)
    assert np.array_equal(step[".@out.value"].value, (x + 3)[:, ::2] * 2)


def test_an_identity_that_runs_twice_has_both_passes(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.same, self.layer = nn.Identity(), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = self.layer(x)
            return self.same(x) + self.same(x)

    run, _ = both_ways(tmp_path / "run", Model, lambda model, run: _one_step(model, run))
    for name in ("same:1", "same:2"):
        assert run[name].stats("norm").tolist() == run["layer"].stats("norm").tolist()


def _one_step(model: nn.Module, run: Any) -> None:
    with run.step():
        model(torch.randn(3, 4)).sum().backward()


def test_in_place_modules_have_the_gradient_of_each_stage(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    model = nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(0.1, inplace=True), nn.Linear(4, 4))
    other = copy.deepcopy(model)
    with cutaway.record(tmp_path / "run", model, every=1, samples=3) as run:
        with run.step():
            model(x).pow(2).sum().backward()
    step = loaded(tmp_path / "run").at(0)
    first = nn.functional.linear(x, other[0].weight, other[0].bias)
    second = nn.functional.leaky_relu(first, 0.1)
    third = nn.functional.linear(second, other[2].weight, other[2].bias)
    for value in (first, second, third):
        value.retain_grad()
    third.pow(2).sum().backward()
    for site, value in zip("012", (first, second, third), strict=True):
        assert np.array_equal(step[site].value, value.detach())
        assert np.allclose(step[site].grad.value, value.grad)


def test_in_place_modules_without_gradients(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    for mode in (torch.inference_mode, torch.no_grad):
        with cutaway.record(tmp_path / mode.__name__, model, every=1, samples=3) as run:
            with run.step(), mode():
                model(x)
        step = loaded(tmp_path / mode.__name__).at(0)
        first = nn.functional.linear(x, model[0].weight, model[0].bias).detach()
        assert np.array_equal(step["0"].value, first)
        assert np.array_equal(step["1"].value, first.relu())
        assert np.array_equal(step["."].value, first.relu())


def test_sparse_gradients(tmp_path: Path) -> None:
    def loop(model: Any, run: Any) -> Tensor:
        optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.1)
        with run.step():
            model(torch.tensor([1, 1, 2, 7])).pow(2).sum().backward()
            grad = model.weight.grad.clone()
            optimizer.step()
            optimizer.zero_grad()
        return grad

    run, grad = both_ways(tmp_path / "run", lambda: nn.Embedding(10, 3, sparse=True), loop)
    assert run.at(0)["weight"].grad.stats["norm"] == norm(grad)
    assert run.at(0)["weight"].update.stats["norm"] > 0


def test_batches_of_every_size(tmp_path: Path) -> None:
    x = [torch.randn(n, 4) for n in (5, 1, 0, 7)]
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1, samples=[0, 3], statistics="full") as run:
        for batch in x:
            with run.step():
                model(batch).sum().backward()
    found = loaded(tmp_path / "run")
    for number, batch in enumerate(x):
        kept = batch[[n for n in (0, 3) if n < len(batch)]]
        assert np.array_equal(found.at(number)[".@in.0"].value, kept)
        assert found.at(number)["0"].grad.value.shape == (len(kept), 8)


def test_micro_batches_of_different_sizes_keep_their_first_samples(tmp_path: Path) -> None:
    x = torch.randn(7, 4)
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1, samples=2) as run:
        with run.step():
            losses = [model(part).sum() for part in x.split(4)]
            sum(losses).backward()
    step = loaded(tmp_path / "run").at(0)
    assert np.array_equal(step[".@in.0:1"].value, x[:2])
    assert np.array_equal(step[".@in.0:2"].value, x[4:6])
    assert step["0:1"].grad.value.shape == step["0:2"].grad.value.shape == (2, 8)


def test_a_module_that_runs_a_thousand_times(tmp_path: Path) -> None:
    cell = nn.Linear(4, 4)
    with cutaway.record(tmp_path / "run", cell, every=1, samples=1, graph=False) as run:
        with run.step():
            x = torch.randn(2, 4)
            for _ in range(1000):
                x = cell(x)
            x.sum().backward()
    step = loaded(tmp_path / "run").at(0)
    assert np.array_equal(step[".:1000"].value, x.detach()[:1])
    assert step[".:1"].grad is not None


def test_numbers_of_every_sort(tmp_path: Path) -> None:
    odd = {
        "nan": torch.tensor([[float("nan"), 1.0]]),
        "inf": torch.tensor([[float("inf"), -float("inf")]]),
        "large": torch.tensor([[2**62, -(2**62)]]),
        "complex": torch.randn(1, 2, dtype=torch.complex128).conj(),
        "sparse": torch.eye(3).to_sparse(),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "meta": torch.empty(2, device="meta"),
        "expanded": torch.ones(1).expand(1, 1000),
        "flipped": torch.randn(1, 4).T,
        "leaf": torch.ones(2, requires_grad=True),
        "uint8": torch.ones(1, 2, dtype=torch.uint8),
        "float8": torch.ones(1, 2).to(torch.float8_e4m3fn),
    }
    for level in ("core", "full"):
        with cutaway.record(tmp_path / level, mlp(), every=1, samples=1, statistics=level) as run:
            with run.step(batch_size=1):
                for name, tensor in odd.items():
                    run.tensor(name, tensor)
                run.tensor("parameter", run._cycle.models.root[0].weight)
        step = loaded(tmp_path / level).at(0)
        assert {f"${name}" for name in odd} <= set(loaded(tmp_path / level).sites)
        assert np.array_equal(step["$large"].value, odd["large"])
        assert np.array_equal(step["$complex"].value, odd["complex"].resolve_conj())
        assert np.array_equal(step["$nan"].value, odd["nan"], equal_nan=True)


def test_transformers_of_all_three_kinds(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    small = {"vocab_size": 20, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}

    def gpt() -> Any:
        config = transformers.GPT2Config(n_layer=2, n_embd=8, n_head=2, n_positions=16, **small)
        return transformers.GPT2LMHeadModel(config)

    def bert() -> Any:
        config = transformers.BertConfig(
            num_hidden_layers=1, hidden_size=8, num_attention_heads=2, intermediate_size=8, **small
        )
        return transformers.BertForMaskedLM(config)

    def t5() -> Any:
        config = transformers.T5Config(
            d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0, **small
        )
        return transformers.T5ForConditionalGeneration(config)

    for build in (gpt, bert, t5):

        def loop(model: Any, run: Any) -> float:
            optimizer = torch.optim.AdamW(model.parameters())
            for length in (5, 3):
                ids = torch.randint(2, 20, (3, length))
                with run.step():
                    answer = model(input_ids=ids, labels=ids)
                    answer.loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    run.log(loss=answer.loss)
            return answer.loss.item()

        run, loss = both_ways(tmp_path / build.__name__, build, loop)
        assert run.scalars["loss"].values[-1] == loss
        assert run.at(1)["$loss"].role == "loss"
        assert run.at(1)[".@out.loss"].stats["mean"] == pytest.approx(loss)
        assert run.at(1)[".@in.input_ids"].value.shape == (2, 3)


# beside other things


def test_gans_that_share_modules_and_models_given_twice(tmp_path: Path) -> None:
    shared = nn.Linear(4, 4)
    one, two = nn.Sequential(shared, nn.ReLU()), nn.Sequential(shared, nn.Tanh())
    with cutaway.record(tmp_path / "run", {"one": one, "two": two, "again": one}, every=1, samples=1) as run:
        with run.step():
            (one(torch.randn(2, 4)) + two(torch.randn(2, 4))).sum().backward()
    found = loaded(tmp_path / "run")
    assert {"one", "two"} <= set(found.sites) | {name for row in found.rows for name in row.names}
    assert found["two.0.weight"].site == found["one.0.weight"].site == found["again.0.weight"].site
    assert "one.0:2" in found


def test_other_threads_are_left_alone(tmp_path: Path) -> None:
    model = mlp()
    results: list[Tensor] = []
    with cutaway.record(tmp_path / "run", model, every=1, samples=1) as run:
        with run.step():
            workers = [threading.Thread(target=lambda: results.append(model(torch.ones(2, 4)))) for _ in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            model(torch.ones(2, 4))
    found = loaded(tmp_path / "run")
    assert len(results) == 4
    assert "0:2" not in found
    assert "0" in found.sites


def test_replicas_run_with_their_own_parameters(tmp_path: Path) -> None:
    model = mlp()
    run = cutaway.record(tmp_path / "run", model, every=1)
    with run.step():
        replica = model[0]._replicate_for_data_parallel()
        replica.weight, replica.bias = torch.zeros(8, 4), torch.ones(8)
        assert torch.equal(replica(torch.randn(2, 4)), torch.ones(2, 8))
    run.close()  # the end of a `with` block would warn that the model was never called
    assert "0" not in loaded(tmp_path / "run").sites


def test_models_are_copied_and_pickled_inside_a_step(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].register_forward_hook(_nothing)
    x = torch.randn(2, 4)
    for way in ("eager", "compiled"):
        if way == "compiled":
            model[1].compile(backend="eager")
        with cutaway.record(tmp_path / way, model, every=1) as run:
            with run.step():
                model(x)
                copied = copy.deepcopy(model)
                file = io.BytesIO()
                torch.save(model, file)
        file.seek(0)
        read = torch.load(file, weights_only=False)
        for other in (copied, read):
            assert torch.equal(other(x), model(x))
            assert all("_compiled_call_impl" not in module.__dict__ for module in other.modules())
            assert all(len(module._forward_hooks) == (module is other[0]) for module in other.modules())
        loaded(tmp_path / way)


def _nothing(module: nn.Module, args: Any, result: Any) -> None:
    return None


def test_a_model_that_moves_to_another_dtype(tmp_path: Path) -> None:
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1, samples=1) as run:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            model.to(dtype)
            with run.step():
                model(torch.randn(2, 4, dtype=dtype)).sum().backward()
    found = loaded(tmp_path / "run")
    assert [found.at(n)["0"].dtype for n in range(3)] == ["float32", "float64", "bfloat16"]


def test_two_recorders_at_once(tmp_path: Path) -> None:
    model = mlp()
    x = torch.randn(3, 4)
    with (
        cutaway.record(tmp_path / "a", model, every=1, samples=3) as first,
        cutaway.record(tmp_path / "b", model, every=2, samples=1) as second,
    ):
        for _ in range(3):
            with first.step(), second.step():
                result = model(x)
                result.sum().backward()
    a, b = loaded(tmp_path / "a"), loaded(tmp_path / "b")
    assert a.steps.tolist() == [0, 1, 2]
    assert b.steps.tolist() == [0, 2]
    assert np.array_equal(a.at(2)["2"].value, result.detach())
    assert np.array_equal(b.at(2)["2"].value, result.detach()[:1])
    assert all("_compiled_call_impl" not in module.__dict__ for module in model.modules())


def test_two_recorders_whose_steps_overlap(tmp_path: Path) -> None:
    model = mlp()
    first = cutaway.record(tmp_path / "a", model, every=1)
    second = cutaway.record(tmp_path / "b", model, every=1)
    one, two = first.step(), second.step()
    one.__enter__(), two.__enter__()
    model(torch.randn(2, 4))
    one.__exit__(None, None, None)
    model(torch.randn(2, 4))
    two.__exit__(None, None, None)
    first.close(), second.close()
    assert "0:2" in loaded(tmp_path / "b")
    assert "0:2" not in loaded(tmp_path / "a")
    assert all("_compiled_call_impl" not in module.__dict__ for module in model.modules())


def test_watching_tracing_and_editing_inside_a_step_and_around_it(tmp_path: Path) -> None:
    model = mlp()
    x = torch.randn(3, 4)
    with cutaway.record(tmp_path / "run", model, every=1, samples=3) as run:
        for _ in range(2):  # the first step is traced, the second is not
            with run.step(kind="inside"):
                with cutaway.watch(model) as trace:
                    model(x)
                with cutaway.edit(model, at="1", to=0):
                    edited = model(x)
                other = cutaway.trace(model, x)
        with cutaway.edit(model, at="1", to=0), run.step(kind="around"):
            model(x)
        with cutaway.watch(model) as around, run.step(kind="around"):
            model(x)
    found = loaded(tmp_path / "run")
    plain = nn.functional.linear(x, model[0].weight, model[0].bias).relu().detach()
    for number in (0, 1):
        step = found.at(number)
        assert np.array_equal(step["1:1"].value, plain)
        assert not step["1:2"].value.any()
        assert np.array_equal(step["2:2"].value, edited.detach())
    assert not found.at(2)["1"].value.any()
    assert np.array_equal(found.at(3)["1"].value, plain)
    for one in (trace, other, around):
        assert np.array_equal(one["1"].value, plain)


def test_modes_of_the_program_do_not_see_us(tmp_path: Path) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __init__(self, seen: list[str]) -> None:
            super().__init__()
            self.seen = seen

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def seen(enabled: bool) -> list[str]:
        model, found = mlp(), []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with cutaway.record(tmp_path / "run", model, every=1, samples=2, enabled=enabled, graph=False) as run:
            for _ in range(2):
                with run.step(), Log(found):
                    model(torch.ones(3, 4)).sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
        return found

    assert seen(True) == seen(False)
    loaded(tmp_path / "run")


def test_selective_checkpoints(tmp_path: Path) -> None:
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        return (
            CheckpointPolicy.MUST_SAVE if "mm" in str(op) or "clone" in str(op) else CheckpointPolicy.PREFER_RECOMPUTE
        )

    def loop(model: nn.Module, run: Any) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            with run.step():
                x = torch.randn(3, 4)
                contexts = lambda: create_selective_checkpoint_contexts(policy)  # noqa: E731
                checkpoint(model, x, use_reentrant=False, context_fn=contexts).sum().backward()
                optimizer.step()
                optimizer.zero_grad()

    run, _ = both_ways(tmp_path / "run", mlp, loop)
    assert run.at(2)["0"].grad is not None


def test_tracing_with_jit_inside_a_step_sees_nothing_of_us(tmp_path: Path) -> None:
    model = mlp().eval()
    x = torch.randn(2, 4)
    plain = [node.kind() for node in torch.jit.trace(model, x).inlined_graph.nodes()]
    with cutaway.record(tmp_path / "run", model, every=1, samples=1, graph=False) as run:
        with run.step():
            inside = [node.kind() for node in torch.jit.trace(model, x).inlined_graph.nodes()]
            torch.fx.symbolic_trace(model)(x)
    assert inside == plain
    loaded(tmp_path / "run")


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_compiled_optimizer_is_not_compiled_again(is_warm: bool, tmp_path: Path) -> None:
    def once(enabled: bool) -> tuple[int, Any]:
        torch._dynamo.reset()
        made, backend = counting()
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = torch.compile(optimizer.step, backend=backend)
        with cutaway.record(tmp_path / "run", model, every=2, enabled=enabled) as run:
            for number in range(6):
                with nullcontext() if is_warm and not number else run.step():
                    model(torch.randn(3, 4)).sum().backward()
                    step()
                    optimizer.zero_grad()
        return len(made), left_behind(model, optimizer)

    n_plain, plain = once(False)
    n_recorded, recorded = once(True)
    assert n_recorded == n_plain
    assert equal(plain["parameters"], recorded["parameters"])
    loaded(tmp_path / "run")
