"""How things look in a static picture: colours by day and by night, and what each kind of thing is made of.

The rules stand here once. SVG writes them as a style sheet, so that a picture follows the reader's colour scheme; what
knows no style sheets (PNG, PDF, DOT) asks for the look of a thing by the same classes.
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
"""The two colours of text on a fill that is the same by day and by night."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a shape or a line is drawn; None where a rule leaves a property as it was."""

    fill: str | None = None
    """Name of a colour, or "none"."""
    stroke: str | None = None
    width: float | None = None
    dash: tuple[float, ...] | None = None
    fill_opacity: float | None = None
    opacity: float | None = None


@dataclass(frozen=True, slots=True)
class Type:
    """How a text is set."""

    size: float
    ink: str = "ink"
    family: Family = "monospace"
    is_bold: bool = False
    is_italic: bool = False


_BOXES: Final[tuple[tuple[str, Look], ...]] = (
    ("box", Look(fill="plain", stroke="line", width=1.0, dash=(), fill_opacity=1.0, opacity=1.0)),
    ("parametric", Look(fill="cream", stroke="straw")),
    ("input", Look(fill="green", stroke="leaf")),
    ("target", Look(fill="aqua", stroke="teal")),
    ("loss", Look(fill="mauve", stroke="magenta")),
    ("made", Look(dash=(5, 3))),
    ("buffer", Look(fill="stone")),
    ("constant", Look(fill="stone", dash=(2, 2))),
    ("standin", Look(fill="none", stroke="border")),
    ("folded", Look(width=2.0)),
    ("output", Look(stroke="red", width=2.5)),
    ("condition", Look(fill="yellow", stroke="gold")),
    ("apart1", Look(fill="apart1")),
    ("apart2", Look(fill="apart2")),
    ("apart3", Look(fill="apart3")),
    ("apart4", Look(fill="apart4")),
    ("bare", Look(fill="plain")),
    ("new", Look(fill="green", stroke="leaf", width=2.5, dash=())),
    ("gone", Look(fill="none", stroke="red", width=2.0, dash=(3, 3))),
    ("changed", Look(stroke="plum", width=2.5)),
    ("failed", Look(fill="pink", stroke="red", width=2.5, dash=(6, 3))),
    ("focused", Look(stroke="blue", width=3.0)),
    ("light", Look(opacity=0.55)),
    ("faint", Look(opacity=0.28)),
)
"""Class of a box → what it changes; the later rule wins."""
_OTHERS: Final[tuple[tuple[str, Look], ...]] = (
    ("frame", Look(fill="veil", stroke="border", width=1.0, dash=(), fill_opacity=0.055, opacity=1.0)),
    ("card", Look(fill="paper", stroke="line", width=1.0, dash=(), fill_opacity=1.0, opacity=1.0)),
    ("paper", Look(fill="paper", stroke="none", width=0.0, dash=(), fill_opacity=1.0, opacity=1.0)),
    ("halo", Look(fill="paper", stroke="none", width=0.0, dash=(), fill_opacity=0.8, opacity=1.0)),
    ("swatch", Look(fill="none", stroke="none", width=0.0, dash=(), fill_opacity=1.0, opacity=1.0)),
    ("edge", Look(fill="none", stroke="line", width=1.0, dash=(), fill_opacity=1.0, opacity=1.0)),
    ("new", Look(stroke="leaf")),
    ("gone", Look(stroke="red", dash=(3, 3))),
    ("changed", Look(stroke="plum")),
    ("failed", Look(stroke="red")),
    ("feedback", Look(dash=(5, 3))),
    ("faint", Look(opacity=0.28)),
)
TYPES: Final[Mapping[str, Type]] = {
    "more": Type(11, "dim"),
    "name": Type(12, is_bold=True),
    "head": Type(20, family="sans-serif", is_bold=True),
    "under": Type(12, "dim", "sans-serif"),
    "tag": Type(9, "dim"),
    "if": Type(12, "gold", is_bold=True),
    "title": Type(11, "dim"),
    "key": Type(11, "dim"),
}
"""Class of a text → how it is set."""
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
"""(class of a box, class of a text in it, how it is set there)."""


def classes_of(box: Box) -> tuple[str, ...]:
    """The classes of a box, by which its look is found."""
    return (
        *("box", box.kind, box.form),
        *(["output"] if box.is_output else []),
        *(["condition"] if box.is_condition else []),
        *(["light"] if box.is_light else []),
        *box.marks,
    )


def look(classes: Iterable[str]) -> Look:
    """The look of a shape or line of these classes.

    >>> look(["box", "parametric", "leaf", "output"]).fill, look(["box", "output"]).stroke
    ('cream', 'red')
    """
    return _look(tuple(classes))


@cache
def _look(classes: tuple[str, ...]) -> Look:
    own = set(classes)
    found = Look()
    for name, rule in _BOXES if "box" in own else _OTHERS:
        if name in own:
            changed = {field.name: value for field in fields(rule) if (value := getattr(rule, field.name)) is not None}
            found = replace(found, **changed)
    return found


def type_of(name: str, classes: Iterable[str] = ()) -> Type:
    """How a text is set, in a box of these classes.

    >>> type_of("name").size, type_of("name", ["box", "small"]).size
    (12, 11)
    """
    return _type(name, tuple(classes))


@cache
def _type(name: str, classes: tuple[str, ...]) -> Type:
    own, found = set(classes), TYPES[name]
    for around, inside, changed in _IN_BOXES:
        if around in own and inside == name:
            found = replace(found, **changed)  # type: ignore[arg-type]
    return found


def colour(name: str, palette: Mapping[str, str] = LIGHT) -> str:
    """A colour by its name in the palette; what is no name is a colour already."""
    return palette.get(name, name)


def style_sheet() -> str:
    """All rules as CSS: by day, and what is other by night. No variables: not every program knows them."""
    night = _sheet(DARK, only_colours=True)
    return f"\n{_sheet(LIGHT)}\n@media (prefers-color-scheme: dark) {{\n{night}\n}}\n"


def _sheet(palette: Mapping[str, str], *, only_colours: bool = False) -> str:
    lines = [f"svg {{ background: {palette['paper']} }}"]
    lines += [_rule(f".{name} rect", one, palette, only_colours) for name, one in _BOXES]
    for name, one in _OTHERS:
        own = one.opacity == 1.0  # all others change one of these
        lines.append(_rule(f".{name}" if own else f".edge.{name}, .frame.{name}", one, palette, only_colours))
    lines += [_text_rule(f".{name}", one, palette, only_colours) for name, one in TYPES.items()]
    for around, inside, changed in _IN_BOXES:
        lines.append(_change_rule(f".{around} .{inside}", changed, palette, only_colours))
    lines.append(f"#tip path {{ fill: {palette['line']} }}")
    return "\n".join(line for line in lines if line)


def _rule(selector: str, one: Look, palette: Mapping[str, str], only_colours: bool) -> str:
    colours = (("fill", one.fill), ("stroke", one.stroke))
    parts = [f"{name}: {colour(value, palette)}" for name, value in colours if value]
    if not only_colours:
        if one.width is not None:
            parts.append(f"stroke-width: {one.width:g}px")
        if one.dash is not None:
            parts.append(f"stroke-dasharray: {' '.join(f'{part:g}' for part in one.dash) or 'none'}")
        if one.fill_opacity not in (None, 1.0):
            parts.append(f"fill-opacity: {one.fill_opacity:g}")
        if one.opacity not in (None, 1.0):
            # Of the whole box, its text included.
            return f"{selector.removesuffix(' rect')} {{ {'; '.join([*parts, f'opacity: {one.opacity:g}'])} }}"
    return f"{selector} {{ {'; '.join(parts)} }}" if parts else ""


def _text_rule(selector: str, one: Type, palette: Mapping[str, str], only_colours: bool) -> str:
    parts = [f"fill: {colour(one.ink, palette)}"]
    if not only_colours:
        parts += [f"font: {'italic ' * one.is_italic}{'600 ' * one.is_bold}{one.size:g}px {one.family}"]
    return f"{selector} {{ {'; '.join(parts)} }}"


def _change_rule(selector: str, changed: Mapping[str, object], palette: Mapping[str, str], only_colours: bool) -> str:
    """What a box changes in its text, and nothing else: a small box that is gone is still small."""
    parts = [f"fill: {colour(str(changed['ink']), palette)}"] if "ink" in changed else []
    if not only_colours:
        parts += [f"font-size: {changed['size']}px"] if "size" in changed else []
        parts += [f"font-weight: {600 if changed['is_bold'] else 400}"] if "is_bold" in changed else []
        parts += [f"font-style: {'italic' if changed['is_italic'] else 'normal'}"] if "is_italic" in changed else []
    return f"{selector} {{ {'; '.join(parts)} }}" if parts else ""
