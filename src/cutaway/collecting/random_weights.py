"""A model with the weights of none: the baseline against which what was learned is seen."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

from cutaway.capture.model.rng_state import seed_rng
from cutaway.core.errors import InputError

_APART = 7_654_321
"""Added to seeds: a model made under the same seed would get its own weights again."""

M = TypeVar("M", bound=nn.Module)


def randomised(model: M, seed: int = 0) -> M:
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
    with seed_rng(seed + _APART), torch.no_grad():
        initialise = getattr(fresh, "_init_weights", None)
        for module in fresh.modules():
            own = getattr(module, "reset_parameters", None)
            if callable(own):
                own()
            if callable(initialise):
                _forget(module)
                initialise(module)
        before = dict(model.named_parameters())
        for name, parameter in fresh.named_parameters():
            if parameter.dim() > 1 and torch.equal(parameter, before[name]):
                _stirred(parameter)
    return fresh


def _forget(module: nn.Module) -> None:
    """transformers marks what was loaded, and then leaves it as it is."""
    for thing in (module, *module._parameters.values()):
        if thing is not None and hasattr(thing, "_is_hf_initialized"):
            del thing._is_hf_initialized


def _stirred(parameter: Tensor) -> None:
    values = parameter.reshape(-1)
    mixed = values[torch.randperm(len(values))].reshape(parameter.shape)
    if torch.equal(mixed, parameter):
        mixed = torch.randn_like(parameter) * 0.02
    parameter.copy_(mixed)
