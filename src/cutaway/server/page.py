"""Offline HTML file with the interactive view of one or more objects."""

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
from cutaway.server.view_json import to_compressed_json
from cutaway.views.graph.op_details import OpDetails
from cutaway.views.showable import ShowableGraph, ShowablePage, as_showable

BUDGET = 40_000_000
"""Bytes of details, before compression, that go into one file."""
# The web bundle has the same number; a test compares the two.
CHUNK = 64
"""Rows per chunk of details: the first click decodes one chunk instead of all."""

# Content security policy: no network access at all, and only the script with this hash runs.
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
<noscript>This page needs JavaScript. It loads nothing from the network.</noscript>
{data}
<script type="module">{script}</script>
<!--
{licenses}
-->
</body>
</html>
"""


def html(shown: Sequence[ShowableGraph | ShowablePage], *, budget: int = BUDGET, seconds: float = math.inf) -> str:
    """The page as one text: script, views, and as many details as fit into the budget.

    Args:
        seconds: time limit for collecting details; those of the first ops come first.
    """
    # The HTML parser ends a script element at this text, even inside a JavaScript string.
    script = bundle.script().replace("</script", r"<\/script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    views = [each.view for each in shown]
    data = [_data("cutaway-data", to_compressed_json(views)), *_details(shown, budget, seconds)]
    return _PAGE.format(
        policy=_POLICY.format(digest=digest),
        title=escape(" · ".join(view.title for view in views)),
        data="\n".join(data),
        script=script,
        licenses=bundle.licenses().replace("--", "- -"),
    )


def to_html(item: object, path: str | PathLike[str]) -> Path:
    """Write the page of one object; returns its path.

    Args:
        item: a trace, a diff, a result, a page or a view.
        path: the HTML file to write.
    """
    return write(path, html([as_showable(item)]))


def _data(name: str, content: bytes) -> str:
    return f'<script type="application/octet-stream" id="{name}">{base64.b64encode(content).decode()}</script>'


def _details(shown: Sequence[ShowableGraph | ShowablePage], budget: int, seconds: float) -> Iterator[str]:
    """Details of every op, in chunks; the objects share budget and time evenly."""
    for number, each in enumerate(shown):
        chunks: dict[int, dict[int, OpDetails]] = {}
        for row, detail in each.details(budget // len(shown), seconds / len(shown)).items():
            chunks.setdefault(row // CHUNK, {})[row] = detail
        yield from (
            _data(f"cutaway-details-{number}-{chunk}", to_compressed_json(rows)) for chunk, rows in chunks.items()
        )
