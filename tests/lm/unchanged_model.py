"""What must be the same before and after every call: all of a model, and all random states."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def state_of(model: Any) -> dict[str, Any]:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return {
        "training": [module.training for module in model.modules()],
        "own": [sorted(module.__dict__) for module in model.modules()],
        "hooks": [len(getattr(module, name)) for module in model.modules() for name in hooks],
        "asked": [weight.requires_grad for weight in model.parameters()],
        "grads": [weight.grad is None for weight in model.parameters()],
        "versions": [weight._version for weight in model.parameters()],
        "weights": [weight.detach().clone() for weight in model.parameters()],
        "buffers": [buffer.clone() for buffer in model.buffers()],
        "config": str(model.config) + str(getattr(model, "generation_config", "")),
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
        "is_grad_enabled": torch.is_grad_enabled(),
    }


@contextmanager
def unchanged(model: Any) -> Iterator[None]:
    """The block leaves the model and all random states bit-equal; it is in training mode, which must stay so."""
    model.train()
    for weight in list(model.parameters())[1:]:
        weight.requires_grad_(True)
    next(iter(model.parameters())).requires_grad_(False)
    before = state_of(model)
    try:
        yield
        after = state_of(model)
        for name in before:
            assert _same(before[name], after[name]), f"{name} is other than before"
    finally:
        next(iter(model.parameters())).requires_grad_(True)
        model.eval()


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)
