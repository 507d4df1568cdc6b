"""Ops that give back what they got stand on the way of those who read it after them, and of nobody else."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import cutaway
from cutaway.views.graph.from_trace import graph_view

X = torch.ones(2, 4)


def links(model: nn.Module) -> set[tuple[str, str]]:
    view = graph_view(cutaway.trace(model.eval(), X))
    labels = [label.rpartition("_")[0] for label in view.nodes.label]
    return {(labels[p], labels[c]) for p, c in zip(view.edges.parent, view.edges.child, strict=True)}


def test_a_dropout_stands_between_what_it_stands_between_in_the_code() -> None:
    found = links(nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.ReLU()))
    assert {("linear_1", "dropout_1"), ("dropout_1", "relu_1")} <= found
    assert ("linear_1", "relu_1") not in found


def test_what_a_module_keeps_to_itself_does_not_take_the_skip_connection() -> None:
    class Norm(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = x.to(torch.float32)
            return x * x.mean()

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.norm = nn.Linear(4, 4), Norm()

        def forward(self, x: Tensor) -> Tensor:
            x = self.enter(x)
            return x + torch.tanh(self.norm(x))

    found = links(Block())
    assert ("linear_1", "add_1") in found
    assert {("linear_1", "to_1"), ("to_1", "mean_1"), ("to_1", "mul_1")} <= found
    assert ("to_1", "add_1") not in found


def test_what_every_module_around_returns_is_passed_on_through_all_of_them() -> None:
    inner = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    found = links(nn.Sequential(nn.Sequential(inner), nn.Tanh()))
    assert ("dropout_1", "tanh_1") in found
