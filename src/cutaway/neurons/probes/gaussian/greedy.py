"""Greedy forward selection of units by mutual information, exact and vectorized over candidates.

With M = variances + S of a class and its Cholesky factor L on the selected units, a candidate j adds to the density
only `s² = M_jj - |T_j|²` and the square of `x_j - m_j - zᵀT_j`, where T = L⁻¹ M, and z = L⁻¹ (x - m) of the selected
units: one matrix product per class for all candidates. M is never computed in full, only its diagonal and one column
per selected unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.neurons.probes.gaussian.nested import divisors, with_prior

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Chunks = Callable[[], Iterator[tuple[int, Tensor]]]
"""Yields all rows once: a class code and some standardized rows × units of that class."""

_CHUNK_BYTES = {"cpu": 1 << 21, "cuda": 1 << 28}
"""Bytes of the values of all classes per chunk of rows: on a CPU, a size that stays in its cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """Statistics of each class from one pass over its rows."""

    counts: Ints
    means: Floats
    """(class, unit)."""
    diagonals: Floats
    """(class, unit): diagonal of M."""

    @property
    def log_priors(self) -> Floats:
        return np.asarray(np.log(self.counts / self.counts.sum()))


def scatter_of(chunks: Chunks, n_classes: int, n_units: int) -> Scatter:
    """Compute means and diagonals in float64."""
    counts = np.zeros(n_classes, np.int64)
    sums, squares = np.zeros((n_classes, n_units)), np.zeros((n_classes, n_units))
    for code, x in chunks():
        counts[code] += len(x)
        sums[code] += x.sum(0, dtype=torch.float64).cpu().numpy()
        squares[code] += x.square().sum(0, dtype=torch.float64).cpu().numpy()
    means = sums / counts[:, None]
    n = counts.sum()
    variances = np.maximum(squares.sum(axis=0) / n - (sums.sum(axis=0) / n) ** 2, 0.0)
    within = np.maximum(squares - means**2 * counts[:, None], 0.0)
    return Scatter(counts, means, with_prior(within, counts, variances))


class Greedy:
    """The units selected so far, and the information gained by adding each candidate."""

    def __init__(self, chunks: Chunks, scatter: Scatter, *, n_all: int | None = None) -> None:
        n_classes, n_units = scatter.means.shape
        self._chunks, self._scatter, self._n_all = chunks, scatter, n_all
        self.chosen: list[int] = []
        self._rows = np.zeros((n_classes, 0, n_units))  # T: (class, chosen, unit)
        self._log_dets = np.zeros(n_classes)

    @property
    def residuals(self) -> Floats:
        """(class, unit): s², the residual of M given the selected units."""
        left = self._scatter.diagonals - (self._rows**2).sum(axis=1)
        # Of a unit that the selected ones determine exactly, only rounding is left.
        return np.asarray(np.maximum(left, 1e-12 * self._scatter.diagonals))

    def add(self, unit: int) -> None:
        """Select a unit: computes one more column of M and one more row of T."""
        means = self._scatter.means
        column = np.zeros_like(means)
        for code, x in self._chunks():
            x = x - torch.as_tensor(means[code], dtype=x.dtype, device=x.device)
            column[code] += (x.mT @ x[:, unit]).double().cpu().numpy()
        # The diagonal of M includes the prior, which the product of the rows lacks.
        column[:, unit] = self._scatter.diagonals[:, unit]
        left = np.sqrt(self.residuals[:, unit])
        row = (column - np.einsum("kd,kdu->ku", self._rows[:, :, unit], self._rows)) / left[:, None]
        self._rows = np.concatenate([self._rows, row[:, None]], axis=1)
        self._log_dets += 2 * np.log(left)
        self.chosen.append(unit)

    def gains(self, chunks: Chunks | None = None) -> Floats:
        """(unit,): bits of information of the selected units plus this unit; -inf for selected units.

        Args:
            chunks: the rows to score on; default: the fitted rows.
        """
        information = self._information(chunks or self._chunks)
        information[self.chosen] = -np.inf
        return information

    def label_gains(self, chunks: Chunks) -> Floats:
        """(class, unit): bits of information of the selected units plus this unit about one class against the rest."""
        log_priors = self._scatter.log_priors
        others = np.log1p(-np.exp(log_priors))
        total, n_rows = np.zeros(self._scatter.means.shape), 0
        for code, terms, x in self._scored(chunks):
            minus = terms.exact(code, x)
            log_posteriors = -minus - torch.logsumexp(-minus, 0)  # (class, row, unit)
            # A posterior of 1 would make the log of the rest minus infinity.
            log_others = torch.log1p(-log_posteriors.exp().clamp_(max=1 - 1e-7))
            log_others[code] = log_posteriors[code]
            total += log_others.sum(1, dtype=torch.float64).cpu().numpy()
            prior = others.copy()
            prior[code] = log_priors[code]
            total -= prior[:, None] * len(x)
            n_rows += len(x)
        return np.asarray(total / max(n_rows, 1) / np.log(2))

    def _information(self, chunks: Chunks) -> Floats:
        total: Tensor | None = None
        n_rows = np.zeros(len(self._scatter.counts))
        for code, terms, x in self._scored(chunks):
            minus_log = terms.minus_log(code, x)
            if not math.isfinite(float(minus_log.sum())):  # a ratio overflowed at a very unlikely row
                minus_log = terms.minus_log_exactly(code, x)
            total = minus_log.double() if total is None else total.add_(minus_log)
            n_rows[code] += len(x)
        if total is None:
            return np.zeros(self._scatter.means.shape[1])
        known = (n_rows * self._scatter.log_priors).sum()
        return np.asarray((-total.cpu().numpy() - known) / n_rows.sum() / np.log(2))

    def _scored(self, chunks: Chunks) -> Iterator[tuple[int, _Terms, Tensor]]:
        """The rows in chunks that fit into the cache."""
        terms: _Terms | None = None
        for code, x in chunks():
            terms = terms or self._terms(x)
            for some in x.split(len(terms.rest[0])):
                yield code, terms, some

    def _terms(self, like: Tensor) -> _Terms:
        scatter, size = self._scatter, len(self.chosen) + 1
        left = self.residuals  # (class, unit)
        left[:, self.chosen] = 1.0  # selected and dead units have no residual; their gains are not used
        left[left == 0] = 1.0
        divisor = divisors(scatter.counts, np.full_like(scatter.counts, size), self._n_all)[:, None]  # (class, 1)
        scales = np.sqrt(divisor / (2 * left))[:, None]  # (class, 1, unit)
        heights = 0.5 * np.log(left)[:, None]
        factors = self._rows[:, :, self.chosen].transpose(0, 2, 1)  # (class, chosen, chosen): L
        whiteners = np.linalg.solve(factors, np.broadcast_to(np.eye(size - 1), factors.shape))
        centers = np.einsum("kij,kj->ki", whiteners, scatter.means[:, self.chosen])  # (class, chosen): whitened means
        shares = np.einsum("kij,kiu->kju", whiteners, self._rows)  # (class, chosen, unit): L⁻ᵀ T

        def tensor(array: NDArray[Any]) -> Tensor:
            return torch.tensor(array, dtype=like.dtype, device=like.device)

        n_bytes = _CHUNK_BYTES.get(like.device.type, _CHUNK_BYTES["cpu"])
        n_rows = max(1, n_bytes // (like.element_size() * left.size))
        return _Terms(
            chosen=torch.tensor(self.chosen, dtype=torch.int64, device=like.device),
            centers=tensor(centers.reshape(-1)),
            whiteners=tensor(whiteners.reshape(len(left) * (size - 1), size - 1).T),
            halves=tensor(divisor[:, 0] / 2),
            levels=tensor(0.5 * self._log_dets - 0.5 * size * np.log(divisor[:, 0]) - scatter.log_priors),
            scales=tensor(scales),
            shifts=tensor((np.einsum("ki,kiu->ku", centers, self._rows) - scatter.means)[:, None] * scales),
            shares=tensor(shares * scales),
            heights=tensor(heights),
            weights=tensor(np.exp(heights[:, None] - heights[None])),
            rest=like.new_empty(len(left), n_rows, left.shape[1]),
            ratios=like.new_empty(n_rows, left.shape[1]),
            own=like.new_empty(n_rows, left.shape[1]),
            total=like.new_empty(n_rows, left.shape[1]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Terms:
    """Tensors of one round, on the device of the rows: `-log p(x, v)` of a candidate is `rest² + known + height`."""

    chosen: Tensor
    whiteners: Tensor
    """(chosen, class · chosen): transposed L⁻¹ of each class, concatenated."""
    centers: Tensor
    """(class · chosen,): whitened means."""
    halves: Tensor
    """(class,): half the divisor."""
    levels: Tensor
    """(class,): half the log determinant of the selected units, minus the log prior."""
    scales: Tensor
    """(class, 1, unit): square root of divisor / (2 s²)."""
    shifts: Tensor
    """(class, 1, unit): the part that does not depend on the row, scaled."""
    shares: Tensor
    """(class, chosen, unit): regression coefficients of candidates on the selected units, scaled."""
    heights: Tensor
    """(class, 1, unit): half of log s²."""
    weights: Tensor
    """(class, other class, 1, unit): exp of the difference of heights."""
    rest: Tensor
    """(class, row, unit): work buffer."""
    ratios: Tensor
    own: Tensor
    total: Tensor
    """(row, unit): work buffers."""

    def minus_log(self, code: int, x: Tensor) -> Tensor:
        """(unit,): sum of -log p(class | x) over these rows of one class.

        Passes over (class, row, unit) dominate the cost, so exp(Δknown - Δrest²) is summed with weights exp(Δheight).
        """
        rest, known = self._rest_and_known(x)
        gaps = (known - known[:, code : code + 1])[:, :, None].unbind(1)  # of each class (row, 1)
        total, ratios = self.total[: len(x)].fill_(1.0), self.ratios[: len(x)]  # 1 for the class itself
        each, weights = rest.unbind(0), self.weights[code].unbind(0)
        own = torch.mul(each[code], each[code], out=self.own[: len(x)])
        for other, values in enumerate(each):
            if other != code:
                torch.addcmul(own, values, values, value=-1, out=ratios)
                total.addcmul_(ratios.sub_(gaps[other]).exp_(), weights[other])
        return total.log_().sum(0)

    def minus_log_exactly(self, code: int, x: Tensor) -> Tensor:
        """The same with logsumexp, for ratios that overflow."""
        minus = self.exact(code, x)
        return (minus[code] + torch.logsumexp(-minus, 0)).sum(0)

    def exact(self, code: int, x: Tensor) -> Tensor:
        """(class, row, unit): -log p(x, v) without the terms that all classes share."""
        rest, known = self._rest_and_known(x)
        return rest.square() + (known - known[:, code : code + 1]).mT[:, :, None] + self.heights

    def _rest_and_known(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(class, row, unit) and (row, class)."""
        rest = self.rest[:, : len(x)]
        torch.addcmul(self.shifts, x[None], self.scales, out=rest)
        if not len(self.chosen):
            return rest, self.levels.expand(len(x), -1)
        chosen = x[:, self.chosen]
        rest.baddbmm_(chosen.expand(len(rest), -1, -1), self.shares, alpha=-1)
        white = (chosen @ self.whiteners).sub_(self.centers).square_().view(len(x), len(rest), -1)
        return rest, white.sum(2).mul_(self.halves).add_(self.levels)
