"""What is asked of saved traces: the graph of ops, and what one op holds."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutaway.server.archives.open_archives import Held, Opened, trace_of
from cutaway.server.http import Answer, answered, as_json, number, told


def routes(opened: Opened) -> list[Route]:
    """The addresses, below `/api`."""

    async def trace(request: Request) -> Response:
        return await answered(request, opened, lambda held: as_json(trace_of(held).view), tag=_tag)

    async def detail(request: Request) -> Response:
        row = number(request, "row")

        def ask(held: Held) -> Answer:
            return as_json(trace_of(held).detail(row, with_files=False))  # they lie outside the opened folders

        return await answered(request, opened, ask, tag=_tag)

    return [
        Route("/api/trace/{id}", told(trace)),
        Route("/api/trace/{id}/detail", told(detail)),
    ]


def _tag(held: Held) -> str:
    """A saved trace is never written to again."""
    trace_of(held)
    return f"{held.head[0]}.{held.head[1]}"
