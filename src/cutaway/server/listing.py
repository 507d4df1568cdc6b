"""The list of runs and traces in the opened folders. Those that ended are read once; a long list is read aside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Final

from cutaway.core.errors import CutawayError, DamagedError
from cutaway.server.folders import Place
from cutaway.server.opened import Held, Opened, rank_of, rows_of
from cutaway.store.backends import backend_for
from cutaway.store.head import Head
from cutaway.store.names import HEAD
from cutaway.views.run_view import RunItem, other_item, run_item

_LOG = logging.getLogger("cutaway")
Stamp = tuple[tuple[str, int, int, int], ...]
PATIENCE: Final = 2.0
"""Seconds after which a list is given as far as it is known; the rest is read meanwhile."""
_LATER: Final = "It was not read yet."


class Listing:
    """What is known of each run without looking at it again."""

    def __init__(self, opened: Opened, *, patience: float = PATIENCE) -> None:
        self._opened = opened
        self._patience = patience
        self._known: dict[str, tuple[Stamp, RunItem]] = {}
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing is being read that belongs into the list."""
        return self._reading is None or self._reading.done()

    async def items(self) -> list[RunItem]:
        """One for each run and trace, in the order of their names."""
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
                self._known[place.id] = (stamp, await self._item(place))

    async def _item(self, place: Place) -> RunItem:
        try:
            if await self._opened.aside(lambda: _kind_of(place)) == "trace":
                return other_item(place.name, place.path, kind="trace")
            return await self._opened.ask(place.id, item_of, fresh=True)
        except CutawayError as error:
            return other_item(place.name, place.path, problem=str(error))
        except Exception as error:  # one run that cannot be told must not hide the others
            _LOG.exception("%s could not be listed", place.path)
            return other_item(place.name, place.path, problem=f"It could not be read: {type(error).__name__}: {error}")


def item_of(held: Held) -> RunItem:
    """The entry of a run that is open."""
    item = run_item(rows_of(held).run, name=held.place.name)
    rank = rank_of(held.id)
    return item if rank is None else replace(item, id=held.id, name=f"{item.name} · rank {rank}")


def _kind_of(place: Place) -> str:
    """What the head says; a run where it is lost, because opening it will tell."""
    try:
        return Head.read(backend_for(place.path).read(HEAD, 0, 1 << 20)).kind
    except (OSError, DamagedError):
        return "run"
