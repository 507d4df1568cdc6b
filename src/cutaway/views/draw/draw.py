"""`trace.draw()`: draws a trace and writes it in the format that the file name asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, get_args

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.io import write
from cutaway.graph.op import Op
from cutaway.graph.selection import What
from cutaway.graph.trace import Trace
from cutaway.layout.focus import box_keys, open_around
from cutaway.layout.focus import focus as focus_on
from cutaway.layout.fold import fold, fold_to_depth
from cutaway.layout.graph_view import Fold, GraphView
from cutaway.layout.picture import Picture
from cutaway.layout.place import Direction, place
from cutaway.views.draw.color_scale import ColorScale
from cutaway.views.draw.dot import dot
from cutaway.views.draw.paint import paint
from cutaway.views.draw.raster import raster
from cutaway.views.draw.shapes import Sheet
from cutaway.views.draw.svg import scene_svg
from cutaway.views.graph.color_values import ColorBy, box_values, measure_of
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
"""File extension → what is written."""


def draw(
    trace: Trace,
    path: str | os.PathLike[str] | None = None,
    *,
    depth: int | None = None,
    rolled: bool = False,
    direction: Direction = "down",
    color_by: ColorBy | None = None,
    focus: What | Callable[[Op], object] | None = None,
) -> str | bytes:
    """Draw the graph of a trace and write it to `path`, if given, in the format of its extension.

    Returns the content of the file; without a path, SVG text.

    >>> draw(trace, "net.svg", depth=1)[:4]          # doctest: +SKIP
    '<svg'

    Args:
        depth: None draws every op, 1 the children of the root and its direct ops, 0 the model as one box.
        rolled: whether to draw repetitions once: the passes of an op, and identical blocks.
        direction: the direction of the data flow, "down" or "right".
        color_by: the name of a measure, a mapping from sites to numbers, or a function from an op to a number.
        focus: the ops to focus on, as `trace.select` takes them. Opens the modules around them, folds all others
            unless `depth` opens them, and fades everything that is not a neighbor.
    """
    options = _DrawOptions(path, direction, color_by)
    view = graph_view(trace)
    if focus is None:
        how = fold_to_depth(view, depth, rolled=rolled)
        return _render(trace, view, how, fold(view, how), options)
    rows = set(trace.select(focus).nodes)
    nodes = {node for node, row in enumerate(view.nodes.row) if row in rows}
    how = open_around(view, fold_to_depth(view, 1 if depth is None else depth, rolled=rolled), nodes)
    picture = fold(view, how)
    focused = focus_on(view, picture, box_keys(view, how), nodes)
    picture = replace(picture, faint=focused.faint, subtitle=f"{len(nodes):,} in focus of {picture.subtitle}")
    return _render(trace, view, how, picture, options, focused=focused.boxes)


def draw_selection(
    trace: Trace,
    rows: Collection[int],
    path: str | os.PathLike[str] | None = None,
    *,
    depth: int | None = None,
    rolled: bool = False,
    direction: Direction = "down",
    color_by: ColorBy | None = None,
) -> str | bytes:
    """Draw a trace like `draw`, with everything but these rows faded."""
    options = _DrawOptions(path, direction, color_by)
    view = graph_view(trace)
    how = fold_to_depth(view, depth, rolled=rolled)
    bright = {node for node, row in enumerate(view.nodes.row) if row in rows}
    return _render(trace, view, how, fold(view, how, bright=bright), options)


def render(
    trace: Trace,
    view: GraphView,
    how: Fold,
    *,
    path: str | os.PathLike[str] | None = None,
    direction: Direction = "down",
    color_by: ColorBy | None = None,
) -> str | bytes:
    """Draw a graph view of this trace in the format of the path's extension; without a path, as SVG."""
    return _render(trace, view, how, fold(view, how), _DrawOptions(path, direction, color_by))


def check_path(path: str | os.PathLike[str] | None, *, formats: Collection[str] = tuple(FORMATS)) -> None:
    """Raise `InputError` if the extension of a path is not a known format, before anything is drawn."""
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise InputTypeError(f"path must be a text or a path, got {path!r}.")
    if path is not None and Path(path).suffix.lower() not in formats:
        *most, last = formats
        raise InputError(
            f"draw() takes the format from the extension of the path, and {str(path)!r} has no known one: "
            f"use {', '.join(most)} or {last}."
        )


@dataclass(frozen=True, slots=True)
class _DrawOptions:
    """Options of a picture, validated before any work is done."""

    path: str | os.PathLike[str] | None
    direction: Direction
    color_by: ColorBy | None

    def __post_init__(self) -> None:
        check_path(self.path)
        if self.direction not in get_args(Direction):
            raise InputError(f'direction must be "down" or "right", got {self.direction!r}.')


def _render(
    trace: Trace,
    view: GraphView,
    how: Fold,
    picture: Picture,
    options: _DrawOptions,
    *,
    focused: frozenset[int] = frozenset(),
) -> str | bytes:
    measure = None if options.color_by is None else measure_of(trace, view, options.color_by)
    if options.path is not None and Path(options.path).suffix.lower() == ".json":
        return _save(model_explorer(trace, view, measure), options.path)
    color_scale = None
    if measure is not None:
        color_scale = ColorScale(measure, box_values(picture, box_keys(view, how), measure))
    placed = place(picture, options.direction)
    return _encode(
        Sheet(picture, placed, options.direction, focused, _tooltips(view, picture), color_scale), options.path
    )


def _tooltips(view: GraphView, picture: Picture) -> tuple[str, ...]:
    """The tooltip of each box: its name and its site."""
    tooltips = []
    for box in picture.boxes:
        site = view.nodes.site[box.node] if box.node >= 0 else view.groups.label[box.group] if box.group > 0 else ""
        tooltips.append("\n".join(dict.fromkeys(text for text in (box.lines[0], site) if text)))
    return tuple(tooltips)


def _encode(sheet: Sheet, path: str | os.PathLike[str] | None) -> str | bytes:
    """Encode the picture in the format of the path's extension and write it there."""
    suffix = ".svg" if path is None else Path(path).suffix.lower()
    if suffix in (".png", ".pdf"):
        return _save(raster(paint(sheet), "png" if suffix == ".png" else "pdf"), path)
    return _save(dot(sheet) if suffix in (".dot", ".gv") else scene_svg(paint(sheet)), path)


def _save(content: str | bytes, path: str | os.PathLike[str] | None) -> str | bytes:
    if path is not None:
        write(path, content)
    return content
