"""The viewer as a Starlette application: page, script, API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from cutaway.server import bundle
from cutaway.server.archives.catalog import PATIENCE, Catalog
from cutaway.server.archives.folders import Folders
from cutaway.server.archives.open_archives import MOST_BYTES, ArchiveCache
from cutaway.server.http import error_boundary, error_response
from cutaway.server.prefetch import prefetch
from cutaway.server.routes import pages, runs, spikes, tensors, traces
from cutaway.server.security import SecurityMiddleware
from cutaway.server.sse import EVERY, EventBroadcaster

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Cutaway</title>
<link rel="icon" href="data:,">
</head>
<body>
<div id="cutaway" data-viewer></div>
<noscript>This page needs JavaScript. It loads nothing from other servers.</noscript>
<script type="module" src="/static/cutaway.js?{version}"></script>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The application and its background services."""

    app: Starlette
    cache: ArchiveCache
    live: EventBroadcaster


def viewer(
    paths: Sequence[str],
    *,
    host: str = "127.0.0.1",
    token: str = "",
    most_bytes: int = MOST_BYTES,
    patience: float = PATIENCE,
    every: float = EVERY,
) -> Viewer:
    """Build the viewer for everything in some folders.

    Args:
        paths: the folders; they must exist, and may still be empty.
        host: the interface you will serve it on; requests with another `Host` are refused.
        token: the token that clients must send; "" for none.
        most_bytes: approximate memory limit for all open archives together.
        patience: seconds after which a long list is returned incomplete.
        every: seconds between two polls of live runs.
    """
    cache = ArchiveCache(Folders(paths), most_bytes=most_bytes)
    catalog = Catalog(cache, patience=patience)
    live = EventBroadcaster(cache, catalog, every=every)

    async def events(request: Request) -> Response:
        async def is_connected() -> bool:
            return not await request.is_disconnected()

        return StreamingResponse(live.events(is_connected), media_type="text/event-stream")

    async def page(_: Request) -> Response:
        version = _script_version(await cache.in_thread(bundle.script))
        return HTMLResponse(_PAGE.format(version=version), headers={"cache-control": "no-cache"})

    async def script(request: Request) -> Response:
        source = await cache.in_thread(bundle.script)
        version = _script_version(source)
        is_versioned = request.url.query == version
        # The URL holds the hash of the script, so another script has another URL.
        caching = "public, max-age=31536000, immutable" if is_versioned else "no-cache"
        headers = {"etag": f'"{version}"', "cache-control": caching}
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(source, media_type="text/javascript", headers=headers)

    async def licenses(_: Request) -> Response:
        return PlainTextResponse(await cache.in_thread(bundle.licenses))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        prefetching = asyncio.create_task(prefetch(cache, catalog))
        yield
        prefetching.cancel()
        catalog.close()
        live.close()
        cache.close()

    app = Starlette(
        routes=[
            Route("/", error_boundary(page)),
            Route("/static/cutaway.js", error_boundary(script)),
            Route("/static/licenses.txt", error_boundary(licenses)),
            Route("/api/events", error_boundary(events)),
            *runs.routes(cache, catalog),
            *tensors.routes(cache),
            *spikes.routes(cache),
            *traces.routes(cache),
            *pages.routes(cache, catalog),
        ],
        middleware=[Middleware(SecurityMiddleware, host=host, token=token)],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    return Viewer(app, cache, live)


async def _http_error(request: Request, error: Exception) -> Response:
    """Unknown path, or a method other than GET."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return error_response("the viewer is read-only and answers GET requests only.", 405)
    return error_response(f"no such path: {request.url.path[:200]!r}.", error.status_code)


def _script_version(script: str) -> str:
    return sha256(script.encode()).hexdigest()[:16]
