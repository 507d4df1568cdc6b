"""Writes a picture as DOT text for Graphviz."""

from __future__ import annotations

from cutaway.layout.picture import Box, Edge
from cutaway.views.draw.shapes import Sheet
from cutaway.views.draw.style import color, css_classes, style_of

_HEAD = (
    "pad=0.2",
    'fontname="Helvetica,Arial,sans-serif"',
    "labelloc=t",
    "labeljust=l",
)


def dot(sheet: Sheet) -> str:
    """The DOT text of a picture. Modules are clusters; boxes and edges have the styles of the other formats."""
    picture = sheet.picture
    title = f"{_escaped(picture.title)}\\l{_escaped(picture.subtitle)}\\l"
    out = [
        "digraph {",
        f'  graph [{", ".join(_HEAD)}, rankdir={"LR" if sheet.direction == "right" else "TB"}, label="{title}"]',
        '  node [shape=box, fontname="monospace", fontsize=10, margin="0.12,0.06"]',
        '  edge [fontname="monospace", fontsize=8, arrowsize=0.6]',
    ]
    inside: dict[int, list[int]] = {}
    for number, box in enumerate(picture.boxes):
        inside.setdefault(box.frame, []).append(number)
    below: dict[int, list[int]] = {}
    for number, frame in enumerate(picture.frames):
        below.setdefault(frame.parent, []).append(number)
    out += _frame(sheet, 0, inside, below, "  ")
    out += [_edge(sheet, edge) for edge in picture.edges]
    return "\n".join([*out, "}"]) + "\n"


def _frame(
    sheet: Sheet, number: int, inside: dict[int, list[int]], below: dict[int, list[int]], indent: str
) -> list[str]:
    """The boxes of a frame, and its inner frames as clusters."""
    out = [f"{indent}{_box(sheet, box)}" for box in inside.get(number, ())]
    for child in below.get(number, ()):
        frame = sheet.picture.frames[child]
        edge = color("border")
        out += [
            f'{indent}subgraph "cluster_{_escaped(frame.key)}" {{',
            f'{indent}  label="{_escaped(frame.title)}"; fontname="monospace"; fontsize=10; color="{edge}"',
            f'{indent}  style="rounded,filled"; fillcolor="#5a6e8c0e"; peripheries={1 + (frame.stack > 1)}',
            *_frame(sheet, child, inside, below, indent + "  "),
            f"{indent}}}",
        ]
    return out


def _box(sheet: Sheet, number: int) -> str:
    box = sheet.picture.boxes[number]
    is_faint, is_focused = number in sheet.picture.faint, number in sheet.focused
    fill = sheet.color_scale.fills[number] if sheet.color_scale is not None else None
    is_bare = sheet.color_scale is not None and not fill and box.kind != "standin"
    style = style_of([*css_classes(box), *(["bare"] if is_bare else []), *(["focused"] if is_focused else [])])
    ink = _ink(sheet, number, box)
    styles = [
        "filled",
        *(["rounded"] if box.form in ("function", "small") else []),
        *(["dashed"] if style.dash else []),
    ]
    # Alpha 0x47 is the opacity of faint items in the other formats, 0.28.
    faded = "47" if is_faint else ""
    paper = fill or (color(style.fill) if style.fill not in (None, "none") else "#ffffff00")
    attributes = {
        "label": "\\n".join(map(_escaped, box.lines)),
        "style": ",".join(styles),
        "fillcolor": paper + faded if len(paper) == 7 else paper,
        "color": color(style.stroke or "line") + faded,
        "penwidth": f"{style.width or 1.0:g}",
        "fontcolor": ink + faded,
        "tooltip": _escaped(sheet.tooltips[number]) if sheet.tooltips else "",
        "peripheries": "2" if box.stack > 1 else "",
    }
    return f'"{_escaped(box.key)}" [{_listed(attributes)}]'


def _ink(sheet: Sheet, number: int, box: Box) -> str:
    fill = sheet.color_scale.fills[number] if sheet.color_scale is not None else None
    if fill and sheet.color_scale is not None:
        return "#000000" if sheet.color_scale.ink_on(fill) == "inked" else "#ffffff"
    return color("dim" if box.kind == "standin" else "ink")


def _edge(sheet: Sheet, edge: Edge) -> str:
    boxes, faint = sheet.picture.boxes, sheet.picture.faint
    is_removed = "removed" in (boxes[edge.parent].mark, boxes[edge.child].mark)
    style = style_of(["edge", *(["feedback"] if edge.is_feedback else []), *(["removed"] if is_removed else [])])
    faded = "47" if edge.parent in faint or edge.child in faint else ""
    attributes = {
        "label": _escaped(edge.label),
        "color": color(style.stroke or "line") + faded,
        "fontcolor": color("dim") + faded,
        "style": "dashed" if style.dash else "",
        # Feedback must not rank its child below its parent.
        "constraint": "false" if edge.is_feedback else "",
    }
    return f'  "{_escaped(boxes[edge.parent].key)}" -> "{_escaped(boxes[edge.child].key)}" [{_listed(attributes)}]'


def _listed(attributes: dict[str, str]) -> str:
    return ", ".join(f'{name}="{value}"' for name, value in attributes.items() if value)


def _escaped(text: str) -> str:
    """Escape a text for a quoted string; Graphviz reads a backslash there as an escape."""
    clean = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    return clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
