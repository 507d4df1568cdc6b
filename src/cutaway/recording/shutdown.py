"""Closes a recorder at exit if the program has not."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import Protocol


class Closeable(Protocol):
    """An object with a `close` method."""

    def close(self) -> None:
        """Close it. Must be idempotent."""
        ...


class CloseAtExit:
    """Registers an atexit callback that closes the target; holds only a weak reference."""

    after_failure = False
    """Whether the process is ending because of an exception that nothing has caught."""

    def __init__(self, target: Closeable) -> None:
        self._target = weakref.ref(target)
        self._pid = os.getpid()
        atexit.register(self._close)

    def _close(self) -> None:
        target = self._target()
        # A forked child inherits the callback, but the run belongs to its parent.
        if target is not None and os.getpid() == self._pid:
            CloseAtExit.after_failure = getattr(sys, "last_value", None) is not None
            target.close()

    def cancel(self) -> None:
        """Unregister the callback, after the target was closed."""
        atexit.unregister(self._close)
