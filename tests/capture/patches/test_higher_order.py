"""Higher-order operators run and train as without a capture, and are one op each."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils.checkpoint import checkpoint

import cutaway


class Model(nn.Module):
    def __init__(self, body: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.body = nn.Linear(3, 3), nn.Linear(3, 3), body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, x)


CASES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "cond": lambda m, x: m.second(torch.cond(x.sum() > 0, lambda y: m.first(y), lambda y: y * 2, (m.first(x),))),
    "while_loop": lambda m, x: while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, torch.tanh(y)), (torch.tensor(0), m.first(x))
    )[1],
    "scan": lambda m, x: scan(lambda c, y: (m.second(c) + y, c * y), torch.zeros(3), m.first(x), dim=0)[1],
    "map": lambda m, x: torch_map(lambda row: m.second(row), m.first(x)),
    "nested map": lambda m, x: torch_map(lambda row: torch_map(lambda y: y.sin(), row), m.first(x)),
    "associative_scan": lambda m, x: associative_scan(lambda a, b: a + b, m.first(x), dim=0, combine_mode="generic"),
    "vmap": lambda m, x: torch.vmap(m.second)(m.first(x)),
    "checkpoint": lambda m, x: m.second(checkpoint(m.first, x, use_reentrant=False)),
    "reentrant checkpoint": lambda m, x: m.second(checkpoint(m.first, x.clone().requires_grad_(), use_reentrant=True)),
}
FAST = ("cond", "scan", "nested map", "reentrant checkpoint")
"""Each compiles for a second or two: the others are slow tests."""


def marked(name: str) -> Any:
    return pytest.param(name, marks=() if name in FAST else pytest.mark.slow)


def gradients(model: nn.Module) -> list[Tensor | None]:
    return [parameter.grad for parameter in model.parameters()]


def same(a: list[Tensor | None], b: list[Tensor | None]) -> bool:
    pairs = zip(a, b, strict=True)
    return all((p is None and q is None) or (p is not None and q is not None and torch.equal(p, q)) for p, q in pairs)


@pytest.mark.parametrize("name", map(marked, CASES))
def test_output_type_and_gradients_are_those_of_the_plain_model(name: str) -> None:
    x = torch.ones(4, 3)
    plain = Model(CASES[name])
    expected = plain(x)
    expected.sum().backward()

    traced = Model(CASES[name])
    trace = cutaway.trace(traced, x)
    assert type(trace.returned) is type(expected)
    assert torch.equal(trace.returned, expected)

    after = Model(CASES[name])
    with cutaway.watch(after):
        result = after(x)
    result.sum().backward()
    assert same(gradients(after), gradients(plain))

    inside = Model(CASES[name])
    with cutaway.watch(inside) as trace:
        inside(x).sum().backward()
    assert same(gradients(inside), gradients(plain))
    assert trace.n_backwards == 1
    assert all(op.grad is not None for op in trace.ops if op.function == "linear")
    own = [op.grad for op in trace.ops if op.function == name.split()[-1]]
    assert not own or any(grad is not None for grad in own)


def test_what_the_inner_functions_read_are_its_parents() -> None:
    trace = cutaway.trace(Model(CASES["cond"]), torch.ones(4, 3))
    parents = [parent.label for parent in trace["./cond"].parents]
    assert parents[1:] == ["linear_1_3", "first.weight", "first.bias"]
    assert not trace.validate().failures


def test_beyond_the_compilers_limit_of_variants_it_runs_as_it_does_without() -> None:
    """The compiler then runs Python code frame by frame, and must not meet what a capture replaces in torch."""
    x = torch.ones(4, 3)
    for number in range(torch._dynamo.config.recompile_limit + 3):
        branch = eval(f"lambda y: y * {number}")  # a code object of its own, so nothing compiled fits
        model = Model(lambda m, y, branch=branch: torch.cond(y.sum() > 0, branch, lambda z: z - 1, (y,)))  # type: ignore[misc]
        trace = cutaway.trace(model, x)
        assert torch.equal(trace.returned, x * number)


@pytest.mark.parametrize("site", ["first", "first/linear"])
@pytest.mark.parametrize("name", ["cond", "nested map"])
def test_inside_an_edit_output_and_gradients_are_those_of_a_plain_hook(name: str, site: str) -> None:
    x = torch.ones(4, 3)
    plain, edited = Model(CASES[name]), Model(CASES[name])
    handle = plain.first.register_forward_hook(lambda module, given, made: made * 2)
    # `cond` also calls `first` in its branch, where an edit does not reach: take the other branch.
    expected = plain(-x)
    handle.remove()
    expected.sum().backward()
    with cutaway.edit(edited, at=site, to=cutaway.edit.scale(2.0)):
        result = edited(-x)
        result.sum().backward()
    assert type(result) is type(expected)
    assert torch.equal(result, expected)
    assert same(gradients(edited), gradients(plain))
