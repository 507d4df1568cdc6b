"""Statistics of all tensors of one recorded step: a row for each, read once at the end.

Taking a tensor in waits for no device and changes nothing: no random numbers, no flags, no graph, no version
counter. Numbers are added up in float32 where that holds them exactly and blocks are short, else in float64.
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
from cutaway.recording.statistics.cpu import CpuRows
from cutaway.recording.statistics.device import DeviceRows
from cutaway.recording.statistics.inputs import has_samples, outside_transforms, plain
from cutaway.recording.statistics.moments import Table
from cutaway.recording.statistics.per_unit import MOST_UNITS, has_groups, of_samples, of_units
from cutaway.recording.statistics.quantiles import SPREAD, spread
from cutaway.recording.statistics.spectral import bidiagonal, largest

Level = Literal["core", "full"]
Arrays = dict[str, NDArray[np.float32]]

_FLOATS = (torch.float32, torch.float64)
_PLAIN_TYPES = (Tensor, torch.nn.Parameter)


@dataclass(slots=True)
class _Beside:
    """What is kept of a tensor beside its moments, until the step is read."""

    arrays: dict[str, Callable[[], NDArray[np.float32]]] = field(default_factory=dict)
    matrix: Callable[[], NDArray[np.float32]] | None = None
    """What its spectral norm is computed from."""


class Summary:
    """The statistics of one recorded step.

    Mean, std (of the population: divided by n), norm and batch_std are plain IEEE results: one NaN makes them NaN.
    Quantiles and histogram are of the finite ones among at most 1,024 values. batch_std is the mean of the standard
    deviations over the samples, of at most 64 samples and 64 elements of each; NaN without two samples. Of complex
    numbers the magnitudes are taken, of a DTensor the local part, of a sparse tensor the stored values. A tensor
    without numbers (empty, meta, fake) has its count and else NaN.

    >>> summary = Summary()
    >>> summary.add(torch.tensor([3.0, -4.0]))
    0
    >>> dict(zip(summary.names, summary.matrix()[0].tolist()))["norm"]
    5.0
    """

    on_host: frozenset[str] = frozenset({"cpu"})
    """Types of devices whose tensors are read at once."""

    def __init__(self, level: Level = "core", *, spectral_norm: bool = False) -> None:
        further: tuple[StatisticTier, ...] = ("spectral_norm",) if spectral_norm else ()
        self.names = names_in_tiers("core", level, *further)
        """The columns of the matrix."""
        self.is_full = level == "full"
        self._is_spectral = spectral_norm
        self._has_more = self.is_full or spectral_norm
        self._lock = threading.Lock()
        self._counts: list[int] = []
        self._beside: dict[int, _Beside] = {}
        self._cpu = CpuRows(is_full=self.is_full)
        self._devices: dict[torch.device, DeviceRows] = {}
        self._fetched: dict[torch.device, list[NDArray[np.float32]]] = {}
        self._matrix: NDArray[np.float32] | None = None

    def add(self, tensor: Tensor, *, batch_dim: int | None = None, unit_dim: int | None = None) -> int:
        """Take the statistics of a tensor as it is now; gives the number of its row.

        Args:
            batch_dim: the dimension of samples, for "batch_std" and the array "samples" of the level "full"; None
                for none.
            unit_dim: the dimension of units, for the array "unit"; None for none.
        """
        with self._lock, torch._C.DisableTorchFunction():
            number, self._matrix = len(self._counts), None
            if not (type(tensor) in _PLAIN_TYPES and not self._has_more and self._add_fast(number, tensor, batch_dim)):
                with torch._C._DisableAutocast(), outside_transforms(), np.errstate(all="ignore"):
                    self._add(number, tensor, batch_dim, unit_dim)
            return number

    def add_many(self, tensors: Sequence[Tensor]) -> list[int]:
        """Take in many tensors that do not change while this runs, such as parameters; of one GPU all at once."""
        first = [tensor for tensor in tensors if type(tensor) in _PLAIN_TYPES and tensor.is_cuda]
        if self._has_more or len(first) < len(tensors) or len({tensor.device for tensor in first}) != 1:
            return [self.add(tensor) for tensor in tensors]
        with self._lock, torch._C.DisableTorchFunction():
            numbers = list(range(len(self._counts), len(self._counts) + len(first)))
            self._matrix = None
            self._counts += [tensor.numel() for tensor in first]
            some = [(number, tensor.detach()) for number, tensor in zip(numbers, first, strict=True) if tensor.numel()]
            if some:
                self._device(first[0].device).add_many([number for number, _ in some], [tensor for _, tensor in some])
            return numbers

    def matrix(self) -> NDArray[np.float32]:
        """All statistics, `[row, statistic]`, as `names` says. The one wait for each device is here."""
        with self._lock, torch._C.DisableTorchFunction(), np.errstate(all="ignore"):
            if self._matrix is None:
                self._matrix = self._read()
            return self._matrix

    def arrays(self, number: int) -> Arrays:
        """What the level "full" holds beside the matrix: "unit" and "samples".

        Their rows are `PER_UNIT` (mean, std, min, max, share of zeros) of each unit, and `PER_SAMPLE`
        (mean, abs_mean, std, abs_max) of each sample.
        """
        self.matrix()
        beside = self._beside.get(number)
        return {} if beside is None else {name: read() for name, read in beside.arrays.items()}

    # taking in

    def _add_fast(self, number: int, tensor: Tensor, batch_dim: int | None) -> bool:
        """The usual case: floats side by side in main memory. False if it is another case."""
        if not (tensor.is_cpu and tensor.dtype in _FLOATS and tensor.layout is torch.strided):
            return False
        n = tensor.numel()
        if not n or not tensor.is_contiguous() or "cpu" not in self.on_host:
            return False
        try:
            values = tensor.detach().numpy()
        except (RuntimeError, TypeError):  # within torch.func, or its signs are to be flipped first
            return False
        batch = (0, 0)
        if batch_dim is not None and has_samples(tensor, batch_dim):
            batch = tensor.shape[batch_dim], tensor.stride(batch_dim)
        self._cpu.add_array(number, values.reshape(-1), batch)
        self._counts.append(n)
        return True

    def _add(self, number: int, tensor: Tensor, batch_dim: int | None, unit_dim: int | None) -> None:
        found = plain(tensor)
        if found is None or not found.numel() or _is_capturing(found):
            self._counts.append(tensor.numel())
            return
        is_on_host = found.device.type in self.on_host
        device = None if is_on_host else self._device(found.device)
        # What is stored of a sparse or nested tensor has other dimensions than the tensor.
        has_dims = found.dim() == tensor.dim() and tensor.layout is torch.strided
        dim = batch_dim if has_dims and has_samples(found, batch_dim) else None
        if device is None:
            self._cpu.add(number, found, dim)
        else:
            device.add(number, found, dim)
        if self._has_more:
            self._add_beside(number, found, device, batch_dim, unit_dim)
        self._counts.append(found.numel())

    def _device(self, device: torch.device) -> DeviceRows:
        if device not in self._devices:
            self._devices[device] = DeviceRows(device, is_full=self.is_full)
        return self._devices[device]

    def _add_beside(
        self, number: int, tensor: Tensor, device: DeviceRows | None, batch_dim: int | None, unit_dim: int | None
    ) -> None:
        beside = _Beside()
        if self.is_full and has_groups(tensor, unit_dim, MOST_UNITS):
            assert unit_dim is not None
            if tensor.numel() > tensor.shape[unit_dim]:  # of one value there is no spread
                beside.arrays["unit"] = self._of_units(tensor, unit_dim, device)
        if self.is_full and has_groups(tensor, batch_dim):
            assert batch_dim is not None
            beside.arrays["samples"] = self._of_samples(tensor, batch_dim, device)
        found = bidiagonal(tensor) if self._is_spectral else None
        if found is not None:
            beside.matrix = self._kept(found, device)
        self._beside[number] = beside

    def _of_units(self, tensor: Tensor, dim: int, device: DeviceRows | None) -> Callable[[], NDArray[np.float32]]:
        if device is None and tensor.dtype == torch.float32 and tensor.is_contiguous():
            dim %= tensor.dim()
            shape = (prod(tensor.shape[:dim]), tensor.shape[dim], prod(tensor.shape[dim + 1 :]))
            has_zeros = self._cpu.may_have_zeros(len(self._counts))
            found = cpu_groups.of_units(tensor.numpy().reshape(shape), has_zeros=has_zeros)
            if found is not None:
                return partial(_same, found)
        return self._kept(of_units(tensor, dim), device)

    def _of_samples(self, tensor: Tensor, dim: int, device: DeviceRows | None) -> Callable[[], NDArray[np.float32]]:
        if device is None and dim == 0 and tensor.dtype == torch.float32 and tensor.is_contiguous():
            found = cpu_groups.of_samples(tensor.numpy().reshape(tensor.shape[0], -1))
            if found is not None:
                return partial(_same, found)
        return self._kept(of_samples(tensor, dim), device)

    def _kept(self, array: Tensor, device: DeviceRows | None) -> Callable[[], NDArray[np.float32]]:
        if device is None:
            found: NDArray[np.float32] = array.numpy()
            return lambda: found
        return partial(self._arrived, array.device, device.keep(array))

    def _arrived(self, device: torch.device, number: int) -> NDArray[np.float32]:
        return self._fetched[device][number]

    # reading

    def _read(self) -> NDArray[np.float32]:
        table = Table(self._counts)
        self._fetched = {device: rows.fetch(table) for device, rows in self._devices.items()}
        self._cpu.fill(table)
        is_broken = ~np.isfinite(table.column("max") - table.column("min"))
        table.column("nonfinite")[:] = np.where(table.is_known, is_broken, np.nan)
        table.column("batch_std")[is_broken] = np.nan  # also where what is not finite was not among the chosen
        for name, column in zip(SPREAD, spread(table.samples).T, strict=True):
            table.column(name)[:] = column
        for number, beside in self._beside.items():
            if beside.matrix is not None:
                table.column("spectral_norm")[number] = largest(beside.matrix())
        return np.column_stack([table.column(name) for name in self.names]).astype(np.float32)


def _is_capturing(tensor: Tensor) -> bool:
    """Whether a CUDA graph is being made: what is queued now would run again, long after its memory is gone."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _same(array: NDArray[np.float32]) -> NDArray[np.float32]:
    return array
