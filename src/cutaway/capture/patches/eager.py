"""Forces compiled code to run eagerly while any capture or edit needs it.

Captures and edits can end in any order, so the first one sets the stance of torch's compiler and only the last one
resets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch

_lock = Lock()
_users = 0
_stance: Any = None


@contextmanager
def lift_force_eager() -> Iterator[None]:
    """Context manager: inside `force_eager`, the compiler works as the program has set it."""
    if not _users:
        yield
        return
    stance = torch.compiler.set_stance(_stance.prev.stance)
    try:
        yield
    finally:
        stance.__exit__(None, None, None)


@contextmanager
def force_eager() -> Iterator[None]:
    """Context manager: compiled functions run eagerly inside."""
    global _users, _stance
    with _lock:
        if _users == 0:
            # It takes effect when it is called, without `with`; `__exit__` restores the stance before it.
            _stance = torch.compiler.set_stance("force_eager")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _stance.__exit__(None, None, None)
