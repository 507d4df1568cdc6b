"""Models for which every verb has to count the same units, with the units of one value picked by plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """A model, its input, a site, and what the units there are, written by hand.

    `rows` turns the value of the site into (sample, position, unit) by plain indexing.
    """

    make: Callable[[], nn.Module]
    x: Callable[[], Tensor]
    site: str
    n_units: int
    rows: Callable[[Tensor], Tensor]


class Fn(nn.Module):
    """A function after a first layer and before a last one that gives two numbers a sample."""

    def __init__(self, first: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.mid, self.function = first, nn.Identity(), function

    def forward(self, x: Tensor) -> Tensor:
        value: Tensor = self.mid(self.function(self.first(x)))
        flat = value.reshape(len(x), -1)
        return torch.stack([flat.sum(1), (flat * flat).sum(1)], 1)


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Conv2d(3, 8, 1), nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(3, 16, 1)
        self.mid, self.head = nn.Identity(), nn.Conv2d(40, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.mid(torch.cat([self.one(x), self.two(x), self.three(x)], 1))).mean((2, 3))


class Attention(nn.Module):
    """Self-attention of 2 heads of width 3, written out; heads may be folded into the batch."""

    def __init__(self, *, folded: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(6, 6) for _ in range(4))
        self.queries, self.scores, self.head = nn.Identity(), nn.Identity(), nn.Linear(6, 2)
        self.folded = folded

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape

        def heads(value: Tensor) -> Tensor:
            value = value.view(b, t, 2, 3).transpose(1, 2)
            return value.reshape(b * 2, t, 3) if self.folded else value

        q, k, v = self.queries(heads(self.q(x))), heads(self.k(x)), heads(self.v(x))
        mixed = self.scores((q @ k.mT).softmax(-1)) @ v
        mixed = mixed.view(b, 2, t, 3) if self.folded else mixed
        return self.head(self.out(mixed.transpose(1, 2).reshape(b, t, 6))).mean(1)


class Multihead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.head = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attn(x, x, x, need_weights=False)[0]).mean(1)


class SequenceFirst(nn.Module):
    """(time, sample, feature) in, (sample, class) out."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.act, self.head = nn.LSTM(3, 5), nn.Tanh(), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.rnn(x)[0])[-1])


class ChannelsLast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.mid, self.head = nn.Conv2d(3, 6, 3), nn.Identity(), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.mid(self.conv(x).permute(0, 2, 3, 1))).mean((1, 2))


class Mixing(nn.Module):
    """A product with a parameter by einsum: experts × features."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 6, 4))
        self.mid, self.head = nn.Identity(), nn.Linear(12, 2)

    def forward(self, x: Tensor) -> Tensor:
        value = self.mid(torch.einsum("btc,eci->btei", x, self.weight))
        return self.head(value.flatten(2)).mean(1)


def _channels(value: Tensor) -> Tensor:
    """(B, C, …) → (B, positions, C)."""
    return value.flatten(2).transpose(1, 2) if value.dim() > 2 else value[:, None]


def _last(value: Tensor) -> Tensor:
    """(B, …, C) → (B, positions, C)."""
    return value.reshape(len(value), -1, value.shape[-1])


def _images() -> Tensor:
    return torch.randn(5, 3, 9, 9, generator=torch.Generator().manual_seed(1))


def _texts() -> Tensor:
    return torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(1))


def _signals() -> Tensor:
    return torch.randn(4, 3, 12, generator=torch.Generator().manual_seed(1))


def _conv(function: Callable[[Tensor], Tensor], n: int = 8) -> Callable[[], nn.Module]:
    return lambda: Fn(nn.Conv2d(3, n, 3), function)


CASES: dict[str, Case] = {
    "issue": Case(
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 10)),
        lambda: torch.randn(5, 3, 12, 12, generator=torch.Generator().manual_seed(1)),
        "1",
        8,
        _channels,
    ),
    "conv1d": Case(
        lambda: nn.Sequential(nn.Conv1d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(50, 2)),
        _signals,
        "1",
        5,
        _channels,
    ),
    "conv3d": Case(
        lambda: nn.Sequential(nn.Conv3d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 4 * 3 * 2, 2)),
        lambda: torch.randn(4, 3, 6, 5, 4, generator=torch.Generator().manual_seed(1)),
        "1",
        5,
        _channels,
    ),
    "batch norm": Case(
        lambda: nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)),
        lambda: torch.randn(4, 8, generator=torch.Generator().manual_seed(1)),
        "1",
        6,
        _channels,
    ),
    "inception": Case(Inception, _images, "mid", 40, _channels),
    "queries": Case(Attention, _texts, "queries", 6, lambda v: v.transpose(1, 2).reshape(4, 5, 6)),
    "scores": Case(Attention, _texts, "scores", 2, lambda v: v.permute(0, 2, 3, 1).reshape(4, 25, 2)),
    "folded heads": Case(
        lambda: Attention(folded=True),
        _texts,
        "queries",
        6,
        lambda v: v.view(4, 2, 5, 3).transpose(1, 2).reshape(4, 5, 6),
    ),
    "multihead attention": Case(Multihead, _texts, "attn", 6, _last),
    "sequence first": Case(
        SequenceFirst,
        lambda: torch.randn(7, 4, 3, generator=torch.Generator().manual_seed(1)),
        "act",
        5,
        lambda v: v.transpose(0, 1),
    ),
    "channels last": Case(ChannelsLast, _images, "mid", 6, _last),
    "pixel shuffle": Case(_conv(lambda v: F.pixel_shuffle(v, 2)), _images, "mid", 2, _channels),
    "chunk": Case(_conv(lambda v: v.chunk(2, 1)[1]), _images, "mid", 4, _channels),
    "glu": Case(_conv(lambda v: F.glu(v, 1)), _images, "mid", 4, _channels),
    "einsum": Case(Mixing, _texts, "mid", 12, lambda v: v.flatten(2)),
    "softmax": Case(_conv(lambda v: v.softmax(1)), _images, "mid", 8, _channels),
    "stack": Case(_conv(lambda v: torch.stack([v, -v], 0).sum(0)), _images, "mid", 8, _channels),
    "flip": Case(_conv(lambda v: v.flip(1)), _images, "mid", 8, _channels),
    "roll": Case(_conv(lambda v: v.roll(3, 1)), _images, "mid", 8, _channels),
    "slice": Case(_conv(lambda v: v[:, 2:7]), _images, "mid", 5, _channels),
    "where": Case(_conv(lambda v: torch.where(v > 0, v, torch.zeros(()))), _images, "mid", 8, _channels),
}
