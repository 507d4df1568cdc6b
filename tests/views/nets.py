"""Small models whose pictures have everything in them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import cutaway


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(self.norm(x))


class Stack(nn.Module):
    """Equal blocks one after the other, a buffer, a constant made inside, two outputs."""

    def __init__(self, n: int = 3) -> None:
        super().__init__()
        self.stem = nn.Linear(3, 4)
        self.blocks = nn.ModuleList(Block(4) for _ in range(n))
        self.head = nn.Linear(4, 2)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = self.stem(x) - self.shift
        for block in self.blocks:
            x = block(x)
        low, high = (x + torch.zeros(4)).chunk(2, -1)
        return {"low": low, "head": self.head(torch.cat([high, low], -1))}


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(2, 4)
        for step in x:
            h = self.cell(step, h)
        return h if h.sum() > 100 else -h


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x).relu())
        return out


def perceptron() -> cutaway.Trace:
    torch.manual_seed(0)
    return cutaway.trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), torch.ones(2, 3))


def stack() -> cutaway.Trace:
    torch.manual_seed(0)
    return cutaway.trace(Stack(), torch.ones(2, 3))


def loop() -> cutaway.Trace:
    torch.manual_seed(0)
    return cutaway.trace(Loop(), torch.ones(5, 2, 3))


def broken() -> cutaway.Trace:
    try:
        return cutaway.trace(Broken(), torch.ones(1, 3))
    except RuntimeError as error:
        partial: cutaway.Trace = error.cutaway_trace  # type: ignore[attr-defined]
        return partial
