"""The gallery of the sweep: a picture of every architecture, and one page to search them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from cutaway.graph.trace import Trace
from cutaway.layout.place import place
from cutaway.views.draw.svg import svg
from cutaway.views.graph.from_trace import graph_view
from cutaway.views.showable import overview_picture

if TYPE_CHECKING:
    from benchmarks.sweep.checks import Verdict

FOLDER = "CUTAWAY_GALLERY"
"""Environment variable with the folder that workers draw into."""
PAGE = Path(__file__).with_name("gallery.html")
"""The page, with a place for the list."""


def draw(trace: Trace, name: str, folder: Path) -> str:
    """Draw a trace, folded so that it can be taken in at a glance; gives the name of the file."""
    file = re.sub(r"[^\w.-]+", "-", name) + ".svg"
    folder.mkdir(parents=True, exist_ok=True)
    picture = overview_picture(graph_view(trace))
    (folder / file).write_text(svg(picture, place(picture)), encoding="utf-8")
    return file


def write(verdicts: Iterable[Verdict], folder: Path) -> Path:
    """The page over all pictures that were drawn."""
    rows = [
        {
            "name": verdict.name,
            "family": verdict.family,
            "ops": verdict.n_ops,
            "picture": f"{verdict.family}/{verdict.picture}",
        }
        for verdict in verdicts
        if verdict.picture
    ]
    page = folder / "index.html"
    folder.mkdir(parents=True, exist_ok=True)
    page.write_text(PAGE.read_text().replace("{{rows}}", escape(json.dumps(rows))), encoding="utf-8")
    return page
