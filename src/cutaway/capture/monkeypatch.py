"""What is switched on in torch and Python with the first capture of the process, and off with the last.

Several captures may run at once, in several threads, and end in any order; so nobody but the last one
may put things back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import RLock
from typing import Any

_lock = RLock()
_users = 0
_stack = ExitStack()


def apply(switch_on: Callable[[ExitStack], None]) -> None:
    """Begin a capture; the first one switches everything on."""
    global _users
    with _lock:
        if _users == 0:
            try:
                switch_on(_stack)
            except BaseException:
                _stack.close()
                raise
        _users += 1


def restore() -> None:
    """End a capture; the last one switches everything off, in reverse order."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            _stack.close()


def also(switch_on: Callable[[ExitStack], None]) -> None:
    """Switch on something more for as long as any capture runs."""
    with _lock:
        if _users:
            switch_on(_stack)


def replace(stack: ExitStack, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put a replacement in place until the stack is closed."""
    original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, make(original))
    stack.callback(setattr, owner, name, original)
