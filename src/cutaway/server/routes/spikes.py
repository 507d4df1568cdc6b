"""Routes from a spike to its cause: spikes of a curve, what changed at a step, filters on steps and samples."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutaway.core.errors import InputError
from cutaway.server.archives.open_archives import ArchiveCache, OpenArchive, rows_of
from cutaway.server.http import (
    Endpoint,
    Payload,
    as_json,
    error_boundary,
    optional_int_parameter,
    respond,
    step_parameter,
    text_parameter,
)
from cutaway.views.run.spikes_view import CurveSource, spikes_view


def routes(cache: ArchiveCache) -> list[Route]:
    """Routes below `/api`."""

    async def spikes(request: Request) -> Response:
        source = _source(request)
        return await respond(request, cache, lambda entry: as_json(spikes_view(rows_of(entry), source)))

    async def what_changed(request: Request) -> Response:
        source, step, filters = _source(request), step_parameter(request), _filters(request)

        def payload(entry: OpenArchive) -> Payload:
            from cutaway.views.run.filter_view import passing_samples
            from cutaway.views.run.what_changed import what_changed as view_of

            rows = rows_of(entry)
            passing = passing_samples(rows.run, filters, rows.filter, step) if filters else None
            return as_json(view_of(rows, source, step, samples=rows.filter, passing=passing))

        return await respond(request, cache, payload)

    async def filtered(request: Request) -> Response:
        filters = _filters(request)

        def payload(entry: OpenArchive) -> Payload:
            from cutaway.views.run.filter_view import filter_view

            rows = rows_of(entry)
            return as_json(filter_view(rows.run, filters, rows.filter))

        return await respond(request, cache, payload)

    below: dict[str, Endpoint] = {"/spikes": spikes, "/what_changed": what_changed, "/filter": filtered}
    return [Route(f"/api/run/{{id}}{path}", error_boundary(endpoint)) for path, endpoint in below.items()]


def _source(request: Request) -> CurveSource:
    """`name=` for a logged scalar; `row=` and `stat=` for a statistic."""
    row = optional_int_parameter(request, "row")
    if row is not None:
        return CurveSource(row=row, statistic=text_parameter(request, "stat"))
    return CurveSource(scalar=text_parameter(request, "name"))


_MOST_FILTERS = 32
_MOST_CHARACTERS = 8_000


def _filters(request: Request) -> list[str]:
    """`filter=`, one filter per line."""
    given = request.query_params.get("filter", "")
    texts = [line.strip() for line in given.splitlines() if line.strip()]
    if len(texts) > _MOST_FILTERS or len(given) > _MOST_CHARACTERS:
        raise InputError(f"filter= has {len(texts)} filters; at most {_MOST_FILTERS} short ones can be combined.")
    return texts
