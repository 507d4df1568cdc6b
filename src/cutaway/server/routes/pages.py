"""Routes of activations and saved results: the page of each, and of one unit."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutaway.core.errors import CutawayError
from cutaway.results.neurons.ranking import Ranking
from cutaway.server.archives.catalog import Catalog
from cutaway.server.archives.open_archives import ArchiveCache, OpenArchive, activations_of, paged_of
from cutaway.server.archives.result_shelf import OpenResult
from cutaway.server.http import Payload, as_json, error_boundary, respond, text_parameter
from cutaway.views.pages.results.activations import unit_view
from cutaway.views.run.run_view import RunItem

_MAX_RANKINGS: Final = 48
"""Rankings consulted for the page of a unit."""


def routes(cache: ArchiveCache, catalog: Catalog) -> list[Route]:
    """Routes below `/api`."""

    async def page(request: Request) -> Response:
        return await respond(request, cache, lambda entry: as_json(paged_of(entry).view()), tag=_etag)

    async def unit(request: Request) -> Response:
        name = text_parameter(request, "name")
        saved = [item for item in catalog.known if item.page is not None and item.page.type == "Ranking"]
        chosen = sorted(saved, key=_age)[:_MAX_RANKINGS]
        rankings = await _rankings(cache, chosen, name)
        editions = "-".join(f"{item.id}{item.page.edition if item.page else ''}" for item in chosen)

        def payload(entry: OpenArchive) -> Payload:
            return as_json(unit_view(activations_of(entry).read, name, rankings, n_left_out=len(saved) - len(chosen)))

        return await respond(request, cache, payload, tag=lambda entry: f"{_etag(entry)}.{editions}")

    return [
        Route("/api/page/{id}", error_boundary(page)),
        Route("/api/page/{id}/unit", error_boundary(unit)),
    ]


async def _rankings(cache: ArchiveCache, items: list[RunItem], unit: str) -> dict[str, Ranking]:
    """The rankings that include the unit, by name; skips unreadable ones, which the list reports."""
    rankings = {}
    for item in sorted(items, key=lambda item: item.name):
        try:
            ranking = await cache.apply(item.id, lambda entry: _ranking_with(entry, unit))
        except CutawayError:
            continue
        if ranking is not None:
            rankings[item.name] = ranking
    return rankings


def _ranking_with(entry: OpenArchive, unit: str) -> Ranking | None:
    saved = entry.content
    return saved.result if isinstance(saved, OpenResult) and unit in saved.units else None


def _age(item: RunItem) -> float:
    """Sort key: newest first."""
    return -item.page.created if item.page else 0.0


def _etag(entry: OpenArchive) -> str:
    paged_of(entry)
    # String hashes differ between processes, and so do all ETags of this server (`_SALT`).
    return f"{hash(entry.fingerprint) & 0xFFFFFFFFFFFF:x}"
