"""The viewer as a web application: one page, the script that draws it, and what the script asks for."""

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
from cutaway.server.archives.catalog import PATIENCE, Listing
from cutaway.server.archives.folders import Folders
from cutaway.server.archives.open_archives import MOST_BYTES, Opened
from cutaway.server.http import sentence, told
from cutaway.server.prefetch import warm
from cutaway.server.routes import pages, runs, tensors, traces
from cutaway.server.security import Guard
from cutaway.server.sse import EVERY, Live

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
<noscript>A script draws this page: allow scripts to see it. Nothing is fetched from elsewhere.</noscript>
<script type="module" src="/static/cutaway.js?{version}"></script>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The application, and what goes on behind it."""

    app: Starlette
    opened: Opened
    live: Live


def viewer(
    paths: Sequence[str],
    *,
    host: str = "127.0.0.1",
    token: str = "",
    most_bytes: int = MOST_BYTES,
    patience: float = PATIENCE,
    every: float = EVERY,
) -> Viewer:
    """The viewer of everything below some paths.

    Args:
        host: the interface it will be served on; only names of that are answered to.
        token: what has to be known by whoever asks; "" where nothing has.
        most_bytes: how much memory open runs may take together, about.
        patience: seconds after which a long list is given as far as it was read.
        every: seconds between two looks at what is being written.
    """
    opened = Opened(Folders(paths), most_bytes=most_bytes)
    listing = Listing(opened, patience=patience)
    live = Live(opened, listing, every=every)

    async def events(request: Request) -> Response:
        async def is_waiting() -> bool:
            return not await request.is_disconnected()

        return StreamingResponse(live.events(is_waiting), media_type="text/event-stream")

    async def page(_: Request) -> Response:
        version = _version(await opened.aside(bundle.script))
        return HTMLResponse(_PAGE.format(version=version), headers={"cache-control": "no-cache"})

    async def script(request: Request) -> Response:
        found = await opened.aside(bundle.script)
        version = _version(found)
        is_named = request.url.query == version
        lasts = "public, max-age=31536000, immutable" if is_named else "no-cache"
        headers = {"etag": f'"{version}"', "cache-control": lasts}
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(found, media_type="text/javascript", headers=headers)

    async def licenses(_: Request) -> Response:
        return PlainTextResponse(await opened.aside(bundle.licenses))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        warming = asyncio.create_task(warm(opened, listing))
        yield
        warming.cancel()
        listing.close()
        live.close()
        opened.close()

    app = Starlette(
        routes=[
            Route("/", told(page)),
            Route("/static/cutaway.js", told(script)),
            Route("/static/licenses.txt", told(licenses)),
            Route("/api/events", told(events)),
            *runs.routes(opened, listing),
            *tensors.routes(opened),
            *traces.routes(opened),
            *pages.routes(opened, listing),
        ],
        middleware=[Middleware(Guard, host=host, token=token)],
        exception_handlers={HTTPException: _nothing},
        lifespan=lifespan,
    )
    return Viewer(app, opened, live)


async def _nothing(request: Request, error: Exception) -> Response:
    """What is no address here, or asked for in another way than by GET."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return sentence("this viewer only shows: nothing here can be changed, and GET is all it answers.", 405)
    return sentence(f"there is nothing at {request.url.path[:200]!r}.", error.status_code)


def _version(script: str) -> str:
    return sha256(script.encode()).hexdigest()[:16]
