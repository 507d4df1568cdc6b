"""Progress bar on stderr, shown only on a terminal and only for work longer than two seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

_DELAY_S = 2.0
_INTERVAL_S = 0.2
_WIDTH = 24


def progress(items: Iterable[T], n_items: int, what: str) -> Iterator[T]:
    """Yields the items; on a terminal, shows how many are done.

    >>> list(progress("abc", 3, "letters"))
    ['a', 'b', 'c']
    """
    if not sys.stderr.isatty():
        yield from items
        return
    shown = started = monotonic()
    drawn = False
    try:
        for i, item in enumerate(items):
            now = monotonic()
            if now - started > _DELAY_S and now - shown > _INTERVAL_S:
                shown, drawn = now, True
                left = (now - started) / max(i, 1) * (n_items - i)
                sys.stderr.write(f"\r{line(what, i, n_items, left)}")
                sys.stderr.flush()
            yield item
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def line(what: str, n_done: int, n_items: int, seconds_left: float) -> str:
    """Formats one state of the progress bar.
    >>> line("ops replayed", 30, 40, 12)
    'ops replayed ██████████████████░░░░░░ 30 of 40, 12 s left'
    """
    full = _WIDTH * n_done // max(n_items, 1)
    return f"{what} {'█' * full}{'░' * (_WIDTH - full)} {n_done:,} of {n_items:,}, {seconds_left:.0f} s left"
