"""The list of archives in the served folders: reads ended ones once, reads a long list in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from time import monotonic
from typing import Final

from cutaway.core.errors import CutawayError, DamagedError
from cutaway.server.archives.folders import ArchiveLocation, Fingerprint
from cutaway.server.archives.open_archives import ArchiveCache, OpenArchive, rank_of, rows_of
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.filenames import HEAD
from cutaway.store.format.manifest import Head
from cutaway.store.reading.archive import Archive
from cutaway.views.run.run_view import RunItem, RunKind, archive_item, other_item, run_item, trace_item

_LOG = logging.getLogger("cutaway")
PATIENCE: Final = 2.0
"""Seconds after which `items` returns what is known; the rest is read in the background."""
_NOT_READ: Final = "Not read yet."


class Catalog:
    """Caches the list entry of each archive."""

    def __init__(self, cache: ArchiveCache, *, patience: float = PATIENCE) -> None:
        self._cache = cache
        self._patience = patience
        self._known: dict[str, tuple[Fingerprint, RunItem]] = {}
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether no archive is still being read for the list."""
        return self._reading is None or self._reading.done()

    @property
    def known(self) -> list[RunItem]:
        """The entries known so far, without disk access."""
        return [item for _, item in self._known.values()]

    async def has_news(self, locations: Iterable[ArchiveLocation]) -> bool:
        """Whether the list is out of date. Growth of runs does not count: `sse` reports it."""
        known = {location: self._known[location.id] for location in locations if location.id in self._known}
        followed = {location: pair for location, pair in known.items() if pair[1].kind != "run" or _is_unread(pair[1])}
        fingerprints = await self._cache.in_thread(lambda: [location.fingerprint() for location in followed])
        for (location, (fingerprint, item)), now in zip(followed.items(), fingerprints, strict=True):
            if fingerprint != now:
                return True
            if (
                item.page is not None
                and item.state not in ("ended", "killed")
                and await self._item(location, now) != item
            ):
                return True
        return False

    async def items(self) -> list[RunItem]:
        """One entry per archive, sorted by name."""
        until = monotonic() + self._patience
        locations = list((await self._cache.locations()).values())
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=self._patience)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(locations))
            await asyncio.wait({self._reading}, timeout=max(until - monotonic(), 0))
        return [
            self._known[location.id][1]
            if location.id in self._known
            else other_item(location.name, location.path, damage=_NOT_READ)
            for location in locations
        ]

    def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self, locations: Sequence[ArchiveLocation]) -> None:
        """Read archives that are new or may have changed."""
        here = {location.id for location in locations}
        self._known = {id_: known for id_, known in self._known.items() if id_ in here}
        fingerprints = await self._cache.in_thread(lambda: [location.fingerprint() for location in locations])
        for location, fingerprint in zip(locations, fingerprints, strict=True):
            known = self._known.get(location.id)
            # Live runs are read again without a change on disk: their process may have died.
            if known is None or known[0] != fingerprint or known[1].state not in ("ended", "killed"):
                self._known[location.id] = (fingerprint, await self._item(location, fingerprint))

    async def _item(self, location: ArchiveLocation, fingerprint: Fingerprint) -> RunItem:
        kind: RunKind = "run"
        try:
            kind = await self._cache.in_thread(lambda: _kind_of(location))
            if kind == "trace":
                return await self._cache.in_thread(lambda: _trace_item(location))
            if kind in ("activations", "result"):
                return await self._cache.in_thread(lambda: _paged_item(location, fingerprint))
            return await self._cache.apply(location.id, item_of, fresh=True)
        except CutawayError as error:
            return other_item(location.name, location.path, kind=kind, damage=str(error))
        except Exception as error:  # one unreadable archive must not hide the others
            _LOG.exception("cannot list %s", location.path)
            reason = f"cannot read it: {type(error).__name__}: {error}"
            return other_item(location.name, location.path, kind=kind, damage=reason)


def item_of(entry: OpenArchive) -> RunItem:
    """The list entry of an open run."""
    item = run_item(rows_of(entry).run, name=entry.location.name)
    rank = rank_of(entry.id)
    return item if rank is None else replace(item, id=entry.id, name=f"{item.name} · rank {rank}")


def _paged_item(location: ArchiveLocation, fingerprint: Fingerprint) -> RunItem:
    """The list entry of activations or a saved result; errors become its damage."""
    location.check()
    edition = sha256(repr(fingerprint).encode()).hexdigest()[:12]
    return archive_item(Archive(location.path), name=location.name, edition=edition)


def _trace_item(location: ArchiveLocation) -> RunItem:
    """The list entry of a saved trace; errors become its damage."""
    location.check()
    return trace_item(Archive(location.path), name=location.name)


def _is_unread(item: RunItem) -> bool:
    """Whether it could not be read; its writer may have just started."""
    return bool(item.damage) and item.state == "unknown" and not item.n_steps


def _kind_of(location: ArchiveLocation) -> RunKind:
    """The kind in the manifest; "run" if it is unreadable, because opening a run reports the damage."""
    try:
        kind = Head.read(backend_for(location.path).read(HEAD, 0, 1 << 20)).kind
    except (OSError, DamagedError):
        try:
            kind = Archive(location.path).kind
        except CutawayError:
            return "run"
    return kind if kind != "generation" else "run"
