"""Minibatch training: proximal Adam for data larger than memory, and NeuroX's training."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from cutaway.neurons.probes.linear.losses import Kind, Penalty, errors, losses
from cutaway.neurons.probes.linear.solver import Minimum, Monitor

Batch = tuple[Tensor, Tensor]
"""Rows × units and the targets, both on the device of the parameters."""
Batches = Callable[[], Iterator[Batch]]
"""Yields all rows once, in batches."""

_RATE = 0.05
_DECAY = 0.8
"""Factor on the learning rate per epoch."""
_SETTLED = 0.02
"""Training counts as converged when the learning rate falls below this fraction of the first."""
_BETAS = (0.9, 0.99)
NEUROX_RATE = 1e-3


def minimize_in_batches(
    batches: Batches,
    kind: Kind,
    penalty: Penalty,
    *,
    start: Tensor,
    max_iter: int,
    tol: float,
    monitor: Monitor | None = None,
) -> Minimum:
    """Train with Adam and a proximal step for l1, so that zero weights are exactly zero.

    Converged when an epoch lowers the mean objective by less than a fraction `tol`, or when the learning rate is small.
    """
    theta, adam = start.clone(), _Adam(start)
    before = float("inf")
    for n_iter in range(max_iter):
        rate, total, n_rows = _RATE * _DECAY**n_iter, 0.0, 0
        for x, y in batches():
            outputs = torch.addmm(theta[:, -1:], theta[:, :-1], x.mT)
            wrong = errors(outputs, y, kind)
            gradient = torch.empty_like(theta)
            gradient[:, :-1] = wrong @ x / len(x)
            gradient[:, -1] = wrong.mean(1)
            value = float(losses(outputs, y, kind).mean()) + penalty.absolute(theta)
            total += (value + penalty.add_smooth(theta, gradient)) * len(x)
            n_rows += len(x)
            adam.step(theta, gradient, rate, penalty.l1)
        objective = total / n_rows
        if monitor is not None and monitor(theta):
            return Minimum(theta, objective, n_iter + 1, True)
        if before - objective <= tol * abs(objective):
            return Minimum(theta, objective, n_iter + 1, True)
        before = objective
    return Minimum(theta, before, max_iter, _DECAY**max_iter <= _SETTLED)


class _Adam:
    """Adam with a proximal l1 step in Adam's current metric."""

    def __init__(self, like: Tensor) -> None:
        self._mean, self._square, self._n = torch.zeros_like(like), torch.zeros_like(like), 0

    def step(self, theta: Tensor, gradient: Tensor, rate: float, l1: float) -> None:
        self._n += 1
        self._mean.lerp_(gradient, 1 - _BETAS[0])
        self._square.lerp_(gradient.square(), 1 - _BETAS[1])
        mean = self._mean / (1 - _BETAS[0] ** self._n)
        rates = rate / ((self._square / (1 - _BETAS[1] ** self._n)).sqrt() + 1e-8)
        theta.sub_(rates * mean)
        if l1:
            weights = theta[:, :-1]
            # softshrink takes one threshold for all weights, so each is divided by its own rate first.
            weights.copy_(functional.softshrink(weights / rates[:, :-1], l1) * rates[:, :-1])


def train_like_neurox(
    batches: Batches, kind: Kind, penalty: Penalty, *, n_units: int, n_outputs: int, n_epochs: int, seed: int
) -> Minimum:
    """NeuroX's training: torch's initialization of a linear layer, Adam with learning rate 0.001, batches in row order.

    The objective is cross-entropy (or squared error, not halved) + l1 · Σ|W| + l2 · sqrt(ΣW²), with the full penalty in
    every batch.
    """
    # Drawn on the CPU, as NeuroX does; generators of GPUs need not be saved.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = torch.nn.Linear(n_units, n_outputs, device="cpu")
    first = next(iter(batches()))[0]
    layer = layer.to(first.device, first.dtype)
    optimizer = torch.optim.Adam(layer.parameters(), lr=NEUROX_RATE)
    objective = 0.0
    for _ in range(n_epochs):
        total, n_rows = 0.0, 0
        for x, y in batches():
            optimizer.zero_grad()
            # `fit` runs under no_grad.
            with torch.enable_grad():
                outputs = layer(x)
                fit = (
                    functional.mse_loss(outputs[:, 0], y) if kind == "numbers" else functional.cross_entropy(outputs, y)
                )
                value = fit + penalty.l1 * layer.weight.abs().sum() + penalty.l2 * layer.weight.pow(2).sum().sqrt()
                value.backward()
            optimizer.step()
            total += float(value) * len(x)
            n_rows += len(x)
        objective = total / n_rows
    theta = torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], 1)
    return Minimum(theta, objective, n_epochs, True)
