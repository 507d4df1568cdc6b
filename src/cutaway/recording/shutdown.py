"""The end of a program that has forgotten to close its recorder."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol


class Closing(Protocol):
    """Something to be closed."""

    def close(self) -> None:
        """Calling it again does nothing."""
        ...


class Ending:
    """Closes what was forgotten when the program ends, and holds nothing alive until then."""

    def __init__(self, forgotten: Closing) -> None:
        self._forgotten = weakref.ref(forgotten)
        self._pid = os.getpid()
        atexit.register(self._close)

    def _close(self) -> None:
        forgotten = self._forgotten()
        if forgotten is not None and os.getpid() == self._pid:
            forgotten.close()

    def cancel(self) -> None:
        """It was closed."""
        atexit.unregister(self._close)
