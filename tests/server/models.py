"""Small real models to show."""

from __future__ import annotations

import torch
from torch import nn

import cutaway
from cutaway import Trace


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Tower(nn.Module):
    """Some identical blocks and a head; its name wants to be escaped."""

    def __init__(self, n_blocks: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(n_blocks))
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def tower(n_blocks: int = 3) -> Trace:
    torch.manual_seed(0)
    return cutaway.trace(Tower(n_blocks), torch.randn(2, 4))
