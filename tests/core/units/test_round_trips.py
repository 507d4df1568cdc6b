"""Random chains of functions: a chain and its inverse restore the layout, and nothing raises."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.core.units import layout as layouts
from cutaway.core.units.layout import UnitLayout

SEEDS = range(100)


def _stem(rng: random.Random) -> tuple[nn.Module, Tensor]:
    """A layer with units that can be cut in many ways, and its input."""
    if rng.random() < 0.5:
        return nn.Conv2d(3, 12, 1), torch.randn(2, 3, 4, 6)
    return nn.Linear(3, 12), torch.randn(2, 4, 6, 3)


def _cut(size: int, rng: random.Random) -> tuple[int, int]:
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    left = rng.choice(divisors)
    return left, size // left


def _undone(x: Tensor, rng: random.Random, depth: int) -> Tensor:
    """Some function, something in between, and its inverse."""
    if depth == 0:
        return x
    dim = rng.randrange(x.dim())
    kind = rng.choice(["permute", "view", "split", "unsqueeze", "flatten", "flip", "unbind"])
    if kind == "permute":
        order = rng.sample(range(x.dim()), x.dim())
        inverse = [order.index(d) for d in range(x.dim())]
        return _undone(x.permute(order), rng, depth - 1).permute(inverse)
    if kind == "view":
        parts = _cut(x.shape[dim], rng)
        return _undone(x.unflatten(dim, parts), rng, depth - 1).flatten(dim, dim + 1)
    if kind == "split" and x.shape[dim] > 1:
        at = rng.randrange(1, x.shape[dim])
        left, right = x.split([at, x.shape[dim] - at], dim)
        return torch.cat([_undone(left, rng, depth - 1), right], dim)
    if kind == "unsqueeze":
        return _undone(x.unsqueeze(dim), rng, depth - 1).squeeze(dim)
    if kind == "flatten" and dim + 1 < x.dim():
        shape = x.shape[dim : dim + 2]
        return _undone(x.flatten(dim, dim + 1), rng, depth - 1).unflatten(dim, shape)
    if kind == "flip":
        return _undone(x.flip(dim), rng, depth - 1).flip(dim)
    return _undone(x.roll(1, dim), rng, depth - 1).roll(-1, dim)


def _answer(layout: UnitLayout) -> Any:
    return layout.split, layout.units, layout.source


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_undone_gives_back_the_same_answer(seed: int) -> None:
    rng = random.Random(seed)
    stem, x = _stem(rng)
    before, after = cutaway.trace(
        Fn(lambda m, x: ((y := m.stem(x)), _undone(y, rng, rng.randrange(1, 5)) * 1), stem=stem), x
    ).outputs
    assert torch.equal(before.value, after.value)
    if "different dimensions" in after.unit_layout.reason:
        return  # units and positions were shared out to dimensions that no cut of them fits: 4·12 as 6·8
    assert _answer(before.unit_layout) == _answer(after.unit_layout)
    assert after.unit_layout.samples in (before.unit_layout.samples, ())  # part of merged rows belongs to no sample
    for k in range(12):
        assert torch.equal(before.unit_layout.unit(before.value, k), after.unit_layout.unit(after.value, k))


def _step(x: Tensor, rng: random.Random) -> Tensor:
    """One of many functions, with random arguments that fit."""
    if x.dim() == 0:
        return x.reshape(1)
    if x.numel() > 5_000:
        return x.reshape(-1)[:24].reshape(2, 12)
    d, e = rng.randrange(x.dim()), rng.randrange(x.dim())
    steps: list[Any] = [
        lambda: x.transpose(d, e),
        lambda: x.relu() + x,
        lambda: x + x.mean(d, keepdim=True),
        lambda: x.softmax(d),
        lambda: x.cumsum(d),
        lambda: x.sum(d),
        lambda: x.amax(d, keepdim=True) * x,
        lambda: torch.cat([x, x], d),
        lambda: torch.stack([x, -x], d),
        lambda: x.chunk(2, d)[0],
        lambda: x.unsqueeze(d),
        lambda: x.squeeze(),
        lambda: x.unflatten(d, _cut(x.shape[d], rng)),
        lambda: x.reshape(*_cut(x.numel(), rng)),
        lambda: x.flatten(),
        lambda: x.repeat_interleave(2, d),
        lambda: x.repeat(*[2] * x.dim()),
        lambda: x.expand(2, *x.shape),
        lambda: x.select(d, 0),
        lambda: x.narrow(d, 0, 1),
        lambda: x.flip(d).roll(1, e),
        lambda: x.topk(1, d)[0],
        lambda: x.sort(d)[0],
        lambda: x.gather(d, x.argsort(d)),
        lambda: x[x > 0],
        lambda: x[..., None, 0] if x.shape[-1] else x,
        lambda: x @ x.mT if x.dim() > 1 else x.outer(x),
        lambda: torch.einsum("...i,...j->...ij", x, x) if x.numel() < 500 else x,
        lambda: F.pad(x, (1, 1)),
        lambda: F.layer_norm(x, x.shape[-1:]),
        lambda: torch.fft.fft(x, dim=d).real,
        lambda: torch.where(x > 0, x, 0.0),
        lambda: x.masked_fill(x > 1, 0),
        lambda: x.unfold(d, 1, 1),
        lambda: x.diagonal() if x.dim() > 1 else x,
        lambda: x.clone().index_fill_(d, torch.tensor([0]), 1.0),
        lambda: x.view_as(x).movedim(d, e),
        lambda: x.tril() if x.dim() > 1 else x,
        lambda: F.linear(x, torch.ones(3, x.shape[-1])),
        lambda: F.linear(x, nn.Parameter(torch.ones(3, x.shape[-1]))),
        lambda: x * nn.Parameter(torch.ones(x.shape[-1])),
    ]
    return rng.choice(steps)()  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_chains_of_functions_have_an_answer_for_every_value(seed: int) -> None:
    rng = random.Random(seed)
    stem, x = _stem(rng)

    def forward(m: Any, x: Tensor) -> Tensor:
        y = m.stem(x)
        for _ in range(rng.randrange(1, 14)):
            if y.numel() == 0:
                break
            y = _step(y, rng)
        return y

    trace = cutaway.trace(Fn(forward, stem=stem), x)
    for op, layout in zip(trace.ops, (op.unit_layout for op in trace.ops), strict=True):
        assert layout.shape == op.shape == tuple(math.prod(dim) for dim in layout.split)
        axes = (*layout.units, *layout.samples, *layout.positions)
        assert sorted(axes) == list(range(len(layout.sizes)))
        assert layouts.UnitLayout.from_list(layout.to_list()) == layout
        assert layout.source != "refused" or layout.reason
        assert "has no rule" not in layout.reason  # every rule fits its function
        if layout.is_known and op.value.numel():
            rows = layout.rows(op.value)
            assert rows.shape[-1] == layout.n_units
