"""`eval_mode` and `preserve_state` restore the model exactly."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from cutaway.capture.model.eval_mode import device_of, eval_mode


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(3), nn.Dropout()
        self.register_buffer("n", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n = self.n + 1
        self.norm.running_mean.add_(1)  # type: ignore[operator, union-attr]
        found: torch.Tensor = self.drop(self.norm(x))
        return found


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_modes_buffers_and_random_states_are_put_back(gradients: bool, fails: bool) -> None:
    model = Counting().train()
    model.drop.eval()
    buffer, before = model.n, {name: value.clone() for name, value in model.named_buffers()}
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # type: ignore[union-attr]
    try:
        with eval_mode(model, gradients=gradients):
            assert not any(module.training for module in model.modules())
            assert torch.is_grad_enabled() is gradients
            torch.rand(2), random.random(), np.random.rand()
            model(torch.ones(2, 3))
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert [module.training for module in model.modules()] == [True, True, False]
    assert model.n is buffer
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())
    assert random.getstate() == states[0]
    assert np.random.get_state()[1].tolist() == states[1]  # type: ignore[union-attr]
    assert torch.equal(torch.get_rng_state(), states[2])
    assert torch.is_grad_enabled()


def test_gradients_stay_off_where_they_were_off() -> None:
    with torch.no_grad(), eval_mode(Counting(), gradients=True):
        assert not torch.is_grad_enabled()


def test_inputs_go_where_the_model_is() -> None:
    assert device_of(nn.Linear(2, 2)) == torch.device("cpu")
    assert device_of(nn.ReLU()) == torch.device("cpu")
    assert device_of(nn.Linear(2, 2, device="meta")) == torch.device("cpu")
