"""A module that is called several times: each step of its forward is one op, by name and in `trace.rolled`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway import Trace
from cutaway.graph.analysis.passes import Passes


class Scale(nn.Module):
    """Has a buffer, and no parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.full((3,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.b + 1


def in_a_row(self: Any, x: Tensor) -> Tensor:
    for _ in range(6):
        x = self.m(x)
    return x


def after_one_and_three(self: Any, x: Tensor) -> Tensor:
    for i in range(6):
        x = self.m(x)
        if i in (0, 2):
            x = x.tan()
    return x


def one_two_three(self: Any, x: Tensor) -> Tensor:
    x = self.m(x).sin()
    x = self.m(self.m(x)).cos()
    return self.m(self.m(self.m(x)))


def after_layers(self: Any, x: Tensor) -> Tensor:
    for layer in self.layers:
        x = self.m(layer(x))
    return self.m(self.m(x))


def in_parallel(self: Any, x: Tensor) -> Tensor:
    return self.m(x) + self.m(x * 2) + self.m(x * 3).sin()


def in_nested_loops(self: Any, x: Tensor) -> Tensor:
    for _ in range(3):
        for layer in self.layers:
            x = layer(x).relu()
        x = self.m(self.m(x))
    return x


def traced(forward: Callable[..., Any], module: nn.Module) -> tuple[Trace, int]:
    """The trace, and how often a plain hook saw the module called."""
    torch.manual_seed(0)
    model = Fn(forward, m=module, layers=nn.ModuleList(nn.Linear(3, 3) for _ in range(4)))
    n_calls = Counter[str]()
    with module.register_forward_hook(lambda *_: n_calls.update("m")):
        trace = cutaway.trace(model, torch.linspace(-1, 1, 3))
    return trace, n_calls["m"]


AROUND = [in_a_row, after_one_and_three, one_two_three, after_layers, in_parallel, in_nested_loops]


def batch_norm() -> nn.Module:
    norm = nn.BatchNorm1d(3, affine=False).eval()
    return Fn(lambda self, x: self.norm(x[None])[0], norm=norm)


@pytest.mark.parametrize("make", [nn.ReLU, Scale, batch_norm])
@pytest.mark.parametrize("forward", AROUND, ids=lambda forward: forward.__name__)
def test_all_calls_of_a_module_are_one_op_whatever_runs_between(forward: Any, make: Any) -> None:
    trace, n_calls = traced(forward, make())
    by_name = trace["m"]
    assert isinstance(by_name, Passes)
    assert by_name == by_name.passes[0].rolled
    inside = [op for op in trace.rolled if str(op.full_site.address).startswith("m")]
    assert inside
    assert {op.n_passes for op in inside} == {n_calls}


def test_what_is_around_a_shared_activation_function_stays_apart() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.m(x).exp() * 2
        return self.m(x.cos()).exp() * 2

    trace, _ = traced(forward, nn.ReLU())
    passes = {op.label: op.n_passes for op in trace.rolled}
    assert passes == {"relu_1_1": 2, "exp_1_2": 1, "mul_1_3": 1, "cos_1_4": 1, "exp_2_6": 1, "mul_2_7": 1}


def test_two_equal_expressions_of_a_module_stay_two_ops() -> None:
    trace, _ = traced(one_two_three, Fn(lambda self, x: torch.relu(torch.relu(x))))
    inside = [op.n_passes for op in trace.rolled if op.function == "relu"]
    assert inside == [6, 6]


def test_two_runs_of_a_watched_model_are_passes() -> None:
    model = Fn(lambda self, x: torch.sin(x) + x.cos())
    x = torch.ones(2)
    with cutaway.watch(model) as trace:
        for _ in range(3):
            model(x)
    assert [op.n_passes for op in trace.rolled] == [3, 3, 3]
