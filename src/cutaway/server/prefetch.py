"""What a page asks first is got ready while the browser still opens its window."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Final

from cutaway.core.errors import CutawayError
from cutaway.server.archives.catalog import Listing
from cutaway.server.archives.open_archives import Held, Opened, rows_of
from cutaway.server.routes.runs import graph_answer, run_answer
from cutaway.views.run.run_view import RunItem

_LOG = logging.getLogger("cutaway")
_LATER: Final = 1.0
"""Seconds: the page is painted by then, and was not kept waiting."""


async def warm(opened: Opened, listing: Listing) -> None:
    """Read the list, and of the run that a page shows first all that it asks for at once."""
    first = first_of(await listing.items())
    if first is None:
        return
    try:
        await opened.ask(first.id, _ready)
        await asyncio.sleep(_LATER)
        await opened.ask(first.id, _looked_into)
    except CutawayError as error:  # the page will be told the same, in its turn
        _LOG.debug("%s was not made ready: %s", first.path, error)


def first_of(items: Sequence[RunItem]) -> RunItem | None:
    """The run that a page shows if its address names none: one that is being written, else the first with steps."""
    runs = [item for item in items if item.kind == "run"]
    live = (item for item in runs if item.state == "live")
    return next(live, None) or next((item for item in runs if item.n_steps), None) or next(iter(runs), None)


def _ready(held: Held) -> None:
    view = json.loads(run_answer(held).body)
    known = [number for number in view["structure_of"] if number >= 0]
    if known:
        graph_answer(held, view["structures"][known[-1]]["hash"])


def _looked_into(held: Held) -> None:
    """The code behind the first click is loaded, and the newest step is read."""
    from cutaway.views.run.tensor_view import tensor_view

    rows = rows_of(held)
    if rows.run.steps.size and rows.rows:
        tensor_view(rows, 0, step=int(rows.run.steps[-1]))
