"""A viewer that is really served, on a free port and by a thread of this process, for browsers and clients."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import pytest
from tests.browser import STOPPED

if TYPE_CHECKING:
    from cutaway.server.app import Viewer


@dataclass(frozen=True)
class Served:
    """Where it is, and what goes on behind it."""

    url: str
    viewer: Viewer


@contextmanager
def serving(*paths: str | os.PathLike[str], port: int = 0, **options: Any) -> Iterator[Served]:
    """The viewer of some paths, until the block ends."""
    from cutaway.server.app import viewer
    from cutaway.server.serve import Server, listening

    made = viewer([os.fspath(path) for path in paths], **{"patience": 60.0, "every": 0.1, **options})
    socket = listening("127.0.0.1", port)
    url = f"http://127.0.0.1:{socket.getsockname()[1]}"
    STOPPED.discard(url)
    server = Server(made)
    thread = threading.Thread(target=server.run, args=([socket],), daemon=True)
    thread.start()
    until = monotonic() + 120
    while not server.started and monotonic() < until:
        sleep(0.01)
    assert server.started, "the viewer did not start"
    try:
        yield Served(url, made)
    finally:
        STOPPED.add(url)
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the viewer did not end"


@pytest.fixture(scope="session")
def served(recorded: Path) -> Iterator[Served]:
    """The viewer on the recorded runs, for all tests of a process."""
    with serving(recorded) as found:
        yield found


def run_apart(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """In a thread of its own: a browser of another test may have left a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(main())).result()
