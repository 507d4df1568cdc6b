"""The list of what is in the opened folders. What has ended is read once; a long list is read aside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from time import monotonic
from typing import Final

from cutaway.core.errors import CutawayError, DamagedError
from cutaway.server.archives.folders import Place, Stamp
from cutaway.server.archives.open_archives import Held, Opened, rank_of, rows_of
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.filenames import HEAD
from cutaway.store.format.manifest import Head
from cutaway.store.reading.archive import Archive
from cutaway.views.run.run_view import RunItem, RunKind, archive_item, other_item, run_item

_LOG = logging.getLogger("cutaway")
PATIENCE: Final = 2.0
"""Seconds after which a list is given as far as it is known; the rest is read meanwhile."""
_LATER: Final = "It was not read yet."


class Listing:
    """What is known of each thing without looking at it again."""

    def __init__(self, opened: Opened, *, patience: float = PATIENCE) -> None:
        self._opened = opened
        self._patience = patience
        self._known: dict[str, tuple[Stamp, RunItem]] = {}
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing is being read that belongs into the list."""
        return self._reading is None or self._reading.done()

    @property
    def known(self) -> list[RunItem]:
        """What is known already, without a look at any disk."""
        return [item for _, item in self._known.values()]

    async def has_news(self, places: Iterable[Place]) -> bool:
        """Whether something is there that the list does not tell yet. Runs tell of their growth themselves."""
        known = {place: self._known[place.id] for place in places if place.id in self._known}
        followed = {place: each for place, each in known.items() if each[1].kind != "run" or _is_unread(each[1])}
        stamps = await self._opened.aside(lambda: [place.stamp() for place in followed])
        for (place, (stamp, item)), now in zip(followed.items(), stamps, strict=True):
            if stamp != now:
                return True
            if item.page is not None and item.state not in ("ended", "killed") and await self._item(place, now) != item:
                return True
        return False

    async def items(self) -> list[RunItem]:
        """One for each thing, in the order of their names."""
        until = monotonic() + self._patience
        places = list((await self._opened.places()).values())
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=self._patience)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(places))
            await asyncio.wait({self._reading}, timeout=max(until - monotonic(), 0))
        return [
            self._known[place.id][1] if place.id in self._known else other_item(place.name, place.path, problem=_LATER)
            for place in places
        ]

    def close(self) -> None:
        """Read no further."""
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self, places: Sequence[Place]) -> None:
        """Read what was not read yet, or may have changed."""
        here = {place.id for place in places}
        self._known = {id_: known for id_, known in self._known.items() if id_ in here}
        stamps = await self._opened.aside(lambda: [place.stamp() for place in places])
        for place, stamp in zip(places, stamps, strict=True):
            known = self._known.get(place.id)
            if known is None or known[0] != stamp or known[1].state not in ("ended", "killed"):
                self._known[place.id] = (stamp, await self._item(place, stamp))

    async def _item(self, place: Place, stamp: Stamp) -> RunItem:
        kind: RunKind = "run"
        try:
            kind = await self._opened.aside(lambda: _kind_of(place))
            if kind == "trace":
                return other_item(place.name, place.path, kind="trace")
            if kind in ("activations", "result"):
                return await self._opened.aside(lambda: _shelved(place, stamp))
            return await self._opened.ask(place.id, item_of, fresh=True)
        except CutawayError as error:
            return other_item(place.name, place.path, kind=kind, problem=str(error))
        except Exception as error:  # one thing that cannot be told must not hide the others
            _LOG.exception("%s could not be listed", place.path)
            said = f"It could not be read: {type(error).__name__}: {error}"
            return other_item(place.name, place.path, kind=kind, problem=said)


def item_of(held: Held) -> RunItem:
    """The entry of a run that is open."""
    item = run_item(rows_of(held).run, name=held.place.name)
    rank = rank_of(held.id)
    return item if rank is None else replace(item, id=held.id, name=f"{item.name} · rank {rank}")


def _shelved(place: Place, stamp: Stamp) -> RunItem:
    """A collection or a saved result; of what is damaged, why it cannot be shown."""
    place.check()
    edition = sha256(repr(stamp).encode()).hexdigest()[:12]
    return archive_item(Archive(place.path), name=place.name, edition=edition)


def _is_unread(item: RunItem) -> bool:
    """Whether it could not be read: it may have just been begun."""
    return bool(item.problems) and item.state == "unknown" and not item.n_steps


def _kind_of(place: Place) -> RunKind:
    """What the head says; a run where nothing says it, because opening it will tell."""
    try:
        kind = Head.read(backend_for(place.path).read(HEAD, 0, 1 << 20)).kind
    except (OSError, DamagedError):
        try:
            kind = Archive(place.path).kind
        except CutawayError:
            return "run"
    return kind if kind != "generation" else "run"
