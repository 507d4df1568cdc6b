"""Compiled code runs its eager source as long as anybody here needs it to.

Captures and edits may end in any order; so the first one changes the stance of torch's compiler, and only the last one
puts it back.
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
def forced_eager() -> Iterator[None]:
    """A block in which nothing runs compiled."""
    global _users, _stance
    with _lock:
        if _users == 0:
            _stance = torch.compiler.set_stance("force_eager")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _stance.__exit__(None, None, None)
