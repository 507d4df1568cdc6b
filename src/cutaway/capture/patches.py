"""The few places of torch and Python that are replaced while a capture runs, and put back with the last one.

A function mode and module hooks see nearly everything. What they cannot see is reached here: whether the
fast path of `nn.MultiheadAttention` may be taken, threads, the autograd engine, scripted functions, and
`torch.func` transforms. Each replacement first asks whether the calling thread is being watched; all
others run the original.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any

_lock = RLock()
_users = 0
_originals: list[tuple[Any, str, Any]] = []

Replacement = tuple[Any, str, Callable[[Any], Any]]
"""Owner, attribute, and what makes the replacement from the original."""


def apply(replacements: Callable[[], list[Replacement]]) -> None:
    """Put the replacements in place, unless an earlier capture has done so."""
    global _users
    with _lock:
        _users += 1
        if _users > 1:
            return
        for owner, name, make in replacements():
            original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
            _originals.append((owner, name, original))
            setattr(owner, name, make(original))


def restore() -> None:
    """Put everything back when the last capture ends."""
    global _users
    with _lock:
        _users -= 1
        if _users > 0:
            return
        while _originals:
            owner, name, original = _originals.pop()
            setattr(owner, name, original)
