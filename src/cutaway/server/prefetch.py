"""Computes the first responses of a page while the browser is still starting."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Final

from cutaway.core.errors import CutawayError
from cutaway.server.archives.catalog import Catalog
from cutaway.server.archives.open_archives import ArchiveCache, OpenArchive, rows_of
from cutaway.server.routes.runs import graph_payload, run_payload
from cutaway.views.run.run_view import RunItem

_LOG = logging.getLogger("cutaway")
_PAINT_SECONDS: Final = 1.0
"""Seconds until the page has painted: later work does not delay it."""


async def prefetch(cache: ArchiveCache, catalog: Catalog) -> None:
    """Read the list, and prefetch the first requests for the run that the page will show."""
    first = first_run(await catalog.items())
    if first is None:
        return
    try:
        await cache.apply(first.id, _prefetch_run)
        await asyncio.sleep(_PAINT_SECONDS)
        await cache.apply(first.id, _prefetch_tensor)
    except CutawayError as error:  # the page's own request reports it
        _LOG.debug("cannot prefetch %s: %s", first.path, error)


def first_run(items: Sequence[RunItem]) -> RunItem | None:
    """The run that a page shows if its URL names none: a live one, else the first with steps."""
    runs = [item for item in items if item.kind == "run"]
    live = (item for item in runs if item.state == "live")
    return next(live, None) or next((item for item in runs if item.n_steps), None) or next(iter(runs), None)


def _prefetch_run(entry: OpenArchive) -> None:
    view = json.loads(run_payload(entry).body)
    known = [number for number in view["structure_of"] if number >= 0]
    if known:
        graph_payload(entry, view["structures"][known[-1]]["hash"])


def _prefetch_tensor(entry: OpenArchive) -> None:
    """Load the code behind the first click, and read the newest step."""
    from cutaway.views.run.tensor_view import tensor_view

    rows = rows_of(entry)
    if rows.run.steps.size and rows.rows:
        tensor_view(rows, 0, step=int(rows.run.steps[-1]))
