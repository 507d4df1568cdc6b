"""Quantiles, histogram and batch_std from a sample of at most 1,024 values per tensor.

The sample has one value from each of 1,024 equal ranges, at an offset that follows the golden ratio. A plain stride
would be biased: every 128th of 131,072 values of 128 units belongs to the first unit.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cutaway.core.statistics import N_BINS, N_SAMPLED, STATISTICS

N_SAMPLES = N_SAMPLED
"""Largest number of values sampled from one tensor."""
GOLDEN = 2654435769
"""2³² divided by the golden ratio: its multiples, modulo 2³², never cluster."""
QUANTILES = {name: int(name[1:]) / 100 for name, about in STATISTICS.items() if about.part == "quantile"}
"""Quantiles by name: 25 % of the elements are below "p25"."""
BATCH_ELEMENTS = 64
BATCH_SAMPLES = 64
"""Largest number of elements, and of samples, that enter `batch_std`."""
DISTRIBUTION = (*QUANTILES, "low", "high", *(f"h{number}" for number in range(N_BINS)))
"""The columns that `distribution` computes."""

Floats = NDArray[np.float64]


@lru_cache(maxsize=512)
def sample_indices(n: int) -> NDArray[np.int64]:
    """Indices of the sampled values among n, in order; all of them if n is small.

    >>> sample_indices(3).tolist()
    [0, 1, 2]
    >>> sample_indices(1_000_000)[:4].tolist(), len(sample_indices(1_000_000))
    ([0, 1579, 2183, 3763], 1024)
    """
    if n <= N_SAMPLES:
        return np.arange(n)
    number = np.arange(N_SAMPLES, dtype=np.int64)
    start = number * n // N_SAMPLES
    width = (number + 1) * n // N_SAMPLES - start
    return start + ((number * GOLDEN % 2**32 * width) >> 32)


@lru_cache(maxsize=512)
def batch_indices(n: int, n_samples: int, inner: int) -> NDArray[np.int64]:
    """Indices, in memory order, of the values that enter `batch_std`: `[sample, element]`.

    At most 64 samples, evenly spaced, and at most 64 elements of each, sampled as in `sample_indices`. More samples
    hardly change a mean of 64 standard deviations, and using all values would cost more than all other statistics.

    >>> batch_indices(6, 2, 1).tolist()           # (3, 2) in memory, samples last
    [[0, 2, 4], [1, 3, 5]]

    Args:
        n: the number of values in memory.
        n_samples: the size of the sample dimension.
        inner: the distance in memory between two samples.
    """
    n_elements = n // n_samples
    element = np.arange(min(n_elements, BATCH_ELEMENTS), dtype=np.int64)
    if n_elements > BATCH_ELEMENTS:
        start = element * n_elements // BATCH_ELEMENTS
        width = (element + 1) * n_elements // BATCH_ELEMENTS - start
        element = start + ((element * GOLDEN % 2**32 * width) >> 32)
    n_rows = min(n_samples, BATCH_SAMPLES)
    sample = np.arange(n_rows, dtype=np.int64) * n_samples // n_rows
    first = element // inner * (n_samples * inner) + element % inner
    return first + (sample * inner)[:, None]


def batch_std(values: NDArray[np.floating]) -> Floats:
    """Standard deviation over samples, averaged over elements, for many tensors at once.

    Args:
        values: `[tensor, sample, element]`.
    """
    shares = np.full(values.shape[1], 1 / values.shape[1])  # means as matrix products: 25 % faster than np.mean
    wide = values.astype(np.float64)
    wide -= (shares @ wide)[:, None]
    np.multiply(wide, wide, out=wide)
    stds: Floats = np.sqrt(shares @ wide).mean(axis=1)  # (tensor,)
    return stds


def distribution(samples: NDArray[np.float32]) -> Floats:
    """Quantiles, min, max and histogram of the finite values of each row: `[row, len(DISTRIBUTION)]`.

    Quantiles use NumPy's default interpolation. The histogram has fractions for 16 equal bins between min and max; if
    these are equal, all values are in the first bin. A row without finite values is NaN.

    Args:
        samples: `[row, value]`, padded with NaN. Sorted in place.
    """
    if not samples.size:
        return np.full((len(samples), len(DISTRIBUTION)), np.nan)
    samples[np.isinf(samples)] = np.nan
    samples.sort(axis=1)  # NaN sorts last
    n_rows, width = samples.shape
    n_finite = np.full(n_rows, width)
    is_short = np.isnan(samples[:, -1])
    n_finite[is_short] -= np.isnan(samples[is_short]).sum(axis=1)
    last = np.maximum(n_finite - 1, 0)[:, None]

    position = last * np.array(list(QUANTILES.values()))  # (row, quantile)
    before = position.astype(np.int64)
    indices = np.concatenate([np.zeros_like(last), last, before, np.minimum(before + 1, last)], axis=1)
    indices += np.arange(n_rows)[:, None] * width
    values = samples.reshape(-1).take(indices).astype(np.float64)
    low, high, below, above = np.split(values, [1, 2, 2 + len(QUANTILES)], axis=1)
    quantiles = below + (above - below) * (position - before)

    edges = low + (high - low) * (np.arange(1, N_BINS) / N_BINS)  # (row, inner edge)
    n_below = np.where(high > low, _n_below(samples, edges), n_finite[:, None])
    counts = np.diff(n_below, axis=1, prepend=0, append=n_finite[:, None])
    return np.concatenate([quantiles, low, high, counts / np.where(n_finite, n_finite, np.nan)[:, None]], axis=1)


def _n_below(rows: NDArray[np.float32], edges: Floats) -> NDArray[np.int64]:
    """Number of values of each sorted row below each edge."""
    rounded = edges.astype(np.float32)
    rounded = np.where(rounded < edges, np.nextafter(rounded, np.float32(np.inf)), rounded)
    return np.stack([row.searchsorted(row_edges) for row, row_edges in zip(rows, rounded, strict=True)])
