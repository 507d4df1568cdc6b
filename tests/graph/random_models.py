"""Models whose graph is drawn at random, for questions that have an independent answer."""

from __future__ import annotations

import random

import torch
from torch import Tensor, nn

import cutaway
from cutaway import Trace

_ONE = (torch.relu, torch.tanh, torch.sigmoid, torch.neg)
_TWO = (torch.add, torch.mul, torch.maximum)


class Tangle(nn.Module):
    """Each step takes one or several of the last few tensors; some are never used, some twice by one op."""

    def __init__(self, seed: int, n: int) -> None:
        super().__init__()
        self.seed, self.n = seed, n
        self.linear = nn.Linear(3, 3)
        self.drop = nn.Dropout()

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        draw = random.Random(self.seed)
        known = [x, y]
        for _ in range(self.n):
            a, b = draw.choice(known[-5:]), draw.choice(known[-5:])
            which = draw.random()
            if which < 0.4:
                known.append(draw.choice(_ONE)(a))
            elif which < 0.8:
                known.append(draw.choice(_TWO)(a, b))
            elif which < 0.87:
                known.append(self.linear(a))
            elif which < 0.92:
                self.drop(a)  # in evaluation it gives back what it was given
            else:
                known.extend(torch.stack([a, b]).unbind())
        return known[-1], known[-3]


def tangle(seed: int, n: int = 30) -> Trace:
    return cutaway.trace(Tangle(seed, n).eval(), torch.ones(2, 3), torch.ones(2, 3))
