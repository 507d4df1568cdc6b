"""Connections whose client sends no whole request are closed; those with a request, or an open stream, stay."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

import pytest
from tests.server.served import Served, serving

from cutaway.server.connection import Connection, detect_dead_peer

DEADLINE = 0.4


@pytest.fixture
def hurried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(Connection, "request_seconds", DEADLINE)
    with serving(tmp_path) as served:
        yield served


def connect(served: Served) -> socket.socket:
    address = urlsplit(served.url)
    return socket.create_connection((address.hostname or "", address.port or 0), timeout=10)


def seconds_until_closed(client: socket.socket, sends: bytes = b"") -> float:
    """How long the server keeps a connection on which the client sends this again and again."""
    client.settimeout(DEADLINE / 8)
    began = monotonic()
    while monotonic() - began < 10:
        try:
            client.sendall(sends)
            if not client.recv(4096):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return monotonic() - began


def test_a_client_that_never_sends_its_request_is_dropped(hurried: Served) -> None:
    with connect(hurried) as silent, connect(hurried) as half, connect(hurried) as slow:
        half.sendall(b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n")  # without the empty line that ends it
        assert seconds_until_closed(slow, b"G") < 4, "one byte at a time must not extend the deadline"
        assert seconds_until_closed(silent) < 4
        assert seconds_until_closed(half) < 4


def test_a_stream_of_events_outlives_the_deadline_and_so_does_a_connection_that_asks_again(hurried: Served) -> None:
    asking = HTTPConnection(urlsplit(hurried.url).netloc, timeout=10)
    with connect(hurried) as stream:
        stream.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        ports = set()
        for _ in range(4):
            asking.request("GET", "/api/folders")
            assert asking.getresponse().read().startswith(b'{"paths":')
            ports.add(asking.sock.getsockname())
            sleep(DEADLINE / 2)
        assert len(ports) == 1, "the connection was kept"
        assert stream.recv(65536).startswith(b"HTTP/1.1 200")
        stream.settimeout(DEADLINE)
        assert is_open(stream)
    asking.close()


def is_open(client: socket.socket) -> bool:
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return True
    return False


def test_the_operating_system_is_asked_to_find_clients_that_vanished() -> None:
    with socket.socket() as client:
        detect_dead_peer(client)
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert 0 < client.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 60_000
    with socket.socket(socket.AF_UNIX) as local:
        detect_dead_peer(local)  # has no such options
