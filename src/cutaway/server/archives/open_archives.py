"""LRU cache of open archives; serializes access to each.

A `Run` is not thread-safe: a refresh changes what another thread may be reading. So requests for the same archive
wait for each other on an asyncio lock, without blocking a thread. Disks are read in a small thread pool, never on the
event loop.
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
from cutaway.core.formatting import listed
from cutaway.server.archives.folders import ArchiveLocation, Fingerprint, Folders
from cutaway.server.archives.result_shelf import OpenActivations, OpenResult, open_paged
from cutaway.store.format.filenames import HEAD
from cutaway.store.format.manifest import kind_text
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.views.run.rows import RunRows

if TYPE_CHECKING:
    from cutaway.views.showable import ShowableGraph

MOST_BYTES: Final = 128 << 20
"""Approximate memory limit of all open archives together."""
CACHE_BYTES: Final = 24 << 20
"""Segment cache of each archive."""
_N_THREADS: Final = 4
_INDEX_WEIGHT: Final = 5
"""Bytes in memory per byte of an index, measured."""
RANK: Final = "~"
"""Separates the id of a run from a rank other than the first."""
_FRESH_SECONDS: Final = 0.2
"""Seconds for which a refreshed run counts as up to date."""

_T = TypeVar("_T")


class ClientDisconnected(Exception):
    """The client disconnected before its turn."""


@dataclass
class OpenArchive:
    """An archive in the cache."""

    id: str
    """As in the URL, including the rank."""
    location: ArchiveLocation
    content: RunRows | ShowableGraph | OpenActivations | OpenResult
    identity: tuple[int, int]
    """Inode and mtime of the manifest: tells this archive from one that replaced it."""
    fingerprint: Fingerprint = ()
    """Changes as the archive is written; activations and results are then reopened."""
    read_at: float = field(default_factory=monotonic)
    answers: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Cached slow responses: request → (ETag, body)."""

    @property
    def n_bytes(self) -> int:
        """Approximate memory use."""
        n_cached = sum(len(body) for _, body in self.answers.values())
        if isinstance(self.content, RunRows):
            archive = self.content.run.archive
            n_read = sum(session.n_read for sessions in archive.ranks.values() for session in sessions.values())
            return n_cached + _INDEX_WEIGHT * n_read + archive.segments.n_cached
        if isinstance(self.content, (OpenActivations, OpenResult)):
            return n_cached + self.content.n_bytes
        return n_cached + 2000 * len(self.content.view.nodes.row)


class ArchiveCache:
    """Opens archives of the served folders on first use."""

    def __init__(self, folders: Folders, *, most_bytes: int = MOST_BYTES, cache_bytes: int = CACHE_BYTES) -> None:
        self.folders = folders
        self._max_bytes = most_bytes
        self._cache_bytes = cache_bytes
        self._locations: dict[str, ArchiveLocation] = {}
        self._entries: OrderedDict[str, OpenArchive] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._pool = ThreadPoolExecutor(_N_THREADS, thread_name_prefix="cutaway-view")

    async def locations(self) -> dict[str, ArchiveLocation]:
        """The archives that exist now, by id; drops deleted ones from the cache."""
        self._locations = await self.in_thread(self.folders.locations)
        for id_ in [id_ for id_ in self._entries if run_of(id_) not in self._locations]:
            del self._entries[id_]
        return self._locations

    @property
    def open_runs(self) -> tuple[str, ...]:
        """Ids of the open runs."""
        return tuple(id_ for id_, entry in self._entries.items() if isinstance(entry.content, RunRows))

    async def apply(
        self,
        id_: str,
        function: Callable[[OpenArchive], _T],
        *,
        is_connected: Callable[[], Awaitable[bool]] | None = None,
        fresh: bool = False,
    ) -> _T:
        """Call a function with an open archive, in a thread, one call per archive at a time.

        Args:
            is_connected: awaited when the call's turn comes; if false, raises `ClientDisconnected`.
            fresh: whether to read what was written since the last call.
        """
        location = await self._locate(id_)
        async with self._locks.setdefault(id_, asyncio.Lock()):
            if is_connected is not None and not await is_connected():
                raise ClientDisconnected
            cached = self._entries.get(id_)
            answer, entry = await self.in_thread(lambda: self._apply(id_, location, cached, function, fresh=fresh))
            self._entries[id_] = entry
            self._entries.move_to_end(id_)
            self._evict()
            return answer

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Run blocking work in the thread pool."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Drop everything and shut the threads down."""
        self._entries.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _locate(self, id_: str) -> ArchiveLocation:
        base_id = run_of(id_)
        location = self._locations.get(base_id)
        if location is None:
            location = (await self.locations()).get(base_id)
        if location is None:
            names = listed([repr(each.name) for each in self._locations.values()], 8) or "none"
            where = ", ".join(self.folders.paths)
            raise NotFoundError(f"no archive with id {id_[:40]!r} in {where}. Archives there: {names}.")
        return location

    def _apply(
        self,
        id_: str,
        location: ArchiveLocation,
        entry: OpenArchive | None,
        function: Callable[[OpenArchive], _T],
        *,
        fresh: bool,
    ) -> tuple[_T, OpenArchive]:
        # At every request: the folder may have become a link that leads out of the served folders.
        location.check()
        identity = _manifest_identity(location)
        is_paged = entry is not None and isinstance(entry.content, (OpenActivations, OpenResult))
        fingerprint = location.fingerprint() if is_paged else ()
        if entry is None or entry.identity != identity or entry.fingerprint != fingerprint:
            entry = self._open(id_, location, identity)
        elif fresh and isinstance(entry.content, RunRows) and monotonic() - entry.read_at > _FRESH_SECONDS:
            entry.content.refresh()
            entry.read_at = monotonic()
        return function(entry), entry

    def _open(self, id_: str, location: ArchiveLocation, identity: tuple[int, int]) -> OpenArchive:
        # The fingerprint is taken before reading, so that writes in between cause a reopen.
        fingerprint, rank = location.fingerprint(), rank_of(id_)
        archive = Archive(location.path, cache_bytes=self._cache_bytes)
        if archive.kind == "run":
            run = Run(archive)
            return OpenArchive(id_, location, RunRows(run if rank is None else run.rank(rank)), identity)
        if archive.kind == "trace":
            from cutaway.store.traces.trace_file import read  # slow to import, and most sessions view runs only
            from cutaway.views.showable import as_showable

            return OpenArchive(id_, location, as_showable(read(archive)), identity)
        if archive.kind in ("activations", "result"):
            return OpenArchive(id_, location, open_paged(archive), identity, fingerprint)
        raise InputError(f"{location.path} is {kind_text(archive.kind)}, which this version of Cutaway cannot show.")

    def _evict(self) -> None:
        """Evict the least recently used archives, but keep at least one."""
        total = sum(entry.n_bytes for entry in self._entries.values())
        while total > self._max_bytes and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            total -= oldest.n_bytes


def run_of(id_: str) -> str:
    """The id without its rank.

    >>> run_of("mfrggzdfmztw~3"), rank_of("mfrggzdfmztw~3")
    ('mfrggzdfmztw', 3)
    """
    return id_.partition(RANK)[0]


def rank_of(id_: str) -> int | None:
    """The rank in an id; None for the first rank."""
    rank = id_.partition(RANK)[2]
    if not rank:
        return None
    if not re.fullmatch("[0-9]{1,9}", rank, re.ASCII):
        raise NotFoundError(f"{rank[:40]!r} is not a rank. Write a number from 0, as in {run_of(id_)[:40]}{RANK}1.")
    return int(rank)


def rows_of(entry: OpenArchive) -> RunRows:
    """The rows of an open run; InputError for other archives."""
    if not isinstance(entry.content, RunRows):
        raise InputError(f"{entry.location.name!r} is {_what(entry)}, not a run.")
    return entry.content


def trace_of(entry: OpenArchive) -> ShowableGraph:
    """The view of an open trace; InputError for other archives."""
    if isinstance(entry.content, (RunRows, OpenActivations, OpenResult)):
        raise InputError(f"{entry.location.name!r} is {_what(entry)}, not a saved trace.")
    return entry.content


def paged_of(entry: OpenArchive) -> OpenActivations | OpenResult:
    """Open activations or an open result; InputError for other archives."""
    if not isinstance(entry.content, (OpenActivations, OpenResult)):
        raise InputError(
            f"{entry.location.name!r} is {_what(entry)}, which has no page: only activations and results have."
        )
    return entry.content


def activations_of(entry: OpenArchive) -> OpenActivations:
    """Open activations; InputError for other archives."""
    if not isinstance(entry.content, OpenActivations):
        raise InputError(f"{entry.location.name!r} is {_what(entry)}, which has no units: only activations have.")
    return entry.content


def _what(entry: OpenArchive) -> str:
    if isinstance(entry.content, RunRows):
        return "a run"
    if isinstance(entry.content, OpenActivations):
        return "activations"
    return "a saved result" if isinstance(entry.content, OpenResult) else "a saved trace"


def _manifest_identity(location: ArchiveLocation) -> tuple[int, int]:
    try:
        status = os.stat(os.path.join(location.path, HEAD))
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
