"""Perturbed values for an argument, to test whether a function depends on it.

NaN propagates through nearly everything, even a saturated softmax, a clamp, a rounding or a product with zero. A
function whose result changes neither with NaN nor with any other value that is tried truly ignores its argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

SENSITIVE = frozenset(
    [
        *("add", "sub", "rsub", "mul", "div", "neg", "add_", "sub_", "mul_", "div_", "square", "reciprocal"),
        *("matmul", "mm", "bmm", "mv", "dot", "linear", "bilinear", "conv1d", "conv2d", "conv3d"),
        *("tanh", "sigmoid", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "gelu", "silu", "softplus", "elu", "relu"),
        *(
            "view",
            "reshape",
            "flatten",
            "transpose",
            "permute",
            "unsqueeze",
            "squeeze",
            "contiguous",
            "clone",
            "detach",
        ),
        *("layer_norm", "rms_norm", "group_norm", "softmax", "log_softmax", "mean", "sum", "cat", "stack"),
    ]
)
"""Functions that depend on every floating-point argument, whatever the others are: an insensitive one is an error."""

_COUNTS = (torch.float32, torch.float64, torch.int32, torch.int64)
CONCATENATING = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})
"""Functions that concatenate their arguments unchanged."""


def fill_with_numbers(values: Mapping[int, Any]) -> dict[int, Tensor] | None:
    """Fills the first value with ones, the second with twos, and so on; None if a dtype cannot count that far."""
    filled = {}
    for number, (key, value) in enumerate(values.items(), 1):
        if not isinstance(value, Tensor) or value.numel() == 0 or value.dtype not in _COUNTS:
            return None
        filled[key] = torch.full_like(value.detach(), number)
    return filled if len(values) < 1 << 24 else None


def perturbations(value: Tensor, *, gently: bool) -> Iterator[Tensor]:
    """Yields other values of the same shape and dtype, the most revealing first; none if it cannot be changed.

    Integers may be indices, so they stay in their present range; `gently` yields only probabilities.
    """
    if (
        value.is_nested
        or value.numel() == 0
        or value.is_meta
        or value.layout is not torch.strided
        or value.is_quantized
    ):
        return
    value = value.detach()
    if value.dtype is torch.bool:
        yield value.logical_not()
    elif value.is_floating_point() or value.is_complex():
        yield from _numbers(value, gently=gently)
    elif not value.is_floating_point():
        yield from _indices(value)


def _numbers(value: Tensor, *, gently: bool) -> Iterator[Tensor]:
    if not gently:
        yield torch.full_like(value, torch.nan)
    plain = value if not value.is_complex() else value.real
    # With its own generator: two validations of one trace give the same report.
    noise = torch.rand(plain.shape, device="cpu", generator=torch.Generator().manual_seed(0)).to(plain)
    yield noise.to(value.dtype)
    if not gently:
        yield (noise * 1e3 - 2e3).to(value.dtype)
        yield torch.full_like(value, 1e3)
        yield torch.zeros_like(value)


def _indices(value: Tensor) -> Iterator[Tensor]:
    try:
        low, high = value.amin(), value.amax()
    except (RuntimeError, NotImplementedError):  # no kernel for this integer dtype
        return
    yield (low + high) - value
    yield torch.zeros_like(value)
    yield value.flip(tuple(range(value.dim()))) if value.dim() else value
