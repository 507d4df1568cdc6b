"""Statistics of each unit and each sample in main memory, for the usual case: float32 side by side.

Sums over rows or columns are products with ones, which BLAS does at the speed of memory. They are put together from
chunks that stay in the cache. Where float32 would not do, None is given, and `groups` does it the slower way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cutaway.recording.statistics.scratch import CHUNK, Chunk, scratch

_LARGEST = 1e15
_CANCELS = 100.0
"""Where the square of a mean is so many times the variance, the difference of both is mostly rounding."""

Rows = NDArray[np.float64]


def of_units(values: Chunk, *, has_zeros: bool = True) -> NDArray[np.float32] | None:
    """Mean, std, lowest, highest and share of zeros of each unit of `(outer, unit, inner)`: `(5, unit)`.

    Args:
        has_zeros: False where it is known that no value is zero.
    """
    n_outer, n_units, n_inner = values.shape
    if n_units * n_inner > CHUNK:
        return None
    if n_inner > 1:
        total, squares, low, high, zeros = _over_columns(values.reshape(n_outer * n_units, n_inner), has_zeros)
        each = (n_outer, n_units)
        total, squares, zeros = (part.reshape(each).sum(0) for part in (total, squares, zeros))
        low, high = low.reshape(each).min(0), high.reshape(each).max(0)
    else:
        total, squares, low, high, zeros = _over_rows(values.reshape(n_outer, n_units), has_zeros)
    n = n_outer * n_inner
    std = _std(total / n, squares / n, low, high)
    return None if std is None else np.stack([total / n, std, low, high, zeros / n]).astype(np.float32)


def of_samples(values: Chunk) -> NDArray[np.float32] | None:
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
        absolute = np.abs(part, out=_beside(part))
        magnitude[start:stop] = absolute @ ones
        largest[start:stop] = np.maximum.reduce(absolute, axis=1)
    if n == 1:
        is_finite = np.isfinite(total)
        rows = [np.where(is_finite, total, np.nan), magnitude, total - total, largest]
        return np.stack(rows).astype(np.float32)
    std = _std(total / n, squares / n, -largest, largest)
    return None if std is None else np.stack([total / n, magnitude / n, std, largest]).astype(np.float32)


def _over_rows(values: Chunk, has_zeros: bool) -> tuple[Rows, Rows, Rows, Rows, Rows]:
    """Sum, sum of squares, lowest, highest and number of zeros of each column."""
    n = values.shape[1]
    total, squares, zeros = np.zeros(n), np.zeros(n), np.zeros(n)
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    for start, stop in _spans(len(values), n):
        part = values[start:stop]
        ones = _ones(len(part))
        total += ones @ part
        squares += np.einsum("ij,ij->j", part, part)
        tensor = torch.from_numpy(part)  # lowest and highest of columns take NumPy twice as long
        np.minimum(low, tensor.amin(0).numpy(), out=low)
        np.maximum(high, tensor.amax(0).numpy(), out=high)
        if has_zeros:
            is_zero = _is_zero(part)
            if is_zero is not None:
                zeros += ones @ is_zero
    return total, squares, low, high, zeros


def _over_columns(values: Chunk, has_zeros: bool) -> tuple[Rows, Rows, Rows, Rows, Rows]:
    """The same of each row."""
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
            is_zero = _is_zero(part)
            if is_zero is not None:
                zeros[start:stop] = is_zero @ ones
    return total, squares, low, high, zeros


def _is_zero(part: Chunk) -> Chunk | None:
    """1 where a value is zero, else 0; None if none is."""
    _, marks = scratch("is_zero", torch.bool)
    is_zero: Any = np.equal(part, 0, out=marks[: part.size].reshape(part.shape))
    if not np.count_nonzero(is_zero):
        return None
    found = _beside(part)
    np.copyto(found, is_zero)
    return found


def _std(mean: Rows, squares: Rows, low: Rows, high: Rows) -> Rows | None:
    """The spread around each mean; None where it cannot be had so."""
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    if max(-low.min(), high.max()) > _LARGEST:
        return None
    variance = squares - mean * mean
    if np.any(mean * mean > _CANCELS * variance) and np.any(high > low):
        return None
    found: Rows = np.sqrt(np.maximum(variance, 0.0))
    return found


def _spans(n_rows: int, width: int) -> list[tuple[int, int]]:
    """Some rows at a time, as many as fit into a chunk."""
    step = max(CHUNK // max(width, 1), 1)
    return [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def _ones(n: int) -> Chunk:
    return scratch("ones", torch.float32)[1][:n]


def _beside(part: Chunk) -> Chunk:
    """Memory of the same shape."""
    return scratch("beside", torch.float32)[1][: part.size].reshape(part.shape)
