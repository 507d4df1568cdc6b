"""LRU cache of arrays with a byte limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

_OVERHEAD = 512
"""Approximate overhead of a key and an array object, in bytes."""


class LRUCache:
    """Arrays by key; evicts the least recently used first. Thread-safe.

    >>> cache = LRUCache(most_bytes=1000)
    >>> cache.find("a", lambda: np.zeros(4))
    array([0., 0., 0., 0.])
    >>> cache.n_bytes
    544
    """

    def __init__(self, most_bytes: int) -> None:
        self._max = most_bytes
        self._arrays: OrderedDict[Hashable, NDArray[Any]] = OrderedDict()
        self._lock = Lock()
        self.n_bytes = 0

    def find(self, key: Hashable, read: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The array of a key, read if it is not cached. It is read-only, because callers share it."""
        with self._lock:
            array = self._arrays.get(key)
            if array is not None:
                self._arrays.move_to_end(key)
                return array
        # Outside the lock: a slow disk must not block readers of cached arrays. Two threads may read the same array.
        array = read()
        array.flags.writeable = False
        size = _retained_bytes(array)
        if size <= self._max:
            with self._lock:
                if key not in self._arrays:
                    self._arrays[key] = array
                    self.n_bytes += size
                while self.n_bytes > self._max:
                    _, oldest = self._arrays.popitem(last=False)
                    self.n_bytes -= _retained_bytes(oldest)
        return array


def _retained_bytes(array: NDArray[Any]) -> int:
    """Bytes that the array keeps alive: a view keeps all of its base."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.nbytes + _OVERHEAD
