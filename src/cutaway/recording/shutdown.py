"""The end of a program that has forgotten to close its recorder."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol


class Closeable(Protocol):
    """Something to be closed."""

    def close(self) -> None:
        """Calling it again does nothing."""
        ...


class CloseAtExit:
    """Closes what was forgotten when the program ends, and holds nothing alive until then."""

    def __init__(self, target: Closeable) -> None:
        self._target = weakref.ref(target)
        self._pid = os.getpid()
        atexit.register(self._close)

    def _close(self) -> None:
        target = self._target()
        if target is not None and os.getpid() == self._pid:
            target.close()

    def cancel(self) -> None:
        """It was closed."""
        atexit.unregister(self._close)
