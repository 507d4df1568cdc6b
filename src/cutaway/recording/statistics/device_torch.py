"""Statistics of GPU tensors with torch alone, where Triton is not available.

float16 and bfloat16 are read as they are and summed in float32 inside torch's reductions: converting them first would
move six times as many bytes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cutaway.recording.statistics.device_quantiles import batch_indices_on, sample_indices_on
from cutaway.recording.statistics.device_results import PARTIAL, ArrayBlock, DeviceInput, DeviceResults, summary_of
from cutaway.recording.statistics.inputs import wide_dtype
from cutaway.recording.statistics.per_unit import sample_statistics, unit_statistics
from cutaway.recording.statistics.quantiles import N_SAMPLES

_HALVES = (torch.float16, torch.bfloat16)


def compute(inputs: list[DeviceInput], *, is_full: bool) -> DeviceResults:
    """Queue the statistics of these tensors; what is small is computed for all of them together."""
    device = inputs[0].values.device
    values = [each.values.reshape(-1) for each in inputs]
    values = [each if each.dtype in _HALVES else each.to(wide_dtype(each)) for each in values]
    moments = torch.zeros(len(inputs), len(PARTIAL), dtype=_widest(device), device=device)
    halves = [number for number, each in enumerate(values) if each.dtype in _HALVES]
    others = [number for number, each in enumerate(values) if each.dtype not in _HALVES]
    if halves:
        _fill_half_moments(moments, halves, values)
    if others:
        rows = [torch.stack(_wide_moments(values[number])) for number in others]
        _put(moments, others, slice(0, 5), torch.stack([row.to(moments.dtype) for row in rows]))
    if is_full:
        counts = [torch.stack([(each == 0).sum(), each.isnan().sum(), each.isinf().sum()]) for each in values]
        moments[:, 5:8] = torch.stack(counts)
    _fill_batch_stds(moments, inputs, values)
    return DeviceResults(summary_of(inputs), moments, _samples(values), _arrays(inputs))


def _widest(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


def _put(table: Tensor, rows: list[int], columns: slice | int, values: Tensor) -> None:
    """Write some rows of a table; row numbers on the host would be copied to the device, so runs are sliced."""
    start = 0
    for stop in range(1, len(rows) + 1):
        if stop == len(rows) or rows[stop] != rows[stop - 1] + 1:
            table[rows[start] : rows[stop - 1] + 1, columns] = values[start:stop]
            start = stop


def _arrays(inputs: list[DeviceInput]) -> list[ArrayBlock]:
    arrays = []
    for each in inputs:
        if each.unit_dim is not None:
            arrays.append(ArrayBlock.of(each.number, "unit", unit_statistics(each.tensor, each.unit_dim)))
        if each.sample_dim is not None:
            arrays.append(ArrayBlock.of(each.number, "samples", sample_statistics(each.tensor, each.sample_dim)))
    return arrays


def _samples(values: list[Tensor]) -> Tensor:
    """The values at `sample_indices`, padded with NaN."""
    device = values[0].device
    samples = torch.full((len(values), N_SAMPLES), torch.nan, dtype=torch.float32, device=device)
    whole: dict[torch.dtype, list[int]] = {}
    for number, each in enumerate(values):
        if each.numel() < N_SAMPLES:
            samples[number, : each.numel()].copy_(each)
        else:
            whole.setdefault(each.dtype, []).append(number)
    for numbers in whole.values():
        chosen = [
            values[number].index_select(0, sample_indices_on(device, values[number].numel())) for number in numbers
        ]
        _put(samples, numbers, slice(None), torch.stack(chosen).to(torch.float32))
    return samples


def _fill_half_moments(moments: Tensor, numbers: list[int], values: list[Tensor]) -> None:
    """Moments of float16 and bfloat16 values."""
    variances = torch.empty(len(numbers), 1, dtype=torch.float32, device=moments.device)
    sums, lows, highs = [], [], []
    for number, variance in zip(numbers, variances.unbind(), strict=True):
        sums.append(values[number].sum(dtype=torch.float32))
        # With `out=`, torch converts inside the reduction; its CPU kernel cannot. Rounding is no concern: the values
        # have 8 or 11 bits.
        source = values[number].to(torch.float32) if values[number].is_cpu else values[number]
        torch.var(source.view(1, -1), 1, correction=0, out=variance)
        low, high = torch.aminmax(values[number])
        lows.append(low)
        highs.append(high)
    counts = _counts([values[number].numel() for number in numbers], moments)
    magnitudes: dict[int, Tensor] = {}
    for dtype in _HALVES:
        same = [number for number in numbers if values[number].dtype == dtype]
        if same:
            norms = torch._foreach_norm([values[number] for number in same], 1, dtype=torch.float32)
            magnitudes.update(zip(same, norms, strict=True))
    columns = [
        torch.stack(sums).to(moments.dtype) / counts,
        variances[:, 0].to(moments.dtype) * counts,
        torch.stack([magnitudes[number] for number in numbers]).to(moments.dtype),
        torch.stack([low.to(torch.float32) for low in lows]).to(moments.dtype),
        torch.stack([high.to(torch.float32) for high in highs]).to(moments.dtype),
    ]
    _put(moments, numbers, slice(0, 5), torch.stack(columns, dim=1))


def _counts(counts: list[int], like: Tensor) -> Tensor:
    """Numbers on the device, without waiting."""
    host = torch.tensor(counts, dtype=like.dtype, device="cpu")
    return host.pin_memory().to(like.device, non_blocking=True) if like.is_cuda else host.to(like.device)


def _wide_moments(values: Tensor) -> list[Tensor]:
    # Around an estimate of the mean: squares of large values would cancel in the variance.
    near = values.mean()
    distances = values - near
    rest = distances.sum()
    mean = near + torch.nan_to_num(rest / values.numel(), 0, 0, 0)
    # Sums are pairwise. torch's norm is not, and its relative error is 1e-4 for a few million values.
    squares = (distances * distances).sum() - rest * rest / values.numel()
    return [mean, squares, values.abs().sum(), *torch.aminmax(values)]


def _fill_batch_stds(moments: Tensor, inputs: list[DeviceInput], values: list[Tensor]) -> None:
    """batch_std, for all tensors with equally many samples and elements at once; it stays 0 for expanded samples."""
    chosen: dict[tuple[torch.dtype, torch.Size], tuple[list[int], list[Tensor]]] = {}
    for number, each in enumerate(inputs):
        if each.has_batch and each.batch[1]:
            indices = batch_indices_on(moments.device, each.n, *each.batch)  # (sample, element)
            numbers, parts = chosen.setdefault((values[number].dtype, indices.shape), ([], []))
            numbers.append(number)
            parts.append(values[number].index_select(0, indices.reshape(-1)).view(indices.shape))
    for numbers, parts in chosen.values():
        together = torch.stack(parts)
        stds = _batch_stds(together.to(wide_dtype(together)))
        _put(moments, numbers, len(PARTIAL) - 1, stds.to(moments.dtype))


def _batch_stds(values: Tensor) -> Tensor:
    """Standard deviation over the samples, averaged over the elements, of (tensor, sample, element)."""
    distances = values - values.mean(1, keepdim=True)
    distances = distances - distances.mean(1, keepdim=True)  # correct the rounding error of a large mean
    return (distances * distances).mean(1).sqrt().mean(1)
