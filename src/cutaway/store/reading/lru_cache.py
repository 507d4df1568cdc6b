"""What was read last, as far as a limit in bytes allows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BESIDE = 512
"""Bytes that a key and an array take beside its numbers."""


class Cache:
    """Arrays by key; those not asked for longest are let go first.

    >>> cache = Cache(most_bytes=1000)
    >>> cache.find("a", lambda: np.zeros(4))
    array([0., 0., 0., 0.])
    >>> cache.n_bytes
    544
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._arrays: OrderedDict[Hashable, NDArray[Any]] = OrderedDict()
        self._lock = Lock()
        self.n_bytes = 0

    def find(self, key: Hashable, read: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The array of that key, read if it is not at hand. It is read-only: others may hold it too."""
        with self._lock:
            found = self._arrays.get(key)
            if found is not None:
                self._arrays.move_to_end(key)
                return found
        found = read()
        found.flags.writeable = False
        size = _held(found)
        if size <= self._most:
            with self._lock:
                if key not in self._arrays:
                    self._arrays[key] = found
                    self.n_bytes += size
                while self.n_bytes > self._most:
                    _, oldest = self._arrays.popitem(last=False)
                    self.n_bytes -= _held(oldest)
        return found


def _held(array: NDArray[Any]) -> int:
    """Bytes that stay in memory as long as the array does: a view holds all of its base."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.nbytes + _BESIDE
