"""Converts arrays and numbers to tensors, whatever the default device is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def as_tensor(value: Any) -> Tensor:
    """A tensor as it is; an array, list or number as a tensor on the CPU.

    >>> as_tensor([1.0, 2.0])
    tensor([1., 2.])

    `torch.as_tensor` would move both to the device of `torch.set_default_device`.
    """
    return value if isinstance(value, Tensor) else torch.as_tensor(value, device="cpu")
