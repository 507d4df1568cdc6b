"""Paired measurement: what a variant costs beside the plain run that stands next to it.

Times are CPU times of this thread, because other work on the machine shares its cores; ratios are taken
within a pair and their median is reported, because clocks and caches drift over a run.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from time import thread_time

import torch

Run = Callable[[], float]
"""Works once and returns the seconds that count."""

CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Paired:
    """Medians over the pairs of one variant."""

    plain: float
    value: float
    """Both in seconds."""
    ratio: float
    low: float
    high: float
    """The middle half of the ratios."""
    n_pairs: int

    @property
    def added(self) -> float:
        """Seconds more than plain."""
        return self.value - self.plain


def one_thread() -> None:
    """Let torch use one thread: with two, a 5 ms forward once read 237 ms."""
    torch.set_num_threads(1)


def timed(work: Callable[[], object]) -> Run:
    """A run of which everything counts but the freeing of its result."""

    def run() -> float:
        started = thread_time()
        result = work()
        spent = thread_time() - started
        del result
        return spent

    return run


def paired(
    plain: Run, variants: Mapping[str, Run], *, n_pairs: int, n_warm: int = 2, settle: bool = True
) -> dict[str, Paired]:
    """Each variant beside plain, and plain beside itself as "control", all interleaved.

    Args:
        settle: before each measured run, run plain once unmeasured. What ran before leaves the caches warm or
            cold, which a small model feels more than the difference that is looked for.
    """
    everything = {CONTROL: plain, **variants}
    for _ in range(n_warm):
        for run in everything.values():
            run()
    gc.collect()
    before: Run = plain if settle else (lambda: 0.0)
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in everything}
    for i in range(n_pairs):
        for name, run in everything.items():
            pairs[name].append(_pair(plain, run, before, plain_first=i % 2 == 0))
    return {name: summarized(found) for name, found in pairs.items()}


def summarized(pairs: list[tuple[float, float]]) -> Paired:
    """Medians of (plain, variant) pairs."""
    ratios = [value / plain for plain, value in pairs]
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    plain, value = (median(column) for column in zip(*pairs, strict=True))
    return Paired(plain, value, median(ratios), low, high, len(pairs))


def _pair(plain: Run, run: Run, before: Run, *, plain_first: bool) -> tuple[float, float]:
    spent: dict[bool, float] = {}
    for is_plain in (plain_first, not plain_first):
        before()
        spent[is_plain] = plain() if is_plain else run()
    return spent[True], spent[False]


def python_bytes(make: Callable[[], object]) -> int:
    """Memory of the Python objects that a result holds; what tensors hold in C++ is not counted.

    Make one before: what the first fills are caches that outlive it.
    """
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = make()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        del kept
        return after - before
    finally:
        tracemalloc.stop()


def added_peak(work: Callable[[], object]) -> int:
    """Bytes by which the memory of this process grows at most while it works (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _status("VmRSS")
    work()
    return max(_status("VmHWM") - before, 0)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024
