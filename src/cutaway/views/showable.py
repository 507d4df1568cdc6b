"""Whatever can be shown: its view, what each op of it holds, and a picture of it that stands still."""

from __future__ import annotations

import math
import time
from base64 import b64encode
from dataclasses import dataclass, replace
from html import escape
from typing import overload

from cutaway.core.errors import InputError
from cutaway.core.progress import progress
from cutaway.graph.trace import Trace
from cutaway.layout.fold import fold, fold_to_depth
from cutaway.layout.graph_view import GraphView
from cutaway.layout.picture import Picture
from cutaway.layout.place import place
from cutaway.results.diff import Diff
from cutaway.views.diff.diff_graph import difference_view
from cutaway.views.draw.svg import svg
from cutaway.views.graph.from_trace import graph_view
from cutaway.views.graph.measures import measures
from cutaway.views.graph.op_details import Detail, detail, details
from cutaway.views.pages.html import static_html
from cutaway.views.pages.model import Page
from cutaway.views.pages.result_pages import page_of

_AT_ONCE = 128
_MOST_BOXES = 60
"""A picture that stands between the lines of a notebook has room for about so many."""


@dataclass(frozen=True, slots=True)
class Showing:
    """A view, and the trace whose ops it draws, to be asked what they hold."""

    view: GraphView
    trace: Trace | None

    def detail(self, row: int, *, with_files: bool = True) -> Detail | None:
        """All that an op holds, by its row in the trace; None where nothing is known of it.

        Args:
            with_files: whether the files may be read in which the code stood.
        """
        if self.trace is None or not 0 <= row < len(self.trace.tables.nodes.kind):
            return None
        return detail(self.trace, row, with_files=with_files)

    def details(self, budget: int, seconds: float = math.inf) -> dict[int, Detail]:
        """The same for every op, as much of each as fits into so many bytes of JSON together.

        Args:
            seconds: after these, the ops that have not had their turn are left out.
        """
        if self.trace is None or budget <= 0:
            return {}
        rows = list(dict.fromkeys(row for row in self.view.nodes.row if row >= 0))
        end = time.monotonic() + seconds
        found: dict[int, Detail] = {}
        parts = range(0, len(rows), _AT_ONCE)
        for first in progress(parts, len(parts), "parts of the page"):
            some = rows[first : first + _AT_ONCE]
            found |= details(self.trace, some, budget * len(some) // len(rows))
            if time.monotonic() > end:
                break
        return found


@dataclass(frozen=True, slots=True)
class ShowingPage:
    """A page, which says all there is to say: nothing of it is asked later."""

    view: Page

    def detail(self, row: int) -> None:
        """Nothing: a page has no ops."""

    def details(self, budget: int, seconds: float = math.inf) -> dict[int, Detail]:
        """None, for the same reason."""
        return {}


@overload
def showing(thing: Trace | Diff | GraphView) -> Showing: ...
@overload
def showing(thing: object) -> Showing | ShowingPage: ...
def showing(thing: object) -> Showing | ShowingPage:
    """A trace, a diff, a view or a page, ready to be shown: with numbers to colour it by, as far as they are known.

    A diff is drawn as its second trace with the differences marked, so that is the one that is asked.
    """
    if isinstance(thing, Trace):
        view = graph_view(thing)
        return Showing(replace(view, measures=measures(thing, view.nodes.row)), thing)
    if isinstance(thing, Diff):
        view = difference_view(thing)
        second: Trace = thing.__dict__["_traces"][1]
        return Showing(replace(view, measures=(*view.measures, *measures(second, view.nodes.row))), second)
    if isinstance(thing, GraphView):
        return Showing(thing, None)
    page = thing if isinstance(thing, Page) else page_of(thing)
    if page is not None:
        return ShowingPage(page)
    found = f"{type(thing).__module__}.{type(thing).__qualname__}"
    hint = " Trace it first: cutaway.trace(model, *inputs)." if callable(thing) else ""
    known = "a Trace, a Diff, a Ranking or another result, a Page or a GraphView"
    raise InputError(f"what can be shown is {known}; this is a {found}.{hint}")


def still(view: GraphView | Page) -> str:
    """The view as an image in HTML: opened as far as it stays small, what repeats drawn once.

    An image, because the styles of an SVG that lies in a page would reach all others in it.
    """
    if isinstance(view, Page):
        return static_html(view)
    picture = small(view)
    data = b64encode(svg(picture, place(picture)).encode()).decode()
    style = "max-width: 100%; max-height: 70vh"
    return f'<img alt="{escape(view.title)}" style="{style}" src="data:image/svg+xml;base64,{data}">'


def repr_html(trace: Trace) -> str:
    """What a notebook shows of a trace that is the last value of a cell."""
    return still(graph_view(trace))


def small(view: GraphView) -> Picture:
    """As much of a view as can be taken in at a glance, what repeats drawn once."""
    deepest = max(view.groups.depth, default=0) + 1
    found = fold(view, fold_to_depth(view, 0, rolled=True))
    for depth in range(1, deepest + 1):
        deeper = fold(view, fold_to_depth(view, depth, rolled=True))
        if len(deeper.boxes) > _MOST_BOXES:
            break
        found = deeper
    return found
