"""Fast path for statistics per unit and per sample: contiguous float32 on the CPU.

Sums over rows or columns are matrix products with ones, which BLAS computes at memory speed, in chunks that fit into
the cache. Where float32 is not accurate enough, functions return None and the caller falls back to `per_unit`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cutaway.recording.statistics.scratch import CHUNK, Chunk, scratch

_LARGEST = 1e15
_CANCELLATION = 100.0
"""If a squared mean exceeds the variance by this factor, their difference is mostly rounding error."""

Rows = NDArray[np.float64]


def unit_statistics(values: Chunk, *, has_zeros: bool = True) -> NDArray[np.float32] | None:
    """Mean, std, min, max and fraction of zeros of each unit of `(outer, unit, inner)`: `(5, unit)`.

    Args:
        has_zeros: False if no value is zero.
    """
    n_outer, n_units, n_inner = values.shape
    if n_units * n_inner > CHUNK:
        return None
    if n_inner > 1:
        total, squares, low, high, zeros = _reduce_columns(values.reshape(n_outer * n_units, n_inner), has_zeros)
        each = (n_outer, n_units)
        total, squares, zeros = (part.reshape(each).sum(0) for part in (total, squares, zeros))
        low, high = low.reshape(each).min(0), high.reshape(each).max(0)
    else:
        total, squares, low, high, zeros = _reduce_rows(values.reshape(n_outer, n_units), has_zeros)
    n = n_outer * n_inner
    std = _std(total / n, squares / n, low, high)
    return None if std is None else np.stack([total / n, std, low, high, zeros / n]).astype(np.float32)


def sample_statistics(values: Chunk) -> NDArray[np.float32] | None:
    """Mean, mean magnitude, std and largest magnitude of each row of `(sample, inner)`: `(4, sample)`."""
    n = values.shape[1]
    if n > CHUNK:
        return None
    total, squares, magnitude, largest = (np.empty(len(values)) for _ in range(4))
    ones = _ones(n)
    for start, stop in _spans(len(values), n):
        part = values[start:stop]
        total[start:stop] = part @ ones
        squares[start:stop] = np.einsum("ij,ij->i", part, part)
        absolute = np.abs(part, out=_scratch_like(part))
        magnitude[start:stop] = absolute @ ones
        largest[start:stop] = np.maximum.reduce(absolute, axis=1)
    if n == 1:
        is_finite = np.isfinite(total)
        rows = [np.where(is_finite, total, np.nan), magnitude, total - total, largest]
        return np.stack(rows).astype(np.float32)
    std = _std(total / n, squares / n, -largest, largest)
    return None if std is None else np.stack([total / n, magnitude / n, std, largest]).astype(np.float32)


def _reduce_rows(values: Chunk, has_zeros: bool) -> tuple[Rows, Rows, Rows, Rows, Rows]:
    """Sum, sum of squares, min, max and number of zeros of each column."""
    n = values.shape[1]
    total, squares, zeros = np.zeros(n), np.zeros(n), np.zeros(n)
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    for start, stop in _spans(len(values), n):
        part = values[start:stop]
        ones = _ones(len(part))
        total += ones @ part
        squares += np.einsum("ij,ij->j", part, part)
        tensor = torch.from_numpy(part)  # NumPy takes twice as long for min and max of columns
        np.minimum(low, tensor.amin(0).numpy(), out=low)
        np.maximum(high, tensor.amax(0).numpy(), out=high)
        if has_zeros:
            is_zero = _zero_mask(part)
            if is_zero is not None:
                zeros += ones @ is_zero
    return total, squares, low, high, zeros


def _reduce_columns(values: Chunk, has_zeros: bool) -> tuple[Rows, Rows, Rows, Rows, Rows]:
    """Sum, sum of squares, min, max and number of zeros of each row."""
    n = values.shape[1]
    total, squares, low, high = (np.empty(len(values)) for _ in range(4))
    zeros = np.zeros(len(values))
    ones = _ones(n)
    for start, stop in _spans(len(values), n):
        part = values[start:stop]
        total[start:stop] = part @ ones
        squares[start:stop] = np.einsum("ij,ij->i", part, part)
        low[start:stop] = np.minimum.reduce(part, axis=1)
        high[start:stop] = np.maximum.reduce(part, axis=1)
        if has_zeros:
            is_zero = _zero_mask(part)
            if is_zero is not None:
                zeros[start:stop] = is_zero @ ones
    return total, squares, low, high, zeros


def _zero_mask(part: Chunk) -> Chunk | None:
    """1.0 where a value is zero, else 0.0; None if no value is zero."""
    _, marks = scratch("is_zero", torch.bool)
    is_zero: Any = np.equal(part, 0, out=marks[: part.size].reshape(part.shape))
    if not np.count_nonzero(is_zero):
        return None
    mask = _scratch_like(part)
    np.copyto(mask, is_zero)
    return mask


def _std(mean: Rows, squares: Rows, low: Rows, high: Rows) -> Rows | None:
    """The standard deviations; None if float32 sums are not accurate enough."""
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    if max(-low.min(), high.max()) > _LARGEST:
        return None
    variance = squares - mean * mean
    if np.any(mean * mean > _CANCELLATION * variance) and np.any(high > low):
        return None
    std: Rows = np.sqrt(np.maximum(variance, 0.0))
    return std


def _spans(n_rows: int, width: int) -> list[tuple[int, int]]:
    """(start, stop) of groups of rows that fit into a chunk."""
    step = max(CHUNK // max(width, 1), 1)
    return [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def _ones(n: int) -> Chunk:
    return scratch("ones", torch.float32)[1][:n]


def _scratch_like(part: Chunk) -> Chunk:
    """Scratch memory of the same shape."""
    return scratch("beside", torch.float32)[1][: part.size].reshape(part.shape)
