"""Quantiles, histogram and the sampled indices on a device: as in `quantiles`, without a copy to the host."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from cutaway.core.statistics import N_BINS
from cutaway.recording.statistics.quantiles import (
    BATCH_ELEMENTS,
    BATCH_SAMPLES,
    GOLDEN,
    N_SAMPLES,
    QUANTILES,
    batch_indices,
    sample_indices,
)


def distribution_on(samples: Tensor) -> Tensor:
    """`quantiles.distribution` of samples on a device: float64 (row, column of DISTRIBUTION)."""
    samples, _ = samples.masked_fill(samples.isinf(), torch.nan).sort(dim=1)  # NaN sorts last
    is_missing = samples.isnan()
    n_finite = samples.shape[1] - is_missing.sum(1, keepdim=True)  # (row, 1)
    last = (n_finite - 1).clamp_(min=0)
    position = last * _fractions(samples.device)  # (row, quantile)
    before = position.to(torch.int64)
    indices = torch.cat([torch.zeros_like(last), last, before, torch.minimum(before + 1, last)], dim=1)
    values = samples.gather(1, indices).to(torch.float64)
    n = len(QUANTILES)
    low, high, below, above = values.split([1, 1, n, n], dim=1)
    quantiles = below + (above - below) * (position - before)

    edges = low + (high - low) * _inner_edges(samples.device)  # (row, inner edge)
    rounded = edges.to(torch.float32)
    rounded = torch.where(rounded < edges, rounded.nextafter(torch.full_like(rounded, torch.inf)), rounded)
    # torch's search does not treat NaN as the largest number.
    n_below = torch.searchsorted(samples.masked_fill(is_missing, torch.inf), rounded)
    n_below = torch.where(high > low, n_below, n_finite)
    counts = torch.cat([n_below, n_finite], dim=1).diff(dim=1, prepend=torch.zeros_like(n_finite))
    shares = counts / n_finite.masked_fill(n_finite == 0, -1).to(torch.float64)
    return torch.cat([quantiles, low, high, shares.masked_fill(n_finite == 0, torch.nan)], dim=1)


@cache
def _fractions(device: torch.device) -> Tensor:
    return _constants(device, tuple(QUANTILES.values()))


@cache
def _inner_edges(device: torch.device) -> Tensor:
    return _constants(device, tuple(number / N_BINS for number in range(1, N_BINS)))


def _constants(device: torch.device, numbers: tuple[float, ...]) -> Tensor:
    """Numbers on a device, filled in one by one: a copy from the host would wait."""
    with torch.inference_mode(False):
        constants = torch.empty(len(numbers), dtype=torch.float64, device=device)
        for index, number in enumerate(numbers):
            constants[index].fill_(number)
        return constants


@cache
def sample_indices_on(device: torch.device, n: int) -> Tensor:
    """`sample_indices`, computed on the device."""
    if device.type == "cpu":
        return torch.from_numpy(sample_indices(n))
    if n <= N_SAMPLES:
        return torch.arange(n, device=device)
    number = torch.arange(N_SAMPLES, device=device)
    start = number * n // N_SAMPLES
    width = (number + 1) * n // N_SAMPLES - start
    return start + ((number * GOLDEN % 2**32 * width) >> 32)


@cache
def batch_indices_on(device: torch.device, n: int, n_samples: int, inner: int) -> Tensor:
    """`batch_indices`, computed on the device."""
    if device.type == "cpu":
        return torch.from_numpy(batch_indices(n, n_samples, inner))
    n_elements = n // n_samples
    element = torch.arange(min(n_elements, BATCH_ELEMENTS), device=device)
    if n_elements > BATCH_ELEMENTS:
        start = element * n_elements // BATCH_ELEMENTS
        width = (element + 1) * n_elements // BATCH_ELEMENTS - start
        element = start + ((element * GOLDEN % 2**32 * width) >> 32)
    n_rows = min(n_samples, BATCH_SAMPLES)
    sample = torch.arange(n_rows, device=device) * n_samples // n_rows
    first = element // inner * (n_samples * inner) + element % inner
    return first + (sample * inner)[:, None]
