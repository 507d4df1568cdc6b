"""Logged scalars that may still be on a GPU: copied without waiting, written later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.core.formatting import type_text

# Numbers that share one copy to the host: each copy costs a kernel launch and an event.
_MOST_PENDING = 64

Write = Callable[[int, Mapping[str, float]], None]


class PendingScalars:
    """Takes numbers and one-element tensors, and writes them as floats, in order for each name.

    Values on the CPU are written at once. Values on a device are batched, copied asynchronously, and written when the
    copy has arrived.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._pending: list[tuple[int, str, Tensor]] = []
        self._copies: list[tuple[list[tuple[int, str]], Tensor, Any]] = []

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Add the values of one step. Raises `InputError` for values that are not numbers, after adding the others."""
        ready: dict[str, float] = {}
        failures: list[str] = []
        for name, value in values.items():
            if isinstance(value, Tensor) and value.is_meta:
                continue  # a meta tensor has no value
            try:
                if isinstance(value, Tensor) and value.device.type != "cpu":
                    self._pending.append((step, str(name), _copy(name, value)))
                else:
                    ready[str(name)] = _number(name, value)
            except InputError as error:
                failures.append(str(error))
        if ready:
            self._write(step, ready)
        if len(self._pending) >= _MOST_PENDING:
            self.start_copies()
        if self._copies:
            self.write_ready()
        if failures:
            raise InputError(" ".join(failures))

    def start_copies(self) -> None:
        """Start copying the pending values to the CPU."""
        by_device: dict[Any, list[tuple[int, str, Tensor]]] = {}
        for entry in self._pending:
            by_device.setdefault(entry[2].device, []).append(entry)
        self._pending.clear()
        for entries in by_device.values():
            stacked = torch.stack([tensor for _, _, tensor in entries])
            host = torch.empty(stacked.shape, dtype=stacked.dtype, device="cpu", pin_memory=stacked.is_cuda)
            host.copy_(stacked, non_blocking=True)
            event: Any = torch.cuda.Event() if stacked.is_cuda else None
            if event is not None:
                event.record(torch.cuda.current_stream(stacked.device))
            self._copies.append(([(step, name) for step, name, _ in entries], host, event))

    def write_ready(self, *, wait: bool = False) -> None:
        """Write the values whose copies have arrived."""
        while self._copies:
            entries, numbers, event = self._copies[0]
            if event is not None and not event.query():
                if not wait:
                    return
                event.synchronize()
            self._copies.pop(0)
            for (step, name), value in zip(entries, numbers.tolist(), strict=True):
                self._write(step, {name: value})

    def drain(self) -> None:
        """Write everything, waiting for copies."""
        if self._pending:
            self.start_copies()
        self.write_ready(wait=True)


def _copy(name: object, value: Tensor) -> Tensor:
    """A copy on the device: the program may overwrite its tensor before the value is fetched."""
    _check(name, value)
    # MPS has no float64.
    dtype = torch.float32 if value.device.type == "mps" else torch.float64
    return value.detach().reshape(()).to(dtype, copy=True)


def _check(name: object, value: Tensor) -> None:
    if value.numel() != 1:
        raise InputError(f"run.log: {name!r} has {value.numel()} elements; log one number, such as its mean.")
    if value.is_complex():
        raise InputError(f"run.log: {name!r} is a complex number; log its magnitude or its parts.")


def _number(name: object, value: Any) -> float:
    if isinstance(value, Tensor):
        _check(name, value)
        return float(value.detach())
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    shown = "None" if value is None else f"{repr(value)[:80]}, {type_text(value)}"
    raise InputError(f"run.log: {name!r} is {shown}; log numbers, and use run.note for text.")
