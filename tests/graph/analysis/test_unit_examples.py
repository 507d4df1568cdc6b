"""Worked examples: what the dimensions of a value count, pattern by pattern."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.graph.op import Op

Axes = tuple[int, ...]


def r(*shape: int) -> Tensor:
    return torch.randn(*shape)


def _outputs(forward: Callable[..., Any], *args: Tensor, **modules: Any) -> tuple[Op, ...]:
    with torch.no_grad():
        return cutaway.trace(Fn(forward, **modules).eval(), *args).outputs


@dataclass(frozen=True)
class Example:
    """A value and what its dimensions count."""

    name: str
    forward: Callable[..., Any]
    shape: Axes
    result: Axes
    units: Axes
    n_units: int
    samples: Axes = (0,)
    split: Axes | None = None
    """The sizes of the axes, where dimensions hold several factors."""
    modules: Callable[[], dict[str, Any]] = dict
    source: str = "producers"

    def check(self) -> None:
        op = _outputs(self.forward, r(*self.shape), **self.modules())[0]
        layout = op.unit_layout
        assert tuple(op.value.shape) == layout.shape == self.result
        assert (layout.units, layout.samples, layout.n_units) == (self.units, self.samples, self.n_units), layout
        assert (layout.sizes, layout.source) == (self.split or self.result, self.source)


def _conv(n: int = 8, channels: int = 3) -> dict[str, Any]:
    return {"conv": nn.Conv2d(channels, n, 1)}


def _qkv(width: int, *kinds: str) -> dict[str, Any]:
    return {kind: nn.Linear(7, width) for kind in kinds or "qkv"}


def _heads(x: Tensor, n: int) -> Tensor:
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def _attention(m: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _heads(m.q(x), 4), _heads(m.k(x), 4), _heads(m.v(x), 4)


def _windows(m: Any, x: Tensor) -> Tensor:
    y = m.conv(x).permute(0, 2, 3, 1)  # (2, 8, 8, 6)
    return y.view(2, 2, 4, 2, 4, 6).transpose(2, 3).reshape(8, 16, 6)


def _repeated_keys(m: Any, x: Tensor, *, merged: bool) -> Tensor:
    k = _heads(m.k(x), 2)[:, :, None].expand(2, 2, 2, 5, 3)
    return k.reshape(2, 4, 5, 3) if merged else k


def _rotary(m: Any, x: Tensor) -> Tensor:
    q = _heads(m.q(x), 4)
    even, odd = q[..., ::2], q[..., 1::2]
    return torch.stack([-odd, even], -1).flatten(-2)


def _bias(m: Any, x: Tensor) -> Any:
    q, k, _ = (_heads(layer(x), 2) for layer in (m.q, m.k, m.v))
    bias = m.table[m.index.view(-1)].view(16, 16, 2).permute(2, 0, 1)[None]
    return bias, q @ k.mT + bias


def _experts(m: Any, x: Tensor) -> Tensor:
    return torch.einsum("nd,edf->enf", x.flatten(0, 1), m.w)


def _scan(m: Any, x: Tensor) -> Tensor:
    h = torch.zeros(2, 10, 4)
    a, b = m.a(x), m.b(x)
    for t in range(3):
        h = h * 0.9 + a[:, t, :, None] * b[:, t, None, :]
    return h


EXAMPLES = [
    Example("conv2d, relu", lambda m, x: m.conv(x).relu(), (4, 3, 10, 10), (4, 8, 10, 10), (1,), 8, modules=_conv),
    Example("flatten", lambda m, x: m.conv(x).flatten(1), (4, 3, 10, 10), (4, 800), (1,), 800, modules=_conv),
    Example(
        "global pool, flatten",
        lambda m, x: F.adaptive_avg_pool2d(m.conv(x), 1).flatten(1),
        (2, 3, 9, 9),
        (2, 8),
        (1,),
        8,
        modules=_conv,
    ),
    Example(
        "cat of channels",
        lambda m, x: torch.cat([m.a(x), m.b(x), m.b(x)], 1),
        (2, 3, 9, 9),
        (2, 40, 9, 9),
        (1,),
        40,
        modules=lambda: {"a": nn.Conv2d(3, 8, 1), "b": nn.Conv2d(3, 16, 1)},
    ),
    Example(
        "channels last, linear",
        lambda m, x: m.linear(m.conv(x).permute(0, 2, 3, 1)),
        (2, 3, 9, 9),
        (2, 9, 9, 24),
        (3,),
        24,
        modules=lambda: _conv() | {"linear": nn.Linear(8, 24)},
    ),
    Example(
        "channels last, linear, and back",
        lambda m, x: m.linear(m.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
        (2, 3, 9, 9),
        (2, 24, 9, 9),
        (1,),
        24,
        modules=lambda: _conv() | {"linear": nn.Linear(8, 24)},
    ),
    Example(
        "channel shuffle, before",
        lambda m, x: m.conv(x).view(2, 4, 3, 7, 7).transpose(1, 2),
        (2, 3, 7, 7),
        (2, 3, 4, 7, 7),
        (2, 1),
        12,
        modules=lambda: _conv(12),
    ),
    Example(
        "channel shuffle, after",
        lambda m, x: m.conv(x).view(2, 4, 3, 7, 7).transpose(1, 2).reshape(2, 12, 7, 7),
        (2, 3, 7, 7),
        (2, 12, 7, 7),
        (1,),
        12,
        modules=lambda: _conv(12),
    ),
    Example(
        "pixel shuffle by hand, before",
        lambda m, x: m.conv(x).view(2, 3, 2, 2, 7, 7).permute(0, 1, 4, 2, 5, 3),
        (2, 3, 7, 7),
        (2, 3, 7, 2, 7, 2),
        (1, 3, 5),
        12,
        modules=lambda: _conv(12),
    ),
    Example(
        "pixel shuffle by hand, after",
        lambda m, x: m.conv(x).view(2, 3, 2, 2, 7, 7).permute(0, 1, 4, 2, 5, 3).reshape(2, 3, 14, 14),
        (2, 3, 7, 7),
        (2, 3, 14, 14),
        (1,),
        3,
        modules=lambda: _conv(12),
    ),
    Example(
        "space to depth",
        lambda m, x: m.conv(x).view(2, 4, 3, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(2, 16, 3, 3),
        (2, 3, 6, 6),
        (2, 16, 3, 3),
        (1,),
        16,
        modules=lambda: _conv(4),
    ),
    Example(
        "unfold", lambda m, x: F.unfold(m.conv(x), 3), (2, 3, 6, 6), (2, 36, 16), (1,), 36, modules=lambda: _conv(4)
    ),
    Example(
        "window partition", _windows, (2, 3, 8, 8), (8, 16, 6), (3,), 6, split=(2, 4, 16, 6), modules=lambda: _conv(6)
    ),
    Example(
        "heads of a query",
        lambda m, x: _attention(m, x)[0],
        (2, 5, 7),
        (2, 4, 5, 3),
        (1, 3),
        12,
        modules=lambda: _qkv(12),
    ),
    Example(
        "scores",
        lambda m, x: (_attention(m, x)[0] @ _attention(m, x)[1].mT).softmax(-1),
        (2, 5, 7),
        (2, 4, 5, 5),
        (1,),
        4,
        modules=lambda: _qkv(12),
    ),
    Example(
        "attention output",
        lambda m, x: F.scaled_dot_product_attention(*_attention(m, x)),
        (2, 5, 7),
        (2, 4, 5, 3),
        (1, 3),
        12,
        modules=lambda: _qkv(12),
    ),
    Example(
        "heads folded into samples",
        lambda m, x: _heads(m.q(x), 2).reshape(4, 5, 4),
        (2, 5, 7),
        (4, 5, 4),
        (1, 3),
        8,
        split=(2, 2, 5, 4),
        modules=lambda: _qkv(8),
    ),
    Example(
        "keys of grouped heads, before the merge",
        lambda m, x: _repeated_keys(m, x, merged=False),
        (2, 5, 7),
        (2, 2, 2, 5, 3),
        (1, 4),
        6,
        modules=lambda: _qkv(6),
    ),
    Example(
        "keys of grouped heads, merged",
        lambda m, x: _repeated_keys(m, x, merged=True),
        (2, 5, 7),
        (2, 4, 5, 3),
        (1, 3),
        12,
        modules=lambda: _qkv(6),
    ),
    Example("rotary pairs", _rotary, (2, 8, 7), (2, 4, 8, 8), (1, 3), 32, modules=lambda: _qkv(32)),
    Example(
        "relative bias",
        _bias,
        (2, 16, 7),
        (1, 2, 16, 16),
        (1,),
        2,
        samples=(),
        modules=lambda: _qkv(6) | {"table": nn.Parameter(r(9, 2)), "index": torch.randint(0, 9, (16, 16))},
        source="consumers",
    ),
    Example(
        "class token, expanded",
        lambda m, x: (token := m.token.expand(2, -1, -1), torch.cat([token, m.linear(x)], 1)),
        (2, 5, 3),
        (2, 1, 8),
        (2,),
        8,
        modules=lambda: {"token": nn.Parameter(r(1, 1, 8)), "linear": nn.Linear(3, 8)},
        source="consumers",
    ),
    Example(
        "token-mixing linear",
        lambda m, x: m.mix(m.embed(x).transpose(1, 2)),
        (2, 9, 3),
        (2, 6, 18),
        (2,),
        18,
        modules=lambda: {"embed": nn.Linear(3, 6), "mix": nn.Linear(9, 18)},
    ),
    Example(
        "token mixing, added to the residual",
        lambda m, x: (z := (y := m.embed(x)) + m.mix(y.transpose(1, 2)).transpose(1, 2), m.norm(z)),
        (2, 9, 3),
        (2, 9, 6),
        (2,),
        6,
        modules=lambda: {"embed": nn.Linear(3, 6), "mix": nn.Linear(9, 9), "norm": nn.LayerNorm(6)},
        source="consumers",
    ),
    Example(
        "a parameter times tokens",
        lambda m, x: m.w @ m.embed(x),
        (2, 9, 3),
        (2, 5, 6),
        (2,),
        6,
        modules=lambda: {"embed": nn.Linear(3, 6), "w": nn.Parameter(r(5, 9))},
    ),
    Example(
        "experts",
        _experts,
        (2, 5, 7),
        (3, 10, 20),
        (0, 3),
        60,
        samples=(1,),
        split=(3, 2, 5, 20),
        modules=lambda: {"w": nn.Parameter(r(3, 7, 20))},
    ),
    Example(
        "router",
        lambda m, x: m.gate(x.flatten(0, 1)).softmax(-1),
        (2, 5, 7),
        (10, 3),
        (2,),
        3,
        split=(2, 5, 3),
        modules=lambda: {"gate": nn.Linear(7, 3)},
    ),
    Example(
        "chosen tokens",
        lambda m, x: (y := m.embed(x)).gather(1, y.mean(2).topk(3).indices[:, :, None].expand(-1, -1, 6)),
        (2, 5, 7),
        (2, 3, 6),
        (2,),
        6,
        modules=lambda: {"embed": nn.Linear(7, 6)},
    ),
    Example(
        "state of a selective scan",
        _scan,
        (2, 3, 7),
        (2, 10, 4),
        (1, 2),
        40,
        modules=lambda: {"a": nn.Linear(7, 10), "b": nn.Linear(7, 4)},
    ),
    Example(
        "Gram matrix",
        lambda m, x: (y := m.conv(x).flatten(2)) @ y.mT,
        (2, 3, 4, 4),
        (2, 5, 5),
        (1, 2),
        25,
        modules=lambda: _conv(5),
    ),
    Example(
        "sequence-first LSTM, output",
        lambda m, x: m.lstm(x)[0],
        (7, 2, 3),
        (7, 2, 12),
        (2,),
        12,
        samples=(1,),
        modules=lambda: {"lstm": nn.LSTM(3, 6, 2, bidirectional=True)},
    ),
    Example(
        "sequence-first LSTM, state",
        lambda m, x: m.lstm(x)[1][0],
        (7, 2, 3),
        (4, 2, 6),
        (2,),
        6,
        samples=(1,),
        modules=lambda: {"lstm": nn.LSTM(3, 6, 2, bidirectional=True)},
    ),
    Example(
        "video, time folded into samples",
        lambda m, x: m.conv(x.flatten(0, 1)),
        (2, 4, 3, 4, 4),
        (8, 6, 4, 4),
        (2,),
        6,
        split=(2, 4, 6, 4, 4),
        modules=lambda: _conv(6),
    ),
    Example(
        "maxout",
        lambda m, x: m.linear(x).view(5, 6, 3).amax(2),
        (5, 7),
        (5, 6),
        (1,),
        6,
        modules=lambda: {"linear": nn.Linear(7, 18)},
    ),
    Example(
        "mean over the units",
        lambda m, x: m.linear(x).mean(-1, keepdim=True),
        (2, 5, 7),
        (2, 5, 1),
        (),
        1,
        modules=lambda: {"linear": nn.Linear(7, 6)},
        source="whole",
    ),
    Example(
        "loss",
        lambda m, x: m.linear(x).square().mean(),
        (2, 5, 7),
        (),
        (),
        1,
        samples=(),
        modules=lambda: {"linear": nn.Linear(7, 6)},
        source="whole",
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_worked_examples(example: Example) -> None:
    example.check()
