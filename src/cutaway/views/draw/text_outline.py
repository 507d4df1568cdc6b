"""Text for matplotlib, put down where it is to stand: as outlines in pixels, as text that can be selected in PDF.

matplotlib lays out every text anew and draws it letter by letter, which for ten thousand boxes takes minutes. In a
monospaced font there is nothing to lay out, and the outline of a letter is the same wherever it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.views.draw.shapes import Shape, Words
from cutaway.views.draw.style import Type, colour, look, type_of

if TYPE_CHECKING:
    from matplotlib.path import Path

ADVANCE: Final = 0.60205078125
"""Width of a character of DejaVu Sans Mono, in units of its size. `EM` leaves a little more room than that."""
_FAINT: Final = 0.28


@dataclass(frozen=True, slots=True)
class Letters:
    """A line of text with the place where it begins."""

    x: float
    y: float
    text: str
    type: Type
    opacity: float


def letters_of(item: Words | Shape) -> list[Letters]:
    """The texts of an item, from where they begin."""
    if isinstance(item, Shape):
        opacity = look(item.classes).opacity
        return [
            _begun(words, type_of(words.kind, item.classes), 1.0 if opacity is None else opacity)
            for words in item.words
        ]
    opacity = _FAINT if item.is_faint else 1.0
    one = type_of(item.kind)
    if not item.lead:
        return [_begun(item, one, opacity)]
    bold = type_of("if")
    before = (len(item.lead) * bold.size + (one.size if item.text else 0.0)) * ADVANCE
    own = len(item.text) * one.size * ADVANCE
    left = item.x - {"start": 0.0, "middle": (before + own) / 2, "end": before + own}[item.anchor]
    lead, rest = (
        Letters(left, item.y, item.lead, bold, opacity),
        Letters(left + before, item.y, item.text, one, opacity),
    )
    return [lead, rest] if item.text else [lead]


def _begun(words: Words, one: Type, opacity: float) -> Letters:
    text = "".join(letter if letter.isprintable() else "?" for letter in words.text)
    width = len(text) * one.size * ADVANCE
    left = words.x - {"start": 0.0, "middle": width / 2, "end": width}[words.anchor]
    return Letters(left, words.y, text, one, opacity)


def font(one: Type, size: float) -> Any:
    """The font of a type, of those that come with matplotlib."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(
        family="DejaVu Sans Mono" if one.family == "monospace" else "DejaVu Sans",
        size=size,
        weight="bold" if one.is_bold else "normal",
        style="oblique" if one.is_italic else "normal",
    )


@dataclass(slots=True)
class Outlines:
    """The outlines of letters, each made once."""

    _known: dict[tuple[str, bool, bool, str], tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)

    def of(self, letters: Letters) -> Path:
        """The outline of a line of text at its place."""
        from matplotlib.path import Path

        # Letters of the other font have widths of their own: their lines are laid out as a whole.
        parts = letters.text if letters.type.family == "monospace" else [letters.text]
        found = [self._part(letters.type, part) for part in parts]
        size, step = letters.type.size, letters.type.size * ADVANCE
        places = [
            points * (size, -size) + (letters.x + number * step, letters.y)
            for number, (points, _) in enumerate(found)
            if len(points)
        ]
        codes = [codes for _, codes in found if len(codes)]
        if not places:
            return Path(np.empty((0, 2)))
        return Path(np.concatenate(places), np.concatenate(codes))

    def _part(self, one: Type, text: str) -> tuple[NDArray[Any], NDArray[Any]]:
        from matplotlib.textpath import TextPath

        if not text.strip():
            return np.empty((0, 2)), np.empty(0, np.uint8)
        key = (one.family, one.is_bold, one.is_italic, text)
        if key not in self._known:
            # A dollar would begin a formula, were it not escaped.
            path = TextPath((0, 0), text.replace("$", r"\$"), size=100, prop=font(one, 100))
            self._known[key] = (np.asarray(path.vertices) / 100, np.asarray(path.codes))
        return self._known[key]


def selectable(axes: Any, texts: Sequence[Letters], points: float) -> Any:
    """Texts as one artist that draws each of them as text."""
    from matplotlib.artist import Artist
    from matplotlib.colors import to_rgba

    fonts = {one: font(one, one.size * points) for one in {letters.type for letters in texts}}

    class Lines(Artist):
        def draw(self, renderer: Any) -> None:
            places = axes.transData.transform([(letters.x, letters.y) for letters in texts])
            height = renderer.get_canvas_width_height()[1]
            context = renderer.new_gc()
            for letters, (x, y) in zip(texts, places, strict=True):
                if letters.text:
                    context.set_foreground(to_rgba(colour(letters.type.ink), letters.opacity))
                    context.set_alpha(letters.opacity)
                    at = height - y if renderer.flipy() else y
                    renderer.draw_text(context, x, at, letters.text, fonts[letters.type], 0.0, ismath=False)
            context.restore()

    return Lines()
