"""Identical blocks are found where they are, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway.views.diff.diff_graph import diff_view
from cutaway.views.graph.from_trace import graph_view


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


@pytest.mark.parametrize(
    ("returned", "found"),
    [((0, 1, 2, 3), [("blocks.0 … 3", 4)]), ((1, 3), []), ((3,), [("blocks.0 … 3", 4)])],
)
def test_blocks_are_one_if_all_of_them_are_returned_or_none_but_the_last(
    returned: tuple[int, ...], found: list[tuple[str, int]]
) -> None:
    class Features(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(4))

        def forward(self, x: Tensor) -> list[Tensor]:
            kept = [x]
            for block in self.blocks:
                kept.append(block(kept[-1]))
            return [kept[1 + i] for i in returned]

    assert runs(Features(), X) == found


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


class Reads(nn.Module):
    """Reads one of two parameters, or of two buffers, of one shape."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.a, self.b = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
        self.register_buffer("c", torch.ones(4))
        self.register_buffer("d", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x * getattr(self, self.name))


class Tied(nn.Module):
    def __init__(self, weight: nn.Parameter | None) -> None:
        super().__init__()
        self.own, self.act = nn.Linear(4, 4), nn.ReLU()
        if weight is not None:
            self.own.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.act(self.own(x))
        return out


class Calm(nn.Tanh):
    """The same op in a module of another class."""


class Steered(nn.Module):
    """Which arm of its test is taken is all that differs."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = nn.Parameter(torch.tensor(limit))

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > self.limit:
            return torch.relu(x)
        return torch.relu(x)


def frozen(block: Block) -> Block:
    block.up.weight.requires_grad_(False)
    return block


def inside(module: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), module)


WEIGHT = nn.Parameter(torch.eye(4))
DIFFERENT: dict[str, Callable[[bool], nn.Module]] = {
    "a slope": lambda odd: inside(nn.LeakyReLU(0.2 if odd else 0.1)),
    "an epsilon": lambda odd: inside(nn.LayerNorm(4, eps=1e-3 if odd else 1e-5)),
    "the p of a dropout": lambda odd: inside(nn.Dropout(0.2 if odd else 0.1)),
    "a module class": lambda odd: inside(Calm() if odd else nn.Tanh()),
    "frozen parameters": lambda odd: frozen(Block()) if odd else Block(),
    "the parameter that is read": lambda odd: Reads("a" if odd else "b"),
    "the buffer that is read": lambda odd: Reads("c" if odd else "d"),
    "tied parameters": lambda odd: Tied(WEIGHT if odd else None),
    "the arm that is taken": lambda odd: Steered(1e9 if odd else -1e9),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_blocks_that_differ_in_anything_but_values_stay_apart(what: str) -> None:
    make = DIFFERENT[what]
    assert runs(nn.Sequential(*(make(False) for _ in range(3))), X) == [("0 … 2", 3)]
    assert runs(nn.Sequential(*(make(i % 2 == 0) for i in range(4))), X) == []


def test_dilations_of_equal_shapes_part_convolutions(tmp_path: Path) -> None:
    def model(*dilations: int) -> nn.Sequential:
        convolutions = [nn.Conv1d(2, 2, 3, padding=by, dilation=by) for by in dilations]
        return nn.Sequential(*(nn.Sequential(one, nn.ReLU()) for one in convolutions))

    x = torch.ones(1, 2, 16)
    assert runs(model(2, 2, 2), x) == [("0 … 2", 3)]
    assert runs(model(1, 2, 4, 8), x) == []
    cutaway.trace(model(1, 1, 1, 2, 4), x).save(tmp_path / "net")
    assert [run.label for run in graph_view(cutaway.load(tmp_path / "net")).runs] == ["0 … 2"]


def test_blocks_of_a_comparison_differ_by_their_arguments_too() -> None:
    def traced(*slopes: float) -> cutaway.Trace:
        torch.manual_seed(0)
        return cutaway.trace(nn.Sequential(*(inside(nn.LeakyReLU(slope)) for slope in slopes)), X)

    view = diff_view(cutaway.diff(traced(0.1, 0.1, 0.1), traced(0.1, 0.1, 0.1)))
    assert [len(run.groups) for run in view.runs] == [3]
    view = diff_view(cutaway.diff(traced(0.1, 0.2, 0.3), traced(0.1, 0.2, 0.3)))
    assert view.runs == ()
