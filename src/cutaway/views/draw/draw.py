"""`trace.draw`: from a trace to a picture in a file, in the format that its name asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, get_args

from cutaway.core.errors import InputError
from cutaway.core.io import write
from cutaway.graph.op import Op
from cutaway.graph.selection import What
from cutaway.graph.trace import Trace
from cutaway.layout.focus import focus as focus_on
from cutaway.layout.focus import keys_of, opened_for
from cutaway.layout.fold import fold, fold_to_depth
from cutaway.layout.graph_view import Fold, GraphView
from cutaway.layout.picture import Picture
from cutaway.layout.place import Direction, place
from cutaway.views.draw.color_scale import Colouring
from cutaway.views.draw.dot import dot
from cutaway.views.draw.paint import paint
from cutaway.views.draw.raster import raster
from cutaway.views.draw.shapes import Sheet
from cutaway.views.draw.svg import svg_of
from cutaway.views.graph.color_values import ColourBy, box_values, measure_of
from cutaway.views.graph.from_trace import graph_view
from cutaway.views.graph.model_explorer import model_explorer

FORMATS: Final[Mapping[str, str]] = {
    ".svg": "vector graphics, for the web and for papers",
    ".pdf": "vector graphics, for papers",
    ".png": "pixels",
    ".dot": "text for Graphviz",
    ".gv": "text for Graphviz",
    ".json": "the graph for Model Explorer",
}
"""Ending of a path → what is written."""


def draw(
    trace: Trace,
    path: str | os.PathLike[str] | None = None,
    *,
    depth: int | None = None,
    rolled: bool = False,
    direction: Direction = "down",
    color_by: ColourBy | None = None,
    focus: What | Callable[[Op], object] | None = None,
) -> str | bytes:
    """Draw the graph of a trace and write it to `path`, if given, in the format that its ending names.

    Gives what is written; without a path, the text of an SVG.

    >>> draw(trace, "net.svg", depth=1)[:4]          # doctest: +SKIP
    '<svg'

    Args:
        depth: None draws every op, 1 the children of the root and its own ops, 0 the model as one box.
        rolled: whether what repeats is drawn once: the passes of an op, and identical blocks.
        direction: where the picture goes to: "down" or "right".
        color_by: the name of a measure, a mapping from sites to numbers, or a function that gives the number of an op.
        focus: what the picture is about, as `trace.select` takes it: modules around it are opened, all others folded
            unless `depth` opens them, and what is no neighbour of it is faint.
    """
    wish = _Wish(path, direction, color_by)
    view = graph_view(trace)
    if focus is None:
        how = fold_to_depth(view, depth, rolled=rolled)
        return _drawn(trace, view, how, fold(view, how), wish)
    rows = set(trace.select(focus).nodes)
    nodes = {node for node, row in enumerate(view.nodes.row) if row in rows}
    how = opened_for(view, fold_to_depth(view, 1 if depth is None else depth, rolled=rolled), nodes)
    picture = fold(view, how)
    found = focus_on(view, picture, keys_of(view, how), nodes)
    picture = replace(picture, faint=found.faint, subtitle=f"{len(nodes):,} in focus of {picture.subtitle}")
    return _drawn(trace, view, how, picture, wish, focused=found.boxes)


def draw_selection(
    trace: Trace,
    rows: Collection[int],
    path: str | os.PathLike[str] | None = None,
    *,
    depth: int | None = None,
    rolled: bool = False,
    direction: Direction = "down",
    color_by: ColourBy | None = None,
) -> str | bytes:
    """The picture of a trace, as `draw` gives it, with everything but these rows faint."""
    wish = _Wish(path, direction, color_by)
    view = graph_view(trace)
    how = fold_to_depth(view, depth, rolled=rolled)
    bright = {node for node, row in enumerate(view.nodes.row) if row in rows}
    return _drawn(trace, view, how, fold(view, how, bright=bright), wish)


def drawn(
    trace: Trace,
    view: GraphView,
    how: Fold,
    *,
    path: str | os.PathLike[str] | None = None,
    direction: Direction = "down",
    color_by: ColourBy | None = None,
) -> str | bytes:
    """A graph of ops of this trace in the format that the path asks for; without a path, as SVG."""
    return _drawn(trace, view, how, fold(view, how), _Wish(path, direction, color_by))


def check_path(path: str | os.PathLike[str] | None, *, formats: Collection[str] = tuple(FORMATS)) -> None:
    """Refuse a path that promises a format that there is not, before anything is drawn."""
    if path is not None and Path(path).suffix.lower() not in formats:
        *most, last = formats
        raise InputError(
            f"draw knows the format by the ending of the path, and of {str(path)!r} it knows none: "
            f"give a path that ends in {', '.join(most)} or {last}."
        )


@dataclass(frozen=True, slots=True)
class _Wish:
    """How a picture is to be drawn; what cannot be is refused before any work is done."""

    path: str | os.PathLike[str] | None
    direction: Direction
    color_by: ColourBy | None

    def __post_init__(self) -> None:
        check_path(self.path)
        if self.direction not in get_args(Direction):
            raise InputError(f'direction is "down" or "right"; it was {self.direction!r}.')


def _drawn(
    trace: Trace,
    view: GraphView,
    how: Fold,
    picture: Picture,
    wish: _Wish,
    *,
    focused: frozenset[int] = frozenset(),
) -> str | bytes:
    measure = None if wish.color_by is None else measure_of(trace, view, wish.color_by)
    if wish.path is not None and Path(wish.path).suffix.lower() == ".json":
        return _kept(model_explorer(trace, view, measure), wish.path)
    colouring = None
    if measure is not None:
        colouring = Colouring(measure, box_values(picture, keys_of(view, how), measure))
    placed = place(picture, wish.direction)
    return _written(Sheet(picture, placed, wish.direction, focused, _hints(view, picture), colouring), wish.path)


def _hints(view: GraphView, picture: Picture) -> tuple[str, ...]:
    """What is said where the mouse rests on a box: its name, and the site by which it is asked for."""
    found = []
    for box in picture.boxes:
        site = view.nodes.site[box.node] if box.node >= 0 else view.groups.label[box.group] if box.group > 0 else ""
        found.append("\n".join(dict.fromkeys(text for text in (box.lines[0], site) if text)))
    return tuple(found)


def _written(sheet: Sheet, path: str | os.PathLike[str] | None) -> str | bytes:
    """The picture in the format that the path asks for, after it was written there."""
    suffix = ".svg" if path is None else Path(path).suffix.lower()
    if suffix in (".png", ".pdf"):
        return _kept(raster(paint(sheet), "png" if suffix == ".png" else "pdf"), path)
    return _kept(dot(sheet) if suffix in (".dot", ".gv") else svg_of(paint(sheet)), path)


def _kept(content: str | bytes, path: str | os.PathLike[str] | None) -> str | bytes:
    if path is not None:
        write(path, content)
    return content
