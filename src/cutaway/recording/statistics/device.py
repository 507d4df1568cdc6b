"""Moments of GPU tensors: kernels queued asynchronously, copied to the host once per step.

Each tensor yields one or more rows of partial results, which are merged in float64 on the host. They come from a
Triton kernel (`triton_kernels.py`), or from torch if Triton is not available.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.recording.statistics.inputs import batch_layout, in_memory_order, wide_dtype
from cutaway.recording.statistics.moments import StatisticTable
from cutaway.recording.statistics.quantiles import (
    BATCH_ELEMENTS,
    BATCH_SAMPLES,
    GOLDEN,
    N_SAMPLES,
    batch_indices,
    sample_indices,
)

PARTIAL = ("mean", "squares", "magnitude", "min", "max", "zeros", "nans", "infs", "batch_std")
"""Columns of a partial result, for a share of a tensor: mean, sum of squared distances to it, sum of magnitudes, …
`batch_std` is stored in the first row of a tensor."""
BLOCK = 4096
MOST_PROGRAMS = 256
LEAST_SHARE = 2 * BLOCK
"""A tensor is divided among at most MOST_PROGRAMS kernel programs, each of which takes whole blocks."""
MOST_TENSORS = 256
MOST_PARTIALS = 32 * MOST_TENSORS
_KERNEL_DTYPES = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16}
    | {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}
)
"""Dtypes that the kernel loads without conversion."""

Floats = NDArray[np.float64]

_log = logging.getLogger(__name__)
_FAILED: set[str] = set()
"""What has failed in this process and is not tried again."""


@dataclass(slots=True)
class TensorEntry:
    """Where the results of one tensor are."""

    number: int
    n: int
    repeats: int
    share: int
    n_programs: int
    has_batch: bool = False


@dataclass(slots=True)
class ResultBlock:
    """Device memory for the results of several tensors."""

    partials: Tensor
    samples: Tensor
    most_rows: int
    most_partials: int
    n_partials: int = 0
    entries: list[TensorEntry] = field(default_factory=list)
    table: Tensor | None = None
    """Pinned host memory that a queued kernel still has to read; kept alive here."""

    def has_room(self, n_programs: int) -> bool:
        """Whether the results of another tensor fit."""
        return len(self.entries) < self.most_rows and self.n_partials + n_programs <= self.most_partials


class DeviceStatistics:
    """The tensors of one step on one device."""

    def __init__(self, device: torch.device, *, is_full: bool) -> None:
        self._device = device
        self._is_full = is_full
        self._wide = torch.float32 if device.type == "mps" else torch.float64
        self._kernels: Any = _kernels() if device.type == "cuda" and not _FAILED else None
        self._blocks: list[ResultBlock] = []
        self._arrays: list[Tensor] = []
        self._streams: set[int] = set()
        self._open: dict[int, ResultBlock] = {}
        """CUDA stream → the block with room. A block is filled with zeros on the stream that first uses it, so kernels
        of another stream could run before the zeros and lose their results."""

    def add(self, number: int, tensor: Tensor, batch_dim: int | None = None) -> None:
        """Queue the moments, samples and batch_std of a plain tensor."""
        ordered = in_memory_order(tensor)
        values = ordered.values if ordered.is_dense else ordered.values.contiguous().view(-1)
        batch = (0, 0) if batch_dim is None else batch_layout(tensor, batch_dim)
        share, n_programs = self._launch(values, batch) if self._kernels is not None else (0, 0)
        if not n_programs:
            share, n_programs = self._compute_with_torch(values, batch)
        block = self._open[self._note_stream()]
        entry = TensorEntry(number, values.numel(), ordered.repeats, share, n_programs, has_batch=batch[0] > 1)
        block.entries.append(entry)
        block.n_partials += n_programs

    def add_many(self, numbers: list[int], tensors: list[Tensor]) -> None:
        """Queue the moments and samples of many tensors with one launch per dtype. The tensors must not change."""
        groups: dict[torch.dtype, list[tuple[int, Tensor]]] = {}
        for number, tensor in zip(numbers, tensors, strict=True):
            # The kernel promises Triton that pointers are aligned to 16 bytes (`tl.multiple_of`).
            is_plain = tensor.dtype in _KERNEL_DTYPES and tensor.is_contiguous() and tensor.data_ptr() % 16 == 0
            if self._kernels is not None and is_plain and tensor.numel():
                groups.setdefault(tensor.dtype, []).append((number, tensor))
            else:
                self.add(number, tensor)
        for dtype, chosen in groups.items():
            if not self._launch_many(dtype, chosen):
                for number, tensor in chosen:
                    self.add(number, tensor)
        self._note_stream()

    def _launch_many(self, dtype: torch.dtype, chosen: list[tuple[int, Tensor]]) -> bool:
        block, table = self._table(chosen)
        try:
            with _device_context(self._device):
                block.table = torch.from_numpy(table).pin_memory()
                self._kernels.launch_many(
                    block.table.to(self._device, non_blocking=True),
                    block.partials,
                    block.samples,
                    dtype,
                    is_wide=wide_dtype(chosen[0][1]) == torch.float64,
                    is_full=self._is_full,
                    block=BLOCK,
                    golden=GOLDEN,
                )
        except Exception as error:
            self._disable_triton(error)
            return False
        self._blocks.append(block)
        return True

    def _table(self, chosen: list[tuple[int, Tensor]]) -> tuple[ResultBlock, NDArray[np.int64]]:
        """Memory for the results of these tensors, and the share of each program."""
        entries, rows = [], []
        for row, (number, tensor) in enumerate(chosen):
            n = tensor.numel()
            share, n_programs, _ = _shares(n)
            entries.append(TensorEntry(number, n, 1, share, n_programs))
            starts = np.arange(n_programs, dtype=np.int64) * share
            part = np.empty((n_programs, 5), np.int64)
            part[:, 0], part[:, 1], part[:, 2] = tensor.data_ptr(), n, starts
            part[:, 3] = np.minimum(starts + share, n)
            part[:, 4] = -1
            part[0, 4] = row
            rows.append(part)
        table = np.concatenate(rows)
        block = self._new_block(len(table), len(chosen))
        block.entries, block.n_partials = entries, len(table)
        return block, table

    def add_array(self, array: Tensor) -> int:
        """Add a small float32 tensor to the copy to the host. Returns its index in the result of `fetch`."""
        self._arrays.append(array)
        self._note_stream()
        return len(self._arrays) - 1

    def fetch(self, table: StatisticTable) -> list[NDArray[np.float32]]:
        """Wait for the device once, and fill the table. Returns the arrays of `add_array`."""
        self._blocks = [block for block in self._blocks if block.entries]
        shapes = [array.shape for array in self._arrays]
        device_tensors = [
            part
            for block in self._blocks
            for part in (block.partials[: block.n_partials], block.samples[: len(block.entries)])
        ]
        if self._arrays:
            device_tensors.append(torch.cat([array.reshape(-1) for array in self._arrays]))
        host_arrays = self._to_host(device_tensors)
        for block, partials, samples in zip(self._blocks, host_arrays[0::2], host_arrays[1::2], strict=False):
            numbers = np.array([entry.number for entry in block.entries])
            wide = partials.astype(np.float64, copy=False)
            table.put_moments(numbers, _merge_partials(wide, block.entries))
            table.column("batch_std")[numbers] = _batch_stds(wide, block.entries)
            table.samples[numbers] = samples
        if not shapes:
            return []
        ends = np.cumsum([shape.numel() for shape in shapes])[:-1]
        parts = np.split(host_arrays[-1], ends)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    # queueing

    def _block(self, n_programs: int) -> ResultBlock:
        stream = self._note_stream()
        block = self._open.get(stream)
        if block is None or not block.has_room(n_programs):
            block = self._open[stream] = self._new_block(MOST_PARTIALS, MOST_TENSORS)
            self._blocks.append(block)
        return block

    def _new_block(self, n_partials: int, n_rows: int) -> ResultBlock:
        with torch.inference_mode(False):  # inference tensors cannot be written to outside of inference mode
            partials = torch.zeros(n_partials, len(PARTIAL), dtype=self._wide, device=self._device)
            samples = torch.empty(n_rows, N_SAMPLES, dtype=torch.float32, device=self._device)
        return ResultBlock(partials, samples, n_rows, n_partials)

    def _launch(self, values: Tensor, batch: tuple[int, int]) -> tuple[int, int]:
        """Queue the kernel. Returns values per program and number of programs; zeros if it cannot run here."""
        if values.dtype not in _KERNEL_DTYPES:
            values = values.view(torch.uint8) if values.dtype == torch.bool else values.to(wide_dtype(values))
        share, n_programs, n_blocks = _shares(values.numel())
        block = self._block(n_programs)
        try:
            with _device_context(self._device):
                self._kernels.launch(
                    values,
                    block.partials,
                    block.samples,
                    n_programs=n_programs,
                    n_blocks=n_blocks,
                    partial=block.n_partials,
                    row=len(block.entries),
                    n_batch=batch[0],
                    inner=batch[1],
                    is_wide=wide_dtype(values) == torch.float64,
                    is_full=self._is_full,
                    block=BLOCK,
                    golden=GOLDEN,
                )
        except Exception as error:
            self._disable_triton(error)
            return 0, 0
        return share, n_programs

    def _disable_triton(self, error: Exception) -> None:
        """Fall back to torch: no compiler, or a GPU that Triton does not support."""
        _log.warning("computing statistics without Triton, which failed: %s", error)
        _FAILED.add("triton")
        self._kernels = None

    def _compute_with_torch(self, values: Tensor, batch: tuple[int, int]) -> tuple[int, int]:
        """Compute what the kernel does with torch, in one share."""
        block = self._block(1)
        values = values.to(wide_dtype(values))
        n = values.numel()
        # Around an estimate of the mean: squares of large values would cancel in the variance.
        near = values.mean()
        distances = values - near
        rest = distances.sum()
        mean = near + torch.nan_to_num(rest / n, 0, 0, 0)
        # Sums are pairwise. torch's norm is not, and its relative error is 1e-4 for a few million values.
        squares = (distances * distances).sum() - rest * rest / n
        results = [mean, squares, values.abs().sum(), *torch.aminmax(values)]
        if self._is_full:
            results += [(values == 0).sum(), values.isnan().sum(), values.isinf().sum()]
        block.partials[block.n_partials, : len(results)].copy_(torch.stack([part.to(values.dtype) for part in results]))
        if batch[0] > 1:
            block.partials[block.n_partials, -1].copy_(_batch_std(values, batch))
        row = block.samples[len(block.entries)]
        row[: min(n, N_SAMPLES)] = values if n <= N_SAMPLES else values[_sample_indices_on(self._device, n)]
        row[n:] = torch.nan
        return n, 1

    def _note_stream(self) -> int:
        """The current stream, which `fetch` waits for; 0 on devices without streams."""
        stream = torch._C._cuda_getCurrentRawStream(self._device.index) if self._device.type == "cuda" else 0
        self._streams.add(stream)
        return stream

    # copy to the host

    def _to_host(self, tensors: list[Tensor]) -> list[NDArray[Any]]:
        if self._device.type != "cuda":
            return [tensor.cpu().numpy() for tensor in tensors]
        current = torch.cuda.current_stream(self._device)
        for stream in self._streams - {current.cuda_stream}:
            current.wait_stream(torch.cuda.ExternalStream(stream, device=self._device))
        host = [torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True) for tensor in tensors]
        for source, target in zip(tensors, host, strict=True):
            target.copy_(source, non_blocking=True)
        current.synchronize()
        return [target.numpy() for target in host]


@cache
def _kernels() -> Any:
    """The module of the Triton kernel, or None without Triton."""
    try:
        return import_module("cutaway.recording.statistics.triton_kernels")
    except ImportError:
        return None


def _device_context(device: torch.device) -> AbstractContextManager[Any]:
    """Make a device current, if it is not."""
    return nullcontext() if torch._C._cuda_getDevice() == device.index else torch.cuda.device(device)


def _shares(n: int) -> tuple[int, int, int]:
    """Values per program, number of programs, and blocks per program."""
    n_programs = min(MOST_PROGRAMS, -(-n // LEAST_SHARE))
    n_blocks = -(-n // (n_programs * BLOCK))
    share = n_blocks * BLOCK
    return share, -(-n // share), n_blocks


@cache
def _sample_indices_on(device: torch.device, n: int) -> Tensor:
    """`sample_indices`, computed on the device: a copy from the host would wait."""
    if device.type == "cpu":
        return torch.from_numpy(sample_indices(n))
    number = torch.arange(N_SAMPLES, device=device)
    start = number * n // N_SAMPLES
    width = (number + 1) * n // N_SAMPLES - start
    return start + ((number * GOLDEN % 2**32 * width) >> 32)


@cache
def _batch_indices_on(device: torch.device, n: int, n_samples: int, inner: int) -> Tensor:
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


def _batch_std(values: Tensor, batch: tuple[int, int]) -> Tensor:
    """Standard deviation over the samples, averaged over the selected elements; 0 for an expanded dimension."""
    n_samples, inner = batch
    if not inner:
        return values.new_zeros(())
    chosen = values[_batch_indices_on(values.device, values.numel(), n_samples, inner)]  # (sample, element)
    distances = chosen - chosen.mean(0)
    distances = distances - distances.mean(0)  # correct the rounding error of a large mean
    return (distances * distances).mean(0).sqrt().mean()


def _batch_stds(partials: Floats, entries: list[TensorEntry]) -> Floats:
    """batch_std of each tensor, from its first row; NaN without samples."""
    n_programs = np.array([entry.n_programs for entry in entries])
    results = partials[np.cumsum(n_programs) - n_programs, PARTIAL.index("batch_std")]
    stds: Floats = np.where([entry.has_batch for entry in entries], results, np.nan)
    return stds


def _merge_partials(partials: Floats, entries: list[TensorEntry]) -> Floats:
    """Merge the partial results into the moments of each tensor."""
    n_programs = np.array([entry.n_programs for entry in entries])
    n = np.array([entry.n for entry in entries], np.float64)
    repeats = np.array([entry.repeats for entry in entries])
    starts = np.cumsum(n_programs) - n_programs
    sizes = np.repeat(np.array([entry.share for entry in entries], np.float64), n_programs)
    sizes[starts + n_programs - 1] = [entry.n - entry.share * (entry.n_programs - 1) for entry in entries]

    mean = np.add.reduceat(partials[:, 0] * sizes, starts) / n
    distance = partials[:, 0] - np.repeat(mean, n_programs)
    # Variances of parts merge through the distances of their means (Chan, Golub & LeVeque 1979).
    squares = np.add.reduceat(partials[:, 1] + sizes * distance * distance, starts)
    magnitude = np.add.reduceat(partials[:, 2], starts)
    has_nan = np.isnan(magnitude)
    norm = np.sqrt((squares + n * mean * mean) * repeats)
    # Infinite values give inf - inf = NaN in the sums; without a NaN among them the norm is infinite.
    norm = np.where(np.isnan(norm) & ~has_nan, np.inf, norm)
    low = np.where(has_nan, np.nan, np.minimum.reduceat(partials[:, 3], starts))
    high = np.where(has_nan, np.nan, np.maximum.reduceat(partials[:, 4], starts))
    counts = np.add.reduceat(partials[:, 5:8], starts, axis=0).T * repeats
    std = np.sqrt(np.maximum(squares, 0) / n)
    return np.stack([mean, magnitude / n, std, norm, low, high, *counts], axis=1)
