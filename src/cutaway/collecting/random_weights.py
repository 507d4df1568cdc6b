"""`randomized`: a copy of a model with random weights, as a baseline."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

from cutaway.capture.model.rng_state import seed_rng
from cutaway.core.errors import InputTypeError
from cutaway.core.formatting import type_text

_SEED_OFFSET = 7_654_321
"""Added to the seed: otherwise a model created under the same seed would get its own weights again."""

M = TypeVar("M", bound=nn.Module)


def randomized(model: M, seed: int = 0) -> M:
    """Return a copy of a model with random weights. The model itself is not changed.

    >>> model = nn.Linear(3, 2)
    >>> bool((randomized(model).weight == model.weight).any())
    False

    Weights are initialized as the model does it (`reset_parameters`, `_init_weights`). A weight matrix that this does
    not change is shuffled or, if all its values are equal, drawn from a normal distribution.

    Args:
        model: the model to copy.
        seed: the random seed.
    """
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"randomized() got {type_text(model)}: pass a torch.nn.Module.")
    fresh = copy.deepcopy(model)
    with seed_rng(seed + _SEED_OFFSET), torch.no_grad():
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
            # Modules without an initializer keep their weights; vectors (biases, norms) may be constant by design.
            if parameter.dim() > 1 and torch.equal(parameter, before[name]):
                _shuffle(parameter)
    return fresh


def _clear_initialized(module: nn.Module) -> None:
    """transformers marks loaded weights, and `_init_weights` then skips them: remove the marks."""
    for target in (module, *module._parameters.values()):
        if target is not None and hasattr(target, "_is_hf_initialized"):
            del target._is_hf_initialized


def _shuffle(parameter: Tensor) -> None:
    values = parameter.reshape(-1)
    shuffled = values[torch.randperm(len(values), device="cpu")].reshape(parameter.shape)
    if torch.equal(shuffled, parameter):
        shuffled = torch.randn_like(parameter) * 0.02
    parameter.copy_(shuffled)
