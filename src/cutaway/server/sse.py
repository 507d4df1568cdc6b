"""Server-sent events: notifies pages when runs grow or appear. Polls disks only while a client is connected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Final

from cutaway.core.errors import CutawayError
from cutaway.server.archives.catalog import Catalog, item_of
from cutaway.server.archives.open_archives import ArchiveCache, OpenArchive, rows_of, run_of
from cutaway.server.view_json import to_json
from cutaway.views.run.run_view import RunState, edition

_LOG = logging.getLogger("cutaway")
EVERY: Final = 0.5
"""Seconds between two polls of the open runs."""
_POLLS_PER_SCAN: Final = 4
"""Every how many polls the folders and the ended runs are checked, too."""
_SCAN_PAUSE: Final = 20
"""Minimum pause between two scans of the folders, in multiples of the duration of a scan."""
_KEEPALIVE_SECONDS: Final = 10.0
"""Seconds of silence after which a comment is sent, so that both ends notice a dead connection."""
_WAIT_SECONDS: Final = 1.0
_LIST = "list"


@dataclass(frozen=True, slots=True)
class RunGrowth:
    """How much of a run is written."""

    run: str
    n_steps: int
    last_step: int | None
    state: RunState
    n_read: int
    """Bytes of its indexes read so far: grows with every record, including notes and scalars."""
    edition: str
    """Changes when steps that existed before may have other content."""


class EventBroadcaster:
    """Publishes events to all clients. For a slow client, newer events replace older ones about the same run."""

    def __init__(self, cache: ArchiveCache, catalog: Catalog, *, every: float = EVERY) -> None:
        self._cache = cache
        self._catalog = catalog
        self._every = every
        self._clients: set[_Client] = set()
        self._polling: asyncio.Task[None] | None = None
        self._last: dict[str, RunGrowth] = {}
        self._ids: frozenset[str] | None = None
        self._was_whole = True
        self._is_closed = False

    @property
    def n_clients(self) -> int:
        """Number of connected clients."""
        return len(self._clients)

    @property
    def is_polling(self) -> bool:
        """Whether disks are being polled."""
        return self._polling is not None and not self._polling.done()

    async def events(self, is_connected: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
        """The event stream of one client, until it disconnects."""
        client = _Client({id_: to_json(asdict(growth)) for id_, growth in self._last.items()})
        self._clients.add(client)
        if not self.is_polling:
            self._polling = asyncio.get_running_loop().create_task(self._poll())
        try:
            # Reconnect after one second; browsers wait several by default.
            yield "retry: 1000\n\n"
            last_sent = monotonic()
            while not self._is_closed and await is_connected():
                messages = await client.take(_WAIT_SECONDS)
                if not messages and monotonic() - last_sent < _KEEPALIVE_SECONDS:
                    continue
                yield "".join(f"data: {message}\n\n" for message in messages) or ": still here\n\n"
                last_sent = monotonic()
        finally:
            self._clients.discard(client)
            if not self._clients and self._polling is not None:
                self._polling.cancel()
                self._polling = None
                # Nobody polls from now on, so this would be outdated for the next client.
                self._last.clear()

    def close(self) -> None:
        """End all event streams."""
        self._is_closed = True
        for client in self._clients:
            client.wake()

    def _publish(self, about: str, said: object) -> None:
        for client in self._clients:
            client.give(about, to_json(said))

    async def _poll(self) -> None:
        next_list = 0.0
        while True:
            try:
                is_due = monotonic() >= next_list
                if is_due:
                    began = monotonic()
                    await self._poll_folders()
                    next_list = monotonic() + max(_POLLS_PER_SCAN * self._every, _SCAN_PAUSE * (monotonic() - began))
                for id_ in self._cache.open_runs:
                    await self._poll_run(id_, is_due=is_due)
            except Exception:  # it may succeed at the next poll
                _LOG.exception("the viewer cannot poll its folders")
            await asyncio.sleep(self._every)

    async def _poll_folders(self) -> None:
        locations = await self._cache.locations()
        before, self._ids = self._ids, frozenset(locations)
        was_whole, self._was_whole = self._was_whole, self._catalog.is_whole
        is_other = before != self._ids or not was_whole or await self._catalog.has_news(locations.values())
        # The first scan is no news: the page has just asked for the list.
        if before is not None and is_other:
            self._publish(_LIST, {"runs": True})
        for id_ in [id_ for id_ in self._last if run_of(id_) not in self._ids]:
            del self._last[id_]
            self._publish(id_, {"run": id_, "error": "This run was deleted or moved while it was open."})

    async def _poll_run(self, id_: str, *, is_due: bool) -> None:
        last = self._last.get(id_)
        # A run that has ended changes only if it is resumed: looking at each scan is enough.
        if last is not None and last.state in ("ended", "killed") and not is_due:
            return
        try:
            growth = await self._cache.apply(id_, growth_of, fresh=True)
        except CutawayError as error:
            if last is not None:
                del self._last[id_]
                self._publish(id_, {"run": id_, "error": str(error)})
            return
        if growth != last:
            self._last[id_] = growth
            self._publish(id_, growth)


class _Client:
    """Pending events of one client: the newest per topic."""

    def __init__(self, waiting: dict[str, str]) -> None:
        self._waiting = waiting
        self._is_there = asyncio.Event()
        if waiting:
            self._is_there.set()

    def give(self, about: str, said: str) -> None:
        self._waiting[about] = said
        self._is_there.set()

    def wake(self) -> None:
        self._is_there.set()

    async def take(self, seconds: float) -> list[str]:
        """Wait for events; returns none after a timeout."""
        try:
            await asyncio.wait_for(self._is_there.wait(), seconds)
        except TimeoutError:
            return []
        self._is_there.clear()
        messages = list(self._waiting.values())
        self._waiting.clear()
        return messages


def growth_of(entry: OpenArchive) -> RunGrowth:
    """How much of an open run is written."""
    item = item_of(entry)
    sessions = (session for by_number in rows_of(entry).run.archive.ranks.values() for session in by_number.values())
    n_read = sum(session.n_read for session in sessions)
    return RunGrowth(entry.id, item.n_steps, item.last_step, item.state, n_read, edition(rows_of(entry)))
