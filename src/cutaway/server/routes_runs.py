"""What is asked of whole runs: the list, what a run holds, its graph and modules, numbers of one step, curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutaway.server.answers import (
    JSON,
    Answer,
    Endpoint,
    answered,
    as_curve,
    as_json,
    as_numbers,
    growing_tag,
    is_asked,
    number,
    step_tag,
    told,
    word,
)
from cutaway.server.listing import Listing, item_of
from cutaway.server.opened import Held, Opened, rows_of
from cutaway.server.packing import text
from cutaway.views.run_view import run_view

_MOST_KEPT: Final = 8


def routes(opened: Opened, listing: Listing) -> list[Route]:
    """The addresses, below `/api`."""

    async def runs(_: Request) -> Response:
        return Response(text(await listing.items()), media_type=JSON)

    async def run(request: Request) -> Response:
        return await answered(request, opened, _run, tag=_run_tag, fresh=True)

    async def graph(request: Request) -> Response:
        structure, with_hidden = request.query_params.get("structure") or None, is_asked(request, "hidden")
        return await answered(request, opened, lambda held: _graph(held, structure, with_hidden=with_hidden))

    async def network(request: Request) -> Response:
        return await answered(request, opened, _network)

    async def samples(request: Request) -> Response:
        step = number(request, "step")
        return await answered(request, opened, lambda held: _samples(held, step), tag=step_tag(step))

    async def matrix(request: Request) -> Response:
        step = number(request, "step")
        return await answered(request, opened, lambda held: as_numbers(rows_of(held).matrix(step)), tag=step_tag(step))

    async def column(request: Request) -> Response:
        step, stat = number(request, "step"), word(request, "stat")
        return await answered(
            request, opened, lambda held: as_numbers(rows_of(held).column(step, stat)), tag=step_tag(step)
        )

    async def curve(request: Request) -> Response:
        row, stat = number(request, "row"), word(request, "stat")
        kind = request.query_params.get("kind")

        def ask(held: Held) -> Answer:
            return as_curve(rows_of(held).curve(row, stat, kind=kind))

        return await answered(request, opened, ask)

    async def scalar(request: Request) -> Response:
        name = word(request, "name")

        def ask(held: Held) -> Answer:
            return as_curve(rows_of(held).run.scalars[name])

        return await answered(request, opened, ask)

    below: dict[str, Endpoint] = {
        "": run,
        "/graph": graph,
        "/network": network,
        "/samples": samples,
        "/matrix": matrix,
        "/column": column,
        "/curve": curve,
        "/scalar": scalar,
    }
    return [
        Route("/api/runs", told(runs)),
        *(Route(f"/api/run/{{id}}{path}", told(endpoint)) for path, endpoint in below.items()),
    ]


def _run_tag(held: Held) -> str:
    """A run may die without a word, and damage be found where nothing was written."""
    item = item_of(held)
    return f"{growing_tag(held)}.{item.state}.{len(item.problems)}"


def _kept(held: Held, asked: str, make: Callable[[], Answer], *, tag: str = "") -> Answer:
    """An answer that takes long, made once until its tag changes."""
    tag = tag or growing_tag(held)
    known = held.answers.get(asked)
    if known is not None and known[0] == tag:
        return Answer(known[1])
    answer = make()
    held.answers.pop(asked, None)
    while len(held.answers) >= _MOST_KEPT:
        del held.answers[next(iter(held.answers))]
    held.answers[asked] = (tag, answer.body)
    return answer


def _run(held: Held) -> Answer:
    """The first thing that is asked, and again whenever a run has grown."""
    return _kept(held, "run", lambda: as_json(run_view(rows_of(held), name=held.place.name)), tag=_run_tag(held))


def _graph(held: Held, structure: str | None, *, with_hidden: bool) -> Answer:
    from cutaway.views.run_graph import run_graph

    asked = f"graph {structure} {with_hidden}"
    return _kept(held, asked, lambda: as_json(run_graph(rows_of(held), structure, with_hidden=with_hidden)))


def _network(held: Held) -> Answer:
    from cutaway.views.network_view import network_view

    return as_json(network_view(rows_of(held)))


def _samples(held: Held, step: int) -> Answer:
    from cutaway.views.sample_view import samples_view

    return as_json(samples_view(rows_of(held).run, step))
