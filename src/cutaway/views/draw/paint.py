"""Turns a laid-out picture into shapes, lines and texts in painting order.

All decisions on what goes where are made here once, so SVG, PNG and PDF show the same picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from cutaway.layout.graph_view import FAILED
from cutaway.layout.layered import Point, Rect
from cutaway.layout.picture import IF, Box, Picture
from cutaway.layout.place import Direction, Line
from cutaway.layout.text_size import LEAD
from cutaway.views.draw.legend import header
from cutaway.views.draw.shapes import MARGIN, Item, Scene, Shape, Sheet, Stroke, TextLine, n_cards, radius, text_width
from cutaway.views.draw.style import TEXT_STYLES, css_classes

_CARD = 3.5
"""Offset between the cards of a stack."""


def paint(sheet: Sheet) -> Scene:
    """The scene of a picture, header included."""
    placed = sheet.placed
    head, width, top = header(sheet)
    left = max((width - placed.width) / 2, MARGIN)
    painter = _Painter(sheet, left, top)
    strokes, tags = painter.lines()
    titles = painter.titles()
    width, height = max(width, placed.width + 2 * MARGIN), top + placed.height + MARGIN
    paper = (Shape(Rect(0.0, 0.0, width, height), 0.0, ("paper",)),)
    layers = (
        *(paper, head, painter.frames(), painter.cards(), strokes),
        *(_halos(titles), titles, painter.boxes(), _halos(tags), tags),
    )
    return Scene(width, height, sheet.picture.title, layers)


def _halos(texts: tuple[TextLine, ...]) -> tuple[Item, ...]:
    """A background for each text, so that lines do not run through it."""
    halos = []
    for text in texts:
        size = TEXT_STYLES["if" if text.lead else text.kind].size
        wide = text_width(text.lead, size) + text_width(
            f" {text.text}" if text.lead else text.text, TEXT_STYLES[text.kind].size
        )
        left = text.x - (wide if text.anchor == "end" else 0.0)
        faint = ("faint",) if text.is_faint else ()
        halos.append(Shape(Rect(left - 1, text.y - 0.8 * size, wide, size), 2.0, ("halo", *faint)))
    return tuple(halos)


@dataclass(frozen=True, slots=True)
class _Painter:
    sheet: Sheet
    left: float
    top: float

    def _at(self, rect: Rect, by: float = 0.0) -> Rect:
        return Rect(rect.x + self.left + by, rect.y + self.top + by, rect.width, rect.height)

    def _point(self, point: Point) -> Point:
        return point[0] + self.left, point[1] + self.top

    def frames(self) -> tuple[Item, ...]:
        shapes = []
        for frame, rect in list(zip(self.sheet.picture.frames, self.sheet.placed.frames, strict=True))[1:]:
            for number in reversed(range(1, n_cards(frame) + 1)):
                shapes.append(Shape(self._at(rect, number * _CARD), 6.0, ("card",)))
            # A frame is translucent: without an opaque card, the cards behind it would show through.
            if n_cards(frame):
                shapes.append(Shape(self._at(rect), 6.0, ("card",)))
            marks = (*(["failed"] if frame.flags & FAILED else []), *([frame.mark] if frame.mark else []))
            shapes.append(Shape(self._at(rect), 6.0, ("frame", *marks)))
        return tuple(shapes)

    def titles(self) -> tuple[TextLine, ...]:
        pairs = list(zip(self.sheet.picture.frames, self.sheet.placed.frames, strict=True))[1:]
        return tuple(
            TextLine(rect.x + self.left + 8, rect.y + self.top + 15, frame.title, "title") for frame, rect in pairs
        )

    def cards(self) -> tuple[Item, ...]:
        """The stacked cards behind boxes that stand for several."""
        shapes = []
        for number, (box, rect) in enumerate(zip(self.sheet.picture.boxes, self.sheet.placed.boxes, strict=True)):
            faint = ("faint",) if number in self.sheet.picture.faint else ()
            for i in reversed(range(1, n_cards(box) + 1)):
                shapes.append(Shape(self._at(rect, i * _CARD), radius(box.form, rect.height), ("card", *faint)))
        return tuple(shapes)

    def boxes(self) -> tuple[Item, ...]:
        sheet, shapes = self.sheet, []
        for number, (box, rect) in enumerate(zip(sheet.picture.boxes, sheet.placed.boxes, strict=True)):
            place = self._at(rect)
            fill = sheet.color_scale.fills[number] if sheet.color_scale is not None else None
            classes = (
                *css_classes(box),
                *(["focused"] if number in sheet.focused else []),
                *self._ink_class(box, fill),
                *(["faint"] if number in sheet.picture.faint else []),
            )
            middle = place.x + place.width / 2
            first = place.y + (place.height - LEAD * len(box.lines)) / 2 + 11
            texts = tuple(
                TextLine(middle, first + i * LEAD, line, "more" if i else "name", "middle")
                for i, line in enumerate(box.lines)
            )
            tooltip = sheet.tooltips[number] if sheet.tooltips else ""
            shapes.append(Shape(place, radius(box.form, rect.height), classes, texts, fill or "", tooltip))
        return tuple(shapes)

    def _ink_class(self, box: Box, fill: str | None) -> tuple[str, ...]:
        """The class for readable text on a measure's fill; `bare` for boxes without a number, which get no fill."""
        if self.sheet.color_scale is None or box.kind == "standin":
            return ()
        return (self.sheet.color_scale.ink_on(fill),) if fill else ("bare",)

    def lines(self) -> tuple[tuple[Item, ...], tuple[TextLine, ...]]:
        """The edges, and the labels at their tips."""
        picture, faint = self.sheet.picture, self.sheet.picture.faint
        labels = {(edge.parent, edge.child): edge.label for edge in picture.edges if edge.label}
        lit = _lit(picture, faint) if faint else set()
        strokes: list[Item] = []
        tags: list[TextLine] = []
        for line in self.sheet.placed.lines:
            is_faint = bool(faint) and not _is_lit(line, lit)
            classes = (
                "edge",
                *(["feedback"] if line.is_feedback else []),
                *self._marks(line),
                *(["faint"] if is_faint else []),
            )
            points = [self._point(point) for point in line.points]
            segments = curve(points, self.sheet.direction)
            strokes.append(Stroke(points[0], segments, classes, line.child is not None))
            label = labels.get((line.parent, line.child), "") if line.child is not None else ""
            if label:
                tags.append(self._tag(line, label, is_faint))
        return tuple(strokes), tuple(tags)

    def _marks(self, line: Line) -> tuple[str, ...]:
        """Classes of an edge that leads to or from a removed op, or to the op that failed."""
        ends = [self.sheet.picture.boxes[end] for end in (line.parent, line.child) if end is not None]
        removed = ["removed"] if any(end.mark == "removed" for end in ends) else []
        return (*removed, *(["failed"] if line.child is not None and ends[-1].kind == "failed" else []))

    def _tag(self, line: Line, label: str, is_faint: bool) -> TextLine:
        """The label beside the tip of a line; the layout leaves room for it there."""
        x, y = self._point(line.points[-1])
        lead = IF if label.split(" ")[0] == IF else ""
        rest = label.removeprefix(lead).strip()
        if self.sheet.direction == "down":
            return TextLine(x + (10 if line.is_feedback else 4), y - 5, rest, "tag", "start", lead, is_faint)
        if line.is_feedback:  # above the end of its lane: every feedback line has its own lane
            x, y = self._point(max(reversed(line.points), key=lambda point: point[1]))
            return TextLine(x + 5, y - 3, rest, "tag", "start", lead, is_faint)
        return TextLine(x - 9, y - 4, rest, "tag", "end", lead, is_faint)


def curve(points: list[Point], direction: Direction) -> tuple[tuple[Point, ...], ...]:
    """Segments through these points: straight along an axis, else Bézier curves whose ends follow the direction."""
    segments: list[tuple[Point, ...]] = []
    for (x, y), (to_x, to_y) in pairwise(points):
        # SVG coordinates have one decimal: a smaller segment would have no length there.
        if abs(x - to_x) < 0.05 and abs(y - to_y) < 0.05:
            continue
        if abs(x - to_x) < 0.05 or abs(y - to_y) < 0.05:
            segments.append(((to_x, to_y),))
        elif direction == "down":
            middle = (y + to_y) / 2
            segments.append(((x, middle), (to_x, middle), (to_x, to_y)))
        else:
            middle = (x + to_x) / 2
            segments.append(((middle, y), (middle, to_y), (to_x, to_y)))
    return tuple(segments)


def _lit(picture: Picture, faint: frozenset[int]) -> set[tuple[str, int, int]]:
    """Keys of the edge segments between boxes that are not faint: the start, and the box or frame of arrival."""
    lit: set[tuple[str, int, int]] = set()
    for edge in picture.edges:
        if edge.parent not in faint and edge.child not in faint:
            lit |= {("from", edge.parent, -1), ("box", edge.parent, edge.child)}
            # Edges into one frame share their segment at its border, which is lit if one of them is.
            frame = picture.boxes[edge.child].frame
            while frame > 0:
                lit.add(("frame", edge.parent, frame))
                frame = picture.frames[frame].parent
    return lit


def _is_lit(line: Line, lit: set[tuple[str, int, int]]) -> bool:
    if line.child is not None:
        return ("box", line.parent, line.child) in lit
    if line.frame is not None:
        return ("frame", line.parent, line.frame) in lit
    return ("from", line.parent, -1) in lit
