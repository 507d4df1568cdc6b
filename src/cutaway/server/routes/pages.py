"""What is asked of collections and saved results: the page of each, and that of one unit."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutaway.core.errors import CutawayError
from cutaway.results.ranking import Ranking
from cutaway.server.archives.catalog import Listing
from cutaway.server.archives.open_archives import Held, Opened, collected_of, shelf_of
from cutaway.server.archives.result_shelf import Saved
from cutaway.server.http import Answer, answered, as_json, told, word
from cutaway.views.pages.results.activations import unit_view
from cutaway.views.run.run_view import RunItem

_MOST_RANKINGS: Final = 48
"""So many are asked about one unit."""


def routes(opened: Opened, listing: Listing) -> list[Route]:
    """The addresses, below `/api`."""

    async def page(request: Request) -> Response:
        return await answered(request, opened, lambda held: as_json(shelf_of(held).view()), tag=_tag)

    async def unit(request: Request) -> Response:
        name = word(request, "name")
        saved = [item for item in listing.known if item.page is not None and item.page.type == "Ranking"]
        chosen = sorted(saved, key=_age)[:_MOST_RANKINGS]
        rankings = await _rankings(opened, chosen, name)
        of_them = "-".join(f"{item.id}{item.page.edition if item.page else ''}" for item in chosen)

        def ask(held: Held) -> Answer:
            return as_json(unit_view(collected_of(held).read, name, rankings, n_left_out=len(saved) - len(chosen)))

        return await answered(request, opened, ask, tag=lambda held: f"{_tag(held)}.{of_them}")

    return [
        Route("/api/page/{id}", told(page)),
        Route("/api/page/{id}/unit", told(unit)),
    ]


async def _rankings(opened: Opened, items: list[RunItem], unit: str) -> dict[str, Ranking]:
    """Those that know the unit, by their names; what cannot be read says so in the list."""
    found = {}
    for item in sorted(items, key=lambda item: item.name):
        try:
            ranking = await opened.ask(item.id, lambda held: _knowing(held, unit))
        except CutawayError:
            continue
        if ranking is not None:
            found[item.name] = ranking
    return found


def _knowing(held: Held, unit: str) -> Ranking | None:
    saved = held.thing
    return saved.result if isinstance(saved, Saved) and unit in saved.units else None


def _age(item: RunItem) -> float:
    """The newest come first."""
    return -item.page.made if item.page else 0.0


def _tag(held: Held) -> str:
    shelf_of(held)
    return f"{hash(held.stamp) & 0xFFFFFFFFFFFF:x}"
