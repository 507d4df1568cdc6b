"""Numbers that were logged but may still be computed by a device: they are fetched later, so that nobody waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

_MOST_WAITING = 64

Write = Callable[[int, Mapping[str, float]], None]


class PendingScalars:
    """Takes numbers and tensors of one element; hands them on as floats, in order for each name.

    What is on the CPU is handed on at once. What is on a device is gathered, copied without waiting, and handed on
    when the copy has arrived.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._waiting: list[tuple[int, str, Tensor]] = []
        self._copies: list[tuple[list[tuple[int, str]], Tensor, Any]] = []

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Take the numbers of one step."""
        ready: dict[str, float] = {}
        for name, value in values.items():
            if isinstance(value, Tensor) and value.is_meta:
                continue  # it has no number
            if isinstance(value, Tensor) and value.device.type != "cpu":
                # A copy: the program may write to its tensor before it is fetched.
                self._waiting.append((step, name, value.detach().reshape(()).to(torch.float32, copy=True)))
            else:
                ready[name] = _number(name, value)
        if ready:
            self._write(step, ready)
        if len(self._waiting) >= _MOST_WAITING:
            self.start()
        if self._copies:
            self.fetch()

    def start(self) -> None:
        """Begin to copy what waits."""
        by_device: dict[Any, list[tuple[int, str, Tensor]]] = {}
        for entry in self._waiting:
            by_device.setdefault(entry[2].device, []).append(entry)
        self._waiting.clear()
        for entries in by_device.values():
            stacked = torch.stack([tensor for _, _, tensor in entries])
            beside = torch.empty(stacked.shape, dtype=stacked.dtype, pin_memory=stacked.is_cuda)
            beside.copy_(stacked, non_blocking=True)
            event: Any = torch.cuda.Event() if stacked.is_cuda else None
            if event is not None:
                event.record(torch.cuda.current_stream(stacked.device))
            self._copies.append(([(step, name) for step, name, _ in entries], beside, event))

    def fetch(self, *, wait: bool = False) -> None:
        """Hand on what has arrived."""
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
        """Hand on everything, waiting for it if need be."""
        if self._waiting:
            self.start()
        self.fetch(wait=True)


def _number(name: str, value: Any) -> float:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(f"{name!r} has {value.numel()} elements; log one number, for example its mean")
        return float(value.detach())
    return float(value)
