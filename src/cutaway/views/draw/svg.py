"""Writes a scene as a self-contained SVG document."""

from __future__ import annotations

from html import escape

from cutaway.layout.picture import Picture
from cutaway.layout.place import Placement
from cutaway.views.draw.paint import paint
from cutaway.views.draw.shapes import Item, Scene, Shape, Sheet, Stroke, TextLine
from cutaway.views.draw.style import style_sheet

_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0,1 L8,4 L0,7 Z"/></marker></defs>'
)


def svg(picture: Picture, placed: Placement) -> str:
    """The SVG of a picture, without a color scale or focus."""
    return scene_svg(paint(Sheet(picture, placed)))


def scene_svg(scene: Scene) -> str:
    """The SVG of a scene. Text stays text: you can select, search and edit it."""
    width, height = _n(scene.width), _n(scene.height)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<title>{_text(scene.title)}</title>",
        f"<style>{style_sheet()}</style>",
        _TIP,
    ]
    for layer in scene.layers:
        out += map(_item, layer)
    return "\n".join([*out, "</svg>"]) + "\n"


def _item(item: Item) -> str:
    if isinstance(item, TextLine):
        return _text_line(item)
    return _stroke(item) if isinstance(item, Stroke) else _shape(item)


def _text_line(line: TextLine) -> str:
    anchor = f' text-anchor="{line.anchor}"' if line.anchor != "start" else ""
    lead = f'<tspan class="if">{_text(line.lead)}</tspan>{" " * bool(line.text)}' if line.lead else ""
    place = f'x="{_n(line.x)}" y="{_n(line.y)}"{anchor}'
    return f'<text {place} class="{line.kind}{" faint" * line.is_faint}">{lead}{_text(line.text)}</text>'


def _shape(shape: Shape) -> str:
    rect = shape.rect
    # A style, because rules of the style sheet override the attribute fill.
    fill = f' style="fill:{shape.fill}"' if shape.fill else ""
    place = f'x="{_n(rect.x)}" y="{_n(rect.y)}" width="{_n(rect.width)}" height="{_n(rect.height)}"'
    classes = " ".join(shape.classes)
    if shape.classes[0] != "box":
        return f'<rect class="{classes}" {place} rx="{_n(shape.radius)}"{fill}/>'
    tooltip = f"<title>{_text(shape.tooltip)}</title>" if shape.tooltip else ""
    texts = "".join(map(_text_line, shape.texts))
    return f'<g class="{classes}">{tooltip}<rect {place} rx="{_n(shape.radius)}"{fill}/>{texts}</g>'


def _stroke(stroke: Stroke) -> str:
    segments = [f"M{_n(stroke.start[0])},{_n(stroke.start[1])}"]
    for segment in stroke.segments:
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in segment)
        segments.append(f"{'L' if len(segment) == 1 else 'C'}{points}")
    tip = ' marker-end="url(#tip)"' if stroke.has_arrow else ""
    return f'<path class="{" ".join(stroke.classes)}" d="{" ".join(segments)}"{tip}/>'


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    """Escape a text, and replace the characters that XML forbids."""
    if text.replace("\n", "").isprintable():
        return escape(text)
    return escape("".join(c if c.isprintable() or c == "\n" else "?" for c in text))
