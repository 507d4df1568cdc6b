"""Colors and styles of static pictures, in a light and a dark palette.

One set of rules for all formats. SVG embeds them as a style sheet, so a picture follows the reader's color scheme.
Formats without style sheets (PNG, PDF, DOT) look styles up by the same classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Final, Literal

from cutaway.layout.picture import Box

Family = Literal["monospace", "sans-serif"]

LIGHT: Final[Mapping[str, str]] = {
    "paper": "#ffffff", "ink": "#22262b", "dim": "#565c63", "line": "#7d848c", "border": "#c9ced4", "veil": "#5a6e8c",
    "plain": "#ffffff", "green": "#d5efd9", "leaf": "#3f9a56", "red": "#cf2f3a", "pink": "#fbdcdf",
    "stone": "#d0d3d7", "yellow": "#ffe27a", "gold": "#8a6600", "blue": "#0b62c4",
    "plum": "#8a3b8f", "cream": "#f8f0da", "straw": "#c9a227",
    "aqua": "#d2eeee", "teal": "#1b8585", "mauve": "#f5dcf0", "magenta": "#b4359c",
    "apart1": "#fbeedc", "apart2": "#f9dcbb", "apart3": "#f6c890", "apart4": "#f2b068",
}  # fmt: skip
DARK: Final[Mapping[str, str]] = {
    "paper": "#16181b", "ink": "#e6e8ea", "dim": "#a9b0b8", "line": "#868e97", "border": "#454b53", "veil": "#96afd7",
    "plain": "#1f2327", "green": "#1f4429", "leaf": "#56b870", "red": "#ff6670", "pink": "#4d2329",
    "stone": "#3b4047", "yellow": "#6b5600", "gold": "#f2c83a", "blue": "#74b3ff",
    "plum": "#dc96e0", "cream": "#40381f", "straw": "#a3852c",
    "aqua": "#173f41", "teal": "#4db6b6", "mauve": "#47223f", "magenta": "#e27fcd",
    "apart1": "#30261c", "apart2": "#4e361f", "apart3": "#714a23", "apart4": "#895621",
}  # fmt: skip
INK: Final = "#000000"
CHALK: Final = "#ffffff"
"""The two colors of text on a fill that is the same in light and dark mode."""


@dataclass(frozen=True, slots=True)
class Style:
    """Style of a shape or a line; None where a rule leaves a property unchanged."""

    fill: str | None = None
    """Name of a palette color, or "none"."""
    stroke: str | None = None
    width: float | None = None
    dash: tuple[float, ...] | None = None
    fill_opacity: float | None = None
    opacity: float | None = None


@dataclass(frozen=True, slots=True)
class TextStyle:
    """Font and color of a text."""

    size: float
    ink: str = "ink"
    family: Family = "monospace"
    is_bold: bool = False
    is_italic: bool = False


_BOXES: Final[tuple[tuple[str, Style], ...]] = (
    ("box", Style(fill="plain", stroke="line", width=1.0, dash=(), fill_opacity=1.0, opacity=1.0)),
    ("parametric", Style(fill="cream", stroke="straw")),
    ("input", Style(fill="green", stroke="leaf")),
    ("target", Style(fill="aqua", stroke="teal")),
    ("loss", Style(fill="mauve", stroke="magenta")),
    ("made", Style(dash=(5, 3))),
    ("buffer", Style(fill="stone")),
    ("constant", Style(fill="stone", dash=(2, 2))),
    ("standin", Style(fill="none", stroke="border")),
    ("folded", Style(width=2.0)),
    ("output", Style(stroke="red", width=2.5)),
    ("condition", Style(fill="yellow", stroke="gold")),
    ("apart1", Style(fill="apart1")),
    ("apart2", Style(fill="apart2")),
    ("apart3", Style(fill="apart3")),
    ("apart4", Style(fill="apart4")),
    ("bare", Style(fill="plain")),
    ("new", Style(fill="green", stroke="leaf", width=2.5, dash=())),
    ("removed", Style(fill="none", stroke="red", width=2.0, dash=(3, 3))),
    ("changed", Style(stroke="plum", width=2.5)),
    ("failed", Style(fill="pink", stroke="red", width=2.5, dash=(6, 3))),
    ("focused", Style(stroke="blue", width=3.0)),
    ("light", Style(opacity=0.55)),
    ("faint", Style(opacity=0.28)),
)
"""(class of a box, properties it sets); later rules win."""
_OTHERS: Final[tuple[tuple[str, Style], ...]] = (
    ("frame", Style(fill="veil", stroke="border", width=1.0, dash=(), fill_opacity=0.055, opacity=1.0)),
    ("card", Style(fill="paper", stroke="line", width=1.0, dash=(), fill_opacity=1.0, opacity=1.0)),
    ("paper", Style(fill="paper", stroke="none", width=0.0, dash=(), fill_opacity=1.0, opacity=1.0)),
    ("halo", Style(fill="paper", stroke="none", width=0.0, dash=(), fill_opacity=0.8, opacity=1.0)),
    ("swatch", Style(fill="none", stroke="none", width=0.0, dash=(), fill_opacity=1.0, opacity=1.0)),
    ("edge", Style(fill="none", stroke="line", width=1.0, dash=(), fill_opacity=1.0, opacity=1.0)),
    ("new", Style(stroke="leaf")),
    ("removed", Style(stroke="red", dash=(3, 3))),
    ("changed", Style(stroke="plum")),
    ("failed", Style(stroke="red")),
    ("feedback", Style(dash=(5, 3))),
    ("faint", Style(opacity=0.28)),
)
TEXT_STYLES: Final[Mapping[str, TextStyle]] = {
    "more": TextStyle(11, "dim"),
    "name": TextStyle(12, is_bold=True),
    "head": TextStyle(20, family="sans-serif", is_bold=True),
    "under": TextStyle(12, "dim", "sans-serif"),
    "tag": TextStyle(9, "dim"),
    "if": TextStyle(12, "gold", is_bold=True),
    "title": TextStyle(11, "dim"),
    "key": TextStyle(11, "dim"),
}
"""Class of a text → its style."""
_IN_BOXES: Final[tuple[tuple[str, str, Mapping[str, object]], ...]] = (
    ("small", "name", {"size": 11}),
    ("standin", "name", {"is_bold": False, "is_italic": True, "ink": "dim"}),
    ("condition", "more", {"ink": "ink"}),
    ("failed", "more", {"ink": "ink"}),
    ("apart", "more", {"ink": "ink"}),
    ("inked", "name", {"ink": INK}),
    ("inked", "more", {"ink": INK}),
    ("chalked", "name", {"ink": CHALK}),
    ("chalked", "more", {"ink": CHALK}),
)
"""(class of a box, class of a text in it, properties it changes)."""


def css_classes(box: Box) -> tuple[str, ...]:
    """The CSS classes of a box."""
    return (
        *("box", box.kind, box.form),
        *(["output"] if box.is_output else []),
        *(["condition"] if box.is_condition else []),
        *(["light"] if box.is_light else []),
        *box.marks,
    )


def style_of(classes: Iterable[str]) -> Style:
    """The style of a shape or line with these classes.

    >>> style_of(["box", "parametric", "leaf", "output"]).fill, style_of(["box", "output"]).stroke
    ('cream', 'red')
    """
    return _style_of(tuple(classes))


@cache
def _style_of(classes: tuple[str, ...]) -> Style:
    present = set(classes)
    style = Style()
    for name, rule in _BOXES if "box" in present else _OTHERS:
        if name in present:
            changed = {field.name: value for field in fields(rule) if (value := getattr(rule, field.name)) is not None}
            style = replace(style, **changed)
    return style


def text_style(name: str, classes: Iterable[str] = ()) -> TextStyle:
    """The style of a text in a box with these classes.

    >>> text_style("name").size, text_style("name", ["box", "small"]).size
    (12, 11)
    """
    return _text_style(name, tuple(classes))


@cache
def _text_style(name: str, classes: tuple[str, ...]) -> TextStyle:
    present, style = set(classes), TEXT_STYLES[name]
    for around, inside, changed in _IN_BOXES:
        if around in present and inside == name:
            style = replace(style, **changed)  # type: ignore[arg-type]
    return style


def color(name: str, palette: Mapping[str, str] = LIGHT) -> str:
    """Look up a color in the palette; anything that is no name there is returned as it is."""
    return palette.get(name, name)


def style_sheet() -> str:
    """All rules as CSS, with the dark colors in a media query. No CSS variables: not every SVG reader knows them."""
    dark = _sheet(DARK, only_colors=True)
    return f"\n{_sheet(LIGHT)}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _sheet(palette: Mapping[str, str], *, only_colors: bool = False) -> str:
    lines = [f"svg {{ background: {palette['paper']} }}"]
    lines += [_rule(f".{name} rect", style, palette, only_colors) for name, style in _BOXES]
    for name, style in _OTHERS:
        is_base = style.opacity == 1.0  # all other rules modify an edge or a frame
        lines.append(_rule(f".{name}" if is_base else f".edge.{name}, .frame.{name}", style, palette, only_colors))
    lines += [_text_rule(f".{name}", style, palette, only_colors) for name, style in TEXT_STYLES.items()]
    for around, inside, changed in _IN_BOXES:
        lines.append(_change_rule(f".{around} .{inside}", changed, palette, only_colors))
    lines.append(f"#tip path {{ fill: {palette['line']} }}")
    return "\n".join(line for line in lines if line)


def _rule(selector: str, style: Style, palette: Mapping[str, str], only_colors: bool) -> str:
    colors = (("fill", style.fill), ("stroke", style.stroke))
    parts = [f"{name}: {color(value, palette)}" for name, value in colors if value]
    if not only_colors:
        if style.width is not None:
            parts.append(f"stroke-width: {style.width:g}px")
        if style.dash is not None:
            parts.append(f"stroke-dasharray: {' '.join(f'{part:g}' for part in style.dash) or 'none'}")
        if style.fill_opacity not in (None, 1.0):
            parts.append(f"fill-opacity: {style.fill_opacity:g}")
        if style.opacity not in (None, 1.0):
            # Opacity applies to the whole box, its text included.
            return f"{selector.removesuffix(' rect')} {{ {'; '.join([*parts, f'opacity: {style.opacity:g}'])} }}"
    return f"{selector} {{ {'; '.join(parts)} }}" if parts else ""


def _text_rule(selector: str, style: TextStyle, palette: Mapping[str, str], only_colors: bool) -> str:
    parts = [f"fill: {color(style.ink, palette)}"]
    if not only_colors:
        parts += [f"font: {'italic ' * style.is_italic}{'600 ' * style.is_bold}{style.size:g}px {style.family}"]
    return f"{selector} {{ {'; '.join(parts)} }}"


def _change_rule(selector: str, changed: Mapping[str, object], palette: Mapping[str, str], only_colors: bool) -> str:
    """Only the properties that a box changes in its text, so that rules of several classes combine."""
    parts = [f"fill: {color(str(changed['ink']), palette)}"] if "ink" in changed else []
    if not only_colors:
        parts += [f"font-size: {changed['size']}px"] if "size" in changed else []
        parts += [f"font-weight: {600 if changed['is_bold'] else 400}"] if "is_bold" in changed else []
        parts += [f"font-style: {'italic' if changed['is_italic'] else 'normal'}"] if "is_italic" in changed else []
    return f"{selector} {{ {'; '.join(parts)} }}" if parts else ""
