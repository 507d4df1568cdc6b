"""Training rows on the compute device, standardized, whole or in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.core.matrices import Matrix, check_finite
from cutaway.neurons.probes.linear.losses import Kind, Problem
from cutaway.neurons.ranking.class_statistics import dead_units

Floats = NDArray[np.float64]
_RUN = 512
"""Consecutive rows to read at once when shuffling: reading single rows from disk is slow."""
_POOL_BYTES = 1 << 26
"""Size of the pool in which runs are mixed."""


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """`(x - mean) / scale` of each unit over the training rows; dead units become 0."""

    mean: Floats
    scale: Floats
    dead: NDArray[np.int64]
    """Units that are constant up to rounding."""
    is_used: bool
    """Whether `apply` scales values."""

    def apply(self, values: Tensor) -> Tensor:
        """Scale the values in place."""
        if self.is_used:
            values.sub_(torch.as_tensor(self.mean, dtype=values.dtype, device=values.device))
            values.div_(torch.as_tensor(self.scale, dtype=values.dtype, device=values.device))
            values[:, self.dead] = 0.0
        return values

    def unscaled(self, theta: Floats) -> tuple[Floats, Floats]:
        """Weights and intercepts for unscaled values."""
        if not self.is_used:
            return theta[:, :-1].copy(), theta[:, -1].copy()
        weights = theta[:, :-1] / self.scale
        return weights, theta[:, -1] - weights @ self.mean


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows and targets of a matrix, with some rows held out."""

    matrix: Matrix
    targets: NDArray[Any]
    """(row,): target of every row of the matrix."""
    is_out: NDArray[np.bool_]
    kind: Kind
    n_outputs: int
    device: str

    def whole(self, *, standardize: bool) -> tuple[Problem, Problem | None, Scaling]:
        """All rows at once: the training problem, the held-out problem if any, and the scaling."""
        x = torch.from_numpy(self.matrix.array())
        y = self._target(slice(None), x.dtype)
        if not self.is_out.any():
            x, scaling = _standardize(x.to(self.device), standardize)
            return self._problem(x, y), None, scaling
        keep, out = torch.from_numpy(~self.is_out), torch.from_numpy(self.is_out)
        train, scaling = _standardize(x[keep].to(self.device), standardize)
        test = scaling.apply(x[out].to(self.device))
        return self._problem(train, y[keep.to(y.device)]), self._problem(test, y[out.to(y.device)]), scaling

    def scaling(self, *, standardize: bool) -> Scaling:
        """Compute the scaling in one pass over the blocks."""
        n, shift = 0, np.zeros(self.matrix.n_units)
        sums, squares = np.zeros(self.matrix.n_units), np.zeros(self.matrix.n_units)
        for rows, block in self.matrix.blocks():
            values = block[~self.is_out[rows]].astype(np.float64)
            if not n and len(values):
                shift = values.mean(axis=0)
            values -= shift
            n += len(values)
            sums += values.sum(axis=0)
            squares += np.einsum("ij,ij->j", values, values)
        std = np.sqrt(np.maximum(squares / n - (sums / n) ** 2, 0.0))
        return _scaling(shift + sums / n, std, standardize, self.matrix.dtype)

    def in_order(self, scaling: Scaling, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches in row order."""
        n_each = max(1, _POOL_BYTES // (4 * max(self.matrix.n_units, 1)) // size) * size
        for rows, block in self.matrix.blocks(n_each):
            keep = ~self.is_out[rows]
            yield from self._batches(block[keep], np.arange(rows.start, rows.stop)[keep], scaling, size)

    def shuffled(self, scaling: Scaling, size: int, random: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Shuffled batches: runs of rows in random order, mixed in a pool."""
        rows = np.flatnonzero(~self.is_out)
        runs = np.array_split(rows, max(1, -(-len(rows) // _RUN)))
        n_runs = max(1, _POOL_BYTES // (4 * max(self.matrix.n_units, 1)) // _RUN)
        order = random.permutation(len(runs))
        for first in range(0, len(order), n_runs):
            pool = np.sort(np.concatenate([runs[i] for i in order[first : first + n_runs]]))
            mixed = random.permutation(len(pool))
            yield from self._batches(_read_rows(self.matrix, pool)[mixed], pool[mixed], scaling, size)

    def held_out(self, scaling: Scaling, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of the held-out rows."""
        for rows, block in self.matrix.blocks():
            out = self.is_out[rows]
            yield from self._batches(block[out], np.arange(rows.start, rows.stop)[out], scaling, size)

    def _batches(
        self, values: NDArray[Any], rows: NDArray[np.int64], scaling: Scaling, size: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        x = scaling.apply(torch.from_numpy(np.ascontiguousarray(values)).to(self.device))
        y = self._target(rows, x.dtype)
        yield from zip(x.split(size), y.split(size), strict=True) if len(x) else ()

    def _target(self, rows: Any, dtype: torch.dtype) -> Tensor:
        y = torch.from_numpy(np.ascontiguousarray(self.targets[rows]))
        return y.to(self.device, dtype if self.kind == "numbers" else torch.int64)

    def _problem(self, x: Tensor, y: Tensor) -> Problem:
        return Problem(x, y, self.kind, self.n_outputs)


def _standardize(x: Tensor, standardize: bool) -> tuple[Tensor, Scaling]:
    mean = x.mean(0, dtype=torch.float64)
    # Centered first: in float32, E[x²] - E[x]² cancels for units far from zero.
    centered = x - mean.to(x.dtype)
    std = (centered.square().mean(0, dtype=torch.float64) - centered.mean(0, dtype=torch.float64).square()).clamp_(
        min=0
    )
    dtype = np.float64 if x.dtype == torch.float64 else np.float32
    scaling = _scaling(mean.cpu().numpy(), std.sqrt_().cpu().numpy(), standardize, dtype)
    return scaling.apply(x), scaling


def _scaling(mean: Floats, std: Floats, standardize: bool, dtype: Any) -> Scaling:
    dead = dead_units(std, mean, dtype)
    scale = std.copy()
    scale[dead] = 1.0
    return Scaling(mean, scale, dead, standardize)


def _read_rows(matrix: Matrix, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Read these rows, which must be ascending."""
    source = matrix.source
    values = source[rows] if isinstance(source, np.ndarray) else source.rows(rows).array()
    chosen = np.asarray(values if matrix.units is None else values[:, matrix.units], matrix.dtype)
    check_finite(chosen, int(rows[0]), matrix.units)
    return np.array(chosen, order="C")
