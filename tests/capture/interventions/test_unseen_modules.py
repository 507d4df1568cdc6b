"""Modules that hooks cannot reach: made inside the forward, or with a `__call__` of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.errors import SiteError


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x, -1)


class OwnCall(nn.Module):
    """As in gpytorch."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def __call__(self, x: Tensor) -> Tensor:
        return self.forward(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


class CallsSuper(OwnCall):
    def __call__(self, *args: Any) -> Any:
        return nn.Module.__call__(self, *args)


def test_an_edit_in_a_module_made_inside_the_forward_says_so_and_replay_works() -> None:
    model = Fn(lambda self, x: Softmax()(self.fc(x)) * 2, fc=nn.Linear(3, 3))
    x = torch.ones(2, 3)
    trace = cutaway.trace(model, x)
    with pytest.raises(SiteError, match=r"a module that the forward creates.*trace.replay\('softmax_1_2', 0\)"):
        cutaway.edit(model, at=trace["softmax_1"], to=0)
    assert torch.equal(trace.replay("softmax_1_2", 3).returned, torch.full((2, 3), 6.0))


def test_a_module_with_its_own_call_is_not_called_uncalled() -> None:
    model, x = nn.Sequential(OwnCall(), nn.ReLU()), torch.ones(2, 3)
    trace = cutaway.trace(model, x)
    assert trace.uncalled_modules == ()
    assert "not called" not in str(trace)
    with pytest.raises(SiteError, match="__call__ of its own that bypasses hooks"):
        trace["0"]
    assert torch.equal(trace["0.fc"].value, model[0].fc(x))
    edited = cutaway.edit(model, "0", 0)
    with pytest.raises(SiteError, match="OwnCall has a __call__ of its own"), edited:
        model(x)


def test_a_call_that_calls_super_is_seen_once() -> None:
    model = nn.ModuleDict({"used": CallsSuper(), "spare": nn.Linear(3, 3)})
    calls: list[Tensor] = []
    with model["used"].register_forward_hook(lambda _, __, out: calls.append(out)):
        trace = cutaway.trace(Fn(lambda self, x: self.m["used"](x), m=model), torch.ones(2, 3))
    assert len(trace.modules["m.used"].calls) == len(calls) == 1
    assert trace.uncalled_modules == ("m.spare",)
