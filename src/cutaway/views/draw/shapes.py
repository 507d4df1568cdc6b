"""Format-independent shapes, lines and texts of a static picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cutaway.layout.layered import Point, Rect
from cutaway.layout.picture import Box, Frame, Picture
from cutaway.layout.place import Direction, Placement
from cutaway.layout.text_size import EM
from cutaway.views.draw.color_scale import ColorScale

Anchor = Literal["start", "middle", "end"]

MARGIN = 16.0


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of text, with an optional bold `lead` before it."""

    x: float
    y: float
    text: str
    kind: str
    """CSS class of the text."""
    anchor: Anchor = "start"
    lead: str = ""
    is_faint: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A rectangle with rounded corners, and the text in it."""

    rect: Rect
    radius: float
    classes: tuple[str, ...]
    texts: tuple[TextLine, ...] = ()
    fill: str = ""
    """A color that replaces the fill of its classes."""
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line: its start, and segments of one point (straight) or three (cubic Bézier)."""

    start: Point
    segments: tuple[tuple[Point, ...], ...]
    classes: tuple[str, ...]
    has_arrow: bool


Item = TextLine | Shape | Stroke


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything to paint. Later layers cover earlier ones; the items of one layer do not overlap."""

    width: float
    height: float
    title: str
    layers: tuple[tuple[Item, ...], ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A laid-out picture, with the options that decide how it is painted."""

    picture: Picture
    placed: Placement
    direction: Direction = "down"
    focused: frozenset[int] = frozenset()
    """Boxes in focus."""
    tooltips: tuple[str, ...] = ()
    """The tooltip of each box."""
    color_scale: ColorScale | None = None


def n_cards(item: Box | Frame) -> int:
    """How many stacked cards to draw behind a box or frame that stands for several."""
    return min(max(item.stack - 1, 0), 2)


def radius(form: str, height: float) -> float:
    """The corner radius of a box: modules are rectangles, everything else is round."""
    return 3.0 if form in ("leaf", "folded") else min(height / 2, 14.0)


def text_width(text: str, size: float) -> float:
    """An upper estimate of the width of a line of text."""
    return len(text) * size * EM
