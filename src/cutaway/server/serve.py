"""The viewer on a port of this machine: listens at once, serves until it is interrupted, and then ends at once."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from cutaway.core.errors import InputError

if TYPE_CHECKING:
    from cutaway.server.app import Viewer

FIRST_PORT: Final = 8787
_N_PORTS: Final = 20
_BACKLOG: Final = 128


def listening(host: str, port: int | None) -> socket.socket:
    """A socket that already takes connections, so that a browser can come before the rest is loaded.

    Args:
        port: 0 for any that is free; None for 8787, or the next one that is free.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InputError(f"--host {host!r} is no name of an interface of this machine: {error.strerror}.") from error
    tried = [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + _N_PORTS), 0]
    for each in tried:
        # With the protocol named, asyncio knows that small answers are to be sent at once (40 ms each otherwise).
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((address[0], each, *address[2:]))
            found.listen(_BACKLOG)
        except OSError as error:
            found.close()
            if error.errno == errno.EADDRINUSE and each != tried[-1]:
                continue
            raise InputError(_why_not(host, each, error)) from error
        return found
    raise AssertionError("the last one is returned or raises")


def serve(viewer: Viewer, found: socket.socket) -> None:
    """Answer whoever comes to a socket, until Ctrl-C or the end of the process is asked for."""
    Server(viewer).run([found])


class Server(uvicorn.Server):
    """Serves a viewer. At the end it stops what goes on for ever (events) before it waits for what is going on."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(
            uvicorn.Config(
                viewer.app,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=2,
            )
        )
        self._viewer = viewer

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._viewer.live.close()
        await super().shutdown(sockets)


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use: leave --port out, and one that is free is taken."
    if error.errno == errno.EACCES:
        return f"port {port} is not for everybody: take one above 1023, or leave --port out."
    return f"{host}:{port} cannot be listened on: {error.strerror}."
