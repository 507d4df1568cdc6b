"""A model with the weights of none: the baseline against which what was learned is seen."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

from cutaway.capture.model.rng_state import seeded
from cutaway.core.errors import InputError

_SEED_OFFSET = 7_654_321
"""Added to seeds: a model made under the same seed would get its own weights again."""

M = TypeVar("M", bound=nn.Module)


def randomized(model: M, seed: int = 0) -> M:
    """A copy of a model with fresh weights; the model itself stays as it is.

    >>> model = nn.Linear(3, 2)
    >>> bool((randomised(model).weight == model.weight).any())
    False

    Weights are drawn as the model itself draws them where it says how (`reset_parameters`, `_init_weights`). Whatever
    that leaves as it was is shuffled, and a matrix of equal numbers is drawn anew: no weight matrix is the same.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"randomised takes a torch.nn.Module, not a {type(model).__name__}.")
    fresh = copy.deepcopy(model)
    with seeded(seed + _SEED_OFFSET), torch.no_grad():
        init_weights = getattr(fresh, "_init_weights", None)
        for module in fresh.modules():
            reset_parameters = getattr(module, "reset_parameters", None)
            if callable(reset_parameters):
                reset_parameters()
            if callable(init_weights):
                _clear_initialized(module)
                init_weights(module)
        before = dict(model.named_parameters())
        for name, parameter in fresh.named_parameters():
            if parameter.dim() > 1 and torch.equal(parameter, before[name]):
                _shuffle(parameter)
    return fresh


def _clear_initialized(module: nn.Module) -> None:
    """transformers marks what was loaded, and then leaves it as it is."""
    for target in (module, *module._parameters.values()):
        if target is not None and hasattr(target, "_is_hf_initialized"):
            del target._is_hf_initialized


def _shuffle(parameter: Tensor) -> None:
    values = parameter.reshape(-1)
    shuffled = values[torch.randperm(len(values))].reshape(parameter.shape)
    if torch.equal(shuffled, parameter):
        shuffled = torch.randn_like(parameter) * 0.02
    parameter.copy_(shuffled)
