"""Identical blocks are found where they are, and nowhere else."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import cutaway
from cutaway.views.graphing import graph_view


class Block(nn.Module):
    def __init__(self, width: int = 4, act: nn.Module | None = None) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(4, width), act or nn.ReLU(), nn.Linear(width, 4)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.down(self.act(self.up(x)))
        return x if mask is None else x * mask


def runs(model: nn.Module, *args: Tensor) -> list[tuple[str, int]]:
    view = graph_view(cutaway.trace(model, *args))
    return [(run.label, len(run.groups)) for run in view.runs]


X = torch.linspace(-1, 1, 8).reshape(2, 4)


def test_a_chain_of_identical_blocks_is_one_run() -> None:
    assert runs(nn.Sequential(*(Block() for _ in range(5))), X) == [("0 … 4", 5)]


def test_two_are_too_few() -> None:
    assert runs(nn.Sequential(Block(), Block()), X) == []


def test_another_width_or_another_function_ends_a_run() -> None:
    blocks = [*(Block() for _ in range(3)), *(Block(6) for _ in range(4)), *(Block(6, nn.GELU()) for _ in range(3))]
    assert runs(nn.Sequential(*blocks), X) == [("0 … 2", 3), ("3 … 6", 4), ("7 … 9", 3)]


def test_what_all_read_alike_does_not_part_them() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(4))

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            for block in self.blocks:
                x = block(x, mask)
            return x

    assert runs(Masked(), X, torch.ones(2, 4)) == [("blocks.0 … 3", 4)]


def test_blocks_whose_results_go_different_ways_stay_apart() -> None:
    class Skips(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            kept = []
            for block in self.blocks:
                x = block(x)
                kept.append(x)
            return torch.tanh(kept[0]) + torch.sigmoid(kept[1]) + torch.relu(kept[2]) + x

    assert runs(Skips(), X) == []


def test_blocks_that_all_give_to_the_same_op_are_one_run() -> None:
    class Stacked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([block(x) for block in self.blocks])

    assert runs(Stacked(), X) == [("blocks.0 … 3", 4)]


def test_blocks_that_read_further_back_stay_apart() -> None:
    class Back(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(6))

        def forward(self, x: Tensor) -> Tensor:
            seen = [x, x]
            for block in self.blocks:
                seen.append(block(seen[-1], seen[-2]))
            return seen[-1]

    assert runs(Back(), X) == []


def test_an_op_between_two_blocks_parts_them() -> None:
    class Parted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(6))

        def forward(self, x: Tensor) -> Tensor:
            for i, block in enumerate(self.blocks):
                x = block(x) * 2 if i == 2 else block(x)
            return x

    assert runs(Parted(), X) == [("blocks.0 … 2", 3), ("blocks.3 … 5", 3)]


def test_runs_within_runs_are_found_in_each() -> None:
    model = nn.Sequential(*(nn.Sequential(*(Block() for _ in range(3))) for _ in range(4)))
    assert runs(model, X) == [("0 … 3", 4), *((f"{i}.0 … 2", 3) for i in range(4))]
