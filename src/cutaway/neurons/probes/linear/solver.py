"""OWL-QN solver for rows that fit in memory.

Andrew & Gao, "Scalable training of L1-regularized log-linear models", ICML 2007. Without l1 it is L-BFGS. Steps stay in
one orthant, so that weights become exactly zero. Because activations are strongly correlated, the initial curvature is
their Gram matrix, restricted to the free weights, instead of a multiple of the identity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cutaway.neurons.probes.linear.losses import Penalty, Problem

Monitor = Callable[[Tensor], bool]
"""Called with the parameters every few iterations; returns True to stop."""

_MEMORY = 10
_MOST_UNITS = 1024
"""With more units, the Gram matrix and its factors cost more than they save."""
_RIDGE = 1.0
"""Added to the diagonal of the Gram matrix, relative to its mean."""
_STALE = 0.3
"""Recompute the factors when more than this fraction of the weights became free or zero."""
_WINDOW = 10
_MONITORED = 5
_ARMIJO = 1e-4
_LEAST_STEP = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Result of the optimization."""

    theta: Tensor
    objective: float
    n_iter: int
    is_converged: bool


def minimize(
    problem: Problem,
    penalty: Penalty,
    *,
    start: Tensor | None = None,
    max_iter: int = 200,
    tol: float = 1e-4,
    monitor: Monitor | None = None,
) -> Minimum:
    """Minimize mean loss plus penalty.

    Converged when no derivative exceeds `tol`, or when ten iterations lower the objective by less than a fraction
    `10 · tol`.
    """
    search = _Search(problem, penalty, problem.zeros() if start is None else start)
    history = deque([search.objective], maxlen=_WINDOW + 1)
    for n_iter in range(max_iter):
        if search.steepness <= tol:
            return Minimum(search.theta, search.objective, n_iter, True)
        if monitor is not None and n_iter % _MONITORED == 0 and monitor(search.theta):
            return Minimum(search.theta, search.objective, n_iter, True)
        if not search.step():  # no further decrease within floating-point resolution
            return Minimum(search.theta, search.objective, n_iter, True)
        history.append(search.objective)
        if len(history) > _WINDOW and history[0] - history[-1] <= _WINDOW * tol * abs(history[-1]):
            return Minimum(search.theta, search.objective, n_iter + 1, True)
    return Minimum(search.theta, search.objective, max_iter, search.steepness <= tol)


class _Search:
    """State of the optimization: parameters, gradient and curvature pairs."""

    def __init__(self, problem: Problem, penalty: Penalty, theta: Tensor) -> None:
        self._problem, self._penalty = problem, penalty
        self._l1 = torch.full_like(theta, penalty.l1)
        # The last column holds the intercepts, which are not penalized.
        self._l1[:, -1] = 0.0
        self._pairs: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=_MEMORY)
        self._metric = _Metric(problem, penalty)
        self.theta = theta
        self.objective, self._gradient = self._smooth(theta)
        self.objective += penalty.absolute(theta)
        self._steepest = self._pseudo_gradient()

    @property
    def steepness(self) -> float:
        return float(self._steepest.abs().max())

    def step(self) -> bool:
        """Run one iteration; returns False if no step lowers the objective."""
        if self._try(self._direction()):
            return True
        if not self._pairs:
            return False
        # Old curvature pairs may point uphill: start again from the metric alone.
        self._pairs.clear()
        return self._try(self._direction())

    def _try(self, direction: Tensor) -> bool:
        theta, steepest = self.theta, self._steepest
        orthant = torch.where(theta != 0, theta, -steepest).sign()
        length = 1.0
        while length >= _LEAST_STEP:
            candidate = theta + length * direction
            if self._penalty.l1:
                # Projection of OWL-QN: a weight that would change its sign becomes exactly zero.
                candidate = torch.where((candidate * orthant > 0) | (self._l1 == 0), candidate, 0.0)
            value, gradient = self._smooth(candidate)
            value += self._penalty.absolute(candidate)
            if value <= self.objective + _ARMIJO * _dot(steepest, candidate - theta) and value < self.objective:
                self._remember(candidate - theta, gradient - self._gradient)
                self.theta, self.objective, self._gradient = candidate, value, gradient
                self._steepest = self._pseudo_gradient()
                return True
            length /= 2
        return False

    def _smooth(self, theta: Tensor) -> tuple[float, Tensor]:
        value, gradient = self._problem.loss_and_gradient(theta)
        return value + self._penalty.add_smooth(theta, gradient), gradient

    def _pseudo_gradient(self) -> Tensor:
        """Pseudo-gradient of the whole objective; 0 for zero weights that should stay zero."""
        gradient = self._gradient
        if not self._penalty.l1:
            return gradient
        at_zero = gradient.sign() * (gradient.abs() - self._l1).clamp_(min=0.0)
        return torch.where(self.theta != 0, gradient + self._l1 * self.theta.sign(), at_zero)

    def _direction(self) -> Tensor:
        """L-BFGS two-loop recursion, with the metric as initial curvature."""
        steepest = self._steepest
        is_free = (self.theta != 0) | (steepest != 0)
        self._metric.free(is_free)
        q, shares = steepest.clone(), []
        for moved, turned, rate in reversed(self._pairs):
            shares.append(rate * _dot(moved, q))
            q -= shares[-1] * turned
        scale = 1.0
        if self._pairs:
            _, turned, rate = self._pairs[-1]
            scale = 1.0 / (rate * _dot(turned, self._metric.solve(turned)))
        elif not self._metric.is_gram:
            scale = 1.0 / max(1.0, float(steepest.norm()))
        q = self._metric.solve(q) * scale
        for (moved, turned, rate), share in zip(self._pairs, reversed(shares), strict=True):
            q += (share - rate * _dot(turned, q)) * moved
        # A zero weight may only move downhill.
        direction = torch.where(is_free & ((self.theta != 0) | (q * steepest > 0)), -q, 0.0)
        return direction if _dot(direction, steepest) < 0 else -steepest

    def _remember(self, moved: Tensor, turned: Tensor) -> None:
        bend = _dot(moved, turned)
        # Pairs of positive curvature only keep the L-BFGS matrix positive definite.
        if bend > 1e-10 * float(moved.norm() * turned.norm()):
            self._pairs.append((moved, turned, 1.0 / bend))


class _Metric:
    """Initial curvature: that of the loss at zero weights, from the Gram matrix."""

    def __init__(self, problem: Problem, penalty: Penalty) -> None:
        self.is_gram = problem.x.shape[1] <= _MOST_UNITS
        self._is_free: Tensor | None = None
        if self.is_gram:
            gram = problem.gram() * problem.curvature
            ridge = gram.diagonal().mean() * _RIDGE
            gram.diagonal().add_(ridge)
            if not penalty.is_norm:
                gram.diagonal()[:-1].add_(penalty.l2)
            self._gram = gram

    def free(self, is_free: Tensor) -> None:
        """Set which weights are free to move."""
        if not self.is_gram:
            self._mask = is_free
            return
        self._mask = is_free
        before = self._is_free
        if before is not None and int((before != is_free).sum()) <= _STALE * is_free.numel():
            return
        self._is_free = is_free
        if bool(is_free.all()):
            self._factor = torch.linalg.cholesky(self._gram)
            return
        mask = is_free.to(self._gram.dtype)
        cut = self._gram * mask[:, :, None] * mask[:, None, :]
        # A 1 on the diagonal of fixed weights keeps the matrix invertible; `solve` masks them.
        cut.diagonal(dim1=1, dim2=2).add_(1.0 - mask)
        self._factor = torch.linalg.cholesky(cut)  # (output, unit + 1, unit + 1)

    def solve(self, vector: Tensor) -> Tensor:
        """Inverse curvature times a vector, on the free weights."""
        vector = torch.where(self._mask, vector, 0.0)
        if not self.is_gram:
            return vector
        if self._factor.dim() == 2:
            solved = torch.cholesky_solve(vector.mT, self._factor).mT
        else:
            solved = torch.cholesky_solve(vector[:, :, None], self._factor)[:, :, 0]
        return torch.where(self._mask, solved, 0.0)


def _dot(a: Tensor, b: Tensor) -> float:
    # float64, because the line search compares small differences of these sums.
    return float((a * b).sum(dtype=torch.float64))
