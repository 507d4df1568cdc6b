"""Objective of a linear probe: mean loss plus elastic-net penalty.

Parameters are one matrix, `(output, unit + 1)`, with the intercepts in the last column. Two classes have one output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Kind = Literal["binary", "classes", "numbers"]
_CHUNK_BYTES = {"cpu": 1 << 21, "cuda": 1 << 28}
"""Bytes per chunk of rows: on a CPU, a size that is still in the cache for the second read."""
_LEAST_ROWS = 256


@dataclass(frozen=True, slots=True)
class Penalty:
    """Elastic-net penalty on the weights W; intercepts are not penalized."""

    l1: float
    """`l1 · Σ|W|`."""
    l2: float
    """`l2 / 2 · ΣW²`, or `l2 · sqrt(ΣW²)`."""
    is_norm: bool = False
    """Whether to penalize the norm, as NeuroX does, instead of its square."""

    def add_smooth(self, theta: Tensor, gradient: Tensor) -> float:
        """The value of the l2 term; adds its gradient to `gradient`."""
        weights = theta[:, :-1]
        squares = float(weights.square().sum(dtype=torch.float64))
        if not self.is_norm:
            gradient[:, :-1].add_(weights, alpha=self.l2)
            return self.l2 / 2 * squares
        # The norm has no gradient at zero; 0 is a valid subgradient.
        if squares > 0:
            gradient[:, :-1].add_(weights, alpha=self.l2 / squares**0.5)
        return self.l2 * float(squares**0.5)

    def absolute(self, theta: Tensor) -> float:
        """The value of the l1 term."""
        return self.l1 * float(theta[:, :-1].abs().sum(dtype=torch.float64)) if self.l1 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Rows and targets on the compute device."""

    x: Tensor
    """(row, unit)."""
    y: Tensor
    """(row,): class codes in int64, or numbers in the dtype of `x`."""
    kind: Kind
    n_outputs: int

    @property
    def curvature(self) -> float:
        """Approximate second derivative of the loss by an output, at uniform probabilities."""
        return 1.0 if self.kind == "numbers" else 0.25

    def zeros(self) -> Tensor:
        """Initial parameters."""
        return self.x.new_zeros(self.n_outputs, self.x.shape[1] + 1)

    def loss(self, theta: Tensor) -> float:
        """Mean loss over the rows."""
        total = self.x.new_zeros((), dtype=torch.float64)
        for x, y in self._chunks():
            total += self._losses(_outputs(x, theta), y).sum(dtype=torch.float64)
        return float(total) / len(self.x)

    def loss_and_gradient(self, theta: Tensor) -> tuple[float, Tensor]:
        """Mean loss over the rows and its gradient."""
        total = self.x.new_zeros((), dtype=torch.float64)
        gradient = torch.zeros_like(theta)
        for x, y in self._chunks():
            outputs = _outputs(x, theta)
            total += self._losses(outputs, y).sum(dtype=torch.float64)
            errors = self._errors(outputs, y)  # (output, row)
            gradient[:, :-1].addmm_(errors, x)
            gradient[:, -1].add_(errors.sum(1))
        return float(total) / len(self.x), gradient.div_(len(self.x))

    def gram(self) -> Tensor:
        """(unit + 1, unit + 1): Gram matrix, the mean of x xᵀ over rows, with a constant column for the intercept."""
        n_rows, n_units = self.x.shape
        gram = self.x.new_empty(n_units + 1, n_units + 1)
        gram[:-1, :-1] = self.x.mT @ self.x / n_rows
        gram[-1, :-1] = gram[:-1, -1] = self.x.mean(0)
        gram[-1, -1] = 1.0
        return gram

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        n_bytes = _CHUNK_BYTES.get(self.x.device.type, _CHUNK_BYTES["cpu"])
        n_rows = max(_LEAST_ROWS, n_bytes // (self.x.element_size() * max(self.x.shape[1], 1)))
        yield from zip(self.x.split(n_rows), self.y.split(n_rows), strict=True)

    def _losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        return losses(outputs, y, self.kind)

    def _errors(self, outputs: Tensor, y: Tensor) -> Tensor:
        return errors(outputs, y, self.kind)


def losses(outputs: Tensor, y: Tensor, kind: Kind) -> Tensor:
    """(row,): cross-entropy in nats, or half the squared error."""
    if kind == "numbers":
        return (outputs[0] - y).square_().mul_(0.5)
    if kind == "binary":
        return functional.softplus(torch.where(y == 1, -outputs[0], outputs[0]))
    return torch.logsumexp(outputs, 0) - outputs.gather(0, y[None])[0]


def errors(outputs: Tensor, y: Tensor, kind: Kind) -> Tensor:
    """(output, row): the derivative of each row's loss by its outputs."""
    if kind == "numbers":
        return outputs - y
    if kind == "binary":
        return torch.sigmoid(outputs) - y
    probabilities = torch.softmax(outputs, 0)
    return probabilities.scatter_add_(0, y[None], probabilities.new_full((1, 1), -1.0).expand(1, len(y)))


def _outputs(x: Tensor, theta: Tensor) -> Tensor:
    return torch.addmm(
        theta[:, -1:], theta[:, :-1], x.mT
    )  # (output, row): this layout makes sums over outputs contiguous
