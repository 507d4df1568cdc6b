"""Routes of saved traces: the graph of ops, details of one op."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutaway.server.archives.open_archives import ArchiveCache, OpenArchive, trace_of
from cutaway.server.http import Payload, as_json, error_boundary, int_parameter, respond


def routes(cache: ArchiveCache) -> list[Route]:
    """Routes below `/api`."""

    async def trace(request: Request) -> Response:
        return await respond(request, cache, lambda entry: as_json(trace_of(entry).view), tag=_etag)

    async def detail(request: Request) -> Response:
        row = int_parameter(request, "row")

        def payload(entry: OpenArchive) -> Payload:
            return as_json(trace_of(entry).detail(row, with_files=False))  # source files lie outside the served folders

        return await respond(request, cache, payload, tag=_etag)

    return [
        Route("/api/trace/{id}", error_boundary(trace)),
        Route("/api/trace/{id}/detail", error_boundary(detail)),
    ]


def _etag(entry: OpenArchive) -> str:
    """A saved trace is never written to again, so its manifest identifies it."""
    trace_of(entry)
    return f"{entry.identity[0]}.{entry.identity[1]}"
