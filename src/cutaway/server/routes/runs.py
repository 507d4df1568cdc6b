"""Routes of runs: the list, one run, its graph and modules, one step, curves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutaway.core.errors import InputError
from cutaway.server.archives.catalog import Catalog, item_of
from cutaway.server.archives.open_archives import ArchiveCache, OpenArchive, rows_of
from cutaway.server.http import (
    JSON,
    Endpoint,
    Payload,
    as_band,
    as_curve,
    as_json,
    as_matrix,
    as_numbers,
    error_boundary,
    flag_parameter,
    int_parameter,
    optional_int_parameter,
    respond,
    run_etag,
    step_etag,
    step_parameter,
    text_parameter,
)
from cutaway.server.view_json import to_json
from cutaway.views.run.run_view import FoldersView, run_view

_MAX_CACHED: Final = 8
_MAX_LAYOUT: Final = 64_000
"""Maximum length of the `layout` parameter, in characters."""


def routes(cache: ArchiveCache, catalog: Catalog) -> list[Route]:
    """Routes below `/api`."""

    async def runs(_: Request) -> Response:
        return Response(to_json(await catalog.items()), media_type=JSON)

    async def folders(_: Request) -> Response:
        view = FoldersView(cache.folders.paths, cache.folders.stopped)
        return Response(to_json(view), media_type=JSON)

    async def run(request: Request) -> Response:
        return await respond(request, cache, run_payload, tag=_run_state_etag, fresh=True)

    async def graph(request: Request) -> Response:
        structure, with_hidden = request.query_params.get("structure") or None, flag_parameter(request, "hidden")
        layout = request.query_params.get("layout") or ""
        return await respond(
            request, cache, lambda entry: graph_payload(entry, structure, layout, with_hidden=with_hidden)
        )

    async def network(request: Request) -> Response:
        return await respond(request, cache, _network)

    async def samples(request: Request) -> Response:
        step = step_parameter(request)
        return await respond(request, cache, lambda entry: _samples(entry, step), tag=step_etag(step))

    async def matrix(request: Request) -> Response:
        step, sample = step_parameter(request), optional_int_parameter(request, "sample")
        with_contents = flag_parameter(request, "contents")

        def payload(entry: OpenArchive) -> Payload:
            from cutaway.views.run.outliers import contents_codes
            from cutaway.views.run.sample_matrix import sample_matrix

            rows = rows_of(entry)
            matrix = rows.matrix(step) if sample is None else sample_matrix(rows, step, sample)
            return as_matrix(matrix, contents_codes(rows, matrix)) if with_contents else as_numbers(matrix)

        return await respond(request, cache, payload, tag=step_etag(step))

    async def marks(request: Request) -> Response:
        step, sample = step_parameter(request), optional_int_parameter(request, "sample")

        def payload(entry: OpenArchive) -> Payload:
            from cutaway.views.run.outliers import step_marks

            return as_json(step_marks(rows_of(entry), step, sample=sample))

        return await respond(request, cache, payload, tag=step_etag(step))

    async def limits(request: Request) -> Response:
        stat, of, kind = (
            text_parameter(request, "stat"),
            text_parameter(request, "of"),
            request.query_params.get("kind"),
        )

        def payload(entry: OpenArchive) -> Payload:
            from cutaway.views.run.color_limits import color_limits

            return _cached(
                entry,
                f"limits {stat} {of} {kind}",
                lambda: as_json(color_limits(rows_of(entry), stat, of=of, kind=kind)),
            )

        return await respond(request, cache, payload)

    async def column(request: Request) -> Response:
        step, stat = step_parameter(request), text_parameter(request, "stat")
        return await respond(
            request, cache, lambda entry: as_numbers(rows_of(entry).column(step, stat)), tag=step_etag(step)
        )

    async def curve(request: Request) -> Response:
        row, stat = int_parameter(request, "row"), text_parameter(request, "stat")
        kind = request.query_params.get("kind")

        def payload(entry: OpenArchive) -> Payload:
            return as_curve(rows_of(entry).curve(row, stat, kind=kind))

        return await respond(request, cache, payload)

    async def band(request: Request) -> Response:
        row, stat = int_parameter(request, "row"), text_parameter(request, "stat")
        kind = request.query_params.get("kind")
        iteration, pass_ = optional_int_parameter(request, "iteration"), optional_int_parameter(request, "pass")

        def payload(entry: OpenArchive) -> Payload:
            return as_band(rows_of(entry).band(row, stat, kind=kind, iteration=iteration, pass_=pass_))

        return await respond(request, cache, payload)

    async def scalar(request: Request) -> Response:
        name = text_parameter(request, "name")

        def payload(entry: OpenArchive) -> Payload:
            return as_curve(rows_of(entry).run.scalars[name])

        return await respond(request, cache, payload)

    below: dict[str, Endpoint] = {
        "": run,
        "/graph": graph,
        "/network": network,
        "/samples": samples,
        "/matrix": matrix,
        "/marks": marks,
        "/limits": limits,
        "/column": column,
        "/curve": curve,
        "/band": band,
        "/scalar": scalar,
    }
    return [
        Route("/api/runs", error_boundary(runs)),
        Route("/api/folders", error_boundary(folders)),
        *(Route(f"/api/run/{{id}}{path}", error_boundary(endpoint)) for path, endpoint in below.items()),
    ]


def _run_state_etag(entry: OpenArchive) -> str:
    """The state and damage can change without a write: a process dies, or reading finds damage."""
    item = item_of(entry)
    return f"{run_etag(entry)}.{item.state}.{len(item.damage)}"


def _cached(entry: OpenArchive, asked: str, make: Callable[[], Payload], *, tag: str = "") -> Payload:
    """A slow response, computed once per ETag."""
    tag = tag or run_etag(entry)
    known = entry.answers.get(asked)
    if known is not None and known[0] == tag:
        return Payload(known[1])
    answer = make()
    entry.answers.pop(asked, None)
    while len(entry.answers) >= _MAX_CACHED:
        del entry.answers[next(iter(entry.answers))]
    entry.answers[asked] = (tag, answer.body)
    return answer


def run_payload(entry: OpenArchive) -> Payload:
    """The run itself: a page's first request, repeated whenever the run grows."""

    def make() -> Payload:
        view = run_view(rows_of(entry), name=entry.location.name)
        return as_json(replace(view, item=item_of(entry)))

    return _cached(entry, "run", make, tag=_run_state_etag(entry))


def graph_payload(entry: OpenArchive, structure: str | None, layout: str = "", *, with_hidden: bool = False) -> Payload:
    """The dependency graph; cached, because layout is slow."""
    from cutaway.views.run.run_graph import run_graph

    parsed = _layout_overrides(layout)
    asked = f"graph {structure} {with_hidden} {layout}"
    return _cached(
        entry, asked, lambda: as_json(run_graph(rows_of(entry), structure, with_hidden=with_hidden, overrides=parsed))
    )


def _layout_overrides(text: str) -> list[Any]:
    """Parse the layout overrides of the reader; an empty text means none."""
    try:
        # Truncated JSON does not parse, so that a text beyond the limit is refused too.
        parsed = json.loads(text[:_MAX_LAYOUT]) if text else []
    # The parser recurses: a long text of brackets exceeds the recursion limit.
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, list):
        raise InputError(f'layout={text[:40]!r} must be a JSON list such as [{{"at": "encoder", "within": "mine"}}].')
    return parsed


def _network(entry: OpenArchive) -> Payload:
    from cutaway.views.run.module_table import network_view

    return as_json(network_view(rows_of(entry)))


def _samples(entry: OpenArchive, step: int) -> Payload:
    from cutaway.views.run.sample_view import samples_view

    return as_json(samples_view(rows_of(entry).run, step))
