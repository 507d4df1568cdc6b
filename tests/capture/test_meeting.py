"""Values are met where they are, each with the dimension of its units."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cutaway.capture.meeting import meeting, units_by_site
from cutaway.core.errors import InputError, SiteError


def test_each_site_has_a_function_of_its_own() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x = torch.randn(4, 2)
    met: dict[str, tuple[int, ...]] = {}

    def note(name: str) -> object:
        def function(value: Tensor, dimension: int) -> Tensor:
            met[name] = (*value.shape, dimension)
            return value + 1

        return function

    with meeting(model, {"0": note("0"), "2@in.0": note("2@in.0")}):  # type: ignore[dict-item]
        found = model(x)
    assert met == {"0": (4, 3, 1), "2@in.0": (4, 3, 1)}
    torch.testing.assert_close(found, model[2](torch.relu(model[0](x) + 1) + 1))


def test_gradients_go_through_what_takes_the_place() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    leaf = torch.ones(1, 3, requires_grad=True)
    with meeting(model, {"0": lambda value, dimension: leaf}):
        model(torch.ones(1, 2)).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [[1, 1, 1]]


def test_units_are_gathered_by_site() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    assert units_by_site(model, ["0#2", "0#1", "1"]) == {"0": [2, 1], "1": None}
    assert units_by_site(model, "*") == {"0": None, "1": None}
    with pytest.raises(SiteError, match="'3' names no module"):
        units_by_site(model, "3")
    with pytest.raises(InputError, match="give a site, or several"):
        units_by_site(model, [])
