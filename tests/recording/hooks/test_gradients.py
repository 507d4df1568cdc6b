"""Names of gradients: `grad`, `grad/<loss>`, `grad@2`, `inner_grad`, against plain hooks in an unwatched training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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

BATCH = 3
Gradients = dict[tuple[str, str], Tensor]
"""Site and name of a gradient → the gradient."""


class Tape:
    """What a loop calls instead of torch, so that its oracle knows which gradients train: the loop says it."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.calls: str = ""
        self.loss = ""
        self.steps: list[Gradients] = []
        self.found: Gradients = {}
        self._n_seen: dict[str, int] = {}

    def step(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.run is None else self.run.step()

    @contextmanager
    def gradients(self, loss: str) -> Iterator[None]:
        before, self.loss = self.loss, loss
        with nullcontext() if self.run is None else self.run.gradients(loss):
            yield
        self.loss = before

    def _call(self, name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before, self.calls = self.calls, name
        try:
            return call(*args, **kwargs)
        finally:
            self.calls = before

    def backward(self, tensors: Any, *args: Any, **kwargs: Any) -> None:
        self._call("grad", torch.autograd.backward, tensors, *args, **kwargs)

    def grad(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("inner_grad", torch.autograd.grad, *args, **kwargs)

    # the oracle

    def watch(self, model: nn.Module) -> None:
        """Plain hooks on an unwatched model: every result of a module by the number of its pass."""
        for name, module in model.named_modules():
            if not list(module.children()):  # the others return what one of these has returned
                module.register_forward_hook(lambda _, __, result, name=name: self.follow(result, name))
        for name, parameter in model.named_parameters():
            parameter.register_hook(lambda grad, name=name: self._arrived(grad, name, is_parameter=True))

    def follow(self, tensor: Tensor, name: str) -> None:
        if self.calls:  # a checkpoint, during the backward pass
            return
        self._n_seen[name] = number = self._n_seen.get(name, 0) + 1
        if tensor.requires_grad:
            tensor.register_hook(lambda grad: self._arrived(grad, f"{name}:{number}"))

    def _arrived(self, grad: Tensor, site: str, *, is_parameter: bool = False) -> None:
        names = [self.calls]
        if self.calls == "grad":
            names = ["grad"] * (not is_parameter) + [f"grad/{self.loss}"] * bool(self.loss)
        for name in names:
            if name == "inner_grad":
                again = sum(1 for key in self.found if key[0] == site and key[1].startswith("inner_grad"))
                name = f"inner_grad@{again + 1}" if again else name
            before = self.found.get((site, name))
            self.found[site, name] = grad.detach().clone() if before is None else before + grad.detach()

    def site(self, key: str) -> str:
        """A site as runs have it: without a pass where there is only one."""
        name, _, _ = key.partition(":")
        return key if self._n_seen.get(name, 1) > 1 else name


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


Loop = Callable[[Any, Tape], None]
LOOPS: dict[str, Loop] = {}


def loop(act: Loop) -> Loop:
    LOOPS[act.__name__] = act
    return act


def x(seed: int = 1) -> Tensor:
    return torch.randn(BATCH, 4, generator=torch.Generator().manual_seed(seed))


@loop
def one_backward(model: Any, tape: Tape) -> None:
    tape.backward(model(x()).pow(2).sum())


@loop
def two_losses_of_one_graph(model: Any, tape: Tape) -> None:
    result = model(x())
    tape.backward(result.pow(2).sum(), retain_graph=True)
    tape.backward(result.sin().sum())


@loop
def three_losses_with_names(model: Any, tape: Tape) -> None:
    result = model(x())
    with tape.gradients("size"):
        tape.backward(result.pow(2).sum(), retain_graph=True)
    with tape.gradients("sine"):
        tape.backward(result.sin().sum(), retain_graph=True)
    with tape.gradients("size"):
        tape.backward(result.pow(4).sum())


@loop
def one_loss_with_a_name_and_one_without(model: Any, tape: Tape) -> None:
    result = model(x())
    with tape.gradients("2"):
        tape.backward(result.pow(2).sum(), retain_graph=True)
    tape.backward(result.sin().sum())


@loop
def losses_of_their_own_passes(model: Any, tape: Tape) -> None:
    for number in range(3):
        with tape.gradients("main"):
            tape.backward(model(x(number)).pow(2).sum() / 3)


@loop
def several_roots(model: Any, tape: Tape) -> None:
    result = model(x())
    tape.backward([result.sum(), result.pow(2).sum()], [torch.tensor(1.0), torch.tensor(0.5)])


@loop
def part_of_the_graph_first(model: Any, tape: Tape) -> None:
    hidden = model[1](model[0](x()))
    tape.backward(model[2](hidden).pow(2).sum(), inputs=[model[2].weight])
    tape.backward(model[2](hidden).sin().sum())


@loop
def gradient_penalty(model: Any, tape: Tape) -> None:
    real, between = x(2), x(3).requires_grad_()
    critic = model(real).mean()
    scores = model(between)
    slope = tape.grad(scores.sum(), between, create_graph=True)[0]
    tape.backward(critic + 10 * (slope.norm(2, dim=1) - 1).pow(2).mean())


@loop
def penalty_by_its_own_backward(model: Any, tape: Tape) -> None:
    between = x(3).requires_grad_()
    scores = model(between)
    with tape.gradients("score"):
        tape.backward(scores.mean(), retain_graph=True)
    with tape.gradients("penalty"):
        slope = tape.grad(scores.sum(), between, create_graph=True)[0]
        tape.backward(slope.pow(2).sum())


@loop
def autograd_grad_alone(model: Any, tape: Tape) -> None:
    loss = model(x()).pow(2).sum()
    grads = tape.grad(loss, list(model.parameters()))
    for parameter, grad in zip(model.parameters(), grads, strict=True):
        parameter.grad = grad


@loop
def autograd_grad_of_a_result(model: Any, tape: Tape) -> None:
    hidden = model[1](model[0](x()))
    result = model[2](hidden)
    tape.grad(result.sum(), hidden, retain_graph=True)
    tape.grad(result.pow(2).sum(), [hidden, model[0].bias], retain_graph=True)
    tape.backward(result.sin().sum())


@loop
def inner_steps(model: Any, tape: Tape) -> None:
    """MAML: two inner steps by autograd.grad, the outer loss through both."""
    fast = dict(model.named_parameters())
    for number in range(2):
        loss = torch.func.functional_call(model, fast, (x(number),)).pow(2).mean()
        grads = tape.grad(loss, list(fast.values()), create_graph=True)
        fast = {name: value - 0.1 * grad for (name, value), grad in zip(fast.items(), grads, strict=True)}
    tape.backward(torch.func.functional_call(model, fast, (x(9),)).pow(2).mean())


@loop
def second_order_backward(model: Any, tape: Tape) -> None:
    tape.backward(model(x()).pow(2).sum(), create_graph=True)
    tape.backward(sum(parameter.grad.pow(2).sum() for parameter in model.parameters()))


@loop
def hessian_product(model: Any, tape: Tape) -> None:
    parameters = list(model.parameters())
    first = tape.grad(model(x()).pow(2).mean(), parameters, create_graph=True)
    tape.grad(sum(grad.sum() for grad in first), parameters)


@loop
def autograd_grad_inside_a_backward(model: Any, tape: Tape) -> None:
    """As implicit layers do: a hook of the program solves for the gradient by autograd.grad."""
    start = x().requires_grad_()
    inner = model[1](model[0](start))
    result = model[2](inner.detach().requires_grad_())
    middle = result * 2

    def solve(grad: Tensor) -> None:
        with torch.enable_grad():
            tape.grad(inner.sum(), start, retain_graph=True)

    middle.register_hook(solve)
    tape.backward(middle.pow(2).sum())


def trained(act: Loop, model: Any, tape: Tape) -> dict[str, Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(3)
    for _ in range(2):
        tape.found = {}
        tape.steps.append(tape.found)
        tape._n_seen.clear()
        with tape.step():
            act(model, tape)
            optimizer.step()
            optimizer.zero_grad()
    return left_behind(model, optimizer)


def both_ways(path: Path, act: Loop, make: Callable[[], Any] = mlp, **settings: Any) -> tuple[Run, Tape]:
    """A recorded training and an unwatched one; they are held to be bit-equal."""
    model, plain = make(), Tape(None)
    plain.watch(model)
    unwatched = trained(act, model, plain)
    model = make()
    with cutaway.record(path, model, **{"every": 1, "samples": BATCH, **settings}) as recorder:
        recorded = trained(act, model, Tape(recorder))
    for state in (unwatched, recorded):
        state.pop("hooks"), state.pop("tensor_hooks")
    assert equal(recorded, unwatched)
    assert all(parameter._backward_hooks is None for parameter in model.parameters())
    run = cutaway.load(path)
    assert isinstance(run, Run)
    assert not run.damage
    return run, plain


def agree(run: Run, plain: Tape, *, exact: bool = True) -> None:
    """The gradients of a run are those of the oracle, none is missing and none is more.

    The first step is traced as well, the second one is not.
    """
    for number, expected in enumerate(plain.steps):
        step = run.at(number)
        sites = {plain.site(key): key for key, _ in expected}
        found = {
            (sites[row.site], row.of)
            for row in step.rows
            if row.site in sites
            and row.of.partition("/")[0].partition("@")[0] in ("grad", "inner_grad")
            and not (row.role == "parameter" and row.of == "grad")  # as the optimizer reads it
        }
        assert found == set(expected)
        for (key, of), grad in expected.items():
            moment = step[plain.site(key)].other(of)
            if exact and moment.has_value:
                assert np.array_equal(moment.value, grad.numpy()), (key, of)
            assert moment.stats["norm"] == pytest.approx(grad.double().norm().item(), rel=1e-5), (key, of)
            assert moment.stats["max"] == pytest.approx(grad.max().item(), rel=0 if exact else 1e-5), (key, of)


@pytest.mark.parametrize("name", LOOPS)
def test_gradients_are_those_of_an_unwatched_training(name: str, tmp_path: Path) -> None:
    run, plain = both_ways(tmp_path / "run", LOOPS[name])
    agree(run, plain)
    # Some loops call parts of the model only.
    assert [note.text for note in run.notes if "was not called itself" not in note.text] == []


# checkpoints


class Checkpointed(nn.Module):
    """A part of the model is computed again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.inner, self.last = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 3)
        self.reentrant: bool | None = reentrant

    def forward(self, given: Tensor) -> Tensor:
        hidden = self.first(given)
        if self.reentrant is None:
            return self.last(self.inner(hidden))
        return self.last(checkpoint(self.inner, hidden, use_reentrant=self.reentrant))


def without_checkpoint() -> nn.Module:
    model = Checkpointed(False)
    model.reentrant = None
    return model


@pytest.mark.parametrize("name", ["one_backward", "two_losses_of_one_graph", "three_losses_with_names"])
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_inside_checkpoints_are_summed_too(name: str, reentrant: bool, tmp_path: Path) -> None:
    run, _ = both_ways(tmp_path / "run", LOOPS[name], lambda: Checkpointed(reentrant))
    model, plain = without_checkpoint(), Tape(None)  # a plain hook would not know what is computed again
    plain.watch(model)
    trained(LOOPS[name], model, plain)
    agree(run, plain, exact=False)


@pytest.mark.parametrize("name", ["gradient_penalty", "penalty_by_its_own_backward", "hessian_product"])
def test_inner_gradients_inside_checkpoints(name: str, tmp_path: Path) -> None:
    run, plain = both_ways(tmp_path / "run", LOOPS[name], lambda: Checkpointed(False))
    agree(run, plain)


# tensors that are no results of modules


def test_named_tensors_and_ops_have_the_same_names_of_gradients(tmp_path: Path) -> None:
    model = mlp()
    grads = {}
    with cutaway.record(tmp_path / "run", model, every=1, samples=BATCH, at=["**", "1/tanh"]) as run, run.step():
        result = model(x())
        scaled = result * 3
        run.tensor("scaled", scaled)
        for number, loss in enumerate((scaled.pow(2).sum(), scaled.sin().sum())):
            with run.gradients(f"l{number}"):
                loss.backward(retain_graph=True)
            grads[f"l{number}"] = torch.autograd.grad(loss, scaled, retain_graph=True)[0]
    step = cutaway.load(tmp_path / "run").at(0)
    named = step["$scaled"]
    for loss, grad in grads.items():
        assert np.array_equal(named.other(f"grad/{loss}").value, grad.numpy())
    assert np.array_equal(named.grad.value, (grads["l0"] + grads["l1"]).numpy())
    assert np.array_equal(named.other("inner_grad").value, grads["l0"].numpy())
    assert np.array_equal(named.other("inner_grad@2").value, grads["l1"].numpy())
    op, module = step["1/tanh"], step["1"]
    assert np.array_equal(op.grad.value, module.grad.value)
    assert np.array_equal(op.other("grad/l1").value, module.other("grad/l1").value)


def test_the_gradient_of_an_input_is_the_sum_over_all_graphs(tmp_path: Path) -> None:
    model, given = mlp(), x().requires_grad_()
    with cutaway.record(tmp_path / "run", model, every=1, samples=BATCH) as run, run.step():
        for _ in range(3):
            model(given).pow(2).sum().backward()
    step = cutaway.load(tmp_path / "run").at(0)
    assert np.array_equal(step[".@in.0:1"].grad.value, given.grad.numpy())


def test_sparse_gradients_of_several_losses(tmp_path: Path) -> None:
    model = nn.Embedding(5, 2, sparse=True)
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        for _ in range(2):
            with run.gradients("main"):
                model(torch.tensor([1, 1, 3])).sum().backward()
    weight = cutaway.load(tmp_path / "run").at(0)["weight"]
    exact = model.weight.grad.to_dense()
    for found in (weight.grad, weight.other("grad/main")):
        assert found.stats["count"] == exact.numel()
        assert found.stats["norm"] == pytest.approx(exact.norm().item())


# optimizers


def test_a_loss_named_2_and_a_second_step_of_the_optimizer_are_apart(tmp_path: Path) -> None:
    model, grads = mlp(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        for number in range(2):
            with run.gradients(str(number + 1)):
                model(x(number)).pow(2).sum().backward()
            grads.append(model[0].weight.grad.clone())
            optimizer.step()
            optimizer.zero_grad()
    found = cutaway.load(tmp_path / "run")
    assert isinstance(found, Run)
    series = found["0.weight"]
    assert set(series.has) == {"value", "grad", "grad/1", "grad/2", "grad@2", "update", "update@2"}
    for of, grad in (("grad", 0), ("grad/1", 0), ("grad/2", 1), ("grad@2", 1)):
        assert series.other(of).stats("norm").item() == pytest.approx(grads[grad].norm().item(), rel=1e-5)
    assert series.other("update@2").stats("norm").item() == pytest.approx(0.1 * grads[1].norm().item(), rel=1e-4)


def test_a_parameter_that_is_unfrozen_inside_the_step(tmp_path: Path) -> None:
    model = mlp()
    model.requires_grad_(False)
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        model(x())
        model.requires_grad_(True)
        grads = torch.autograd.grad(model(x()).pow(2).sum(), list(model.parameters()))
        with run.gradients("main"):
            model(x()).sin().sum().backward()
    step = cutaway.load(tmp_path / "run").at(0)
    for (name, parameter), grad in zip(model.named_parameters(), grads, strict=True):
        assert step[name].other("inner_grad").stats["norm"] == pytest.approx(grad.norm().item(), rel=1e-5)
        assert step[name].other("grad/main").stats["norm"] == pytest.approx(parameter.grad.norm().item(), rel=1e-5)
        assert parameter._backward_hooks is None


# what is not known is said


def notes_of(path: Path, act: Callable[[nn.Sequential, Any], None], **settings: Any) -> tuple[Run, list[str]]:
    model = mlp()
    with cutaway.record(path, model, **{"every": 1, "samples": BATCH, **settings}) as run:
        for _ in range(2):
            with run.step():
                act(model, run)
    found = cutaway.load(path)
    assert isinstance(found, Run)
    return found, [note.text for note in found.notes]


def test_a_backward_pass_that_torch_did_not_start_is_left_out_and_said_once(tmp_path: Path) -> None:
    def act(model: nn.Sequential, run: Any) -> None:
        loss = model(x()).pow(2).sum()
        engine: Any = torch.autograd.Variable._execution_engine
        engine.run_backward((loss,), (torch.tensor(1.0),), False, False, (), True, accumulate_grad=True)

    run, notes = notes_of(tmp_path / "run", act)
    assert len(notes) == 1
    assert "cannot tell whether backward() or torch.autograd.grad()" in notes[0]
    assert run["0"].has == ("value",)
    assert run["0.weight"].has == ("value", "grad")  # read from the parameter


def test_batches_of_gradients_are_left_out_and_said(tmp_path: Path) -> None:
    def act(model: nn.Sequential, run: Any) -> None:
        result = model(x())
        many = torch.eye(3).expand(BATCH, 3, 3).transpose(0, 1)
        torch.autograd.grad(result, model[0].weight, many, retain_graph=True, is_grads_batched=True)
        result.sum().backward()

    run, notes = notes_of(tmp_path / "run", act)
    assert len(notes) == 1
    assert "is_grads_batched" in notes[0]
    assert run["0"].has == ("value", "grad")


class Sum(nn.Module):
    """Its graph has nothing to free: a second backward pass goes through without retain_graph."""

    def forward(self, given: Tensor) -> Tensor:
        return given + 1


def test_a_sum_whose_first_part_is_gone_is_left_out_and_said(tmp_path: Path) -> None:
    model = nn.Sequential(Sum(), nn.Identity())
    given = x().requires_grad_()
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        result = model(given)
        result.sum().backward()
        result.sum().backward()
    found = cutaway.load(tmp_path / "run")
    assert isinstance(found, Run)
    assert found["0"].has == ("value",)
    assert found.at(0)[".@in.0"].grad.stats["mean"] == 2
    assert [note.text for note in found.notes] == [
        "the gradient of '0' was not recorded: it came in several backward() calls, and the graph was not retained"
    ]


def test_sums_that_are_too_large_are_left_out_and_said(tmp_path: Path) -> None:
    def act(model: nn.Sequential, run: Any) -> None:
        result = model(x())
        result.sum().backward(retain_graph=True)
        result.sum().backward()

    n_bytes = 4 * BATCH * 3
    run, notes = notes_of(tmp_path / "run", act, most_update_bytes=n_bytes, updates=False)
    assert run["2"].has == ("value", "grad")  # the first that came: there was room for it
    assert run["0"].has == run["1"].has == ("value",)
    assert len(notes) == 1
    assert "most_update_bytes" in notes[0]


@pytest.mark.parametrize("has_sums", [False, True])
def test_a_role_that_is_given_after_backward_does_not_number_the_gradient(has_sums: bool, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        hidden = x().requires_grad_()
        result = model(hidden)
        result.pow(2).sum().backward()
        if has_sums:  # another tensor whose gradients are summed
            other = torch.ones(2, requires_grad=True) * 3
            run.tensor("other", other)
            for _ in range(2):
                other.sum().backward(retain_graph=True)
        run.tensor("late", result, role="target", node="end")
    found = cutaway.load(tmp_path / "run")
    assert isinstance(found, Run)
    assert found["."].has == ("value", "grad")
    assert found["."].role == "target"
    assert found.at(0)["."].grad.stats["norm"] == pytest.approx(float((2 * result).norm().detach()), rel=1e-6)
