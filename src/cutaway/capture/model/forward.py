"""Replaces the `forward` of one module instance for the length of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

_MISSING: Any = object()


@contextmanager
def replace_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Context manager: calls of this instance run `forward`; hooks still run.

    >>> import torch
    >>> relu = torch.nn.ReLU()
    >>> with replace_forward(relu, lambda x: x):
    ...     relu(torch.tensor(-1.0))
    tensor(-1.)
    """
    # The instance may have a forward of its own already (a nested edit, a hook of accelerate): that one comes back.
    before = module.__dict__.get("forward", _MISSING)
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        if before is _MISSING:
            module.__dict__.pop("forward", None)
        else:
            module.__dict__["forward"] = before
