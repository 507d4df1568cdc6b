"""Moments of CPU tensors, in chunks that fit into the cache.

NumPy does the work. Measured for 131,072 float32 values on one thread: dot product 8 µs, minimum or maximum 10 µs;
torch's 1-norm 157 µs, its variance 900 µs. Sums are dot products with ones, in blocks of 8,192 that are added in
float64: such short blocks keep rounding small and keep BLAS from starting threads. Tensors of up to 1,024 values are
only copied; their moments are computed together at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import prod, sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.recording.statistics.inputs import MemoryOrder, batch_layout, in_memory_order, wide_dtype
from cutaway.recording.statistics.moments import Moments, StatisticTable
from cutaway.recording.statistics.quantiles import N_SAMPLES, batch_indices, batch_std, distribution, sample_indices
from cutaway.recording.statistics.scratch import CHUNK, Chunk, scratch

BLOCK = 8192
_BATCHES = CHUNK // 4
"""Values of batches to process at a time, so that they fit into the cache as float64."""
_WIDTHS = (16, 128, N_SAMPLES)
"""Small tensors are padded to the next of these sizes to be sorted together: biases have few values."""
SAFE = (1e-15, 1e15)
"""Range of magnitudes whose squares can be summed in float32; others are computed in float64."""

Chunks = Callable[[], Iterator[Chunk]]
_TORCH = {"f": torch.float32, "d": torch.float64}


class CpuStatistics:
    """The CPU tensors of one step."""

    def __init__(self, *, is_full: bool) -> None:
        self._is_full = is_full
        # Lists side by side: a tuple for each tensor would be one more object for the garbage collector to count.
        self._small: list[int] = []
        """Row numbers of tensors that are only copied; beside them their repeats, sizes and values."""
        self._repeats: list[int] = []
        self._sizes: list[int] = []
        self._values: list[NDArray[np.float64]] = []
        """The values of all of them, one after the other; an array may hold those of several."""
        self._large: list[int] = []
        """Row numbers of all others; beside them their moments and samples."""
        self._moments: list[Moments] = []
        self._samples: list[NDArray[np.float32]] = []
        self._batches: dict[tuple[int, ...], tuple[list[int], list[Chunk]]] = {}
        """Shape → inputs of `batch_std`, which is computed at the end: row numbers and values `[sample, element]`."""

    def add_array(self, number: int, values: Chunk, batch: tuple[int, int] = (0, 0)) -> None:
        """Add contiguous float32 or float64 values.

        Args:
            batch: the result of `batch_layout`; (0, 0) without samples.
        """
        n = values.size
        if n <= N_SAMPLES:
            self._add_small([number], [n], values.astype(np.float64))
        else:
            with np.errstate(all="ignore"):
                moments = _moments(lambda: _chunks(values), n, 1, is_full=self._is_full)
            samples = values.take(sample_indices(n)).astype(np.float32, copy=False)
            self._add_large(number, moments, samples)
        if batch[0] > 1:  # last: these look-ups are faster now that all values are in the cache
            self._add_batch(number, values.take(_batch_indices(values.size, *batch)))

    def add_small(self, numbers: list[int], tensors: list[Tensor]) -> None:
        """Add many contiguous tensors of one dtype and of at most `N_SAMPLES` values each, without sample dimensions.

        The call that concatenates them takes a quarter of the time of converting each to an array.
        """
        flat = torch._C._nn.flatten_dense_tensors(tensors).detach()
        self._add_small(numbers, [tensor.numel() for tensor in tensors], flat.numpy().astype(np.float64))

    def _add_small(self, numbers: list[int], sizes: list[int], values: NDArray[np.float64], repeats: int = 1) -> None:
        self._small += numbers
        self._sizes += sizes
        self._repeats += [repeats] * len(sizes)
        self._values.append(values)

    def _add_large(self, number: int, moments: Moments, samples: NDArray[np.float32]) -> None:
        self._large.append(number)
        self._moments.append(moments)
        self._samples.append(samples)

    def add(self, number: int, tensor: Tensor, batch_dim: int | None = None) -> None:
        """Add any plain tensor."""
        ordered = in_memory_order(tensor)
        values = ordered.values
        dtype = wide_dtype(values)
        batch = (0, 0) if batch_dim is None else batch_layout(tensor, batch_dim)
        if ordered.is_dense and ordered.repeats == 1 and values.dtype in _TORCH.values():
            self.add_array(number, values.numpy(), batch)
            return
        if batch[0] > 1:
            self._add_batch(number, _values_at(ordered, batch))
        if values.numel() <= N_SAMPLES:
            copied = values.to(torch.float64, copy=True)
            self._add_small([number], [copied.numel()], copied.reshape(-1).numpy(), ordered.repeats)
        else:
            moments = _moments(
                lambda: _converted_chunks(values, dtype), values.numel(), ordered.repeats, is_full=self._is_full
            )
            self._add_large(number, moments, _values_at(ordered).astype(np.float32, copy=False))

    def _add_batch(self, number: int, values: Chunk) -> None:
        batch = self._batches.get(values.shape)
        if batch is None:
            batch = self._batches[values.shape] = [], []
        batch[0].append(number)
        batch[1].append(values)

    def may_have_zeros(self, number: int) -> bool:
        """Whether the last row has zeros, or zeros were not counted."""
        return not (self._is_full and self._large and self._large[-1] == number and not self._moments[-1].zeros)

    def fill(self, table: StatisticTable) -> None:
        """Write the statistics of all rows into the table."""
        if self._large:
            numbers = np.array(self._large)
            table.put_moments(numbers, np.array(self._moments))
            table.put_distribution(numbers, distribution(np.array(self._samples)))
        if self._small:
            self._fill_small(table)
        for (n_samples, n_elements), (rows, batches) in self._batches.items():
            step = max(1, _BATCHES // (n_samples * n_elements))
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                table.column("batch_std")[np.array(rows[part])] = batch_std(np.array(batches[part]))

    def _fill_small(self, table: StatisticTable) -> None:
        numbers, sizes = np.array(self._small), np.array(self._sizes)
        flat = np.concatenate(self._values)
        table.put_moments(numbers, _moments_of_small(flat, sizes, np.array(self._repeats)))
        starts = np.cumsum(sizes) - sizes
        least = 0
        for width in _WIDTHS:
            chosen = np.flatnonzero((sizes > least) & (sizes <= width))
            least = width
            if chosen.size:
                samples = np.full((chosen.size, width), np.nan, np.float32)
                for row, start, size in zip(samples, starts[chosen].tolist(), sizes[chosen].tolist(), strict=True):
                    row[:size] = flat[start : start + size]
                table.put_distribution(numbers[chosen], distribution(samples))


# chunks


def _chunks(values: Chunk) -> Iterator[Chunk]:
    for start in range(0, values.size, CHUNK):
        yield values[start : start + CHUNK]


def _converted_chunks(values: Tensor, dtype: torch.dtype) -> Iterator[Chunk]:
    """The values of a strided tensor converted to another dtype, chunk by chunk in one buffer."""
    n = values.numel()
    if n <= CHUNK:
        tensor, array = scratch("converted", dtype)
        tensor[:n].view(values.shape).copy_(values)
        yield array[:n]
        return
    n_inner = n // values.shape[0]
    if n_inner > CHUNK:
        for row in values.unbind(0):
            yield from _converted_chunks(row, dtype)
    else:
        for part in values.split(CHUNK // n_inner):
            yield from _converted_chunks(part, dtype)


def _batch_indices(n: int, n_samples: int, inner: int) -> NDArray[np.int64]:
    """`batch_indices`; for an expanded dimension, the same indices twice, because all samples share memory."""
    return batch_indices(n, n_samples, inner) if inner else np.tile(batch_indices(n, 1, n), (2, 1))


def _indices(n: int, batch: tuple[int, int]) -> NDArray[np.int64]:
    return _batch_indices(n, *batch) if batch[0] else sample_indices(n)


def _values_at(ordered: MemoryOrder, batch: tuple[int, int] = (0, 0)) -> Chunk:
    """The values at `batch_indices`, or at `sample_indices` without samples."""
    values, wide = ordered.values, np.float32 if wide_dtype(ordered.values) == torch.float32 else np.float64
    if ordered.is_dense:
        indices = _indices(values.numel(), batch)
    else:
        indices, span = _offsets(tuple(values.shape), values.stride(), batch)
        values = values.as_strided((span,), (1,))
    values_at: Chunk
    if values.dtype == torch.bfloat16 or (values.dtype.is_floating_point and values.dtype.itemsize == 1):
        integers = values.view(torch.int16 if values.dtype.itemsize == 2 else torch.uint8)  # NumPy lacks these dtypes
        values_at = torch.from_numpy(integers.numpy().take(indices)).view(values.dtype).to(torch.float32).numpy()
    else:
        values_at = values.numpy().take(indices).astype(wide)
    return values_at


@lru_cache(maxsize=512)
def _offsets(shape: tuple[int, ...], strides: tuple[int, ...], batch: tuple[int, int]) -> tuple[NDArray[np.int64], int]:
    """Memory offsets of the selected values of a strided tensor, and the length of memory it spans."""
    coordinates = np.unravel_index(_indices(prod(shape), batch), shape)
    span = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return np.stack(coordinates, axis=-1) @ np.array(strides), span


# moments


def _blocked_dot(values: Chunk, other: Chunk) -> float:
    """Dot product (with ones, a sum); blocks are added in float64."""
    n_blocks = values.size // BLOCK
    if not n_blocks:
        return float(values.dot(other[: values.size]))
    n = n_blocks * BLOCK
    blocks = values[:n].reshape(n_blocks, 1, BLOCK)
    across = other[:n].reshape(-1, BLOCK, 1)  # `ones` is a single block and is broadcast
    total = float(np.matmul(blocks, across).sum(dtype=np.float64))
    if n < values.size:
        total += float(values[n:].dot(other[n:] if values is other else other[: values.size - n]))
    return total


def _moments(chunks: Chunks, n: int, repeats: int, *, is_full: bool) -> Moments:
    total = magnitude = squares = 0.0
    low, high = np.inf, -np.inf
    n_zeros = 0
    for chunk in chunks():
        lowest, highest = float(np.minimum.reduce(chunk)), float(np.maximum.reduce(chunk))
        largest = max(-lowest, highest)
        if chunk.dtype == np.float32 and not SAFE[0] <= largest <= SAFE[1] and largest:
            chunk = chunk.astype(np.float64)
        ones = _ones(chunk)
        part = _blocked_dot(chunk, ones)
        total += part
        if lowest >= 0:
            magnitude += part
        elif highest <= 0:
            magnitude -= part
        else:
            magnitude += _blocked_dot(np.abs(chunk, out=_scratch_like(chunk)), ones)
        squares += _blocked_dot(chunk, chunk)
        low, high = _min_or_nan(low, lowest), -_min_or_nan(-high, -highest)
        if is_full and not (low > 0 or high < 0):
            n_zeros += _n_zeros(chunk)
    mean = total / n
    variance = squares / n - mean * mean
    if mean * mean > variance:  # cancellation: the difference is mostly rounding error
        mean, variance = _shifted_moments(chunks, n, mean)
    n_nans, n_infs = _n_nonfinite(chunks) if is_full and not np.isfinite(high - low) else (0, 0)
    return Moments(
        mean=mean,
        abs_mean=magnitude / n,
        std=sqrt(max(variance, 0.0)),
        norm=sqrt(squares * repeats),
        min=low,
        max=high,
        zeros=n_zeros * repeats,
        nans=n_nans * repeats,
        infs=n_infs * repeats,
    )


def _shifted_moments(chunks: Chunks, n: int, around: float) -> tuple[float, float]:
    """Mean and variance from the distances to a value near the mean."""
    total = squares = 0.0
    around = float(np.float32(around)) if abs(around) < SAFE[1] else around
    for chunk in chunks():
        if not SAFE[0] <= abs(around) <= SAFE[1]:
            chunk = chunk.astype(np.float64)
        distances = np.subtract(chunk, chunk.dtype.type(around), out=_scratch_like(chunk))
        total += _blocked_dot(distances, _ones(chunk))
        squares += _blocked_dot(distances, distances)
    rest = total / n
    return around + rest, squares / n - rest * rest


def _scratch_like(chunk: Chunk) -> Chunk:
    """Scratch memory for as many values of the same dtype."""
    return scratch("beside", _TORCH[chunk.dtype.char])[1][: chunk.size]


def _ones(chunk: Chunk) -> Chunk:
    return scratch("ones", _TORCH[chunk.dtype.char])[1][:BLOCK]


def _min_or_nan(a: float, b: float) -> float:
    """The smaller number; NaN if either is."""
    return a if a < b or a != a else b


def _n_zeros(chunk: Chunk) -> int:
    _, is_zero = scratch("is_zero", torch.bool)  # count_nonzero on floats takes ten times as long
    return int(np.count_nonzero(np.equal(chunk, 0, out=is_zero[: chunk.size])))


def _n_nonfinite(chunks: Chunks) -> tuple[int, int]:
    n_nans = n_infs = 0
    for chunk in chunks():
        n_nans += int(np.count_nonzero(np.isnan(chunk)))
        n_infs += int(np.count_nonzero(np.isinf(chunk)))
    return n_nans, n_infs


def _moments_of_small(
    flat: NDArray[np.float64], sizes: NDArray[np.int64], repeats: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The moments of many small tensors, concatenated."""
    starts = np.cumsum(sizes) - sizes
    total = np.add.reduceat(flat, starts)
    mean = total / sizes
    distances = flat - np.repeat(mean, sizes)
    # Where all sums are finite, all values are.
    tests = (np.isnan, np.isinf) if not np.isfinite(total).all() else ()
    counts = np.zeros((3, len(sizes)))
    for row, is_counted in zip(counts, (flat == 0, *(test(flat) for test in tests)), strict=False):
        row[:] = np.add.reduceat(is_counted.astype(np.float64), starts)
    return np.stack(
        [
            mean,
            np.add.reduceat(np.abs(flat), starts) / sizes,
            np.sqrt(np.add.reduceat(distances * distances, starts) / sizes),
            np.sqrt(np.add.reduceat(flat * flat, starts) * repeats),
            np.minimum.reduceat(flat, starts),
            np.maximum.reduceat(flat, starts),
            *(counts * repeats),
        ],
        axis=1,
    )
