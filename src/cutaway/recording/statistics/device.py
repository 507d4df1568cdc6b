"""Statistics of GPU tensors: gathered, computed by few launches without waiting, copied to the host once per step.

Triton kernels compute them (`triton_launch`), or torch if Triton is not available (`device_torch`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.recording.statistics import device_torch
from cutaway.recording.statistics.device_quantiles import distribution_on
from cutaway.recording.statistics.device_results import PARTIAL, ArrayBlock, DeviceInput, DeviceResults
from cutaway.recording.statistics.held_tensors import MOST_BYTES, HeldTensor, HeldTensors, has_memory
from cutaway.recording.statistics.inputs import wide_dtype
from cutaway.recording.statistics.moments import StatisticTable
from cutaway.recording.statistics.quantiles import DISTRIBUTION, distribution

Floats = NDArray[np.float64]
DeviceArrays = dict[tuple[int, str], NDArray[np.float32]]
"""(row, name of the array) → array."""

_log = logging.getLogger(__name__)
_FAILED: set[str] = set()
"""What has failed in this process and is not tried again."""


class DeviceStatistics:
    """The tensors of one device in one step."""

    def __init__(self, device: torch.device, *, is_full: bool) -> None:
        self.lost: set[int] = set()
        """Rows of tensors that were overwritten before their statistics were computed."""
        self._device = device
        self._is_cuda = device.type == "cuda"
        self._is_full = is_full
        self._kernels: Any = _kernels() if device.type == "cuda" and not _FAILED else None
        self._held = HeldTensors(device)
        self._results: list[DeviceResults] = []
        self._arrays: list[ArrayBlock] = []
        self._streams: set[int] = set()

    def add(
        self,
        number: int,
        tensor: Tensor,
        batch_dim: int | None = None,
        unit_dim: int | None = None,
        *,
        is_stable: bool = False,
    ) -> None:
        """Add a plain tensor that is not empty; its statistics are computed with those of others.

        Args:
            is_stable: whether nothing is expected to write to it before the next `flush`; else it is copied.
        """
        if self._held.add(number, tensor, (batch_dim, unit_dim), self._note_stream(), is_stable=is_stable):
            self.flush()

    def compute_now(
        self, numbers: Sequence[int], tensors: Sequence[Tensor], dims: Sequence[tuple[int | None, int | None]]
    ) -> None:
        """Queue the statistics of these plain tensors, which are not empty; none of them is held or copied.

        Args:
            dims: the sample dimension and the unit dimension of each.
        """
        self._note_stream()
        inputs: list[DeviceInput] = []
        n_bytes = 0
        for number, tensor, each in zip(numbers, tensors, dims, strict=True):
            if not has_memory(tensor):
                self.lost.add(number)
                continue
            inputs.append(DeviceInput.of(number, tensor, *each, is_full=self._is_full))
            n_bytes += tensor.nbytes
            if n_bytes > MOST_BYTES:  # those that have to be converted are all in memory at the same time
                self._compute_inputs(inputs)
                inputs, n_bytes = [], 0
        if inputs:
            self._compute_inputs(inputs)

    def add_array(self, number: int, name: str, array: Tensor) -> None:
        """Add a small float32 tensor to the copy to the host."""
        self._arrays.append(ArrayBlock.of(number, name, array))
        self._note_stream()

    def flush(self) -> None:
        """Queue the statistics of all tensors added so far."""
        by_stream = self._held.take()
        if not by_stream:
            return
        current = self._note_stream()
        for stream, tensors in by_stream.items():
            with _on_stream(self._device, stream, current):
                self._compute(tensors)

    def fetch(self, table: StatisticTable) -> DeviceArrays:
        """Wait for the device once, and fill the table. Returns the arrays."""
        self.flush()
        self._join_streams()
        device_tensors: list[Tensor] = []
        if self._results:
            samples = torch.cat([results.samples for results in self._results])
            is_small = self._device.type == "mps"  # it has no float64
            moments = torch.cat([results.moments for results in self._results])
            device_tensors += [moments, samples if is_small else distribution_on(samples)]
        blocks = [*self._arrays, *(block for results in self._results for block in results.arrays)]
        if blocks:
            device_tensors.append(torch.cat([block.values for block in blocks]))
        host_arrays = self._to_host(device_tensors)
        if self._results:
            self._fill(table, *host_arrays[:2])
        return _split(host_arrays[-1], blocks) if blocks else {}

    def _fill(self, table: StatisticTable, moments: NDArray[Any], spread: NDArray[Any]) -> None:
        numbers, n, repeats, has_batch = np.concatenate([results.inputs for results in self._results], axis=1)
        wide = moments.astype(np.float64, copy=False)
        table.put_moments(numbers, _moments_of(wide, n, repeats))
        table.column("batch_std")[numbers] = np.where(has_batch, wide[:, PARTIAL.index("batch_std")], np.nan)
        table.put_distribution(numbers, spread if spread.shape[1] == len(DISTRIBUTION) else distribution(spread))

    # computing

    def _compute(self, tensors: list[HeldTensor]) -> None:
        inputs = []
        for each in tensors:
            if each.is_intact:
                dims = (each.batch_dim, each.unit_dim)
                inputs.append(DeviceInput.of(each.number, each.tensor, *dims, is_full=self._is_full))
            else:
                self.lost.add(each.number)
        self._compute_inputs(inputs)

    def _compute_inputs(self, inputs: list[DeviceInput]) -> None:
        if self._kernels is not None:
            inputs = self._launch([_converted(each) for each in inputs])
        if inputs:
            self._compute_with_torch(inputs)

    def _compute_with_torch(self, inputs: list[DeviceInput]) -> None:
        try:
            self._results.append(device_torch.compute(inputs, is_full=self._is_full))
        except Exception:
            if len(inputs) == 1:
                raise
            errors = []
            for each in inputs:  # a tensor that fails loses only its own row
                try:
                    self._results.append(device_torch.compute([each], is_full=self._is_full))
                except Exception as error:
                    errors.append(error)
            if errors:
                raise errors[0] from None

    def _launch(self, inputs: list[DeviceInput]) -> list[DeviceInput]:
        """Compute with Triton. Returns the tensors for which that is not possible."""
        chosen = [each for each in inputs if self._kernels.is_launchable(each)]
        try:
            with _device_context(self._device):
                self._results += self._kernels.launch(chosen, is_full=self._is_full)
        except Exception as error:  # no compiler, or a GPU that Triton does not support
            _log.warning("computing statistics without Triton, which failed: %s", error)
            _FAILED.add("triton")
            self._kernels = None
            return inputs
        return [each for each in inputs if not self._kernels.is_launchable(each)]

    def _note_stream(self) -> int:
        """The current stream, which `fetch` waits for; 0 on devices without streams."""
        stream = torch._C._cuda_getCurrentRawStream(self._device.index) if self._is_cuda else 0
        self._streams.add(stream)
        return stream

    # copy to the host

    def _join_streams(self) -> None:
        if self._device.type == "cuda":
            current = torch.cuda.current_stream(self._device)
            for stream in self._streams - {current.cuda_stream}:
                current.wait_stream(torch.cuda.ExternalStream(stream, device=self._device))

    def _to_host(self, tensors: list[Tensor]) -> list[NDArray[Any]]:
        if self._device.type != "cuda":
            return [tensor.cpu().numpy() for tensor in tensors]
        host = [torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True) for tensor in tensors]
        for source, target in zip(tensors, host, strict=True):
            target.copy_(source, non_blocking=True)
        torch.cuda.current_stream(self._device).synchronize()
        return [target.numpy() for target in host]


@cache
def _kernels() -> Any:
    """The module that launches Triton kernels, or None without Triton."""
    try:
        return import_module("cutaway.recording.statistics.triton_launch")
    except ImportError:
        return None


def _converted(each: DeviceInput) -> DeviceInput:
    """A tensor of a dtype that Triton loads: booleans as integers, float8 and unsigned integers in a wider dtype."""
    dtype = each.values.dtype
    if dtype in _kernels().kernels.DTYPES:
        return each
    values = each.values.view(torch.uint8) if dtype == torch.bool else each.values.to(wide_dtype(each.values))
    tensor = values if each.values is each.tensor else each.tensor
    return each._replace(tensor=tensor, values=values)


def _device_context(device: torch.device) -> AbstractContextManager[Any]:
    """Make a device current, if it is not."""
    return nullcontext() if torch._C._cuda_getDevice() == device.index else torch.cuda.device(device)


def _on_stream(device: torch.device, stream: int, current: int) -> AbstractContextManager[Any]:
    """Make the stream current that a tensor was computed on: only there, work is queued after it."""
    if stream == current:
        return nullcontext()
    return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device))


def _split(values: NDArray[np.float32], blocks: list[ArrayBlock]) -> DeviceArrays:
    """Arrays by row and name."""
    arrays: DeviceArrays = {}
    start = 0
    for number, name, shape in (place for block in blocks for place in block.places):
        stop = start + int(np.prod(shape))
        arrays[number, name] = values[start:stop].reshape(shape)
        start = stop
    return arrays


def _moments_of(results: Floats, n: NDArray[Any], repeats: NDArray[Any]) -> Floats:
    """The moments of each tensor, (tensor, field of Moments), from rows of `PARTIAL`."""
    mean, squares, magnitude, low, high = results[:, :5].T
    has_nan = np.isnan(magnitude)
    norm = np.sqrt((squares + n * mean * mean) * repeats)
    # Infinite values give inf - inf = NaN in the sums; without a NaN among them the norm is infinite.
    norm = np.where(np.isnan(norm) & ~has_nan, np.inf, norm)
    low, high = np.where(has_nan, np.nan, low), np.where(has_nan, np.nan, high)
    std = np.sqrt(np.maximum(squares, 0) / n)
    return np.stack([mean, magnitude / n, std, norm, low, high, *(results[:, 5:8].T * repeats)], axis=1)
