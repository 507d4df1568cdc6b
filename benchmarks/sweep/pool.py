"""Worker processes that may crash or hang: that costs the one case they were at."""

from __future__ import annotations

import multiprocessing
import os
import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from queue import Empty, Queue
from time import perf_counter
from typing import Any

from benchmarks.sweep import packages
from benchmarks.sweep.checks import Verdict, judge
from benchmarks.sweep.families import FAMILIES

SECONDS = 120.0
MOST_MEMORY = 8 << 30
CASES_EACH = 60
"""A worker is replaced after so many: libraries keep what they load."""


def verdicts(family: str, names: Iterable[str], *, workers: int = 2, seconds: float = SECONDS) -> Iterator[Verdict]:
    """The verdict on each case, in the order in which they are ready."""
    waiting: Queue[str] = Queue()
    for name in names:
        waiting.put(name)
    left = waiting.qsize()
    ready: Queue[Verdict] = Queue()
    for _ in range(min(workers, left)):
        threading.Thread(target=_keep_busy, args=(family, waiting, ready.put, seconds), daemon=True).start()
    for _ in range(left):
        yield ready.get()


def _keep_busy(family: str, waiting: Queue[str], done: Callable[[Verdict], None], seconds: float) -> None:
    worker: _Worker | None = None
    while True:
        try:
            name = waiting.get_nowait()
        except Empty:
            break
        if worker is None or worker.n_cases >= CASES_EACH:
            if worker is not None:
                worker.end()
            worker = _Worker(family)
        verdict = worker.judge(name, seconds)
        if verdict.outcome in ("crashed", "too slow"):
            worker.end()
            worker = None
        done(verdict)
    if worker is not None:
        worker.end()


class _Worker:
    """One process, and the pipe to it."""

    def __init__(self, family: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(family, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.n_cases = 0
        self.pipe.recv()

    def judge(self, name: str, seconds: float) -> Verdict:
        self.n_cases += 1
        started = perf_counter()
        try:
            self.pipe.send(name)
            if self.pipe.poll(seconds):
                verdict: Verdict = self.pipe.recv()
                return verdict
            return Verdict(name, "too slow", f"not done after {perf_counter() - started:.0f} seconds")
        except (EOFError, OSError):
            self.process.join(5)
            return Verdict(name, "crashed", f"the process ended with code {self.process.exitcode}")

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _work(family: str, pipe: Connection[Any, Any]) -> None:
    """The worker's loop: a name in, a verdict out."""
    import warnings

    import torch

    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    packages.made_importable()  # first: transformers looks around when it is imported
    cases = FAMILIES[family]()
    pipe.send("ready")
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        try:
            verdict = judge(cases, name)
        except Exception as error:
            verdict = Verdict(name, "crashed", f"{type(error).__name__}: {str(error)[:300]}")
        pipe.send(verdict)
