"""The header of a static picture: title, subtitle and legend."""

from __future__ import annotations

from typing import Final

from cutaway.layout.layered import Rect
from cutaway.views.draw.color_scale import ColorScale
from cutaway.views.draw.shapes import MARGIN, Item, Shape, Sheet, TextLine, n_cards, radius, text_width
from cutaway.views.draw.style import TEXT_STYLES, css_classes

_NARROWEST = 420.0
"""The least width of the header, however narrow the picture is."""
_ROW, _SWATCH = 19.0, 22.0
_RAMP = 220.0
_STEPS: Final = 44
_HEAD_EM: Final = 1.12
"""The title is set in a bold sans-serif font, which is a little wider than `text_width` assumes."""

_MEANINGS: Final = (
    ("input", "function", "input", "input"),
    ("target", "function", "target", "target"),
    ("loss", "function", "loss", "loss"),
    ("plain output", "function", "output", "output"),
    ("parametric", "leaf", "has parameters", "parametric"),
    ("plain", "leaf", "module", "leaf"),
    ("plain", "folded", "folded module", "folded"),
    ("plain", "folded", "identical blocks", "stack"),
    ("plain", "function", "function", "plain function"),
    ("plain condition", "function", "condition", "condition"),
    ("made", "function", "created inside", "made"),
    ("buffer", "small", "buffer", "buffer"),
    ("constant", "small", "constant", "constant"),
    ("standin", "small", "drawn elsewhere", "standin"),
    ("failed", "function", "failed", "failed"),
    ("plain focused", "function", "in focus", "focused"),
    ("plain new", "function", "+ new", "new"),
    ("plain removed", "function", "− removed", "removed"),
    ("plain changed", "function", "~ changed", "changed"),
    ("plain apart1", "function", "Δ values differ a little", "apart"),
    ("plain apart4", "function", "… a lot", "apart"),
)
"""(CSS classes, form, label, class that must occur in the picture for the entry to appear)."""
_FILLS: Final = frozenset({"has parameters", "buffer", "Δ values differ a little", "… a lot"})
"""Entries that are told apart by their fill. They are left out where the fill shows a measure."""


def header(sheet: Sheet) -> tuple[tuple[Item, ...], float, float]:
    """The items of the header, the width of the whole sheet, and the y at which the picture begins."""
    title = text_width(sheet.picture.title, TEXT_STYLES["head"].size) * _HEAD_EM
    width = max(sheet.placed.width, title, _NARROWEST)
    out: list[Item] = [TextLine(MARGIN, 30, sheet.picture.title, "head")]
    y = 33.0
    for line in _wrapped(sheet.picture.subtitle, width):
        y += 16
        out.append(TextLine(MARGIN, y, line, "under"))
    y += 12
    x = MARGIN
    for classes, form, text in _entries(sheet):
        room = _SWATCH + text_width(text, TEXT_STYLES["key"].size)
        if x + room > width + MARGIN and x > MARGIN:
            x, y = MARGIN, y + _ROW
        out += _entry(classes, form, text, x, y, is_empty=sheet.color_scale is not None)
        x += room + 14
    y += _ROW
    if sheet.color_scale is not None:
        out += _ramp(sheet.color_scale, y)
        y += 54
    return tuple(out), width + 2 * MARGIN, y + 6


def _wrapped(text: str, width: float) -> list[str]:
    """Break a subtitle into lines of at most this width, between its ` · ` separators."""
    lines: list[str] = []
    for part in text.split(" · "):
        joined = f"{lines[-1]} · {part}" if lines else part
        if lines and text_width(joined, TEXT_STYLES["under"].size) <= width:
            lines[-1] = joined
        else:
            lines.append(part)
    return lines


def _entries(sheet: Sheet) -> list[tuple[tuple[str, ...], str, str]]:
    """The legend entries that occur in this picture."""
    present: set[str] = {"focused"} if sheet.focused else set()
    for box in sheet.picture.boxes:
        present |= {*css_classes(box), f"{box.kind} {box.form}", *(["stack"] if n_cards(box) else [])}
    present |= {"stack"} if any(n_cards(frame) for frame in sheet.picture.frames) else set()
    return [
        (("box", *classes.split(), form, *(["stack"] if text == "identical blocks" else [])), form, text)
        for classes, form, text, wanted in _MEANINGS
        if wanted in present and not (sheet.color_scale is not None and text in _FILLS)
    ]


def _entry(classes: tuple[str, ...], form: str, text: str, x: float, y: float, *, is_empty: bool) -> list[Item]:
    corner = 2.0 if form in ("leaf", "folded") else radius(form, 11)
    out: list[Item] = []
    if "stack" in classes:
        out += [Shape(Rect(x + by, y + by, 14, 9), corner, ("card",)) for by in (4.0, 2.0)]
        classes = tuple(name for name in classes if name != "stack")
    rect = Rect(x, y, 14, 9) if out else Rect(x, y, 16, 11)
    out.append(Shape(rect, corner, classes, fill="none" if is_empty else ""))
    return [*out, TextLine(x + _SWATCH, y + 9, text, "key")]


def _ramp(color_scale: ColorScale, y: float) -> list[Item]:
    """The color ramp from low to high, with three ticks below it."""
    out: list[Item] = [TextLine(MARGIN, y + 9, color_scale.title, "key")]
    left, y = MARGIN, y + 16
    step = _RAMP / _STEPS
    for number in range(_STEPS):
        # A little wider than the step, so that renderers leave no seams between the swatches.
        wide = step + (0.6 if number < _STEPS - 1 else 0.0)
        fill = color_scale.color((number + 0.5) / _STEPS)
        out.append(Shape(Rect(left + number * step, y, wide, 10), 0.0, ("swatch",), fill=fill))
    low, middle, high = color_scale.ticks
    anchors = ((0.0, low, "start"), (0.5, middle, "middle"), (1.0, high, "end"))
    out += [TextLine(left + share * _RAMP, y + 23, text, "key", anchor) for share, text, anchor in anchors]  # type: ignore[arg-type]
    if color_scale.has_gaps:
        x = left + _RAMP + 24
        out.append(Shape(Rect(x, y, 16, 11), 5.5, ("box", "plain", "function")))
        out.append(TextLine(x + _SWATCH, y + 9, "no number", "key"))
    return out
