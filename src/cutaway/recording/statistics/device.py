"""Moments of tensors on a GPU: queued where the tensor is, read by the host once, at the end of the step.

A tensor leaves one or more partial results, which are merged in float64 on the host. They come from a Triton
kernel (`kernels.py`), or from torch where Triton is not at hand.
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
from cutaway.recording.statistics.moments import Table
from cutaway.recording.statistics.quantiles import (
    BATCH_ELEMENTS,
    BATCH_SAMPLES,
    GOLDEN,
    N_SAMPLES,
    batch_places,
    places,
)

PARTIAL = ("mean", "squares", "magnitude", "min", "max", "zeros", "nans", "infs", "batch_std")
"""Of a share of a tensor: mean, sum of squared distances to it, sum of magnitudes, …; of a whole one, in its first
row, the spread over the batch."""
BLOCK = 4096
MOST_PROGRAMS = 256
LEAST_SHARE = 2 * BLOCK
"""A tensor is shared among at most so many programs of the kernel, each of which takes whole blocks."""
MOST_TENSORS = 256
MOST_PARTIALS = 32 * MOST_TENSORS
_LOADED = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16}
    | {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}
)
"""What the kernel reads as it is."""

Floats = NDArray[np.float64]

_log = logging.getLogger(__name__)
_FAILED: set[str] = set()
"""What was tried in this process and did not work: it is not tried again."""


@dataclass(slots=True)
class Entry:
    """Where the results of one tensor are."""

    number: int
    n: int
    repeats: int
    share: int
    n_programs: int
    has_batch: bool = False


@dataclass(slots=True)
class Block:
    """Room for the results of some tensors, on their device."""

    partials: Tensor
    samples: Tensor
    most_rows: int
    most_partials: int
    n_partials: int = 0
    entries: list[Entry] = field(default_factory=list)
    table: Tensor | None = None
    """What a kernel still has to read from the host."""

    def has_room(self, n_programs: int) -> bool:
        """Whether another tensor fits in."""
        return len(self.entries) < self.most_rows and self.n_partials + n_programs <= self.most_partials


class DeviceRows:
    """The tensors of one step that are on one device."""

    def __init__(self, device: torch.device, *, is_full: bool) -> None:
        self._device = device
        self._is_full = is_full
        self._wide = torch.float32 if device.type == "mps" else torch.float64
        self._kernels: Any = _kernels() if device.type == "cuda" and not _FAILED else None
        self._blocks: list[Block] = []
        self._arrays: list[Tensor] = []
        self._streams: set[int] = set()

    def add(self, number: int, tensor: Tensor, batch_dim: int | None = None) -> None:
        """Queue the moments and samples of a plain tensor, and its spread over the batch."""
        operand = in_memory_order(tensor)
        values = operand.values if operand.is_dense else operand.values.contiguous().view(-1)
        batch = (0, 0) if batch_dim is None else batch_layout(tensor, batch_dim)
        share, n_programs = self._launch(values, batch) if self._kernels is not None else (0, 0)
        if not n_programs:
            share, n_programs = self._compute(values, batch)
        block = self._blocks[-1]
        entry = Entry(number, values.numel(), operand.repeats, share, n_programs, has_batch=batch[0] > 1)
        block.entries.append(entry)
        block.n_partials += n_programs
        self._note_stream()

    def add_many(self, numbers: list[int], tensors: list[Tensor]) -> None:
        """Queue the moments and samples of many tensors that do not change meanwhile, with one launch for a dtype."""
        groups: dict[torch.dtype, list[tuple[int, Tensor]]] = {}
        for number, tensor in zip(numbers, tensors, strict=True):
            is_plain = tensor.dtype in _LOADED and tensor.is_contiguous() and tensor.data_ptr() % 16 == 0
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
            with _on(self._device):
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
            self._give_up(error)
            return False
        self._blocks.insert(0, block)  # the last one may have room for others
        return True

    def _table(self, chosen: list[tuple[int, Tensor]]) -> tuple[Block, NDArray[np.int64]]:
        """Room for the results of these tensors, and the share of each program."""
        entries, rows = [], []
        for row, (number, tensor) in enumerate(chosen):
            n = tensor.numel()
            share, n_programs, _ = _shares(n)
            entries.append(Entry(number, n, 1, share, n_programs))
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

    def keep(self, array: Tensor) -> int:
        """A small float32 tensor that is to cross with the rest; its number for `fetch`."""
        self._arrays.append(array)
        self._note_stream()
        return len(self._arrays) - 1

    def fetch(self, table: Table) -> list[NDArray[np.float32]]:
        """Wait for the device, once, and put everything into the table; gives what was kept."""
        self._blocks = [block for block in self._blocks if block.entries]
        shapes = [array.shape for array in self._arrays]
        sent = [
            part
            for block in self._blocks
            for part in (block.partials[: block.n_partials], block.samples[: len(block.entries)])
        ]
        if self._arrays:
            sent.append(torch.cat([array.reshape(-1) for array in self._arrays]))
        arrived = self._to_host(sent)
        for block, partials, samples in zip(self._blocks, arrived[0::2], arrived[1::2], strict=False):
            numbers = np.array([entry.number for entry in block.entries])
            wide = partials.astype(np.float64, copy=False)
            table.put_moments(numbers, _merged(wide, block.entries))
            table.column("batch_std")[numbers] = _batch_stds(wide, block.entries)
            table.samples[numbers] = samples
        if not shapes:
            return []
        ends = np.cumsum([shape.numel() for shape in shapes])[:-1]
        parts = np.split(arrived[-1], ends)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    # queueing

    def _block(self, n_programs: int) -> Block:
        if not self._blocks or not self._blocks[-1].has_room(n_programs):
            self._blocks.append(self._new_block(MOST_PARTIALS, MOST_TENSORS))
        return self._blocks[-1]

    def _new_block(self, n_partials: int, n_rows: int) -> Block:
        with torch.inference_mode(False):  # else they could not be written to outside of that mode
            partials = torch.zeros(n_partials, len(PARTIAL), dtype=self._wide, device=self._device)
            samples = torch.empty(n_rows, N_SAMPLES, dtype=torch.float32, device=self._device)
        return Block(partials, samples, n_rows, n_partials)

    def _launch(self, values: Tensor, batch: tuple[int, int]) -> tuple[int, int]:
        """Queue the kernel; gives the share of each program and how many there are, none if it cannot run here."""
        if values.dtype not in _LOADED:
            values = values.view(torch.uint8) if values.dtype == torch.bool else values.to(wide_dtype(values))
        share, n_programs, n_blocks = _shares(values.numel())
        block = self._block(n_programs)
        try:
            with _on(self._device):
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
            self._give_up(error)
            return 0, 0
        return share, n_programs

    def _give_up(self, error: Exception) -> None:
        """No compiler at hand, a chip that Triton does not know…"""
        _log.warning("statistics are computed without Triton, which fails here: %s", error)
        _FAILED.add("triton")
        self._kernels = None

    def _compute(self, values: Tensor, batch: tuple[int, int]) -> tuple[int, int]:
        """The same as the kernel, with torch alone and in one share."""
        block = self._block(1)
        values = values.to(wide_dtype(values))
        n = values.numel()
        near = values.mean()
        distances = values - near
        rest = distances.sum()
        mean = near + torch.nan_to_num(rest / n, 0, 0, 0)
        # A sum is added up pairwise; a norm need not be, and is then off by 1e-4 for some million values.
        squares = (distances * distances).sum() - rest * rest / n
        found = [mean, squares, values.abs().sum(), *torch.aminmax(values)]
        if self._is_full:
            found += [(values == 0).sum(), values.isnan().sum(), values.isinf().sum()]
        block.partials[block.n_partials, : len(found)].copy_(torch.stack([part.to(values.dtype) for part in found]))
        if batch[0] > 1:
            block.partials[block.n_partials, -1].copy_(_batch_std(values, batch))
        row = block.samples[len(block.entries)]
        row[: min(n, N_SAMPLES)] = values if n <= N_SAMPLES else values[_places_on(self._device, n)]
        row[n:] = torch.nan
        return n, 1

    def _note_stream(self) -> None:
        if self._device.type == "cuda":
            self._streams.add(torch._C._cuda_getCurrentRawStream(self._device.index))

    # reading

    def _to_host(self, tensors: list[Tensor]) -> list[NDArray[Any]]:
        if self._device.type != "cuda":
            return [tensor.cpu().numpy() for tensor in tensors]
        current = torch.cuda.current_stream(self._device)
        for stream in self._streams - {current.cuda_stream}:
            current.wait_stream(torch.cuda.ExternalStream(stream, device=self._device))
        host = [torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True) for tensor in tensors]
        for there, here in zip(tensors, host, strict=True):
            here.copy_(there, non_blocking=True)
        current.synchronize()
        return [here.numpy() for here in host]


@cache
def _kernels() -> Any:
    """The module of the kernel, or None where Triton cannot be had."""
    try:
        return import_module("cutaway.recording.statistics.triton_kernels")
    except ImportError:
        return None


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """The device made the current one, where it is not."""
    return nullcontext() if torch._C._cuda_getDevice() == device.index else torch.cuda.device(device)


def _shares(n: int) -> tuple[int, int, int]:
    """How many values each program takes, how many programs there are, and how many blocks each takes."""
    n_programs = min(MOST_PROGRAMS, -(-n // LEAST_SHARE))
    n_blocks = -(-n // (n_programs * BLOCK))
    share = n_blocks * BLOCK
    return share, -(-n // share), n_blocks


@cache
def _places_on(device: torch.device, n: int) -> Tensor:
    """`places`, computed on the device: a copy from the host would wait."""
    if device.type == "cpu":
        return torch.from_numpy(places(n))
    number = torch.arange(N_SAMPLES, device=device)
    start = number * n // N_SAMPLES
    width = (number + 1) * n // N_SAMPLES - start
    return start + ((number * GOLDEN % 2**32 * width) >> 32)


@cache
def _batch_places_on(device: torch.device, n: int, n_samples: int, inner: int) -> Tensor:
    """`batch_places`, computed on the device."""
    if device.type == "cpu":
        return torch.from_numpy(batch_places(n, n_samples, inner))
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
    """The standard deviation over the samples of each chosen element, averaged; 0 where all are the same memory."""
    n_samples, inner = batch
    if not inner:
        return values.new_zeros(())
    chosen = values[_batch_places_on(values.device, values.numel(), n_samples, inner)]  # (sample, element)
    distances = chosen - chosen.mean(0)
    distances = distances - distances.mean(0)  # what rounding left of a large mean
    return (distances * distances).mean(0).sqrt().mean()


def _batch_stds(partials: Floats, entries: list[Entry]) -> Floats:
    """The spread over the batch of each tensor, from the first of its rows; NaN without samples."""
    n_programs = np.array([entry.n_programs for entry in entries])
    found = partials[np.cumsum(n_programs) - n_programs, PARTIAL.index("batch_std")]
    stds: Floats = np.where([entry.has_batch for entry in entries], found, np.nan)
    return stds


def _merged(partials: Floats, entries: list[Entry]) -> Floats:
    """The moments of each tensor, from the partial results of its shares."""
    n_programs = np.array([entry.n_programs for entry in entries])
    n = np.array([entry.n for entry in entries], np.float64)
    repeats = np.array([entry.repeats for entry in entries])
    starts = np.cumsum(n_programs) - n_programs
    sizes = np.repeat(np.array([entry.share for entry in entries], np.float64), n_programs)
    sizes[starts + n_programs - 1] = [entry.n - entry.share * (entry.n_programs - 1) for entry in entries]

    mean = np.add.reduceat(partials[:, 0] * sizes, starts) / n
    distance = partials[:, 0] - np.repeat(mean, n_programs)
    squares = np.add.reduceat(partials[:, 1] + sizes * distance * distance, starts)
    magnitude = np.add.reduceat(partials[:, 2], starts)
    has_nan = np.isnan(magnitude)
    norm = np.sqrt((squares + n * mean * mean) * repeats)
    norm = np.where(np.isnan(norm) & ~has_nan, np.inf, norm)
    low = np.where(has_nan, np.nan, np.minimum.reduceat(partials[:, 3], starts))
    high = np.where(has_nan, np.nan, np.maximum.reduceat(partials[:, 4], starts))
    counts = np.add.reduceat(partials[:, 5:8], starts, axis=0).T * repeats
    std = np.sqrt(np.maximum(squares, 0) / n)
    return np.stack([mean, magnitude / n, std, norm, low, high, *counts], axis=1)
