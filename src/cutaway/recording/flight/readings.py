"""The numbers of one step: read at once on the CPU, in batches and without waiting on a device.

An output costs one sum and one norm. Both are taken while the values are still in the cache on the CPU (23 µs for
131,072 values). On a device, references are gathered and the sums and norms are queued together, because each call of
Python costs more than the kernel; the version counter tells which tensors have changed until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite, nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.capture.tensors.aliasing import version_of
from cutaway.recording.statistics.inputs import is_sparse, outside_transforms, plain_tensor, wide_dtype
from cutaway.store.format.records import GRAD, Row

_PLAIN = (Tensor, torch.nn.Parameter)
_FLOATS = (torch.float32, torch.float64)
_HALVES = (torch.float16, torch.bfloat16)
_MOST_GATHERED = 256 << 20
"""Bytes of gathered tensors: beyond this they are read, so that tensors that only we refer to are freed soon."""
MOST_OUTPUTS = 8192
"""Outputs of one step: a loop over thousands of time steps would make each step of the ring as large as a model."""

_Place = tuple[list[float], int]
"""A list, and the index in it where a number belongs."""
_Key = tuple[tuple[str, ...], tuple[tuple[int, str], ...], tuple[str, ...]]


class Readings:
    """The numbers of one step, as they arrive."""

    reads_at_once = True
    """Whether CPU tensors are read at once; False treats them like those of a device."""

    def __init__(self, immediate: set[str] | None = None) -> None:
        self.sites: list[str] = []
        """The site of each output, without its pass."""
        self.aliases: list[tuple[int, str]] = []
        """(output, another site of it)."""
        self.sums: list[float] = []
        self.norms: list[float] = []
        self.counts: list[int] = []
        self.n_left_out = 0
        """Outputs beyond the limit."""
        self._immediate = set() if immediate is None else immediate
        """Sites whose tensors are changed in place after the module returns: read at once. Shared between steps."""
        self._overflowed: set[int] = set()
        """Outputs whose sum overflowed although every value is finite."""
        self._gradients: dict[str, tuple[_Place, _Place]] = {}
        """Parameter → its norm, and whether the optimizer skipped it."""
        self._losses: dict[str, _Place] = {}
        self._last: tuple[Tensor, int | None] | None = None
        self._gathered: list[tuple[int, Tensor, int]] = []
        self._n_gathered = 0
        self._queued: dict[torch.device, tuple[list[_Place], list[Tensor]]] = {}
        self._copies: list[tuple[list[_Place], Tensor, Any]] = []

    # outputs

    def add_output(self, site: str, tensor: Tensor, others: Iterable[str] = ()) -> None:
        """Add the output of a module. One that the module before has returned as well gets a second name."""
        version = version_of(tensor)
        if self._last is not None and self._last[0] is tensor and self._last[1] == version is not None:
            self.aliases += [(len(self.sites) - 1, name) for name in (site, *others)]
            return
        number = len(self.sites)
        if number >= MOST_OUTPUTS:
            self.n_left_out += 1
            return
        self._last = (tensor, version)
        self.sites.append(site)
        self.aliases += [(number, name) for name in others]
        self.sums.append(nan)
        self.norms.append(nan)
        self.counts.append(0)
        if tensor.is_cpu and self.reads_at_once:
            self._read_on_cpu(number, tensor)
        elif version is None or site in self._immediate or type(tensor) not in _PLAIN:
            self._queue_outputs([(number, tensor)])
        else:
            self._gathered.append((number, tensor, version))
            self._n_gathered += tensor.nbytes
            if self._n_gathered > _MOST_GATHERED:
                self.read_gathered()

    def _read_on_cpu(self, number: int, tensor: Tensor) -> None:
        values = _values(tensor)
        if values is None or not values.numel():
            return
        if values.dtype in _FLOATS:
            total, norm = values.sum().item(), torch.linalg.vector_norm(values).item()
        else:
            dtype = wide_dtype(values)
            total = values.sum(dtype=dtype).item()
            norm = torch.linalg.vector_norm(values.to(dtype)).item()
        if not isfinite(total) and bool(torch.isfinite(values).all()):
            self._overflowed.add(number)
        self.sums[number], self.norms[number], self.counts[number] = total, norm, _count(tensor, values)

    def read_gathered(self) -> None:
        """Queue the sums and norms of the gathered tensors."""
        gathered, self._gathered, self._n_gathered = self._gathered, [], 0
        self._last = None
        unchanged = [(number, tensor) for number, tensor, version in gathered if version_of(tensor) == version]
        if len(unchanged) < len(gathered):
            kept = {number for number, _ in unchanged}
            self._immediate.update(self.sites[number] for number, _, _ in gathered if number not in kept)
        self._queue_outputs(unchanged)

    def _queue_outputs(self, outputs: Sequence[tuple[int, Tensor]]) -> None:
        by_device: dict[torch.device, list[tuple[int, Tensor]]] = {}
        for number, tensor in outputs:
            values = _values(tensor)
            if values is not None and values.numel() and not _is_capturing(values):
                self.counts[number] = _count(tensor, values)
                by_device.setdefault(values.device, []).append((number, values))
        for device, entries in by_device.items():
            tensors = [values for _, values in entries]
            sums = [values.sum(dtype=wide_dtype(values)) for values in tensors]
            places: list[_Place] = [(self.sums, number) for number, _ in entries]
            places += [(self.norms, number) for number, _ in entries]
            self._queue(device, places, [*sums, *norms_of(tensors)])

    # gradients and losses

    def add_gradients(
        self,
        names: Sequence[str],
        gradients: Sequence[Tensor],
        scale: Tensor | None = None,
        found_inf: Tensor | None = None,
    ) -> None:
        """Add the norms of gradients; a later norm of the same parameter replaces an earlier one.

        Args:
            scale: what the gradients are still multiplied with: a fused optimizer divides in its own kernel.
            found_inf: not 0 if the optimizer skips these gradients, as a GradScaler tells a fused optimizer.
        """
        skipped: _Place = ([0.0], 0)
        if found_inf is not None and found_inf.device.type == "cpu":
            skipped[0][0] = float(found_inf)
        elif found_inf is not None:
            self._queue(found_inf.device, [skipped], [found_inf.detach().to(torch.float32, copy=True)])
        by_device: dict[torch.device, list[tuple[str, Tensor]]] = {}
        for name, gradient in zip(names, gradients, strict=True):
            values = _values(gradient)
            if values is not None and values.numel() and not _is_capturing(values):
                by_device.setdefault(values.device, []).append((name, values))
        for device, entries in by_device.items():
            norms = norms_of([values for _, values in entries])
            if scale is not None:
                norms = [norm / scale.to(norm.device) for norm in norms]
            numbers = [nan] * len(entries)
            for index, (name, _) in enumerate(entries):
                self._gradients[name] = ((numbers, index), skipped)
            if device.type == "cpu" and self.reads_at_once:
                numbers[:] = [norm.item() for norm in norms]
            else:
                self._queue(device, [(numbers, index) for index in range(len(entries))], norms)

    def add_loss(self, name: str, value: Any) -> None:
        """Add a loss: a number, or a tensor of one element."""
        place: _Place = ([nan], 0)
        if not isinstance(value, Tensor):
            place[0][0] = float(value)
        elif value.is_meta or value.numel() != 1 or value.is_complex():
            return
        elif value.is_cpu and self.reads_at_once:
            place[0][0] = float(value.detach())
        else:
            self._queue(value.device, [place], [value.detach().reshape(()).to(torch.float32, copy=True)])
        self._losses[name] = place

    def _queue(self, device: torch.device, places: list[_Place], numbers: list[Tensor]) -> None:
        known_places, known_numbers = self._queued.setdefault(device, ([], []))
        known_places += places
        # Stacked now: hundreds of separate numbers would each keep a block of the device's memory.
        known_numbers.append(torch.stack([number.reshape(()).to(torch.float32) for number in numbers]))

    # numbers that are known

    def put_output(self, site: str, others: Iterable[str], mean: float, norm: float, nonfinite: float) -> None:
        """Add the statistics of an output that the schedule has recorded."""
        number = len(self.sites)
        if number >= MOST_OUTPUTS:
            self.n_left_out += 1
            return
        self.sites.append(site)
        self.aliases += [(number, name) for name in others]
        # As if it had one value: its sum is its mean.
        self.sums.append(mean if nonfinite != 1 or not isfinite(mean) else nan)
        self.norms.append(norm)
        self.counts.append(1 if nonfinite in (0, 1) else 0)
        if nonfinite == 0 and not isfinite(mean):
            self._overflowed.add(number)

    def put_gradients(self, norms: dict[str, float]) -> None:
        """Add the norms of gradients that the schedule has recorded."""
        self._gradients |= {name: (([norm], 0), ([0.0], 0)) for name, norm in norms.items()}

    # the end of the step

    def start_copies(self) -> None:
        """Start copying what is queued to the CPU, without waiting."""
        if self._gathered:
            self.read_gathered()
        self._last = None
        queued, self._queued = self._queued, {}
        for places, numbers in queued.values():
            stacked = torch.cat(numbers)
            if not stacked.is_cuda:
                self._copies.append((places, stacked, None))
                continue
            host = torch.empty(stacked.shape, dtype=stacked.dtype, device="cpu", pin_memory=True)
            host.copy_(stacked, non_blocking=True)
            event = torch.cuda.Event()
            event.record(torch.cuda.current_stream(stacked.device))
            self._copies.append((places, host, event))

    def arrive(self, *, wait: bool = False) -> bool:
        """Take in the copies that have arrived; returns whether all have."""
        while self._copies:
            places, numbers, event = self._copies[0]
            if event is not None and not event.query():
                if not wait:
                    return False
                event.synchronize()
            for (numbers_of, index), number in zip(places, numbers.tolist(), strict=True):
                numbers_of[index] = number
            self._copies.pop(0)
        return not self._queued

    # results

    def losses(self) -> dict[str, float]:
        """The losses by name."""
        return {name: numbers[index] for name, (numbers, index) in self._losses.items()}

    def gradients(self) -> dict[str, float]:
        """Norms of gradients by parameter."""
        return {
            name: numbers[index] for name, ((numbers, index), (skip, _)) in self._gradients.items() if not skip[0] > 0
        }

    @property
    def key(self) -> _Key:
        """What the rows depend on."""
        return tuple(self.sites), tuple(self.aliases), tuple(self.gradients())

    def matrix(self) -> NDArray[np.float32]:
        """One row per output, then one per gradient: mean, norm, nonfinite. NaN where there was nothing to read."""
        cells: list[float] = []
        for number, (total, norm, count) in enumerate(zip(self.sums, self.norms, self.counts, strict=True)):
            if count:
                is_broken = not isfinite(total) and number not in self._overflowed
                cells += (total / count, norm, is_broken)
            else:
                cells += (nan, nan, nan)
        for norm in self.gradients().values():
            cells += (nan, norm, not isfinite(norm))
        with np.errstate(over="ignore"):
            return np.array(cells, np.float32).reshape(-1, 3)


def rows_of(key: _Key) -> tuple[Row, ...]:
    """The rows of a step: a module that ran several times has passes."""
    sites, aliases, gradients = key
    names: dict[int, list[str]] = {}
    for number, name in aliases:
        names.setdefault(number, []).append(name)
    n_passes: dict[str, int] = {}
    for site in sites:
        n_passes[site] = n_passes.get(site, 0) + 1
    seen: dict[str, int] = {}
    rows = []
    for number, site in enumerate(sites):
        seen[site] = seen.get(site, 0) + 1
        end = f":{seen[site]}" if n_passes[site] > 1 else ""
        others = tuple(f"{name}{end}" for name in dict.fromkeys(names.get(number, ())))
        rows.append(Row(f"{site}{end}", role="value", names=others))
    return (*rows, *(Row(name, GRAD, role="parameter") for name in gradients))


def norms_of(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The Euclidean norms of strided tensors of one device, accumulated in at least float32."""
    norms: dict[int, Tensor] = {}
    for dtypes, dtype in ((_FLOATS, None), (_HALVES, torch.float32)):
        numbers = [number for number, tensor in enumerate(tensors) if tensor.dtype in dtypes]
        if numbers:
            chosen = [tensors[number] for number in numbers]
            norms |= dict(zip(numbers, torch._foreach_norm(chosen, 2, dtype), strict=True))
    for number, tensor in enumerate(tensors):
        if number not in norms:
            norms[number] = torch.linalg.vector_norm(tensor.to(wide_dtype(tensor)))
    return [norms[number] for number in range(len(tensors))]


def _values(tensor: Tensor) -> Tensor | None:
    """The values of a tensor, of a sparse one those that it stores; None if it has none, such as a meta tensor."""
    if type(tensor) in _PLAIN and tensor.is_floating_point() and tensor.layout is torch.strided and not tensor.is_meta:
        return tensor.detach()
    with torch._C._DisableAutocast(), outside_transforms():
        return plain_tensor(tensor)


def _count(tensor: Tensor, values: Tensor) -> int:
    """The number of elements; a sparse tensor counts as the full one, zeros included."""
    return tensor.numel() if is_sparse(tensor) else values.numel()


def _is_capturing(tensor: Tensor) -> bool:
    """Whether a CUDA graph is being captured: kernels queued now would be replayed after their memory is freed."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
