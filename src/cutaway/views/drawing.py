"""`trace.draw`: from a trace to an SVG file."""

from __future__ import annotations

from pathlib import Path

from cutaway.core.errors import InputError
from cutaway.graph.layout import Group, Layout, Link, Node, layout
from cutaway.graph.trace import Trace
from cutaway.views.picture import View, picture
from cutaway.views.svg import box_size, label_width, svg, title_width


def draw(trace: Trace, path: str | Path | None = None, *, depth: int | None = None) -> str:
    """Draw the graph of a trace as SVG, and write it to `path` if given.

    >>> draw(trace, "net.svg", depth=1)[:4]          # doctest: +SKIP
    '<svg'

    Args:
        depth: None draws every op, 1 the children of the root and its own ops, 0 the model as one box.
    """
    if path is not None and Path(path).suffix.lower() != ".svg":
        raise InputError(f"draw writes SVG only, and {str(path)!r} does not end in .svg: give a path that does.")
    view = picture(trace, depth=depth)
    text = svg(view, place(view))
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def place(view: View) -> Layout:
    """Where everything goes, in boxes wide enough for their text and for the labels of the edges that arrive."""
    rooms: dict[int, list[float]] = {}
    for edge in view.edges:
        rooms.setdefault(edge.child, []).append(label_width(edge.label) if edge.label else 0.0)
    nodes = []
    for number, box in enumerate(view.boxes):
        width, height = box_size(box)
        arriving = rooms.get(number, [])
        if 1 < len(arriving) and max(arriving):
            width = max(width, len(arriving) * (max(arriving) + 10))
        nodes.append(Node(width, height, box.frame))
    groups = [Group(frame.parent, title_width(frame.title)) for frame in view.frames]
    links = [Link(edge.parent, edge.child, label_width(edge.label) if edge.label else 0.0) for edge in view.edges]
    return layout(nodes, groups, links)
