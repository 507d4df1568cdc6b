"""A picture with places, as SVG text."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise

from cutaway.graph.layout import Point, Rect
from cutaway.views.deciding import IF
from cutaway.views.picture import Box, View

EM = 0.62
"""Width of a character of a monospaced font, in units of its size: a little more than usual fonts need."""
_NAME, _LINE, _SMALL, _TITLE = 12, 11, 9, 20
_PAD, _LEAD, _MARGIN, _HEADER = 10.0, 15.0, 16.0, 84.0

_STYLE = """
svg { background: var(--paper); --paper: #fdfdfc; --ink: #22262b; --dim: #6b7178; --line: #7d848c; --frame: #c9ced4;
  --veil: rgba(90, 110, 140, .05); --plain: #ffffff; --grey: #e4e6e9; --green: #d5efd9; --leaf: #3f9a56; --red: #cf2f3a;
  --buffer: #c4c8cd; --yellow: #ffe27a; --gold: #b08400; --blue: #0b62c4; --sky: #d3e6ff; --rust: #b8480f;
  --plum: #8a3b8f; --orange: 235, 130, 20 }
@media (prefers-color-scheme: dark) { svg { --paper: #16181b; --ink: #e6e8ea; --dim: #9aa1a9; --line: #868e97;
  --frame: #454b53; --veil: rgba(150, 175, 215, .06); --plain: #1f2327; --grey: #373c43; --green: #1f4429;
  --leaf: #56b870; --red: #ff6670; --buffer: #565c64; --yellow: #6b5600; --gold: #f2c83a;
  --blue: #74b3ff; --sky: #17365c; --rust: #ff9a5c; --plum: #dc96e0; --orange: 240, 140, 40 } }
text { font-family: monospace; font-size: 11px; fill: var(--ink) }
.head { font-family: sans-serif; font-size: 20px; font-weight: 600 }
.under { font-family: sans-serif; font-size: 12px; fill: var(--dim) }
.name { font-size: 12px; font-weight: 600 }
.more { fill: var(--dim) }
.tag { font-size: 9px; fill: var(--dim) }
.title { fill: var(--dim) }
.tag, .title { stroke: var(--paper); stroke-width: 3px; paint-order: stroke; stroke-linejoin: round }
.box rect { fill: var(--plain); stroke: var(--line) }
.parametric rect { fill: var(--grey) }
.input rect { fill: var(--green); stroke: var(--leaf) }
.made rect { stroke-dasharray: 5 3 }
.buffer rect { fill: var(--buffer) }
.constant rect { fill: var(--buffer); stroke-dasharray: 2 2 }
.standin rect { fill: none; stroke: var(--frame) }
.standin .name { font-weight: 400; font-style: italic; fill: var(--dim) }
.folded rect { stroke-width: 2px }
.output rect { stroke: var(--red); stroke-width: 2.5px }
.condition rect { fill: var(--yellow); stroke: var(--gold) }
.condition .more { fill: var(--ink) }
.if { font-size: 12px; font-weight: 700; fill: var(--gold) }
.apart1 rect { fill: rgba(var(--orange), .12) }
.apart2 rect { fill: rgba(var(--orange), .26) }
.apart3 rect { fill: rgba(var(--orange), .42) }
.apart4 rect { fill: rgba(var(--orange), .6) }
.new rect { fill: var(--sky); stroke: var(--blue); stroke-width: 2.5px; stroke-dasharray: none }
.gone rect { fill: none; stroke: var(--rust); stroke-width: 2px; stroke-dasharray: 3 3 }
.changed rect { stroke: var(--plum); stroke-width: 2.5px }
.new .name { fill: var(--blue) }
.gone .name { fill: var(--rust) }
.apart .more { fill: var(--ink) }
.edge.gone { stroke: var(--rust); stroke-dasharray: 3 3 }
.light { opacity: .55 }
.faint { opacity: .28 }
.frame { fill: var(--veil); stroke: var(--frame) }
.edge { fill: none; stroke: var(--line) }
.feedback { stroke-dasharray: 5 3 }
#tip path { fill: var(--line) }
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A piece of an edge; edges from one box share their way as long as they can."""

    points: tuple[Point, ...]
    parent: int
    child: int | None
    """The box at which it arrives; None where it ends at a border or goes on."""
    frame: int | None = None
    """The frame at whose border it arrives."""
    is_feedback: bool = False
    """Whether it goes back up, with square turns."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A place for each box and frame of a view, and the lines between them."""

    width: float
    height: float
    boxes: tuple[Rect, ...]
    frames: tuple[Rect, ...]
    lines: tuple[Line, ...]


def svg(view: View, placed: Placement) -> str:
    """The picture as one SVG document that needs nothing from outside."""
    head_width = max(_TITLE * EM * len(view.title), 12 * EM * len(view.subtitle), _legend_width(view))
    width = max(placed.width, head_width) + 2 * _MARGIN
    height = placed.height + _HEADER + _MARGIN
    dx = (width - placed.width) / 2
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}"'
        f' viewBox="0 0 {_n(width)} {_n(height)}">',
        f"<title>{_text(view.title)}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,1 L8,4 L0,7 Z"/></marker></defs>',
        f'<text class="head" x="{_n(_MARGIN)}" y="30">{_text(view.title)}</text>',
        f'<text class="under" x="{_n(_MARGIN)}" y="49">{_text(view.subtitle)}</text>',
        *_legend(view),
        f'<g transform="translate({_n(dx)},{_n(_HEADER)})">',
    ]
    for rect in placed.frames[1:]:
        out.append(_rect(rect, 6, ' class="frame"'))
    labels = {(edge.parent, edge.child): edge.label for edge in view.edges if edge.label}
    lit = _lit(view) if view.faint else set()
    tags = []
    for line in placed.lines:
        is_faint = bool(view.faint) and not _is_lit(line, lit)
        tip = ' marker-end="url(#tip)"' if line.child is not None else ""
        out.append(
            f'<path class="edge{" feedback" * line.is_feedback}{" gone" * _is_gone(view, line)}{" faint" * is_faint}"'
            f' d="{_curve(line.points)}"{tip}/>'
        )
        label = labels.get((line.parent, line.child)) if line.child is not None else None
        if label:
            x, y = line.points[-1]
            x += 6 if line.is_feedback else 0  # beside the tip
            tags.append(
                f'<text class="tag{" faint" * is_faint}" x="{_n(x + 4)}" y="{_n(y - 5)}">{_label(label)}</text>'
            )
    for frame, rect in zip(view.frames[1:], placed.frames[1:], strict=True):
        out.append(f'<text class="title" x="{_n(rect.x + 8)}" y="{_n(rect.y + 15)}">{_text(frame.title)}</text>')
    for number, (box, rect) in enumerate(zip(view.boxes, placed.boxes, strict=True)):
        out.append(_box(box, rect, is_faint=number in view.faint))
    out += [*tags, "</g>", "</svg>"]
    return "\n".join(out) + "\n"


def _lit(view: View) -> set[tuple[str, int, int]]:
    """The pieces of edges between boxes that are not faint: where each begins, and at which box or frame it arrives."""
    found: set[tuple[str, int, int]] = set()
    for edge in view.edges:
        if edge.parent not in view.faint and edge.child not in view.faint:
            found |= {("from", edge.parent, -1), ("box", edge.parent, edge.child)}
            frame = view.boxes[edge.child].frame
            while frame > 0:
                found.add(("frame", edge.parent, frame))
                frame = view.frames[frame].parent
    return found


def _is_gone(view: View, line: Line) -> bool:
    return any("gone" in view.boxes[end].marks for end in (line.parent, line.child) if end is not None)


def _is_lit(line: Line, lit: set[tuple[str, int, int]]) -> bool:
    if line.child is not None:
        return ("box", line.parent, line.child) in lit
    if line.frame is not None:
        return ("frame", line.parent, line.frame) in lit
    return ("from", line.parent, -1) in lit


def box_size(box: Box) -> tuple[float, float]:
    """Width and height that hold the text of a box."""
    if box.form == "small":
        longest = max(len(line) for line in box.lines)
        return longest * _LINE * EM + 12, _LEAD * len(box.lines) + 5
    longest_width = max(len(line) * (_LINE if i else _NAME) * EM for i, line in enumerate(box.lines))
    return longest_width + 2 * _PAD + (8 if box.form == "function" else 0), _LEAD * len(box.lines) + _PAD


def label_width(label: str) -> float:
    """Width of the label of an edge."""
    return len(label) * _SMALL * EM + (8 if label.startswith(IF) else 0)


def title_width(title: str) -> float:
    """Width of the title of a frame."""
    return len(title) * _LINE * EM


def _box(box: Box, rect: Rect, *, is_faint: bool) -> str:
    classes = " ".join(
        ["box", box.kind, box.form]
        + ["output"] * box.is_output
        + ["condition"] * box.is_condition
        + ["light"] * box.is_light
        + list(box.marks)
        + ["faint"] * is_faint
    )
    radius = 3.0 if box.form in ("leaf", "folded") else min(rect.height / 2, 14.0)
    middle = rect.x + rect.width / 2
    first = rect.y + (rect.height - _LEAD * len(box.lines)) / 2 + 11
    rows = [
        f'<text x="{_n(middle)}" y="{_n(first + i * _LEAD)}" text-anchor="middle"'
        f' class="{"more" if i else "name"}"{_small(box, i)}>{_text(line)}</text>'
        for i, line in enumerate(box.lines)
    ]
    return f'<g class="{classes}">{_rect(rect, radius)}{"".join(rows)}</g>'


def _label(label: str) -> str:
    """The label of an edge, the word that begins a branch in bold."""
    if label.split(" ")[0] != IF:
        return _text(label)
    return f'<tspan class="if">{IF}</tspan>{_text(label.removeprefix(IF))}'


def _small(box: Box, line: int) -> str:
    return ' style="font-size:11px"' if box.form == "small" and not line else ""


_MEANINGS = (
    ("input", "function", "input"),
    ("plain", "function output", "output"),
    ("parametric", "leaf", "with parameters"),
    ("plain", "leaf", "module"),
    ("plain", "folded", "folded module"),
    ("plain", "function", "function"),
    ("plain condition", "function", "decides"),
    ("made", "function", "made inside"),
    ("buffer", "small", "buffer"),
    ("constant", "small", "constant"),
    ("standin", "small", "drawn elsewhere"),
    ("plain new", "function", "+ new"),
    ("plain gone", "function", "− gone"),
    ("plain changed", "function", "~ changed"),
    ("plain apart1", "function", "Δ values differ, a little"),
    ("plain apart4", "function", "much"),
)


def _legend_entries(view: View) -> list[tuple[str, str, str]]:
    """Only what occurs in this picture."""
    present: set[str] = set()
    for box in view.boxes:
        present |= {box.kind, f"{box.kind} {box.form}"} | ({"output"} if box.is_output else set())
        present |= {f"any {box.form}", *box.marks} | ({"condition"} if box.is_condition else set())
    wanted = {
        "input": "input", "output": "output", "with parameters": "parametric", "module": "any leaf",
        "folded module": "any folded", "function": "plain function", "made inside": "made",
        "decides": "condition", "buffer": "buffer",
        "constant": "constant", "drawn elsewhere": "standin", "+ new": "new", "− gone": "gone", "~ changed": "changed",
        "Δ values differ, a little": "apart", "much": "apart",
    }  # fmt: skip
    return [entry for entry in _MEANINGS if wanted[entry[2]] in present]


def _legend_width(view: View) -> float:
    return sum(len(text) * _LINE * EM + 36 for _, _, text in _legend_entries(view))


def _legend(view: View) -> list[str]:
    out, x = [], _MARGIN
    for kind, form, text in _legend_entries(view):
        radius = 2.0 if form in ("leaf", "folded") else 5.5
        out.append(f'<g class="box {kind} {form}">{_rect(Rect(x, 61, 16, 11), radius)}</g>')
        out.append(f'<text class="more" x="{_n(x + 21)}" y="70">{text}</text>')
        x += len(text) * _LINE * EM + 36
    return out


def _rect(rect: Rect, radius: float, extra: str = "") -> str:
    return (
        f'<rect{extra} x="{_n(rect.x)}" y="{_n(rect.y)}" width="{_n(rect.width)}" height="{_n(rect.height)}"'
        f' rx="{_n(radius)}"/>'
    )


def _curve(points: tuple[Point, ...]) -> str:
    """Straight along an axis, curved with upright ends elsewhere."""
    out = [f"M{_n(points[0][0])},{_n(points[0][1])}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        if abs(x - to_x) < 0.05 and abs(y - to_y) < 0.05:
            continue
        if abs(x - to_x) < 0.05 or abs(y - to_y) < 0.05:
            out.append(f"L{_n(to_x)},{_n(to_y)}")
        else:
            middle = (y + to_y) / 2
            out.append(f"C{_n(x)},{_n(middle)} {_n(to_x)},{_n(middle)} {_n(to_x)},{_n(to_y)}")
    return " ".join(out)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    """Escaped, and without the characters that XML forbids."""
    return escape("".join(c if c.isprintable() else "?" for c in text))
