"""Binds a port and serves the viewer until interrupted."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from cutaway.core.errors import InputError
from cutaway.server.connection import Connection

if TYPE_CHECKING:
    from cutaway.server.app import Viewer

FIRST_PORT: Final = 8787
_N_PORTS: Final = 20
_BACKLOG: Final = 128


def listening(host: str, port: int | None) -> socket.socket:
    """Open a socket that already listens, so that a browser can connect before the rest is loaded.

    Args:
        host: the name or address of the interface; "" for all interfaces.
        port: 0 for any free port; None for 8787, or the next free one.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InputError(f"--host {host!r} does not name an interface of this machine: {error.strerror}.") from error
    tried = [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + _N_PORTS), 0]
    for each in tried:
        # asyncio sets TCP_NODELAY only if the protocol is IPPROTO_TCP; without it, small responses take 40 ms longer.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            # A viewer that is restarted gets its port back while old connections are in TIME_WAIT.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address[0], each, *address[2:]))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE and each != tried[-1]:
                continue
            raise InputError(_bind_error_text(host, each, error)) from error
        return listener
    raise AssertionError("the last port returns or raises")


def serve(viewer: Viewer, listener: socket.socket) -> None:
    """Serve the viewer on a socket until Ctrl-C or SIGTERM."""
    Server(viewer).run([listener])


class Server(uvicorn.Server):
    """Serves a viewer. On shutdown it closes the event streams first, which would otherwise never end."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(
            uvicorn.Config(
                viewer.app,
                loop="asyncio",
                http=Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                # Seconds: a request that reads a slow disk must not keep Ctrl-C waiting.
                timeout_graceful_shutdown=2,
            )
        )
        self._viewer = viewer

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._viewer.live.close()
        await super().shutdown(sockets)


def _bind_error_text(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use. Omit --port to use a free one."
    if error.errno == errno.EACCES:
        return f"port {port} needs more privileges. Use a port above 1023, or omit --port."
    return f"cannot listen on {host}:{port}: {error.strerror}."
