"""Wraps whatever `show` can display: its view, the details of its ops, and a static image."""

from __future__ import annotations

import math
import time
from base64 import b64encode
from dataclasses import dataclass, replace
from html import escape
from os import PathLike
from typing import overload

from cutaway.core.errors import InputTypeError
from cutaway.core.progress import progress
from cutaway.graph.trace import Trace
from cutaway.layout.fold import fold, fold_to_depth
from cutaway.layout.graph_view import GraphView
from cutaway.layout.picture import Picture
from cutaway.layout.place import place
from cutaway.results.diff import Diff
from cutaway.views.diff.diff_graph import diff_view
from cutaway.views.draw.svg import svg
from cutaway.views.graph.from_trace import graph_view
from cutaway.views.graph.measures import measures
from cutaway.views.graph.op_details import OpDetails, detail, details
from cutaway.views.pages.html import static_html as static_page
from cutaway.views.pages.model import Page
from cutaway.views.pages.result_pages import page_of

_AT_ONCE = 128
_MOST_BOXES = 60
"""About as many boxes fit into a picture in a notebook cell."""


@dataclass(frozen=True, slots=True)
class ShowableGraph:
    """A graph view, and the trace that holds the details of its ops."""

    view: GraphView
    trace: Trace | None

    def detail(self, row: int, *, with_files: bool = True) -> OpDetails | None:
        """The details of an op by its row in the trace; None if the trace has no such row.

        Args:
            with_files: whether source files may be read to show the code around the op.
        """
        if self.trace is None or not 0 <= row < len(self.trace.tables.nodes.kind):
            return None
        return detail(self.trace, row, with_files=with_files)

    def details(self, budget: int, seconds: float = math.inf) -> dict[int, OpDetails]:
        """The details of every op, reduced until all of them fit into `budget` bytes of JSON.

        Args:
            seconds: time limit; ops that are not done by then are left out.
        """
        if self.trace is None or budget <= 0:
            return {}
        rows = list(dict.fromkeys(row for row in self.view.nodes.row if row >= 0))
        end = time.monotonic() + seconds
        by_row: dict[int, OpDetails] = {}
        parts = range(0, len(rows), _AT_ONCE)
        for first in progress(parts, len(parts), "parts of the page"):
            some = rows[first : first + _AT_ONCE]
            by_row |= details(self.trace, some, budget * len(some) // len(rows))
            if time.monotonic() > end:
                break
        return by_row


@dataclass(frozen=True, slots=True)
class ShowablePage:
    """A page. It is complete: it has no ops with details to load later."""

    view: Page

    def detail(self, row: int) -> None:
        """None: a page has no ops."""

    def details(self, budget: int, seconds: float = math.inf) -> dict[int, OpDetails]:
        """Empty: a page has no ops."""
        return {}


@overload
def as_showable(item: Trace | Diff | GraphView) -> ShowableGraph: ...
@overload
def as_showable(item: object) -> ShowableGraph | ShowablePage: ...
def as_showable(item: object) -> ShowableGraph | ShowablePage:
    """Wrap a trace, diff, view, page or result for display, with all known measures to color it by.

    A diff is drawn as its second trace with the differences marked, so details come from the second trace.
    """
    if isinstance(item, Trace):
        view = graph_view(item)
        return ShowableGraph(replace(view, measures=measures(item, view.nodes.row)), item)
    if isinstance(item, Diff):
        view = diff_view(item)
        second: Trace = item.__dict__["_traces"][1]
        return ShowableGraph(replace(view, measures=(*view.measures, *measures(second, view.nodes.row))), second)
    if isinstance(item, GraphView):
        return ShowableGraph(item, None)
    page = item if isinstance(item, Page) else page_of(item)
    if page is not None:
        return ShowablePage(page)
    kind = f"{type(item).__module__}.{type(item).__qualname__}".removeprefix("builtins.")
    how = " Trace it first: cutaway.trace(model, *inputs)." if callable(item) else ""
    if isinstance(item, (str, PathLike)):
        how = " Load a file first: cutaway.load(path). To write one, pass path=."
    known = "a Trace, a Diff, a Ranking or another result, a Page or a GraphView"
    raise InputTypeError(f"cannot show an object of type {kind}: pass {known}.{how}")


def static_html(view: GraphView | Page) -> str:
    """The view as a static HTML image: opened as far as it stays small, with repetitions drawn once.

    It is an `<img>`, because the styles of an inline SVG would apply to every other SVG in the page.
    """
    if isinstance(view, Page):
        return static_page(view)
    picture = overview_picture(view)
    data = b64encode(svg(picture, place(picture)).encode()).decode()
    style = "max-width: 100%; max-height: 70vh"
    return f'<img alt="{escape(view.title)}" style="{style}" src="data:image/svg+xml;base64,{data}">'


def repr_html(trace: Trace) -> str:
    """The HTML of a trace that is the last value of a notebook cell."""
    return static_html(graph_view(trace))


def overview_picture(view: GraphView) -> Picture:
    """The deepest folding of a view with at most `_MOST_BOXES` boxes, with repetitions drawn once."""
    deepest = max(view.groups.depth, default=0) + 1
    picture = fold(view, fold_to_depth(view, 0, rolled=True))
    for depth in range(1, deepest + 1):
        deeper = fold(view, fold_to_depth(view, depth, rolled=True))
        if len(deeper.boxes) > _MOST_BOXES:
            break
        picture = deeper
    return picture
