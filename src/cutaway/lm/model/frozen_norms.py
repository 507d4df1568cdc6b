"""A norm with its scale frozen: an affine map, so that it distributes over sums.

The kind of norm is found by probing it, not by its name. The image of zero is its bias; if a constant vector maps there
too, the norm subtracts the mean; a vector of ±1 shows the gain of each unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture.model.forward import replace_forward

_LARGE = 1e3
"""Large enough that the epsilon of the norm does not matter."""


@dataclass(frozen=True, slots=True)
class FrozenNorm:
    """x ↦ scale · gain ⊙ (x − mean, if centered) + bias, with one scale per row."""

    gain: Tensor
    """(d,)."""
    bias: Tensor
    """(d,)."""
    scales: Tensor
    """(row,)."""
    is_centered: bool

    def __call__(self, x: Tensor) -> Tensor:
        """(row, d), rows in the order of the scales; further rows have scale 1."""
        scales = torch.ones(len(x), dtype=self.scales.dtype, device=x.device)
        scales[: len(self.scales)] = self.scales[: len(x)]
        x64 = x.double()
        return (scales[:, None] * self.gain * self._center(x64) + self.bias).to(x.dtype)

    def pull_back(self, u: Tensor) -> Tensor:
        """(row, d): the direction before the norm for a direction after it (the transposed map)."""
        return self._center(u.double() * self.gain) * self.scales[:, None]

    def _center(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True) if self.is_centered else x


def frozen_norm(module: nn.Module, x: Tensor) -> FrozenNorm | None:
    """The norm frozen at these rows (row, d); None if the module is not a norm of this form."""
    d = x.shape[-1]
    signs = torch.ones(d, dtype=torch.float64, device=x.device)
    signs[1::2] = -1
    probes = torch.stack([0 * signs, signs.abs() * _LARGE, signs * _LARGE])
    try:
        with torch.no_grad():
            zero, constant, alternating = _call_in_float64(module, probes)
            given = _call_in_float64(module, x.double())
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return None
    if given.shape != x.shape:
        return None
    is_centered = bool((constant - zero).abs().max() < 1e-2 * (alternating - zero).abs().max())
    shown = signs - signs.mean() if is_centered else signs
    gain = (alternating - zero) / (shown / shown.square().mean().sqrt())
    unscaled = FrozenNorm(gain, zero, torch.ones(len(x), dtype=torch.float64, device=x.device), is_centered)
    plain = unscaled(x.double()) - zero
    scales = ((given - zero) * plain).sum(-1) / plain.square().sum(-1).clamp_min(1e-300)
    left = (given - zero - scales[:, None] * plain).norm() / (given - zero).norm().clamp_min(1e-300)
    return None if not bool(left < 1e-3) else FrozenNorm(gain, zero, scales, is_centered)


@contextmanager
def replace_norm(module: nn.Module, frozen: FrozenNorm) -> Iterator[None]:
    """Context manager: replaces the forward of the module with its frozen form."""

    def forward(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return frozen(x.reshape(-1, x.shape[-1])).reshape(x.shape)

    with replace_forward(module, forward):
        yield


def _call_in_float64(module: nn.Module, x: Tensor) -> Tensor:
    """(row, d) → (row, d), computed by a copy of the module in float64."""
    # A copy: .double() converts a module in place.
    copied = deepcopy(module).double()
    output = copied(x[None])
    if not isinstance(output, Tensor):
        raise TypeError(f"{type(module).__name__} returns a {type(output).__name__}.")
    return output[0].double()
