"""Gradients of every op equal torch's own."""

from __future__ import annotations

import pytest
import torch
from tests.oracles import same
from tests.zoo import ZOO, Fn
from torch import Tensor, nn

import cutaway

X = torch.linspace(-1, 1, 12).view(3, 4)


def test_every_op_has_the_gradient_that_retain_grad_gives() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    kept = []
    for layer in model:
        layer.register_forward_hook(lambda module, args, out: (out.retain_grad(), kept.append(out))[1])
    model(X).pow(2).sum().backward()
    expected = {n: p.grad.clone() for n, p in model.named_parameters()}
    for layer in model:
        layer._forward_hooks.clear()
    model.zero_grad()
    with cutaway.watch(model) as trace:
        model(X).pow(2).sum().backward()
    for i, out in enumerate(kept):
        assert same(trace[str(i)].grad, out.grad)
    for name, grad in expected.items():
        assert same(trace[name].grad, grad)
        assert same(dict(model.named_parameters())[name].grad, grad)
    assert trace["sum_1"].grad == 1
    assert trace.inputs[0].grad is None


def test_backward_passes_are_kept_apart() -> None:
    model = nn.Linear(4, 2)
    with cutaway.watch(model) as trace:
        out = model(X)
        out.sum().backward(retain_graph=True)
        (3 * out).sum().backward()
    assert trace.n_backwards == 2
    first, second = trace["."].grads
    assert same(second, 3 * first)
    assert same(trace["."].grad, second)
    assert torch.allclose(trace["weight"].grads[1], 3 * trace["weight"].grads[0])
    assert trace["sum_2"].grads[0] is None


def test_no_gradient_is_not_zero() -> None:
    def forward(self: Fn, x: Tensor) -> Tensor:
        h = self.a(x)
        self.b(x)
        return (h * 0).sum() + h.detach().sum()

    model = Fn(forward, a=nn.Linear(4, 2), b=nn.Linear(4, 2))
    with cutaway.watch(model) as trace:
        model(X).backward()
    assert trace["b"].grad is None
    assert trace["detach_1"].grad is None
    assert torch.equal(trace["a"].grad, torch.zeros(3, 2))


def test_a_value_that_is_overwritten_keeps_the_gradient_it_had() -> None:
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        h = x * 2
        before = h
        h.mul_(3)
        return before, (h * 5).sum()

    x = X.clone().requires_grad_()
    with cutaway.watch() as trace:
        forward(x)[1].backward()
    assert torch.equal(trace["mul_1"].grad, torch.full((3, 4), 15.0))
    assert torch.equal(trace["mul_2"].grad, torch.full((3, 4), 5.0))


@pytest.mark.parametrize("how", ["tensor.backward", "autograd.backward", "autograd.grad"])
def test_every_way_to_start_a_backward_pass_is_seen(how: str) -> None:
    model = nn.Linear(4, 2)
    with cutaway.watch(model) as trace:
        loss = model(X).sum()
        if how == "tensor.backward":
            loss.backward()
        elif how == "autograd.backward":
            torch.autograd.backward(loss)
        else:
            torch.autograd.grad(loss, list(model.parameters()))
    assert trace["."].grad is not None


def test_gradients_of_parameters_do_not_change_with_the_optimizer() -> None:
    model = nn.Linear(4, 2)
    with cutaway.watch(model) as trace:
        model(X).sum().backward()
        before = model.weight.grad.clone()
        model.weight.grad.mul_(100)
    assert same(trace["weight"].grad, before)


def test_recomputation_in_backward_is_not_counted() -> None:
    model, args, _ = ZOO["checkpointed"]()
    with cutaway.watch(model) as trace:
        model(*args).sum().backward()
    assert [op.function for op in trace] == ["linear", "tanh", "linear", "sum"]
    assert len(trace.modules["a.0"].calls) == 1


@pytest.mark.parametrize(
    "options", [{"keep": "copy"}, {"keep": "cpu"}, {"transform": lambda t: t.mean()}, {"save": "**/add"}]
)
def test_gradients_reach_values_that_are_kept_in_another_form(options: dict[str, object]) -> None:
    def forward(self: Fn, x: Tensor) -> Tensor:
        h = self.a(x) + 1
        h = h + 2
        return (h * 3).sum()

    model = Fn(forward, a=nn.Linear(4, 2))
    with cutaway.watch(model, **options) as trace:
        model(X).backward()
    for label in ("add_1", "add_2"):
        assert torch.equal(trace[label].grad, torch.full((3, 2), 3.0))


def test_gradients_of_a_part_only() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    with cutaway.watch(model, save="1") as trace:
        model(X).sum().backward()
    assert trace["1"].grad.shape == (3, 8)
    assert trace["0"].grad is None


def test_gradients_of_several_results_of_one_op() -> None:
    x = X.clone().requires_grad_()
    with cutaway.watch() as trace:
        a, b = x.chunk(2, dim=1)
        (a * 2 + b * 3).sum().backward()
    assert torch.equal(trace["chunk_1"].grad, torch.full((3, 2), 2.0))
    assert torch.equal(trace["chunk_2"].grad, torch.full((3, 2), 3.0))


def test_a_parameter_that_the_forward_overwrites_has_its_gradient() -> None:
    class Halving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            y = x * self.scale
            with torch.no_grad():
                self.scale.mul_(0.5)
            return y

    model = Halving()
    with cutaway.watch(model) as trace:
        model(torch.full((3,), 2.0)).sum().backward()
    assert torch.equal(trace.parameters["scale"].grad, model.scale.grad)
