"""Server-sent events: a page is told when runs grow or come. Disks are looked at only while somebody listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Final

from cutaway.core.errors import CutawayError
from cutaway.server.archives.catalog import Listing, item_of
from cutaway.server.archives.open_archives import Held, Opened, rows_of, run_of
from cutaway.server.view_json import text
from cutaway.views.run.run_view import RunState, edition

_LOG = logging.getLogger("cutaway")
EVERY: Final = 0.5
"""Seconds between two looks at the open runs."""
_SELDOM: Final = 4
"""Of so many looks one is also at the folders, and at runs that have ended."""
_SHARE: Final = 20
"""A folder that takes long to look at is looked at more seldom: so many times as long lies between two looks."""
_BEAT: Final = 10.0
"""Seconds after which something is sent, so that a dead connection is noticed at both ends."""
_LOOK: Final = 1.0
_LIST = "list"


@dataclass(frozen=True, slots=True)
class Growth:
    """How far a run has come."""

    run: str
    n_steps: int
    last_step: int | None
    state: RunState
    n_read: int
    """Bytes of its indexes that were read: more whenever anything came, also notes and scalars."""
    edition: str
    """Changes when steps that were there before may hold something else."""


class Live:
    """Tells all who listen. What is told faster than somebody reads is told once, as it is then."""

    def __init__(self, opened: Opened, listing: Listing, *, every: float = EVERY) -> None:
        self._opened = opened
        self._listing = listing
        self._every = every
        self._listeners: set[_Listener] = set()
        self._watching: asyncio.Task[None] | None = None
        self._last: dict[str, Growth] = {}
        self._ids: frozenset[str] | None = None
        self._was_whole = True
        self._is_closed = False

    @property
    def n_listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    @property
    def is_watching(self) -> bool:
        """Whether disks are being looked at."""
        return self._watching is not None and not self._watching.done()

    async def events(self, is_waiting: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
        """What one listener gets, until it is not waiting any more."""
        listener = _Listener({id_: text(asdict(growth)) for id_, growth in self._last.items()})
        self._listeners.add(listener)
        if not self.is_watching:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            yield "retry: 1000\n\n"
            spoke = monotonic()
            while not self._is_closed and await is_waiting():
                said = await listener.take(_LOOK)
                if not said and monotonic() - spoke < _BEAT:
                    continue
                yield "".join(f"data: {each}\n\n" for each in said) or ": still here\n\n"
                spoke = monotonic()
        finally:
            self._listeners.discard(listener)
            if not self._listeners and self._watching is not None:
                self._watching.cancel()
                self._watching = None
                self._last.clear()

    def close(self) -> None:
        """End what every listener gets."""
        self._is_closed = True
        for listener in self._listeners:
            listener.wake()

    def _tell(self, about: str, said: object) -> None:
        for listener in self._listeners:
            listener.give(about, text(said))

    async def _watch(self) -> None:
        next_list = 0.0
        while True:
            try:
                is_due = monotonic() >= next_list
                if is_due:
                    began = monotonic()
                    await self._look_at_list()
                    next_list = monotonic() + max(_SELDOM * self._every, _SHARE * (monotonic() - began))
                for id_ in self._opened.open_runs:
                    await self._look_at(id_, is_due=is_due)
            except Exception:  # whatever it is, it may be over at the next look
                _LOG.exception("the viewer could not look at its folders")
            await asyncio.sleep(self._every)

    async def _look_at_list(self) -> None:
        places = await self._opened.places()
        before, self._ids = self._ids, frozenset(places)
        was_whole, self._was_whole = self._was_whole, self._listing.is_whole
        is_other = before != self._ids or not was_whole or await self._listing.has_news(places.values())
        if before is not None and is_other:
            self._tell(_LIST, {"runs": True})
        for id_ in [id_ for id_ in self._last if run_of(id_) not in self._ids]:
            del self._last[id_]
            self._tell(id_, {"run": id_, "error": "This run was deleted or moved while it was open."})

    async def _look_at(self, id_: str, *, is_due: bool) -> None:
        last = self._last.get(id_)
        if last is not None and last.state in ("ended", "killed") and not is_due:
            return
        try:
            growth = await self._opened.ask(id_, growth_of, fresh=True)
        except CutawayError as error:
            if last is not None:
                del self._last[id_]
                self._tell(id_, {"run": id_, "error": str(error)})
            return
        if growth != last:
            self._last[id_] = growth
            self._tell(id_, growth)


class _Listener:
    """What somebody has not been told yet, the newest of each thing."""

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
        """What there is; nothing after some seconds of silence."""
        try:
            await asyncio.wait_for(self._is_there.wait(), seconds)
        except TimeoutError:
            return []
        self._is_there.clear()
        said = list(self._waiting.values())
        self._waiting.clear()
        return said


def growth_of(held: Held) -> Growth:
    """How far a run that is open has come."""
    item = item_of(held)
    sessions = (session for found in rows_of(held).run.archive.ranks.values() for session in found.values())
    n_read = sum(session.n_read for session in sessions)
    return Growth(held.id, item.n_steps, item.last_step, item.state, n_read, edition(rows_of(held)))
