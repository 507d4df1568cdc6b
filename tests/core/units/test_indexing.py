"""Indexing, gathering and scattering with a value whose unit k is the constant k."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.core.units.constant_units import Case, image, row, text
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway

SEVEN = [0, 1, 2, 3, 4, 5, 6]


def _case(name: str, *rest: Any, **named: Any) -> Any:
    return pytest.param(Case(name, *rest, **named), id=name)


def _written(y: Tensor, index: Any, source: Any) -> Tensor:
    z = torch.zeros(y.shape)
    z[index] = source
    return z


def _filled(y: Tensor) -> Tensor:
    z = torch.empty(2, 11, 9)
    z[:, :, :7] = y
    z[:, :, 7:] = 9
    return z


CASES = [
    _case("a constant list", image(), lambda y: y[:, [4, 1, 1]], (1,), [4, 1, 1]),
    _case("a constant index", image(), lambda y: y[:, torch.tensor([6, 0])], (1,), [6, 0]),
    _case("index_select", image(), lambda y: y.index_select(1, torch.tensor([5, 2])), (1,), [5, 2]),
    _case("index_select places", image(), lambda y: y.index_select(2, torch.tensor([5, 2])), (1,), SEVEN),
    _case("a constant mask", image(), lambda y: y[:, torch.arange(7) > 4], (1,), [5, 6]),
    _case("negative", image(), lambda y: y[:, -2:], (1,), [5, 6]),
    _case("None", image(), lambda y: y[:, None, :, 0], (2,), SEVEN),
    _case("dots", image(), lambda y: y[..., None, 0], (1,), SEVEN),
    _case("one place", text(), lambda y: y[:, 0], (1,), SEVEN),
    _case("an integer and a slice", image(), lambda y: y[:, 2:4, 0, 1:], (1,), [2, 3]),
    _case(
        "places by two indices",
        image(),
        lambda y: y[:, :, torch.tensor([0, 3, 5]), torch.tensor([1, 1, 2])],
        (1,),
        SEVEN,
    ),
    _case(
        "rows of a matrix of indices", image(), lambda y: y[:, :, torch.zeros(3, 13, dtype=torch.int64), 0], (1,), SEVEN
    ),
    _case(
        "indices apart",
        image(),
        lambda y: y[torch.tensor([0, 1, 0]), :, torch.tensor([0, 3, 5])],
        (1,),
        SEVEN,
        samples=(),
    ),
    _case("places of the data", text(), lambda y: y[torch.arange(2), y.argmax(1)[:, 0]], (1,), SEVEN),
    _case("gather places", text(), lambda y: y.gather(1, y.argsort(1)[:, :3]), (2,), SEVEN),
    _case(
        "gather places, expanded",
        text(),
        lambda y: y.gather(1, y.sum(2).topk(3)[1][:, :, None].expand(-1, -1, 7)),
        (2,),
        SEVEN,
    ),
    _case("take_along_dim", text(), lambda y: torch.take_along_dim(y, y.argsort(1), 1), (2,), SEVEN),
    _case("rows of a mask", text(), lambda y: y[y.sum(-1) > 0], (1,), SEVEN, samples=()),
    _case("setitem whole", row(), lambda y: _written(y, slice(None), y), (1,), SEVEN),
    _case(
        "setitem part",
        image(),
        lambda y: _written(y, (slice(None), slice(None), slice(0, 3)), y[:, :, :3]),
        (1,),
        lambda z: [z[:, k] for k in SEVEN],
    ),
    _case("setitem units", text(), _filled, (2,), [*SEVEN, 9, 9]),
    _case(
        "index_put", row(), lambda y: torch.zeros(2, 7).index_put((torch.tensor([0, 1]),), y), (1,), SEVEN, samples=()
    ),
    _case("copy_", row(), lambda y: torch.zeros(2, 7).copy_(y), (1,), SEVEN),
    _case(
        "scatter",
        row(),
        lambda y: torch.zeros(2, 7).scatter(0, torch.zeros(2, 7, dtype=torch.int64), y),
        (1,),
        lambda z: [z[:, k] for k in SEVEN],
    ),
    _case(
        "index_add",
        text(),
        lambda y: torch.zeros(2, 3, 7).index_add(1, torch.zeros(11, dtype=torch.int64), y),
        (2,),
        lambda z: [z[..., k] for k in SEVEN],
    ),
    _case("masked_scatter", row(), lambda y: y.masked_scatter(y > 5, torch.zeros(14)), (1,), [0, 1, 2, 3, 4, 5, 0]),
    _case("index_fill", row(), lambda y: y.index_fill(1, torch.tensor([2]), -1), (1,), [0, 1, -1, 3, 4, 5, 6]),
    _case("slice_scatter", row(), lambda y: y.slice_scatter(y[:, :2] + 10, 1, 0, 2), (1,), [10, 11, 2, 3, 4, 5, 6]),
    _case(
        "written in place through a view", row(), lambda y: (y[:, 2].fill_(-1), y + 0)[1], (1,), [0, 1, -1, 3, 4, 5, 6]
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_an_indexed_unit_is_where_plain_indexing_finds_it(case: Case) -> None:
    case.check()


def test_where_with_one_argument_gives_rows_without_samples() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        y = self.stem(x)
        rows, columns = torch.where(y.sum(-1) > -1e9)
        return y[rows, columns]

    layer, x = text()
    op = cutaway.trace(Fn(forward, stem=layer), x).outputs[0]
    assert (op.unit_layout.units, op.unit_layout.samples) == ((1,), ())


def test_rows_written_back_have_the_samples_of_what_they_are_written_into() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        y = self.stem(x)
        chosen = y.sum(-1) > 0
        z = torch.zeros_like(y)
        z[chosen] = self.expert(y[chosen])
        return z

    layer, x = text()
    op = cutaway.trace(Fn(forward, stem=layer, expert=nn.Linear(7, 7)), x).outputs[0]
    assert (op.unit_layout.units, op.unit_layout.samples) == ((2,), (0,))
