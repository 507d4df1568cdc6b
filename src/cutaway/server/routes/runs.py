"""What is asked of whole runs: the list, what a run holds, its graph and modules, numbers of one step, curves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutaway.core.errors import InputError
from cutaway.server.archives.catalog import Listing, item_of
from cutaway.server.archives.open_archives import Held, Opened, rows_of
from cutaway.server.http import (
    JSON,
    Answer,
    Endpoint,
    answered,
    as_band,
    as_curve,
    as_json,
    as_matrix,
    as_numbers,
    growing_tag,
    is_asked,
    number,
    optional_number,
    step_tag,
    told,
    word,
)
from cutaway.server.view_json import text
from cutaway.views.run.run_view import run_view

_MOST_KEPT: Final = 8
_MOST_LAYOUT: Final = 64_000
"""Characters of layout overrides in a request."""


def routes(opened: Opened, listing: Listing) -> list[Route]:
    """The addresses, below `/api`."""

    async def runs(_: Request) -> Response:
        return Response(text(await listing.items()), media_type=JSON)

    async def run(request: Request) -> Response:
        return await answered(request, opened, run_answer, tag=_run_tag, fresh=True)

    async def graph(request: Request) -> Response:
        structure, with_hidden = request.query_params.get("structure") or None, is_asked(request, "hidden")
        layout = request.query_params.get("layout") or ""
        return await answered(
            request, opened, lambda held: graph_answer(held, structure, layout, with_hidden=with_hidden)
        )

    async def network(request: Request) -> Response:
        return await answered(request, opened, _network)

    async def samples(request: Request) -> Response:
        step = number(request, "step")
        return await answered(request, opened, lambda held: _samples(held, step), tag=step_tag(step))

    async def matrix(request: Request) -> Response:
        step, sample = number(request, "step"), optional_number(request, "sample")
        with_z = is_asked(request, "z")

        def ask(held: Held) -> Answer:
            from cutaway.views.run.outliers import compared, z_of_step
            from cutaway.views.run.sample_matrix import sample_matrix

            rows = rows_of(held)
            found = rows.matrix(step) if sample is None else sample_matrix(rows, step, sample)
            return as_matrix(found, z_of_step(rows, found), compared(rows)) if with_z else as_numbers(found)

        return await answered(request, opened, ask, tag=step_tag(step))

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

    async def band(request: Request) -> Response:
        row, stat = number(request, "row"), word(request, "stat")
        kind = request.query_params.get("kind")
        iteration, pass_ = optional_number(request, "iteration"), optional_number(request, "pass")

        def ask(held: Held) -> Answer:
            return as_band(rows_of(held).band(row, stat, kind=kind, iteration=iteration, pass_=pass_))

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
        "/band": band,
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


def run_answer(held: Held) -> Answer:
    """The first thing that is asked, and again whenever a run has grown."""

    def make() -> Answer:
        view = run_view(rows_of(held), name=held.place.name)
        return as_json(replace(view, item=item_of(held)))

    return _kept(held, "run", make, tag=_run_tag(held))


def graph_answer(held: Held, structure: str | None, layout: str = "", *, with_hidden: bool = False) -> Answer:
    """The dependency graph; kept, because it takes long."""
    from cutaway.views.run.run_graph import run_graph

    overrides = _layout_overrides(layout)
    asked = f"graph {structure} {with_hidden} {layout}"

    def make() -> Answer:
        return as_json(run_graph(rows_of(held), structure, with_hidden=with_hidden, overrides=overrides))

    return _kept(held, asked, make)


def _layout_overrides(text: str) -> list[Any]:
    """Parse the layout overrides of a request from JSON; an empty list for no text."""
    try:
        overrides = json.loads(text[:_MOST_LAYOUT]) if text else []
    except (ValueError, RecursionError):
        overrides = None
    if not isinstance(overrides, list):
        raise InputError(f'layout={text[:40]!r} must be a JSON list such as [{{"at": "encoder", "within": "mine"}}].')
    return overrides


def _network(held: Held) -> Answer:
    from cutaway.views.run.module_table import network_view

    return as_json(network_view(rows_of(held)))


def _samples(held: Held, step: int) -> Answer:
    from cutaway.views.run.sample_view import samples_view

    return as_json(samples_view(rows_of(held).run, step))
