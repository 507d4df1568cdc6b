"""Installs patches with the first capture of the process and removes them with the last.

Several captures can run concurrently in several threads and end in any order, so only the last one may remove the
patches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class _Patch:
    """One replaced attribute."""

    owner: Any
    name: str
    original: Any
    replacement: Any


_lock = RLock()
_patches: list[_Patch] = []
"""All replacements, the oldest first."""
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
    patch = _Patch(owner, name, original, make(original))
    setattr(owner, name, patch.replacement)
    _patches.append(patch)
    stack.callback(_undo, patch)


@contextmanager
def originals() -> Iterator[None]:
    """Context manager: undoes all replacements, for code that must not meet them, then applies them again."""
    with _lock:
        patches = list(_patches)
        for patch in reversed(patches):
            setattr(patch.owner, patch.name, patch.original)
    try:
        yield
    finally:
        with _lock:
            for patch in patches:
                if patch in _patches:  # another thread may have ended the last capture
                    setattr(patch.owner, patch.name, patch.replacement)


def _undo(patch: _Patch) -> None:
    _patches.remove(patch)
    setattr(patch.owner, patch.name, patch.original)
