"""Reshapes split and merge factors; parts of one factor that meet again are merged."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.core.units.constant_units import Case, image, row, text

SEVEN = [0, 1, 2, 3, 4, 5, 6]


def _case(name: str, *rest: Any, **named: Any) -> Any:
    return pytest.param(Case(name, *rest, **named), id=name)


CASES = [
    _case("the same", image(), lambda y: y.view(2, 7, 11, 5), (1,), SEVEN),
    _case("places together", image(), lambda y: y.flatten(2), (1,), SEVEN),
    _case(
        "units and places",
        image(),
        lambda y: y.flatten(1),
        (1,),
        [k for k in SEVEN for _ in range(55)],
    ),
    _case("and back", image(), lambda y: y.flatten(1).view(2, 7, 11, 5), (1,), SEVEN),
    _case("split", row(6), lambda y: y.view(2, 2, 3), (1, 2), list(range(6))),
    _case("split and back", row(6), lambda y: y.view(2, 2, 3).reshape(2, 6), (1,), list(range(6))),
    _case("split, swapped", row(6), lambda y: y.view(2, 2, 3).mT, (2, 1), list(range(6))),
    _case(
        "split, swapped, merged",
        row(6),
        lambda y: y.view(2, 2, 3).mT.reshape(2, 6),
        (1,),
        [0, 3, 1, 4, 2, 5],
    ),
    _case("unflatten", row(6), lambda y: y.unflatten(1, (3, 2)), (1, 2), list(range(6))),
    _case(
        "in three, two of them back",
        row(30),
        lambda y: y.view(2, 2, 3, 5).flatten(1, 2),
        (1, 2),
        list(range(30)),
        split=((2,), (6,), (5,)),
    ),
    _case("samples and places", text(), lambda y: y.reshape(22, 7), (2,), SEVEN, split=((2, 11), (7,))),
    _case("samples, places and back", text(), lambda y: y.view(-1, 7).view(2, 11, 7), (2,), SEVEN),
    _case("samples and units", row(), lambda y: y.reshape(14), (1,), SEVEN, split=((2, 7),)),
    _case("samples and units apart again", row(), lambda y: y.reshape(14).view(2, 7), (1,), SEVEN),
    _case(
        "heads beside samples",
        text(6),
        lambda y: y.view(2, 11, 2, 3).transpose(1, 2).reshape(4, 11, 3),
        (1, 3),
        list(range(6)),
        split=((2, 2), (11,), (3,)),
    ),
    _case("dimensions of one", row(), lambda y: y.view(2, 1, 7, 1), (2,), SEVEN),
    _case("view_as", row(), lambda y: y.view_as(torch.ones(2, 1, 7)), (2,), SEVEN),
    _case("no cut fits", row(12), lambda y: y.view(2, 2, 6).view(2, 4, 3), (1, 2), list(range(12))),
    _case("atleast_2d", row(), lambda y: torch.atleast_2d(y), (1,), SEVEN),
    _case("atleast_3d", row(), lambda y: torch.atleast_3d(y), (1,), SEVEN),
]


@pytest.mark.parametrize("case", CASES)
def test_a_reshaped_unit_is_where_plain_indexing_finds_it(case: Case) -> None:
    case.check()
