"""Which dimension counts the units."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cutaway
from cutaway.graph.units import unit_dimension


def r(*shape: int) -> Tensor:
    return torch.randn(*shape)


@pytest.mark.parametrize(
    ("model", "x", "dimension"),
    [
        (nn.Linear(4, 3), r(4), 0),
        (nn.Linear(4, 3), r(2, 4), 1),
        (nn.Linear(4, 3), r(2, 5, 4), 2),
        (nn.Conv1d(4, 3, 2), r(2, 4, 6), 1),
        (nn.Conv2d(4, 3, 2), r(2, 4, 6, 6), 1),
        (nn.Conv3d(4, 3, 2), r(2, 4, 6, 6, 6), 1),
        (nn.ConvTranspose2d(4, 3, 2), r(2, 4, 6, 6), 1),
        (nn.Conv2d(4, 3, 2), r(4, 6, 6), 0),
        (nn.Conv1d(4, 3, 2), r(4, 6), 0),
        (nn.Sequential(nn.Conv2d(4, 3, 2), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)), r(2, 4, 6, 6), 1),
        (nn.Sequential(nn.Conv2d(4, 3, 2), nn.GroupNorm(1, 3), nn.GELU(), nn.Dropout()), r(2, 4, 6, 6), 1),
        (nn.Sequential(nn.Conv2d(4, 3, 2), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)), r(2, 4, 6, 6), 1),
        (nn.Sequential(nn.Conv2d(4, 3, 2), nn.Upsample(scale_factor=2)), r(2, 4, 6, 6), 1),
        (nn.Sequential(nn.Conv2d(4, 3, 2), nn.Flatten()), r(2, 4, 6, 6), 1),
        (nn.Sequential(nn.Conv2d(4, 3, 2), nn.Flatten(2)), r(2, 4, 6, 6), 2),
        (nn.BatchNorm1d(4), r(2, 4), 1),
        (nn.BatchNorm1d(4), r(2, 4, 5), 1),
        (nn.LayerNorm(4), r(2, 5, 4), 2),
        (nn.Embedding(5, 4), torch.zeros(2, 3, dtype=torch.int64), 2),
    ],
)
def test_units_are_channels_after_convolutions_and_else_the_last_dimension(
    model: nn.Module, x: Tensor, dimension: int
) -> None:
    output = cutaway.trace(model, x).outputs[0]
    assert unit_dimension(output) == dimension
    assert (output.shape or ())[dimension] == output.value.shape[dimension]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(3, 1, 1))

    def forward(self, x: Tensor) -> Any:
        y = self.scale * self.conv(x)
        z = torch.cat([y, y], 1)
        return y + F.relu(y), z, y.permute(0, 2, 3, 1).contiguous() + 1


def test_sums_and_concatenations_of_convolutions_keep_their_channels_and_permuted_ones_do_not() -> None:
    trace = cutaway.trace(Residual(), r(2, 3, 6, 6))
    assert [unit_dimension(op) for op in trace.outputs] == [1, 1, 3]


def test_a_unit_of_a_gradient_is_sliced_like_its_value() -> None:
    model = nn.Conv2d(1, 3, 2)
    with cutaway.watch(model) as trace:
        model(r(2, 1, 4, 4)).pow(2).sum().backward()
    assert torch.equal(trace[".#1"].grad, trace["."].grad[:, 1])
    assert torch.equal(trace[".#1"].grad, 2 * trace[".#1"].value)
