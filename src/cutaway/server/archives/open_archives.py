"""What is open: asked one question at a time each, let go when all take too much memory together.

A `Run` is not made for several threads: to read what came since changes what another thread may be looking at. So
whoever asks waits, without holding a thread, until the one before has got its answer. Disks are read in a few threads
of their own, and never by the one that serves.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from cutaway.core.errors import InputError, NotFoundError
from cutaway.server.archives.folders import Folders, Place, Stamp
from cutaway.server.archives.result_shelf import Collected, Saved
from cutaway.server.archives.result_shelf import opened as shelved
from cutaway.store.format.filenames import HEAD
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.views.run.rows import RunRows

if TYPE_CHECKING:
    from cutaway.views.showable import ShowableGraph

MOST_BYTES: Final = 128 << 20
"""All open runs and traces together, about."""
CACHE_BYTES: Final = 24 << 20
"""Of what was read of each."""
_N_THREADS: Final = 4
_INDEX_WEIGHT: Final = 5
"""Bytes in memory for each byte of an index."""
RANK: Final = "~"
"""Between the id of a run and the rank that is asked for, if it is not the first."""
_FRESH: Final = 0.2
"""Seconds for which what was read of a run is taken for the newest, where the question is what is newest."""

_Answer = TypeVar("_Answer")


class Gone(Exception):
    """Whoever asked does not wait for the answer any more."""


@dataclass
class Held:
    """Something that is open."""

    id: str
    """As it was asked for."""
    place: Place
    thing: RunRows | ShowableGraph | Collected | Saved
    head: tuple[int, int]
    """Tells it from another one that was put in its place."""
    stamp: Stamp = ()
    """Changes as it is written, of what is opened anew then: collections and saved results."""
    read_at: float = field(default_factory=monotonic)
    answers: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Answers that take long: what was asked → its tag, what was answered."""

    @property
    def n_bytes(self) -> int:
        """About what it takes."""
        kept = sum(len(body) for _, body in self.answers.values())
        if isinstance(self.thing, RunRows):
            archive = self.thing.run.archive
            n_read = sum(session.n_read for sessions in archive.ranks.values() for session in sessions.values())
            return kept + _INDEX_WEIGHT * n_read + archive.segments.n_cached
        if isinstance(self.thing, (Collected, Saved)):
            return kept + self.thing.n_bytes
        return kept + 2000 * len(self.thing.view.nodes.row)


class Opened:
    """Whatever lies in the opened folders, opened when it is first asked for."""

    def __init__(self, folders: Folders, *, most_bytes: int = MOST_BYTES, cache_bytes: int = CACHE_BYTES) -> None:
        self.folders = folders
        self._most = most_bytes
        self._cache_bytes = cache_bytes
        self._places: dict[str, Place] = {}
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._pool = ThreadPoolExecutor(_N_THREADS, thread_name_prefix="cutaway-view")

    async def places(self) -> dict[str, Place]:
        """What is there now."""
        self._places = await self._in_thread(self.folders.places)
        for id_ in [id_ for id_ in self._held if run_of(id_) not in self._places]:
            del self._held[id_]
        return self._places

    @property
    def open_runs(self) -> tuple[str, ...]:
        """The ids of the runs that are open."""
        return tuple(id_ for id_, held in self._held.items() if isinstance(held.thing, RunRows))

    async def ask(
        self,
        id_: str,
        question: Callable[[Held], _Answer],
        *,
        is_waiting: Callable[[], Awaitable[bool]] | None = None,
        fresh: bool = False,
    ) -> _Answer:
        """What a question says of one of them, asked in a thread when its turn has come.

        Args:
            is_waiting: asked when its turn has come; if not, `Gone`.
            fresh: whether what was written since is read first.
        """
        place = await self._place(id_)
        async with self._locks.setdefault(id_, asyncio.Lock()):
            if is_waiting is not None and not await is_waiting():
                raise Gone
            held = self._held.get(id_)
            answer, now = await self._in_thread(lambda: self._asked(id_, place, held, question, fresh=fresh))
            self._held[id_] = now
            self._held.move_to_end(id_)
            self._let_go()
            return answer

    async def aside(self, work: Callable[[], _Answer]) -> _Answer:
        """What some work gives that would keep others waiting."""
        return await self._in_thread(work)

    def close(self) -> None:
        """Let go of everything."""
        self._held.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _place(self, id_: str) -> Place:
        own = run_of(id_)
        place = self._places.get(own)
        if place is None:
            place = (await self.places()).get(own)
        if place is None:
            listed = ", ".join(repr(each.name) for each in list(self._places.values())[:8]) or "nothing"
            where = ", ".join(self.folders.paths)
            raise NotFoundError(f"there is nothing with the id {id_[:40]!r} in {where} (any more). There is: {listed}.")
        return place

    def _asked(
        self, id_: str, place: Place, held: Held | None, question: Callable[[Held], _Answer], *, fresh: bool
    ) -> tuple[_Answer, Held]:
        place.check()
        head = _head_of(place)
        stamp = place.stamp() if held is not None and isinstance(held.thing, (Collected, Saved)) else ()
        if held is None or held.head != head or held.stamp != stamp:
            held = self._open(id_, place, head)
        elif fresh and isinstance(held.thing, RunRows) and monotonic() - held.read_at > _FRESH:
            held.thing.refresh()
            held.read_at = monotonic()
        return question(held), held

    def _open(self, id_: str, place: Place, head: tuple[int, int]) -> Held:
        stamp, rank = place.stamp(), rank_of(id_)  # before it is read: what comes meanwhile is read the next time
        archive = Archive(place.path, cache_bytes=self._cache_bytes)
        if archive.kind == "run":
            run = Run(archive)
            return Held(id_, place, RunRows(run if rank is None else run.rank(rank)), head)
        if archive.kind == "trace":
            from cutaway.store.traces.trace_file import read  # which takes its time to load, and most look at runs
            from cutaway.views.showable import as_showable

            return Held(id_, place, as_showable(read(archive)), head)
        if archive.kind in ("activations", "result"):
            return Held(id_, place, shelved(archive), head, stamp)
        raise InputError(f"{place.path} holds {archive.kind}, which this version of Cutaway cannot show yet.")

    def _let_go(self) -> None:
        """Let go of what was not asked longest, but for the last one."""
        total = sum(held.n_bytes for held in self._held.values())
        while total > self._most and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            total -= oldest.n_bytes

    async def _in_thread(self, work: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)


def run_of(id_: str) -> str:
    """The id of a run without its rank.

    >>> run_of("mfrggzdfmztw~3"), rank_of("mfrggzdfmztw~3")
    ('mfrggzdfmztw', 3)
    """
    return id_.partition(RANK)[0]


def rank_of(id_: str) -> int | None:
    """The rank that an id asks for; None for the first there is."""
    rank = id_.partition(RANK)[2]
    if not rank:
        return None
    if not re.fullmatch("[0-9]{1,9}", rank, re.ASCII):
        raise NotFoundError(f"{rank[:40]!r} is no rank: a rank is a number from 0, as in {run_of(id_)[:40]}{RANK}1.")
    return int(rank)


def rows_of(held: Held) -> RunRows:
    """The run that is asked, by its rows; an error where it is none."""
    if not isinstance(held.thing, RunRows):
        raise InputError(f"{held.place.name!r} is {_what(held)}, not a run.")
    return held.thing


def trace_of(held: Held) -> ShowableGraph:
    """The saved trace that is asked; an error where it is none."""
    if isinstance(held.thing, (RunRows, Collected, Saved)):
        raise InputError(f"{held.place.name!r} is {_what(held)}, not a saved trace.")
    return held.thing


def shelf_of(held: Held) -> Collected | Saved:
    """The collection or saved result that is asked; an error where it is neither."""
    if not isinstance(held.thing, (Collected, Saved)):
        raise InputError(f"{held.place.name!r} is {_what(held)}, which has no page: collections and results have.")
    return held.thing


def collected_of(held: Held) -> Collected:
    """The collection that is asked; an error where it is none."""
    if not isinstance(held.thing, Collected):
        raise InputError(f"{held.place.name!r} is {_what(held)}, which has no units: collections have.")
    return held.thing


def _what(held: Held) -> str:
    if isinstance(held.thing, RunRows):
        return "a run"
    if isinstance(held.thing, Collected):
        return "a collection of activations"
    return "a saved result" if isinstance(held.thing, Saved) else "a saved trace"


def _head_of(place: Place) -> tuple[int, int]:
    try:
        status = os.stat(os.path.join(place.path, HEAD))
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
