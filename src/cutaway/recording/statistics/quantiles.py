"""At most 1,024 values of each tensor, and from them the quantiles and the histogram of all tensors at once.

One value is taken of each of 1,024 equal stretches, at a place in the stretch that follows the golden ratio. A
plain stride would be no sample: 131,072 values of 128 units, every 128th, are all of the first unit.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cutaway.core.statistics import N_BINS, N_SAMPLED, STATISTICS

N_SAMPLES = N_SAMPLED
"""The most values that are taken of one tensor."""
GOLDEN = 2654435769
"""2³² divided by the golden ratio: its multiples, modulo 2³², never cluster."""
QUANTILES = {name: int(name[1:]) / 100 for name, about in STATISTICS.items() if about.part == "quantile"}
"""The quantiles by name: "p25" is the value that 25 % of the elements are below."""
BATCH_ELEMENTS = 64
BATCH_SAMPLES = 64
"""The most elements, and the most samples of the batch, that `batch_std` is taken of."""
SPREAD = (*QUANTILES, "low", "high", *(f"h{number}" for number in range(N_BINS)))
"""The columns that `spread` fills."""

Floats = NDArray[np.float64]


@lru_cache(maxsize=512)
def places(n: int) -> NDArray[np.int64]:
    """Which of n values are taken, in order; all of them if they are few.

    >>> places(3).tolist()
    [0, 1, 2]
    >>> places(1_000_000)[:4].tolist(), len(places(1_000_000))
    ([0, 1579, 2183, 3763], 1024)
    """
    if n <= N_SAMPLES:
        return np.arange(n)
    number = np.arange(N_SAMPLES, dtype=np.int64)
    start = number * n // N_SAMPLES
    width = (number + 1) * n // N_SAMPLES - start
    return start + ((number * GOLDEN % 2**32 * width) >> 32)


@lru_cache(maxsize=512)
def batch_places(n: int, n_samples: int, inner: int) -> NDArray[np.int64]:
    """Which values `batch_std` is taken of, as `[sample, element]`: numbers of values in the order of memory.

    At most 64 samples, evenly spread. At most 64 elements of a sample: one from each of 64 equal stretches, at a place
    that follows the golden ratio, as in `places`. A larger batch hardly changes the mean over 64 standard deviations,
    and taking all of it would cost more than all other statistics together.

    >>> batch_places(6, 2, 1).tolist()           # (3, 2) in memory, samples last
    [[0, 2, 4], [1, 3, 5]]

    Args:
        n: the number of values in memory.
        n_samples: the size of the dimension of samples.
        inner: how far apart in memory two samples are.
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
    """The standard deviation over samples of each element, averaged over the elements, of many tensors at once.

    Args:
        values: `[tensor, sample, element]`.
    """
    shares = np.full(values.shape[1], 1 / values.shape[1])  # means as products: a quarter faster than NumPy's own
    wide = values.astype(np.float64)
    wide -= (shares @ wide)[:, None]
    np.multiply(wide, wide, out=wide)
    found: Floats = np.sqrt(shares @ wide).mean(axis=1)  # (tensor,)
    return found


def spread(samples: NDArray[np.float32]) -> Floats:
    """Quantiles, lowest, highest and histogram of each row, over its finite values: `[row, len(SPREAD)]`.

    Quantiles are interpolated as NumPy does by default. The histogram holds shares of 16 equal bins between the
    lowest and the highest value; if these are the same, all is in the first. A row without finite values is NaN.

    Args:
        samples: `[row, value]`; what is beyond the number of values is NaN. It is sorted in place.
    """
    if not samples.size:
        return np.full((len(samples), len(SPREAD)), np.nan)
    samples[np.isinf(samples)] = np.nan
    samples.sort(axis=1)  # NaN comes last
    n_rows, width = samples.shape
    n_finite = np.full(n_rows, width)
    is_short = np.isnan(samples[:, -1])
    n_finite[is_short] -= np.isnan(samples[is_short]).sum(axis=1)
    last = np.maximum(n_finite - 1, 0)[:, None]

    position = last * np.array(list(QUANTILES.values()))  # (row, quantile)
    before = position.astype(np.int64)
    wanted = np.concatenate([np.zeros_like(last), last, before, np.minimum(before + 1, last)], axis=1)
    wanted += np.arange(n_rows)[:, None] * width
    found = samples.reshape(-1).take(wanted).astype(np.float64)
    low, high, below, above = np.split(found, [1, 2, 2 + len(QUANTILES)], axis=1)
    quantiles = below + (above - below) * (position - before)

    edges = low + (high - low) * (np.arange(1, N_BINS) / N_BINS)  # (row, inner edge)
    n_below = np.where(high > low, _n_below(samples, edges), n_finite[:, None])
    counts = np.diff(n_below, axis=1, prepend=0, append=n_finite[:, None])
    return np.concatenate([quantiles, low, high, counts / np.where(n_finite, n_finite, np.nan)[:, None]], axis=1)


def _n_below(rows: NDArray[np.float32], edges: Floats) -> NDArray[np.int64]:
    """How many values of each sorted row are below each edge."""
    rounded = edges.astype(np.float32)
    rounded = np.where(rounded < edges, np.nextafter(rounded, np.float32(np.inf)), rounded)
    return np.stack([row.searchsorted(its) for row, its in zip(rows, rounded, strict=True)])
