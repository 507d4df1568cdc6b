"""What the workers of the explaining peers share: their options, and the measuring of their works in turn."""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any

Explained = Callable[[], list[list[float]]]
"""Explains every written token; a row of scores each, one for every token before it."""


def asked(about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--n-new", type=int, default=20, help="tokens to explain")
    parser.add_argument("--n-steps", type=int, default=50, help="of a path")
    parser.add_argument("--batch", type=int, default=None, help="steps at once; all if not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="works whose names start like this")
    return parser.parse_args()


def measured(
    works: Mapping[str, Explained], options: argparse.Namespace, without: Callable[[], object] | None = None
) -> dict[str, Any]:
    """CPU seconds of every round of every work, all interleaved, less the time of what does not count.

    The whole process counts: one thread works, but the autograd engine may have its own.
    """
    chosen = {name: work for name, work in works.items() if name.startswith(tuple(options.only or [""]))}
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    scores: dict[str, list[list[float]]] = {}
    for number in range(options.rounds + 1):
        free = _seconds(without) if without else 0.0
        for name, work in chosen.items():
            if number == 0 and name.startswith("integrated"):
                continue  # it is long enough to need no warming up
            started = process_time()
            scores[name] = work()
            if number:
                seconds[name].append(process_time() - started - free)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "scores": scores, "peak_bytes": peak, "load": os.getloadavg()[0]}


def _seconds(work: Callable[[], object]) -> float:
    started = process_time()
    work()
    return process_time() - started
