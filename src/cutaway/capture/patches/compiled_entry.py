"""Calls back when compiled code is about to run, so that a capture can step aside before the compiler looks around.

What `torch.compile` returns is a wrapper of torch. Before it runs compiled code, it asks a function of torch whether
the stance of the compiler allows that: this function is replaced. Whatever the callback removes (modes, hooks,
replacements, the stance itself) is then gone before guards are checked, so that nothing is compiled anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import Any

_DYNAMO = "torch._dynamo.eval_frame"
_FUNCTION = "_callback_from_stance"
"""Its argument is None if the wrapper disables the compiler (`torch.compiler.disable`). In torch since 2.6."""

_lock = Lock()
_callbacks: dict[int, Callable[[], None]] = {}
_original: Any = None
_ignored = local()


def can_watch() -> bool:
    """Whether entering compiled code can be noticed with this version of torch."""
    dynamo = sys.modules.get(_DYNAMO)
    return dynamo is None or hasattr(dynamo, _FUNCTION)


def watch_compiled(owner: object, callback: Callable[[], None]) -> None:
    """Call back before compiled code runs, in any thread, until `unwatch_compiled`.

    Args:
        owner: identifies the callback.
    """
    with _lock:
        _callbacks[id(owner)] = callback
    install()


def unwatch_compiled(owner: object) -> None:
    """End what `watch_compiled` has begun. Idempotent."""
    global _original
    with _lock:
        _callbacks.pop(id(owner), None)
        if not _callbacks and _original is not None:
            setattr(sys.modules[_DYNAMO], _FUNCTION, _original)
            _original = None


def install() -> None:
    """Replace the function of torch if a callback waits for it. Call it again when dynamo was imported meanwhile."""
    global _original
    with _lock:
        dynamo = sys.modules.get(_DYNAMO)
        if not _callbacks or _original is not None or dynamo is None or not hasattr(dynamo, _FUNCTION):
            return
        original = _original = getattr(dynamo, _FUNCTION)

    def call_back(callback: Any) -> Any:
        if callback is not None and not getattr(_ignored, "depth", 0):
            for each in list(_callbacks.values()):
                each()
        return original(callback)

    setattr(dynamo, _FUNCTION, call_back)


@contextmanager
def unwatched() -> Iterator[None]:
    """Context manager: compiled code that runs inside, in this thread, is not reported."""
    _ignored.depth = getattr(_ignored, "depth", 0) + 1
    try:
        yield
    finally:
        _ignored.depth -= 1
