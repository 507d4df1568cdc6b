"""HTTP connections that are closed when their client sends no request, or is gone.

Uvicorn closes a connection that is idle after a response, but waits forever for the first request. Browsers open
connections in advance and laptops fall asleep, so that a viewer that runs for days would run out of file descriptors.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS: Final = 20.0
"""Seconds for a whole request: from the connection, or from its first byte after another request."""
_DEAD_SECONDS: Final = 60
"""Seconds without an acknowledgement of the operating system of the client after which it counts as gone."""


class Connection(H11Protocol):
    """One connection of a client, with a deadline for each request."""

    request_seconds: float = REQUEST_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        detect_dead_peer(transport.get_extra_info("socket"))
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Set the deadline while a request is incomplete; the keep-alive timer of uvicorn covers idle connections."""
        is_waiting = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and self.timeout_keep_alive_task is None
        if not is_waiting:
            self._stop()
        elif self._deadline is None:
            # Not extended by further bytes: a client that sends one byte a second must not stay either.
            self._deadline = self.loop.call_later(self.request_seconds, self._close)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()


def detect_dead_peer(connected: Any) -> None:
    """Make the operating system drop a client that vanished without closing: event streams would never end."""
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Options of Linux; other systems use their own interval, usually two hours.
    for name, value in (
        ("TCP_KEEPIDLE", _DEAD_SECONDS // 2),
        ("TCP_KEEPINTVL", _DEAD_SECONDS // 6),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 1000 * _DEAD_SECONDS),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
