"""Bounded queue in bytes, with backpressure: producers wait while it is full, so that memory does not grow."""

from __future__ import annotations

from collections import deque
from threading import Condition
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedQueue(Generic[T]):
    """FIFO queue for one or more producer threads and one consumer.

    >>> queue = BoundedQueue[str](100)
    >>> queue.put("a", 10), queue.take(timeout=0)
    (True, 'a')
    """

    def __init__(self, most_bytes: int) -> None:
        self._max = most_bytes
        self._items: deque[tuple[T, int]] = deque()
        self._n_bytes = 0
        self._changed = Condition()
        self._is_closed = False
        self._n_put = 0
        self._n_done = 0
        self.seconds_waited = 0.0
        """Total time that producers waited."""

    @property
    def n_bytes(self) -> int:
        """Bytes of items that are queued or being processed."""
        return self._n_bytes

    def put(self, item: T, n_bytes: int) -> bool:
        """Add an item, after waiting for room; an item above the limit is queued alone. Returns False if closed."""
        with self._changed:
            # An item above the limit waits for an empty queue, because there will never be enough room for it.
            if self._n_bytes and self._n_bytes + n_bytes > self._max:
                began = monotonic()
                self._changed.wait_for(
                    lambda: self._is_closed or not self._n_bytes or self._n_bytes + n_bytes <= self._max
                )
                self.seconds_waited += monotonic() - began
            if self._is_closed:
                return False
            self._items.append((item, n_bytes))
            self._n_bytes += n_bytes
            self._n_put += 1
            self._changed.notify_all()
            return True

    def push(self, item: T, n_bytes: int) -> None:
        """Add an item without waiting, also to a closed queue; for the consumer, which must not wait for itself."""
        with self._changed:
            self._items.append((item, n_bytes))
            self._n_bytes += n_bytes
            self._n_put += 1

    def take(self, timeout: float) -> T | None:
        """The next item; None after a timeout, or if closed and empty. Call `done` after each item."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_closed, timeout)
            # The item stays queued until `done`, so that the bytes in progress count against the limit.
            return self._items[0][0] if self._items else None

    @property
    def n_items(self) -> int:
        """Number of items that are queued or being processed."""
        return len(self._items)

    def done(self) -> None:
        """Mark the last item as processed, which frees its room."""
        with self._changed:
            _, n_bytes = self._items.popleft()
            self._n_bytes -= n_bytes
            self._n_done += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Accept no more items. Queued items can still be taken."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def abandon(self) -> list[T]:
        """Close, wake all waiting threads, and return the unprocessed items."""
        with self._changed:
            self._is_closed = True
            left = [item for item, _ in self._items]
            self._items.clear()
            self._n_bytes = 0
            self._n_done = self._n_put
            self._changed.notify_all()
            return left

    @property
    def is_finished(self) -> bool:
        """Whether it is closed and empty."""
        with self._changed:
            return self._is_closed and not self._items

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all items added so far are processed; False after a timeout."""
        with self._changed:
            # Items that others add meanwhile do not count: otherwise a busy producer would block flush() forever.
            upto = self._n_put
            return self._changed.wait_for(lambda: self._n_done >= upto, timeout)
