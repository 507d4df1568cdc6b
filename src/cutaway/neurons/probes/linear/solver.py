"""The minimum of a linear probe's objective, where all rows fit in memory: a quasi-Newton method that knows zeros.

OWL-QN (Andrew & Gao, "Scalable training of L1-regularized log-linear models", ICML 2007), which is L-BFGS where there
is no l1: steps stay in one orthant, so that weights become exactly zero. Activations are strongly correlated; so the
approximation of the curvature begins with their Gram matrix, cut to the weights that are free to move, and not with a
multiple of the identity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cutaway.neurons.probes.linear.losses import Penalty, Problem

Monitor = Callable[[Tensor], bool]
"""Sees the parameters now and then; True to stop."""

_MEMORY = 10
_MOST_UNITS = 1024
"""Beyond so many units the Gram matrix and its factors cost more than they save."""
_RIDGE = 1.0
"""Added to the Gram matrix, in parts of its mean diagonal: correlations of units are known to no more."""
_STALE = 0.3
"""The factors are made anew when more of the weights than this have become free or zero."""
_WINDOW = 10
_MONITORED = 5
_ARMIJO = 1e-4
_LEAST_STEP = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Where the search ended."""

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
    """The parameters with the least mean loss plus penalty.

    It has converged when no derivative is larger than `tol`, or when ten iterations together lower the objective by
    less than `10 · tol` of it.
    """
    search = _Search(problem, penalty, problem.zeros() if start is None else start)
    history = deque([search.objective], maxlen=_WINDOW + 1)
    for n_iter in range(max_iter):
        if search.steepness <= tol:
            return Minimum(search.theta, search.objective, n_iter, True)
        if monitor is not None and n_iter % _MONITORED == 0 and monitor(search.theta):
            return Minimum(search.theta, search.objective, n_iter, True)
        if not search.step():  # what is left to gain is below the resolution of the numbers
            return Minimum(search.theta, search.objective, n_iter, True)
        history.append(search.objective)
        if len(history) > _WINDOW and history[0] - history[-1] <= _WINDOW * tol * abs(history[-1]):
            return Minimum(search.theta, search.objective, n_iter + 1, True)
    return Minimum(search.theta, search.objective, max_iter, search.steepness <= tol)


class _Search:
    """Where the search stands, and what it remembers of the curvature."""

    def __init__(self, problem: Problem, penalty: Penalty, theta: Tensor) -> None:
        self._problem, self._penalty = problem, penalty
        self._l1 = torch.full_like(theta, penalty.l1)
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
        """One iteration; False where no step lowers the objective."""
        if self._try(self._direction()):
            return True
        if not self._pairs:
            return False
        self._pairs.clear()
        return self._try(self._direction())

    def _try(self, direction: Tensor) -> bool:
        theta, steepest = self.theta, self._steepest
        orthant = torch.where(theta != 0, theta, -steepest).sign()
        length = 1.0
        while length >= _LEAST_STEP:
            there = theta + length * direction
            if self._penalty.l1:
                there = torch.where((there * orthant > 0) | (self._l1 == 0), there, 0.0)
            value, gradient = self._smooth(there)
            value += self._penalty.absolute(there)
            if value <= self.objective + _ARMIJO * _dot(steepest, there - theta) and value < self.objective:
                self._remember(there - theta, gradient - self._gradient)
                self.theta, self.objective, self._gradient = there, value, gradient
                self._steepest = self._pseudo_gradient()
                return True
            length /= 2
        return False

    def _smooth(self, theta: Tensor) -> tuple[float, Tensor]:
        value, gradient = self._problem.loss_and_gradient(theta)
        return value + self._penalty.add_smooth(theta, gradient), gradient

    def _pseudo_gradient(self) -> Tensor:
        """The steepest ascent of the whole objective; 0 where a zero weight shall stay zero."""
        gradient = self._gradient
        if not self._penalty.l1:
            return gradient
        at_zero = gradient.sign() * (gradient.abs() - self._l1).clamp_(min=0.0)
        return torch.where(self.theta != 0, gradient + self._l1 * self.theta.sign(), at_zero)

    def _direction(self) -> Tensor:
        """Two loops over the remembered steps, with the metric between them."""
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
        # A weight at zero may leave it only downhill.
        direction = torch.where(is_free & ((self.theta != 0) | (q * steepest > 0)), -q, 0.0)
        return direction if _dot(direction, steepest) < 0 else -steepest

    def _remember(self, moved: Tensor, turned: Tensor) -> None:
        bend = _dot(moved, turned)
        if bend > 1e-10 * float(moved.norm() * turned.norm()):
            self._pairs.append((moved, turned, 1.0 / bend))


class _Metric:
    """The curvature before anything was seen of it: that of the loss at the start, by the Gram matrix."""

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
        """Say which weights may move."""
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
        cut.diagonal(dim1=1, dim2=2).add_(1.0 - mask)
        self._factor = torch.linalg.cholesky(cut)  # (output, unit + 1, unit + 1)

    def solve(self, vector: Tensor) -> Tensor:
        """The inverse curvature times a vector, on the free weights."""
        vector = torch.where(self._mask, vector, 0.0)
        if not self.is_gram:
            return vector
        if self._factor.dim() == 2:
            solved = torch.cholesky_solve(vector.mT, self._factor).mT
        else:
            solved = torch.cholesky_solve(vector[:, :, None], self._factor)[:, :, 0]
        return torch.where(self._mask, solved, 0.0)


def _dot(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum(dtype=torch.float64))
