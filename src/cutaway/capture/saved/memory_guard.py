"""Raises `MemoryLimitError` before saved values use up the memory."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import torch
from torch import nn

from cutaway.capture.arguments import is_tensor
from cutaway.capture.resolver import Resolver
from cutaway.capture.saved.save_policy import Saver
from cutaway.core.errors import MemoryLimitError
from cutaway.core.formatting import human_bytes

_EVERY_NS = 20_000_000
_RESERVE = 0.04
_LEAST_RESERVE = 256 * 2**20


class MemoryWatch:
    """Checks the free memory every 20 ms, and raises while there still is some."""

    def __init__(self, saver: Saver, resolver: Resolver, calls: dict[int, Any], root: nn.Module | None) -> None:
        self._resolver = resolver
        self._calls = calls
        self._root = root
        self._armed = saver.everything and saver.sink is None

    def check(self, now: int) -> int:
        """Raises if saving has to stop; otherwise returns the time of the next check. At time 0, nothing is saved."""
        if not now:
            return perf_counter_ns() + _EVERY_NS
        if not self._armed:
            return now + 1_000 * _EVERY_NS
        free, total = available_memory()
        if free < max(_RESERVE * total, _LEAST_RESERVE):
            raise MemoryLimitError(self._message(free, "this machine"))
        if torch.cuda.is_initialized():
            gpu_free, gpu_total = torch.cuda.mem_get_info()
            # Memory that torch's allocator has cached is free for new values, too.
            gpu_free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
            if gpu_free < _RESERVE * gpu_total:
                raise MemoryLimitError(self._message(gpu_free, "the GPU"))
        return now + _EVERY_NS

    def _message(self, free: int, where: str) -> str:
        self._resolver.flush()
        saved = sum(value.numel() * value.element_size() for value in self._resolver.nodes.value if is_tensor(value))
        estimate = ""
        if self._root is not None:
            n_modules = sum(1 for _ in self._root.modules())
            n_called = len({id(call.module) for call in self._calls.values() if call.module is not None})
            if 0 < n_called < n_modules and saved:
                whole = human_bytes(saved * n_modules / n_called)
                estimate = f" {n_called} of {n_modules} modules have run, so all values would take about {whole}."
        return (
            f"saving every value leaves only {human_bytes(free)} of memory on {where}.{estimate} Save less: "
            "cutaway.watch(model, save=None) for the graph only, save='block.*' for some sites, "
            "or keep='folder' to save to disk."
        )


def available_memory() -> tuple[int, int]:
    """(available, total) bytes of memory for this process, taking the limit of its container into account."""
    try:
        with open("/proc/meminfo") as file:
            lines = [next(file).split() for _ in range(3)]
        total, free = int(lines[0][1]) * 1024, int(lines[2][1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        total = _sysconf_total()
        return total, total
    limit = _container_limit()
    if limit is not None and limit[0] < total:
        total = limit[0]
        free = min(free, limit[0] - limit[1])
    return free, total


def _container_limit() -> tuple[int, int] | None:
    folder = Path("/sys/fs/cgroup")
    try:
        most = (folder / "memory.max").read_text().strip()
        return None if most == "max" else (int(most), int((folder / "memory.current").read_text()))
    except (OSError, ValueError):
        return None


def _sysconf_total() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62
