"""The running captures, and which of them watch the current thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from cutaway.capture.function_mode import Watcher

sessions: dict[int, Any] = {}
"""Running sessions by id, the innermost last; the patches in torch check here whether a thread is watched."""

edits: dict[int, int] = {}
"""Running edits by id → the thread that entered them."""


def sessions_here() -> list[Any]:
    """The sessions that watch the current thread."""
    here = get_ident()
    return [session for session in list(sessions.values()) if here in session.watchers]


def all_watchers_here() -> list[Watcher]:
    """The watchers of the current thread, the innermost first."""
    here = get_ident()
    return [session.watchers[here] for session in reversed(sessions_here())]


def watchers_here() -> list[Watcher]:
    """The watchers of the current thread that are not paused (by an opaque region or the autograd engine)."""
    return [watcher for watcher in all_watchers_here() if not watcher.paused]


_hiding: dict[int, int] = {}
"""Threads with a hidden run → nesting depth: hooks of edits and observers ignore it."""


def is_hidden() -> bool:
    """Whether the current thread does a hidden run, which edits, observers and traces ignore."""
    return get_ident() in _hiding


@contextmanager
def hidden() -> Iterator[None]:
    """Context manager: edits, observers and traces of this thread ignore what runs inside."""
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
