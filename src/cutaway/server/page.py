"""One offline HTML file with the interactive picture of one or several things."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Sequence
from html import escape
from os import PathLike
from pathlib import Path

from cutaway.core.io import write
from cutaway.server import bundle
from cutaway.server.view_json import packed
from cutaway.views.graph.op_details import Detail
from cutaway.views.showable import ShowableGraph, ShowablePage, as_showable

BUDGET = 40_000_000
"""So many bytes of details, before compression, are put into a file."""
CHUNK = 64
"""Details lie in chunks of so many rows: the first click decodes one of them, and not all."""

# Nothing is ever fetched, whatever is in the data; the one script that runs is the one that was written.
_POLICY = (
    "default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
    "worker-src blob:; base-uri 'none'; form-action 'none'"
)
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Cutaway">
<title>{title}</title>
</head>
<body>
<div id="cutaway"></div>
<noscript>A script in this file draws the picture: allow scripts to see it. Nothing is fetched.</noscript>
{data}
<script type="module">{script}</script>
<!--
{licenses}
-->
</body>
</html>
"""


def html(shown: Sequence[ShowableGraph | ShowablePage], *, budget: int = BUDGET, seconds: float = math.inf) -> str:
    """The page: script, views and as much of their details as fits into the budget, all in one text.

    Args:
        seconds: how long details are gathered; those of the first ops come first.
    """
    script = bundle.script().replace("</script", r"<\/script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    views = [each.view for each in shown]
    data = [_data("cutaway-data", packed(views)), *_details(shown, budget, seconds)]
    return _PAGE.format(
        policy=_POLICY.format(digest=digest),
        title=escape(" · ".join(view.title for view in views)),
        data="\n".join(data),
        script=script,
        licenses=bundle.licenses().replace("--", "- -"),
    )


def to_html(thing: object, path: str | PathLike[str]) -> Path:
    """Write the page of one thing; gives where it lies."""
    return write(path, html([as_showable(thing)]))


def _data(name: str, content: bytes) -> str:
    return f'<script type="application/octet-stream" id="{name}">{base64.b64encode(content).decode()}</script>'


def _details(shown: Sequence[ShowableGraph | ShowablePage], budget: int, seconds: float) -> Iterator[str]:
    """What every op holds, in chunks; budget and time are shared evenly among the things."""
    for number, each in enumerate(shown):
        chunks: dict[int, dict[int, Detail]] = {}
        for row, found in each.details(budget // len(shown), seconds / len(shown)).items():
            chunks.setdefault(row // CHUNK, {})[row] = found
        yield from (_data(f"cutaway-details-{number}-{chunk}", packed(found)) for chunk, found in chunks.items())
