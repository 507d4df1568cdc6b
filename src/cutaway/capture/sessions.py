"""The running captures, and which of them watch the current thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from torch import nn

from cutaway.capture.function_mode import Watcher

sessions: dict[int, Any] = {}
"""Running sessions by id, the innermost last; the patches in torch check here whether a thread is watched."""


@dataclass(frozen=True, slots=True)
class RunningEdit:
    """An edit whose block is being executed."""

    thread: int
    """The thread that entered it."""
    model: nn.Module
    description: str


edits: dict[int, RunningEdit] = {}
"""Running edits by id."""
edit_listeners: list[Callable[[RunningEdit], None]] = []
"""Callbacks for each edit that begins. They must not raise."""


n_forward_hooks = 0
"""Number of module hooks that captures and edits have registered so far, to tell them from those of the program."""


def thread_sessions() -> list[Any]:
    """The sessions that watch the current thread."""
    here = get_ident()
    # A copy: other threads start and end captures meanwhile.
    return [session for session in list(sessions.values()) if here in session.watchers]


def all_thread_watchers() -> list[Watcher]:
    """The watchers of the current thread, the innermost first."""
    here = get_ident()
    return [session.watchers[here] for session in reversed(thread_sessions())]


def thread_watchers() -> list[Watcher]:
    """The watchers of the current thread that are not paused (by an opaque region or the autograd engine)."""
    return [watcher for watcher in all_thread_watchers() if not watcher.paused]


_hidden_depth: dict[int, int] = {}
"""Threads with a hidden run → nesting depth: hooks of edits and observers ignore it."""


def in_hidden_run() -> bool:
    """Whether the current thread does a hidden run, which edits, observers and traces ignore."""
    return get_ident() in _hidden_depth


@contextmanager
def hidden_run() -> Iterator[None]:
    """Context manager: edits, observers and traces of this thread ignore what runs inside."""
    here = get_ident()
    watchers = all_thread_watchers()
    for watcher in watchers:
        watcher.paused += 1
    _hidden_depth[here] = _hidden_depth.get(here, 0) + 1
    try:
        yield
    finally:
        _hidden_depth[here] -= 1
        if not _hidden_depth[here]:
            del _hidden_depth[here]
        for watcher in watchers:
            watcher.paused -= 1
