"""The statistics of all tensors of a recorded step: one row each, read once at the end.

Adding a tensor never waits for a device and has no side effects: no random numbers, flags, graph or version counter
change. Sums are in float32 where that is exact and blocks are short, else in float64.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.core.statistics import StatisticTier, names_in_tiers
from cutaway.recording.statistics import cpu_groups
from cutaway.recording.statistics.cpu import CpuStatistics
from cutaway.recording.statistics.device import DeviceArrays, DeviceStatistics
from cutaway.recording.statistics.inputs import has_samples, is_sparse, is_wrapped, outside_transforms, plain_tensor
from cutaway.recording.statistics.moments import StatisticTable
from cutaway.recording.statistics.per_unit import MOST_UNITS, has_groups, sample_statistics, unit_statistics
from cutaway.recording.statistics.quantiles import N_SAMPLES, distribution, sample_indices
from cutaway.recording.statistics.spectral import bidiagonal, largest_singular_value

Level = Literal["core", "full"]
Arrays = dict[str, NDArray[np.float32]]
Dims = tuple[int | None, int | None]
"""The sample dimension and the unit dimension of a tensor."""

ARRAYS = ("unit", "samples")
"""The arrays of the level "full"."""
SPECTRAL = "spectral"
SPARSE = "sparse"
_MOST_EXACT = 1 << 24
"""float32 holds every integer up to this one."""

_FLOATS = (torch.float32, torch.float64)
_PLAIN_TYPES = (Tensor, torch.nn.Parameter)
_NO_DIMS: Dims = (None, None)


@dataclass(slots=True)
class _Extras:
    """Per-unit and per-sample statistics of a CPU tensor, and its spectral norm."""

    arrays: Arrays = field(default_factory=dict)
    matrix: NDArray[np.float32] | None = None
    """Input of the spectral norm."""


class Summary:
    """The statistics of one recorded step.

    Mean, std (population: divided by n), norm and batch_std follow IEEE rules: one NaN makes them NaN. Quantiles and
    histogram use the finite values among at most 1,024 samples. batch_std is the mean of the standard deviations over
    the samples, for at most 64 samples and 64 elements of each; NaN for fewer than two samples. Complex tensors count
    by magnitude, DTensors by their local shard. Sparse tensors count as the full tensor, zeros included, but have no
    batch_std and no statistics per unit or sample. A tensor without values (empty, meta, fake) has a count and
    otherwise NaN.

    >>> summary = Summary()
    >>> summary.add(torch.tensor([3.0, -4.0]))
    0
    >>> dict(zip(summary.names, summary.matrix()[0].tolist()))["norm"]
    5.0
    """

    on_host: frozenset[str] = frozenset({"cpu"})
    """Device types whose tensors are read immediately."""

    def __init__(self, level: Level = "core", *, spectral_norm: bool = False) -> None:
        further: tuple[StatisticTier, ...] = ("spectral_norm",) if spectral_norm else ()
        self.names = names_in_tiers("core", level, *further)
        """The columns of the matrix."""
        self.is_full = level == "full"
        self._is_spectral = spectral_norm
        self._has_more = self.is_full or spectral_norm
        self._reads_cpu = "cpu" in self.on_host
        self._lock = threading.Lock()
        self._counts: list[int] = []
        self._n_stored: dict[int, int] = {}
        """Sparse tensors → number of stored values."""
        self._sparse_samples: dict[int, NDArray[np.float32]] = {}
        """Sampled values of sparse tensors on the CPU, zeros included."""
        self._extras: dict[int, _Extras] = {}
        self._cpu = CpuStatistics(is_full=self.is_full)
        self._devices: dict[torch.device, DeviceStatistics] = {}
        self._fetched: DeviceArrays = {}
        self._matrix: NDArray[np.floating[Any]] | None = None

    def add(
        self, tensor: Tensor, *, batch_dim: int | None = None, unit_dim: int | None = None, is_stable: bool = False
    ) -> int:
        """Add a tensor as it is now. Returns its row number.

        Args:
            batch_dim: the sample dimension, for "batch_std" and the array "samples" of the level "full"; or None.
            unit_dim: the unit dimension, for the array "unit" of the level "full"; or None.
            is_stable: whether nothing is expected to write to the tensor before the next `flush`. A GPU tensor is then
                read at that time without a copy; if something does write to it, its row is `lost`.
        """
        with self._lock, torch._C.DisableTorchFunction():
            return self._add_row(tensor, batch_dim, unit_dim, is_stable)

    def add_many(self, tensors: Sequence[Tensor], dims: Sequence[Dims] | None = None) -> list[int]:
        """Add many tensors, such as parameters; on a GPU with few launches. The tensors must not change meanwhile.

        Args:
            dims: the sample dimension and the unit dimension of each; None if none has any.
        """
        with self._lock, torch._C.DisableTorchFunction():
            first, self._matrix = len(self._counts), None
            small: tuple[list[int], list[Tensor]] = [], []
            by_device: dict[torch.device, tuple[list[int], list[Tensor], list[Dims]]] = {}
            is_core = not self._has_more
            for number, tensor in enumerate(tensors, first):
                batch_dim, unit_dim = _NO_DIMS if dims is None else dims[number - first]
                if is_core and batch_dim is None and self._is_small(tensor):
                    self._counts.append(tensor.numel())
                    small[0].append(number)
                    small[1].append(tensor)
                elif not self.is_on_host(tensor) and not self._is_spectral and _is_ordinary(tensor):
                    self._counts.append(tensor.numel())
                    batch_dim = batch_dim if self._has_dim(tensor, batch_dim) else None
                    known = by_device.get(tensor.device)
                    if known is None:
                        known = by_device[tensor.device] = [], [], []
                    known[0].append(number)
                    known[1].append(tensor)
                    known[2].append(_NO_DIMS if batch_dim is None and unit_dim is None else (batch_dim, unit_dim))
                else:
                    self._add_row(tensor, batch_dim, unit_dim, True)
            if small[0]:
                self._cpu.add_small(*small)
            if by_device:
                with torch.no_grad(), torch._C._DisableAutocast(), outside_transforms():
                    for device, added in by_device.items():
                        self._device(device).compute_now(*added)
            self._flush()
            return list(range(first, len(self._counts)))

    def flush(self) -> None:
        """Queue the statistics of all GPU tensors added so far: from now on they may be overwritten and freed."""
        if self._devices:
            with self._lock, torch._C.DisableTorchFunction():
                self._flush()

    def _flush(self) -> None:
        if self._devices:
            with torch._C._DisableAutocast(), outside_transforms():
                for device in self._devices.values():
                    device.flush()

    @property
    def lost(self) -> set[int]:
        """Rows of tensors that were overwritten before their statistics were computed."""
        return {number for device in self._devices.values() for number in device.lost}

    def is_on_host(self, tensor: Tensor) -> bool:
        """Whether the statistics of a tensor are computed immediately."""
        # The first test is six times as fast.
        return self._reads_cpu if tensor.is_cpu else tensor.device.type in self.on_host

    def matrix(self) -> NDArray[np.floating[Any]]:
        """All statistics, `[row, statistic]`, with the columns `names`. Waits once for each device.

        In float32, or in float64 if a number of elements would be rounded.
        """
        with self._lock, torch._C.DisableTorchFunction(), np.errstate(all="ignore"):
            if self._matrix is None:
                self._matrix = self._read()
            return self._matrix

    def arrays(self, number: int) -> Arrays:
        """The arrays of the level "full": "unit" and "samples".

        "unit" has the rows `PER_UNIT` (mean, std, min, max, fraction of zeros) for each unit, and "samples" the rows
        `PER_SAMPLE` (mean, abs_mean, std, abs_max) for each sample.
        """
        self.matrix()
        extras = self._extras.get(number)
        arrays = {} if extras is None else dict(extras.arrays)
        for name in ARRAYS if self._fetched else ():
            if (number, name) in self._fetched:
                arrays[name] = self._fetched[number, name]
        return arrays

    # adding

    def _add_row(self, tensor: Tensor, batch_dim: int | None, unit_dim: int | None, is_stable: bool) -> int:
        number, self._matrix = len(self._counts), None
        if self._reads_cpu if tensor.is_cpu else self.is_on_host(tensor):
            is_added = type(tensor) in _PLAIN_TYPES and not self._has_more and self._add_fast(number, tensor, batch_dim)
        else:
            is_added = not self._is_spectral and self._hold_fast(number, tensor, batch_dim, unit_dim, is_stable)
        if not is_added:
            with torch._C._DisableAutocast(), outside_transforms(), np.errstate(all="ignore"):
                self._add(number, tensor, batch_dim, unit_dim, is_stable)
        return number

    def _add_fast(self, number: int, tensor: Tensor, batch_dim: int | None) -> bool:
        """Fast path: contiguous floats on the CPU. Returns False for everything else."""
        n = tensor.numel()
        if not (n and tensor.dtype in _FLOATS and tensor.layout is torch.strided and tensor.is_contiguous()):
            return False
        try:
            values = tensor.detach().numpy()
        except (RuntimeError, TypeError):  # inside torch.func, or the negative bit is set
            return False
        batch = (0, 0)
        if batch_dim is not None and has_samples(tensor, batch_dim):
            batch = tensor.shape[batch_dim], tensor.stride(batch_dim)
        self._cpu.add_array(number, values.reshape(-1), batch)
        self._counts.append(n)
        return True

    def _is_small(self, tensor: Tensor) -> bool:
        """Whether a tensor is one of those that are converted together: biases, scales of normalizations…"""
        if not (tensor.is_cpu and self._reads_cpu and tensor.dtype is torch.float32 and type(tensor) in _PLAIN_TYPES):
            return False
        return tensor.layout is torch.strided and 0 < tensor.numel() <= N_SAMPLES and tensor.is_contiguous()

    def _hold_fast(
        self, number: int, tensor: Tensor, batch_dim: int | None, unit_dim: int | None, is_stable: bool
    ) -> bool:
        """Fast path: ordinary tensors of a device. Returns False for everything else."""
        if not _is_ordinary(tensor):
            return False
        batch_dim = batch_dim if self._has_dim(tensor, batch_dim) else None
        self._device(tensor.device).add(number, tensor.detach(), batch_dim, unit_dim, is_stable=is_stable)
        self._counts.append(tensor.numel())
        return True

    def _has_dim(self, tensor: Tensor, batch_dim: int | None) -> bool:
        """Whether a tensor of a device has a sample dimension that is of use."""
        return batch_dim is not None and (has_groups if self.is_full else has_samples)(tensor, batch_dim)

    def _add(self, number: int, tensor: Tensor, batch_dim: int | None, unit_dim: int | None, is_stable: bool) -> None:
        values = plain_tensor(tensor)
        is_sparse_ = is_sparse(tensor) and values is not None and tensor.numel() > 0
        if is_sparse_ and values is not None and not values.numel():
            values = values.new_zeros(1)  # it stores nothing: one of its zeros stands for all
        if values is None or not values.numel() or _is_capturing(values):
            self._counts.append(tensor.numel())
            return
        # The stored values of a sparse or nested tensor have other dimensions than the tensor.
        has_dims = values.dim() == tensor.dim() and tensor.layout is torch.strided
        dim = batch_dim if has_dims and has_samples(values, batch_dim) else None
        if self.is_on_host(values):
            self._cpu.add(number, values, dim)
            if self._has_more and not is_sparse_:
                self._add_extras(number, values, batch_dim, unit_dim)
        else:
            device = self._device(values.device)
            if self.is_full:
                dim = batch_dim if has_dims and has_groups(values, batch_dim) else None
            device.add(number, values, dim, None if is_sparse_ else unit_dim, is_stable=is_stable)
            matrix = bidiagonal(values) if self._is_spectral and not is_sparse_ else None
            if matrix is not None:
                device.add_array(number, SPECTRAL, matrix)
        if is_sparse_:
            self._n_stored[number] = values.numel()
            self._add_sparse_sample(number, values, tensor.numel())
        self._counts.append(tensor.numel() if is_sparse_ else values.numel())

    def _add_sparse_sample(self, number: int, values: Tensor, n: int) -> None:
        """Keep the sample of a sparse tensor of n elements: zeros and stored values by their share."""
        n_stored = values.numel()
        n_kept = n_stored if n <= N_SAMPLES else round(N_SAMPLES * n_stored / n)
        sampled = sample_indices(n_stored)
        indices = torch.from_numpy(sampled[np.arange(n_kept) * len(sampled) // max(n_kept, 1)])
        sample = torch.zeros(min(n, N_SAMPLES), dtype=torch.float32, device=values.device)
        sample[:n_kept] = values.reshape(-1)[indices.to(values.device)].to(torch.float32)
        if self.is_on_host(values):
            self._sparse_samples[number] = sample.numpy()
        else:
            self._device(values.device).add_array(number, SPARSE, sample)

    def _device(self, device: torch.device) -> DeviceStatistics:
        known = self._devices.get(device)
        if known is None:
            known = self._devices[device] = DeviceStatistics(device, is_full=self.is_full)
        return known

    def _add_extras(self, number: int, tensor: Tensor, batch_dim: int | None, unit_dim: int | None) -> None:
        extras = self._extras[number] = _Extras()
        if self.is_full and has_groups(tensor, unit_dim, MOST_UNITS):
            assert unit_dim is not None
            if tensor.numel() > tensor.shape[unit_dim]:  # a single value has no standard deviation
                extras.arrays["unit"] = self._unit_statistics(tensor, unit_dim)
        if self.is_full and has_groups(tensor, batch_dim):
            assert batch_dim is not None
            extras.arrays["samples"] = _sample_statistics(tensor, batch_dim)
        matrix = bidiagonal(tensor) if self._is_spectral else None
        extras.matrix = None if matrix is None else matrix.numpy()

    def _unit_statistics(self, tensor: Tensor, dim: int) -> NDArray[np.float32]:
        if tensor.dtype == torch.float32 and tensor.is_contiguous():
            dim %= tensor.dim()
            shape = (prod(tensor.shape[:dim]), tensor.shape[dim], prod(tensor.shape[dim + 1 :]))
            has_zeros = self._cpu.may_have_zeros(len(self._counts))
            values = cpu_groups.unit_statistics(tensor.numpy().reshape(shape), has_zeros=has_zeros)
            if values is not None:
                return values
        array: NDArray[np.float32] = unit_statistics(tensor, dim).numpy()
        return array

    # reading

    def _read(self) -> NDArray[np.floating[Any]]:
        table = StatisticTable(self._counts)
        self._fetched = {}
        for device in self._devices.values():
            with torch._C._DisableAutocast(), outside_transforms():
                self._fetched.update(device.fetch(table))
        self._cpu.fill(table)
        for number, n_stored in self._n_stored.items():
            table.add_zeros(number, n_stored)
        samples = self._sparse_samples | {row: array for (row, name), array in self._fetched.items() if name == SPARSE}
        for number, sample in samples.items():
            table.put_distribution(np.array([number]), distribution(np.array(sample, np.float32, ndmin=2)))
        is_broken = ~np.isfinite(table.column("max") - table.column("min"))
        table.column("nonfinite")[:] = np.where(table.is_filled, is_broken, np.nan)
        table.column("batch_std")[is_broken] = np.nan  # the non-finite value may not be among the sampled ones
        matrices = {number: extras.matrix for number, extras in self._extras.items() if extras.matrix is not None}
        matrices |= {number: array for (number, name), array in self._fetched.items() if name == SPECTRAL}
        for number, matrix in matrices.items():
            table.column("spectral_norm")[number] = largest_singular_value(matrix)
        matrix = np.column_stack([table.column(name) for name in self.names])
        return matrix if self._needs_float64(table.column("count")) else matrix.astype(np.float32)

    def _needs_float64(self, counts: NDArray[np.float64]) -> bool:
        """Whether float32 would round a number of elements, or may round that of zeros, NaN or Inf."""
        is_rounded = counts > _MOST_EXACT if self.is_full else counts != counts.astype(np.float32)
        return bool(is_rounded.any())


def _is_ordinary(tensor: Tensor) -> bool:
    """Whether a tensor of a device has real values that can be read as they are, now."""
    if is_wrapped(tensor) or not tensor.numel() or tensor.is_meta or tensor.is_complex() or tensor.is_neg():
        return False
    return not _is_capturing(tensor)


def _is_capturing(tensor: Tensor) -> bool:
    """Whether a CUDA graph is being captured: kernels queued now would be replayed after their memory is freed."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _sample_statistics(tensor: Tensor, dim: int) -> NDArray[np.float32]:
    if dim == 0 and tensor.dtype == torch.float32 and tensor.is_contiguous():
        values = cpu_groups.sample_statistics(tensor.numpy().reshape(tensor.shape[0], -1))
        if values is not None:
            return values
    array: NDArray[np.float32] = sample_statistics(tensor, dim).numpy()
    return array
