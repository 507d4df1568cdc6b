"""Which captures are running, and who watches the calling thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from cutaway.capture.function_mode import Watcher

sessions: dict[int, Any] = {}
"""Running sessions by their id, the innermost last; what is replaced in torch asks it whether a thread is watched."""

edits: dict[int, int] = {}
"""Running edits by their id → the thread that entered them."""


def sessions_here() -> list[Any]:
    """The sessions that watch the calling thread."""
    here = get_ident()
    return [session for session in list(sessions.values()) if here in session.watchers]


def all_watchers_here() -> list[Watcher]:
    """The watchers of the calling thread, the innermost first."""
    here = get_ident()
    return [session.watchers[here] for session in reversed(sessions_here())]


def watchers_here() -> list[Watcher]:
    """The same without those that are looking away (an opaque region, the autograd engine)."""
    return [watcher for watcher in all_watchers_here() if not watcher.paused]


_hiding: dict[int, int] = {}
"""Threads in which an additional run goes on: hooks of edits and observers let it pass."""


def is_hidden() -> bool:
    """Whether the calling thread runs a model additionally, out of sight of edits, observers and traces."""
    return get_ident() in _hiding


@contextmanager
def hidden() -> Iterator[None]:
    """Inside the block, edits, observers and traces that are on in this thread do not see what runs."""
    here = get_ident()
    watchers = all_watchers_here()
    for watcher in watchers:
        watcher.paused += 1
    _hiding[here] = _hiding.get(here, 0) + 1
    try:
        yield
    finally:
        _hiding[here] -= 1
        if not _hiding[here]:
            del _hiding[here]
        for watcher in watchers:
            watcher.paused -= 1
