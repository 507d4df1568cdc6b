"""The statistics of all tensors of a recorded step: one row each, read once at the end.

Adding a tensor never waits for a device and has no side effects: no random numbers, flags, graph or version counter
change. Sums are in float32 where that is exact and blocks are short, else in float64.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.core.statistics import StatisticTier, names_in_tiers
from cutaway.recording.statistics import cpu_groups
from cutaway.recording.statistics.cpu import CpuStatistics
from cutaway.recording.statistics.device import DeviceStatistics
from cutaway.recording.statistics.inputs import has_samples, is_sparse, outside_transforms, plain_tensor
from cutaway.recording.statistics.moments import StatisticTable
from cutaway.recording.statistics.per_unit import MOST_UNITS, has_groups, sample_statistics, unit_statistics
from cutaway.recording.statistics.quantiles import DISTRIBUTION, distribution
from cutaway.recording.statistics.spectral import bidiagonal, largest_singular_value

Level = Literal["core", "full"]
Arrays = dict[str, NDArray[np.float32]]

_FLOATS = (torch.float32, torch.float64)
_PLAIN_TYPES = (Tensor, torch.nn.Parameter)


@dataclass(slots=True)
class _Extras:
    """Per-unit and per-sample statistics of a tensor, and its spectral norm, until the step is read."""

    arrays: dict[str, Callable[[], NDArray[np.float32]]] = field(default_factory=dict)
    matrix: Callable[[], NDArray[np.float32]] | None = None
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
        self._lock = threading.Lock()
        self._counts: list[int] = []
        self._n_stored: dict[int, int] = {}
        """Sparse tensors → number of stored values."""
        self._extras: dict[int, _Extras] = {}
        self._cpu = CpuStatistics(is_full=self.is_full)
        self._devices: dict[torch.device, DeviceStatistics] = {}
        self._fetched: dict[torch.device, list[NDArray[np.float32]]] = {}
        self._matrix: NDArray[np.float32] | None = None

    def add(self, tensor: Tensor, *, batch_dim: int | None = None, unit_dim: int | None = None) -> int:
        """Compute the statistics of a tensor as it is now. Returns its row number.

        Args:
            batch_dim: the sample dimension, for "batch_std" and the array "samples" of the level "full"; or None.
            unit_dim: the unit dimension, for the array "unit" of the level "full"; or None.
        """
        with self._lock, torch._C.DisableTorchFunction():
            number, self._matrix = len(self._counts), None
            if not (type(tensor) in _PLAIN_TYPES and not self._has_more and self._add_fast(number, tensor, batch_dim)):
                with torch._C._DisableAutocast(), outside_transforms(), np.errstate(all="ignore"):
                    self._add(number, tensor, batch_dim, unit_dim)
            return number

    def add_many(self, tensors: Sequence[Tensor]) -> list[int]:
        """Add many tensors, such as parameters; on one GPU with one launch. The tensors must not change meanwhile."""
        cuda_tensors = [tensor for tensor in tensors if type(tensor) in _PLAIN_TYPES and tensor.is_cuda]
        if self._has_more or len(cuda_tensors) < len(tensors) or len({tensor.device for tensor in cuda_tensors}) != 1:
            return [self.add(tensor) for tensor in tensors]
        with self._lock, torch._C.DisableTorchFunction():
            numbers = list(range(len(self._counts), len(self._counts) + len(cuda_tensors)))
            self._matrix = None
            self._counts += [tensor.numel() for tensor in cuda_tensors]
            nonempty = [
                (number, tensor.detach())
                for number, tensor in zip(numbers, cuda_tensors, strict=True)
                if tensor.numel()
            ]
            if nonempty:
                self._device(cuda_tensors[0].device).add_many(
                    [number for number, _ in nonempty], [tensor for _, tensor in nonempty]
                )
            return numbers

    def matrix(self) -> NDArray[np.float32]:
        """All statistics, `[row, statistic]`, with the columns `names`. Waits once for each device."""
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
        return {} if extras is None else {name: read() for name, read in extras.arrays.items()}

    # adding

    def _add_fast(self, number: int, tensor: Tensor, batch_dim: int | None) -> bool:
        """Fast path: contiguous floats on the CPU. Returns False for everything else."""
        if not (tensor.is_cpu and tensor.dtype in _FLOATS and tensor.layout is torch.strided):
            return False
        n = tensor.numel()
        if not n or not tensor.is_contiguous() or "cpu" not in self.on_host:
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

    def _add(self, number: int, tensor: Tensor, batch_dim: int | None, unit_dim: int | None) -> None:
        values = plain_tensor(tensor)
        is_sparse_ = is_sparse(tensor) and values is not None and tensor.numel() > 0
        if is_sparse_ and values is not None and not values.numel():
            values = values.new_zeros(1)  # it stores nothing: one of its zeros stands for all
        if values is None or not values.numel() or _is_capturing(values):
            self._counts.append(tensor.numel())
            return
        is_on_host = values.device.type in self.on_host
        device = None if is_on_host else self._device(values.device)
        # The stored values of a sparse or nested tensor have other dimensions than the tensor.
        has_dims = values.dim() == tensor.dim() and tensor.layout is torch.strided
        dim = batch_dim if has_dims and has_samples(values, batch_dim) else None
        if device is None:
            self._cpu.add(number, values, dim)
        else:
            device.add(number, values, dim)
        if is_sparse_:
            self._n_stored[number] = values.numel()
        elif self._has_more:
            self._add_extras(number, values, device, batch_dim, unit_dim)
        self._counts.append(tensor.numel() if is_sparse_ else values.numel())

    def _device(self, device: torch.device) -> DeviceStatistics:
        if device not in self._devices:
            self._devices[device] = DeviceStatistics(device, is_full=self.is_full)
        return self._devices[device]

    def _add_extras(
        self, number: int, tensor: Tensor, device: DeviceStatistics | None, batch_dim: int | None, unit_dim: int | None
    ) -> None:
        extras = _Extras()
        if self.is_full and has_groups(tensor, unit_dim, MOST_UNITS):
            assert unit_dim is not None
            if tensor.numel() > tensor.shape[unit_dim]:  # a single value has no standard deviation
                extras.arrays["unit"] = self._unit_statistics(tensor, unit_dim, device)
        if self.is_full and has_groups(tensor, batch_dim):
            assert batch_dim is not None
            extras.arrays["samples"] = self._sample_statistics(tensor, batch_dim, device)
        values = bidiagonal(tensor) if self._is_spectral else None
        if values is not None:
            extras.matrix = self._deferred(values, device)
        self._extras[number] = extras

    def _unit_statistics(
        self, tensor: Tensor, dim: int, device: DeviceStatistics | None
    ) -> Callable[[], NDArray[np.float32]]:
        if device is None and tensor.dtype == torch.float32 and tensor.is_contiguous():
            dim %= tensor.dim()
            shape = (prod(tensor.shape[:dim]), tensor.shape[dim], prod(tensor.shape[dim + 1 :]))
            has_zeros = self._cpu.may_have_zeros(len(self._counts))
            values = cpu_groups.unit_statistics(tensor.numpy().reshape(shape), has_zeros=has_zeros)
            if values is not None:
                return partial(_return_array, values)
        return self._deferred(unit_statistics(tensor, dim), device)

    def _sample_statistics(
        self, tensor: Tensor, dim: int, device: DeviceStatistics | None
    ) -> Callable[[], NDArray[np.float32]]:
        if device is None and dim == 0 and tensor.dtype == torch.float32 and tensor.is_contiguous():
            values = cpu_groups.sample_statistics(tensor.numpy().reshape(tensor.shape[0], -1))
            if values is not None:
                return partial(_return_array, values)
        return self._deferred(sample_statistics(tensor, dim), device)

    def _deferred(self, array: Tensor, device: DeviceStatistics | None) -> Callable[[], NDArray[np.float32]]:
        if device is None:
            values: NDArray[np.float32] = array.numpy()
            return lambda: values
        return partial(self._fetch_array, array.device, device.add_array(array))

    def _fetch_array(self, device: torch.device, number: int) -> NDArray[np.float32]:
        return self._fetched[device][number]

    # reading

    def _read(self) -> NDArray[np.float32]:
        table = StatisticTable(self._counts)
        self._fetched = {device: rows.fetch(table) for device, rows in self._devices.items()}
        self._cpu.fill(table)
        for number, n_stored in self._n_stored.items():
            table.add_zeros(number, n_stored)
        is_broken = ~np.isfinite(table.column("max") - table.column("min"))
        table.column("nonfinite")[:] = np.where(table.is_filled, is_broken, np.nan)
        table.column("batch_std")[is_broken] = np.nan  # the non-finite value may not be among the sampled ones
        for name, column in zip(DISTRIBUTION, distribution(table.samples).T, strict=True):
            table.column(name)[:] = column
        for number, extras in self._extras.items():
            if extras.matrix is not None:
                table.column("spectral_norm")[number] = largest_singular_value(extras.matrix())
        return np.column_stack([table.column(name) for name in self.names]).astype(np.float32)


def _is_capturing(tensor: Tensor) -> bool:
    """Whether a CUDA graph is being captured: kernels queued now would be replayed after their memory is freed."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _return_array(array: NDArray[np.float32]) -> NDArray[np.float32]:
    return array
