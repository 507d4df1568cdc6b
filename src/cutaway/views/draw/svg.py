"""A picture as SVG text: one document that needs nothing from outside."""

from __future__ import annotations

from html import escape

from cutaway.layout.picture import Picture
from cutaway.layout.place import Placement
from cutaway.views.draw.paint import paint
from cutaway.views.draw.shapes import Item, Scene, Shape, Sheet, Stroke, Words
from cutaway.views.draw.style import style_sheet

_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0,1 L8,4 L0,7 Z"/></marker></defs>'
)


def svg(picture: Picture, placed: Placement) -> str:
    """A picture as it is, without any colours or focus of its own."""
    return svg_of(paint(Sheet(picture, placed)))


def svg_of(scene: Scene) -> str:
    """What is painted, as SVG. Text is text: it can be selected, searched and edited."""
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
    if isinstance(item, Words):
        return _words(item)
    return _stroke(item) if isinstance(item, Stroke) else _shape(item)


def _words(words: Words) -> str:
    anchor = f' text-anchor="{words.anchor}"' if words.anchor != "start" else ""
    lead = f'<tspan class="if">{_text(words.lead)}</tspan>{" " * bool(words.text)}' if words.lead else ""
    place = f'x="{_n(words.x)}" y="{_n(words.y)}"{anchor}'
    return f'<text {place} class="{words.kind}{" faint" * words.is_faint}">{lead}{_text(words.text)}</text>'


def _shape(shape: Shape) -> str:
    rect = shape.rect
    fill = f' style="fill:{shape.fill}"' if shape.fill else ""
    place = f'x="{_n(rect.x)}" y="{_n(rect.y)}" width="{_n(rect.width)}" height="{_n(rect.height)}"'
    classes = " ".join(shape.classes)
    if shape.classes[0] != "box":
        return f'<rect class="{classes}" {place} rx="{_n(shape.radius)}"{fill}/>'
    hint = f"<title>{_text(shape.hint)}</title>" if shape.hint else ""
    words = "".join(map(_words, shape.words))
    return f'<g class="{classes}">{hint}<rect {place} rx="{_n(shape.radius)}"{fill}/>{words}</g>'


def _stroke(stroke: Stroke) -> str:
    pieces = [f"M{_n(stroke.start[0])},{_n(stroke.start[1])}"]
    for piece in stroke.pieces:
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in piece)
        pieces.append(f"{'L' if len(piece) == 1 else 'C'}{points}")
    tip = ' marker-end="url(#tip)"' if stroke.has_tip else ""
    return f'<path class="{" ".join(stroke.classes)}" d="{" ".join(pieces)}"{tip}/>'


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    """Escaped, and without the characters that XML forbids."""
    if text.replace("\n", "").isprintable():
        return escape(text)
    return escape("".join(c if c.isprintable() or c == "\n" else "?" for c in text))
