"""Installs patches with the first capture of the process and removes them with the last.

Several captures can run concurrently in several threads and end in any order, so only the last one may remove the
patches.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import RLock
from typing import Any

_lock = RLock()
_users = 0
_stack = ExitStack()


def apply(install: Callable[[ExitStack], None]) -> None:
    """Registers a capture; the first one installs the patches."""
    global _users
    with _lock:
        if _users == 0:
            try:
                install(_stack)
            except BaseException:
                _stack.close()
                raise
        _users += 1


def restore() -> None:
    """Unregisters a capture; the last one removes the patches, in reverse order."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            _stack.close()


def apply_more(install: Callable[[ExitStack], None]) -> None:
    """Installs another patch for as long as any capture runs."""
    with _lock:
        if _users:
            install(_stack)


def replace(stack: ExitStack, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replaces an attribute until the stack is closed."""
    # Not `getattr` on a class: it would unwrap descriptors, and restoring would put back something else.
    original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, make(original))
    stack.callback(setattr, owner, name, original)
