"""Fast text for matplotlib: glyph outlines in PNG, selectable text in PDF.

matplotlib lays out every text again and draws it glyph by glyph, which takes minutes for ten thousand boxes. A
monospaced font needs no layout, and the outline of a glyph can be reused wherever it occurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.views.draw.shapes import Shape, TextLine
from cutaway.views.draw.style import TextStyle, color, style_of, text_style

if TYPE_CHECKING:
    from matplotlib.path import Path

ADVANCE: Final = 0.60205078125
"""Width of a character of DejaVu Sans Mono, in units of its size: 1233 / 2048. `EM` leaves a little more room."""
_FAINT: Final = 0.28


@dataclass(frozen=True, slots=True)
class GlyphRun:
    """A line of text with its left end on the baseline."""

    x: float
    y: float
    text: str
    style: TextStyle
    opacity: float


def glyph_runs(item: TextLine | Shape) -> list[GlyphRun]:
    """The texts of an item, each with its left end."""
    if isinstance(item, Shape):
        opacity = style_of(item.classes).opacity
        return [
            _glyph_run(line, text_style(line.kind, item.classes), 1.0 if opacity is None else opacity)
            for line in item.texts
        ]
    opacity = _FAINT if item.is_faint else 1.0
    style = text_style(item.kind)
    if not item.lead:
        return [_glyph_run(item, style, opacity)]
    bold = text_style("if")
    # The space after the lead has the size of the text that follows.
    before = (len(item.lead) * bold.size + (style.size if item.text else 0.0)) * ADVANCE
    after = len(item.text) * style.size * ADVANCE
    left = item.x - {"start": 0.0, "middle": (before + after) / 2, "end": before + after}[item.anchor]
    lead, rest = (
        GlyphRun(left, item.y, item.lead, bold, opacity),
        GlyphRun(left + before, item.y, item.text, style, opacity),
    )
    return [lead, rest] if item.text else [lead]


def _glyph_run(line: TextLine, style: TextStyle, opacity: float) -> GlyphRun:
    text = "".join(letter if letter.isprintable() else "?" for letter in line.text)
    width = len(text) * style.size * ADVANCE
    left = line.x - {"start": 0.0, "middle": width / 2, "end": width}[line.anchor]
    return GlyphRun(left, line.y, text, style, opacity)


def font(style: TextStyle, size: float) -> Any:
    """The matplotlib font of a text style, one of those that ship with matplotlib."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(
        family="DejaVu Sans Mono" if style.family == "monospace" else "DejaVu Sans",
        size=size,
        weight="bold" if style.is_bold else "normal",
        style="oblique" if style.is_italic else "normal",
    )


@dataclass(slots=True)
class Outlines:
    """Cache of glyph outlines."""

    _known: dict[tuple[str, bool, bool, str], tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)

    def of(self, run: GlyphRun) -> Path:
        """The outline of a line of text at its position."""
        from matplotlib.path import Path

        # The sans-serif font is not monospaced, so its lines are laid out as a whole.
        parts = run.text if run.style.family == "monospace" else [run.text]
        glyphs = [self._part(run.style, part) for part in parts]
        size, step = run.style.size, run.style.size * ADVANCE
        places = [
            points * (size, -size) + (run.x + number * step, run.y)
            for number, (points, _) in enumerate(glyphs)
            if len(points)
        ]
        codes = [codes for _, codes in glyphs if len(codes)]
        if not places:
            return Path(np.empty((0, 2)))
        return Path(np.concatenate(places), np.concatenate(codes))

    def _part(self, style: TextStyle, text: str) -> tuple[NDArray[Any], NDArray[Any]]:
        from matplotlib.textpath import TextPath

        if not text.strip():
            return np.empty((0, 2)), np.empty(0, np.uint8)
        key = (style.family, style.is_bold, style.is_italic, text)
        if key not in self._known:
            # matplotlib reads an unescaped dollar sign as the start of a formula.
            path = TextPath((0, 0), text.replace("$", r"\$"), size=100, prop=font(style, 100))
            self._known[key] = (np.asarray(path.vertices) / 100, np.asarray(path.codes))
        return self._known[key]


def text_artist(axes: Any, texts: Sequence[GlyphRun], points: float) -> Any:
    """One artist that draws all texts as selectable text."""
    from matplotlib.artist import Artist
    from matplotlib.colors import to_rgba

    fonts = {style: font(style, style.size * points) for style in {run.style for run in texts}}

    class Lines(Artist):
        def draw(self, renderer: Any) -> None:
            places = axes.transData.transform([(run.x, run.y) for run in texts])
            height = renderer.get_canvas_width_height()[1]
            context = renderer.new_gc()
            for run, (x, y) in zip(texts, places, strict=True):
                if run.text:
                    context.set_foreground(to_rgba(color(run.style.ink), run.opacity))
                    context.set_alpha(run.opacity)
                    at = height - y if renderer.flipy() else y
                    # ismath=False: a dollar sign is text here, and not the start of a formula.
                    renderer.draw_text(context, x, at, run.text, fonts[run.style], 0.0, ismath=False)
            context.restore()

    return Lines()
