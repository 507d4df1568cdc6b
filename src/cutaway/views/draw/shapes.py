"""What is painted: shapes, lines and texts with their places, before anything knows in which format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cutaway.layout.layered import Point, Rect
from cutaway.layout.picture import Box, Frame, Picture
from cutaway.layout.place import Direction, Placement
from cutaway.layout.text_size import EM
from cutaway.views.draw.color_scale import Colouring

Anchor = Literal["start", "middle", "end"]

MARGIN = 16.0


@dataclass(frozen=True, slots=True)
class Words:
    """One line of text; `lead` stands before it, in bold."""

    x: float
    y: float
    text: str
    kind: str
    """Class of the text."""
    anchor: Anchor = "start"
    lead: str = ""
    is_faint: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A rectangle with round corners, and the text in it."""

    rect: Rect
    radius: float
    classes: tuple[str, ...]
    words: tuple[Words, ...] = ()
    fill: str = ""
    """A colour that takes the place of the fill of its classes."""
    hint: str = ""
    """What is said where the mouse rests on it."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line: where it begins, and pieces of one point (straight) or three (a cubic curve)."""

    start: Point
    pieces: tuple[tuple[Point, ...], ...]
    classes: tuple[str, ...]
    has_tip: bool


Item = Words | Shape | Stroke


@dataclass(frozen=True, slots=True)
class Scene:
    """All that is painted. Layers cover each other in their order; the items of one do not overlap."""

    width: float
    height: float
    title: str
    layers: tuple[tuple[Item, ...], ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """What is to be painted: a picture, the place of everything in it, and what is written on it."""

    picture: Picture
    placed: Placement
    direction: Direction = "down"
    focused: frozenset[int] = frozenset()
    """Boxes that the picture is about."""
    hints: tuple[str, ...] = ()
    """What is said where the mouse rests on a box."""
    colouring: Colouring | None = None


def cards(thing: Box | Frame) -> int:
    """How many cards look out behind a box or frame that stands for several."""
    return min(max(thing.stack - 1, 0), 2)


def radius(form: str, height: float) -> float:
    """How round the corners are: modules are rectangles, all else is round."""
    return 3.0 if form in ("leaf", "folded") else min(height / 2, 14.0)


def text_width(text: str, size: float) -> float:
    """Width of a line of text, a little more than it takes."""
    return len(text) * size * EM
