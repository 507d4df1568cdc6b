"""A queue with a limit in bytes: who puts in more than is taken out has to wait, so that memory does not grow."""

from __future__ import annotations

from collections import deque
from threading import Condition
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedQueue(Generic[T]):
    """First in, first out, between one or more threads that put and one that takes.

    >>> queue = BoundedQueue[str](100)
    >>> queue.put("a", 10), queue.take(timeout=0)
    (True, 'a')
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._items: deque[tuple[T, int]] = deque()
        self._held = 0
        self._changed = Condition()
        self._is_closed = False
        self._n_put = 0
        self._n_done = 0
        self.seconds_waited = 0.0
        """How long those who put had to wait, all together."""

    @property
    def n_bytes(self) -> int:
        """Bytes that wait to be taken, or are being worked on."""
        return self._held

    def put(self, item: T, n_bytes: int) -> bool:
        """Put an item in, after waiting for room; one larger than the limit goes in alone. False if closed."""
        with self._changed:
            if self._held and self._held + n_bytes > self._most:
                began = monotonic()
                self._changed.wait_for(lambda: self._is_closed or not self._held or self._held + n_bytes <= self._most)
                self.seconds_waited += monotonic() - began
            if self._is_closed:
                return False
            self._items.append((item, n_bytes))
            self._held += n_bytes
            self._n_put += 1
            self._changed.notify_all()
            return True

    def take(self, timeout: float) -> T | None:
        """The next item, or None if there is none in time, or ever. `done` must follow each item."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_closed, timeout)
            return self._items[0][0] if self._items else None

    def done(self) -> None:
        """Say that the item taken last was worked on: only now is its room free."""
        with self._changed:
            _, n_bytes = self._items.popleft()
            self._held -= n_bytes
            self._n_done += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Let nothing more in. What is inside can still be taken."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def abandon(self) -> list[T]:
        """Let nothing more in, and nobody wait any longer: the items that nobody will work on."""
        with self._changed:
            self._is_closed = True
            left = [item for item, _ in self._items]
            self._items.clear()
            self._held = 0
            self._n_done = self._n_put
            self._changed.notify_all()
            return left

    @property
    def is_finished(self) -> bool:
        """Whether it is closed and empty."""
        with self._changed:
            return self._is_closed and not self._items

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all that was put in before has been worked on; False if that took too long."""
        with self._changed:
            upto = self._n_put
            return self._changed.wait_for(lambda: self._n_done >= upto, timeout)
