"""A replay at an input or output of a module changes what a full run with the same edit changes, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import same
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import CannotReplayError

X = torch.linspace(-1, 1, 4)
FUNCTIONS = (torch.sin, torch.cos, torch.tanh, lambda t: t * 2, lambda t: t + 1, torch.sigmoid)


class Step(nn.Module):
    """A random function of one or two tensors that returns one or two tensors, among them inputs and repetitions."""

    def __init__(self, seed: int, inner: nn.Module | None = None) -> None:
        super().__init__()
        self.seed, self.inner = seed, inner

    def forward(self, *given: Tensor) -> Any:
        draw, known = random.Random(self.seed), list(given)
        for _ in range(draw.randint(1, 4)):
            a, b = draw.choice(known), draw.choice(known)
            known.append(draw.choice(FUNCTIONS)(a) if draw.random() < 0.6 else a + b)
        if self.inner is not None:
            made = self.inner(draw.choice(known))
            known += made if isinstance(made, tuple) else [made]
        n = draw.randint(1, 2)
        # Usually what it computed last; sometimes an input, or one tensor twice.
        some = [draw.choice(known if draw.random() < 0.15 else known[-3:]) for _ in range(n)]
        return some[0] if n == 1 else tuple(some)


def random_model(seed: int) -> nn.Module:
    draw = random.Random(seed)
    steps = [Step(seed * 31 + i, Step(seed * 37 + i) if draw.random() < 0.4 else None) for i in range(4)]

    def forward(self: Any, x: Tensor) -> Any:
        draw, known = random.Random(seed + 1), [x]
        for step in self.steps:
            made = step(*(draw.choice(known) for _ in range(draw.randint(1, 2))))
            known += made if isinstance(made, tuple) else [made]
            if draw.random() < 0.5:
                known.append(draw.choice(known) * draw.choice(known))
        return known[-1], draw.choice(known), draw.choice(known)

    return Fn(forward, steps=nn.ModuleList(steps))


def all_same(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def boundaries(model: nn.Module) -> Iterator[tuple[str, bool]]:
    """Every input and output of every module, and whether two names of one tensor meet there, by plain hooks."""
    found: list[tuple[str, bool]] = []

    def look(address: str) -> Any:
        def hook(_: nn.Module, args: tuple[Tensor, ...], result: Any) -> None:
            made = result if isinstance(result, tuple) else (result,)
            ids_in, ids_out = [id(t) for t in args], [id(t) for t in made]
            for i, each in enumerate(ids_in):
                found.append((f"{address}@in.{i}", ids_in.count(each) > 1 or each in ids_out))
            for i, each in enumerate(ids_out):
                path = f".{i}" if isinstance(result, tuple) else ""
                found.append((f"{address}@out{path}", ids_out.count(each) > 1 or each in ids_in or each == id(X)))

        return hook

    handles = [m.register_forward_hook(look(name)) for name, m in model.named_modules() if isinstance(m, Step)]
    model(X)
    for handle in handles:
        handle.remove()
    yield from found


@pytest.mark.parametrize("to", [0.5, cutaway.edit.scale(3.0)], ids=["constant", "scaled"])
@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_every_boundary_of_random_models_with_shared_tensors(seed: int, to: Any) -> None:
    n_replayed = 0
    for model in map(random_model, range(seed, seed + 3)):
        trace = cutaway.trace(model, X)
        for site, is_ambiguous in [*boundaries(model), (".@in.0", False)]:
            with cutaway.edit(model, site, to):
                expected = model(X)
            n_replayed += is_ambiguous
            assert all_same(trace.replay(site, to).returned, expected), site
            assert all_same(trace.returned, model(X))
    assert n_replayed > 1


class Around(nn.Module):
    """`b(h) + c(h) + h`, with h = a(x)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.b(h) + self.c(h) + h


@torch.no_grad()
def test_a_path_is_patched_for_one_reader_only() -> None:
    model = Around()
    clean, other = cutaway.trace(model, X), cutaway.trace(model, -X)
    h, patch = clean["a"].value, other["a"].value
    replayed = clean.replay("b@in.0", patch)
    assert same(replayed.returned, model.b(patch) + model.c(h) + h)
    assert same(replayed["a"].value, h)
    assert replayed.recomputed.labels == ("linear_2_2", "add_1_4", "add_2_5")
    # A second patch keeps the first.
    both = replayed.replay("c@in.0", patch)
    assert same(both.returned, model.b(patch) + model.c(patch) + h)
    weights = replayed.replay("b.bias", 0)
    assert same(weights.returned, patch @ model.b.weight.T + model.c(h) + h)


@torch.no_grad()
def test_changes_of_a_tensor_and_of_its_edges_meet() -> None:
    model = Around()
    trace = cutaway.trace(model, X)
    changes = {"a": cutaway.edit.scale(2.0), "c@in.0": cutaway.edit.scale(5.0), "b@in.0": "c"}
    with pytest.raises(cutaway.CutawayError, match="runs after"):
        trace.replay(changes)
    del changes["b@in.0"]
    with cutaway.edit(model, changes):
        expected = model(X)
    assert same(trace.replay(changes).returned, expected)


def test_an_output_changes_for_what_runs_after_the_module() -> None:
    inner = Fn(lambda self, x: (y := x * 2, y.exp()))
    model = Fn(lambda self, x: self.m(x)[0] + self.m(x)[1], m=inner)
    trace = cutaway.trace(model, X)
    with cutaway.edit(model, "m@out.0", 0):
        expected = model(X)
    assert same(trace.replay("m@out.0", 0).returned, expected)
    assert same(expected, (X * 2).exp())


def test_the_returned_tensors_are_changed_one_by_one() -> None:
    model = Fn(lambda self, x: (y := x * 2, y, y.exp()))
    trace = cutaway.trace(model, X)
    for i in range(3):
        with cutaway.edit(model, f".@out.{i}", 7):
            expected = model(X)
        assert all_same(trace.replay(f".@out.{i}", 7).returned, expected)


def doubled(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    return y, y


def after_a_write(self: Any, x: Tensor) -> Tensor:
    h = x * 2
    y = self.m(h)
    return y + h


def write_through_a_view(self: Any, x: Tensor) -> Tensor:
    h = x * 2
    self.m(h).add_(1)
    return h + 1


TWO_NAMES = {
    "one tensor returned twice": (
        Fn(lambda self, x: self.m(x)[0] + self.m(x)[1].sin(), m=Fn(doubled)),
        ("m@out.0", "m@out.1", "m@out.1:2", ".@in.0"),
    ),
    "one tensor given twice": (
        Fn(lambda self, x: self.m(x, x) + x, m=Fn(lambda self, a, b: a - b.exp())),
        ("m@in.0", "m@in.1", "m"),
    ),
    "an input returned": (
        Fn(lambda self, x: x.exp() + self.m(x) + self.m(x).sin(), m=nn.Dropout().eval()),
        ("m@in.0", "m@out", "m:2", "m@in.0:2"),
    ),
    "an input overwritten": (Fn(after_a_write, m=Fn(lambda self, h: h.relu_() + 1)), ("m@in.0", "m")),
    "an input overwritten and returned": (Fn(after_a_write, m=nn.ReLU(inplace=True)), ("m@in.0", "m")),
    "an input overwritten through a view": (
        Fn(after_a_write, m=Fn(lambda self, h: h[1:].mul_(3).sum() + h)),
        ("m@in.0", "m"),
    ),
    "a write through a returned view": (Fn(write_through_a_view, m=Fn(lambda self, h: h[1:])), ("m", "m@in.0")),
}


@pytest.mark.parametrize("name", TWO_NAMES)
def test_two_names_of_one_tensor_are_told_apart_as_an_edit_does(name: str) -> None:
    model, sites = TWO_NAMES[name]
    trace = cutaway.trace(model, X)
    other = cutaway.trace(model, X * 3)
    for site in sites:
        for to in (0.5, cutaway.edit.scale(3.0), lambda v: v + torch.arange(len(v)), other):
            with cutaway.edit(model, site, to):
                expected = model(X)
            assert same(trace.replay(site, to).returned, expected), site
            assert same(trace.returned, model(X))
        with cutaway.edit(model, site, 7, index=0):
            expected = model(X)
        assert same(trace.replay(site, 7, index=0).returned, expected), site


def test_a_tensor_with_two_names_is_changed_together_with_ops_and_parameters() -> None:
    model = Fn(lambda self, x: self.a(self.m(x)[0]) + self.m(x)[1].sin(), m=Fn(doubled), a=nn.Linear(4, 4))
    trace = cutaway.trace(model, X)
    changes: dict[Any, Any] = {"m@out.1": 0.5, "./sin": cutaway.edit.scale(2.0), "a.bias": 3, "a@out": "m@out.0"}
    with cutaway.edit(model, changes):
        expected = model(X)
    assert same(trace.replay(changes).returned, expected)
    op = trace["sin_1"]
    assert same(
        trace.replay({"m@out.1": 0.5, op: cutaway.edit.scale(2.0)}).returned, trace["a"].value + 2 * np.sin(0.5)
    )


def test_the_model_runs_once_for_many_values_at_one_site() -> None:
    runs = []
    model = Fn(lambda self, x: (runs.append(1), sum(self.m(x)))[1], m=Fn(doubled))
    trace = cutaway.trace(model, X)
    assert same(trace.replay("m@out.0", 1.0).returned, 1 + X * 2)
    assert same(trace.replay("m@out.0", 2.0).returned, 2 + X * 2)
    assert len(runs) == 2


def test_two_names_of_one_tensor_are_reported_if_the_model_cannot_run_again() -> None:
    model = Fn(lambda self, x: sum(self.m(x)), m=Fn(doubled))
    with cutaway.edit(model, "m@in.0", 1.0):
        trace = cutaway.trace(model, X)
    message = r"mul_1_2 is also the output '1' of 'm', not only '0'.* cannot run again to find out: an edit was active"
    with pytest.raises(CannotReplayError, match=message):
        trace.replay("m@out.0", 0)


def test_a_module_that_an_opaque_op_may_have_called_is_reported() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        return torch.vmap(lambda row: self.a(row).sum())(x) + self.a(x).sum()

    trace = cutaway.trace(Fn(forward, a=nn.Linear(4, 4)), torch.ones(2, 4))
    with pytest.raises(CannotReplayError, match="vmap_1_1 reads the parameters of 'a' and may have called it"):
        trace.replay("a", 0)
