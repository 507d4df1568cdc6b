"""Renders a page as static HTML: no scripts, inline styles, all text escaped.

A notebook shows it where the interactive page cannot run: on GitHub, in an export, without anywidget.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from cutaway.views.draw.color_scale import DIVERGING, SEQUENTIAL, contrast, interpolate
from cutaway.views.pages.model import (
    Bars,
    Block,
    Cell,
    ColoredText,
    Column,
    Facts,
    Heatmap,
    Histogram,
    Lines,
    Page,
    Prose,
    Table,
    Text,
)
from cutaway.views.pages.text import format_number

SERIES = ("#3366cc", "#d9822b", "#2a8c8c", "#8a3b8f", "#c9a227", "#c8324b", "#646a73", "#4c9f70")
"""Colors of lines and series, in order; the same as in `web/src/pages/colors.ts`."""
_ABOVE, _BELOW = "#c8504c", "#4a67b0"
_MOST_ROWS = 50
_MONO = "font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12px"
_SOFT = "opacity: 0.7; font-size: 12px"
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 560, 200, 52, 34


def static_html(page: Page) -> str:
    """The whole page as HTML."""
    parts = [f'<h2 style="margin: 0.3em 0">{escape(page.title)}</h2>', _about(page.about)]
    for section in page.sections:
        parts += [f'<h3 style="margin: 1.2em 0 0.2em">{escape(section.title)}</h3>', _about(section.about)]
        for block in section.blocks:
            parts += [f'<div style="margin: 0.7em 0">{_title(block.title)}{_html_of(block)}</div>']
    return f'<div style="max-width: 900px">{"".join(parts)}</div>'


def _html_of(block: Block) -> str:
    write: Callable[[Any], str] = _RENDERERS[block.kind]
    return write(block)


def _about(text: str) -> str:
    return f'<p style="{_SOFT}; margin: 0 0 0.6em">{escape(text)}</p>' if text else ""


def _title(text: str) -> str:
    return f'<div style="font-weight: 600">{escape(text)}</div>' if text else ""


def _exact(value: float | None) -> str:
    return "no number" if value is None else f"{value!r}"


def _prose(block: Prose) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in block.text.split("\n\n"))


def _facts(block: Facts) -> str:
    rows = (
        f'<tr><td style="text-align: left">{escape(item.name)}</td><td style="text-align: left"><b>{escape(item.value)}'
        f'</b></td><td style="text-align: left; {_SOFT}">{escape(item.remark)}</td></tr>'
        for item in block.items
    )
    return f"<table>{''.join(rows)}</table>"


def _table(block: Table) -> str:
    head = "".join(f'<th style="text-align: {_side(column)}">{escape(column.name)}</th>' for column in block.columns)
    rows = (
        "".join(_cell(column, cell) for column, cell in zip(block.columns, row, strict=True))
        for row in block.rows[:_MOST_ROWS]
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    rest = len(block.rows) - _MOST_ROWS
    return f"<table><tr>{head}</tr>{body}</table>" + (_about(f"and {rest:,} more rows") if rest > 0 else "")


def _side(column: Column) -> str:
    return "left" if column.kind == "text" else "right"


def _cell(column: Column, cell: Cell) -> str:
    if isinstance(cell, str):
        return f'<td style="text-align: left">{escape(cell)}</td>'
    text = f"{100 * cell:.1f} %" if column.kind == "share" and cell is not None else format_number(cell)
    return f'<td style="text-align: right; {_MONO}" title="{_exact(cell)}">{text}</td>'


def _bars(block: Bars) -> str:
    most = max((abs(value) for value in block.values if value is not None), default=0.0) or 1.0
    rows = []
    for place, (name, value) in enumerate(zip(block.names, block.values, strict=True)):
        share = 100 * abs(value or 0.0) / most
        color = (_BELOW if (value or 0) < 0 else _ABOVE) if block.is_signed else SERIES[0]
        ends = (
            f" [{format_number(block.low[place])}, {format_number(block.high[place])}]"
            if block.low and block.high
            else ""
        )
        rows.append(
            f'<tr><td style="text-align: left; {_MONO}">{escape(name)}</td><td style="width: 320px">'
            f'<div style="width: {share:.1f}%; height: 9px; border-radius: 3px; background: {color}"></div></td>'
            f'<td style="text-align: right; {_MONO}" title="{_exact(value)}">{format_number(value)}{ends}</td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"


def _heatmap(block: Heatmap) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in block.column_names)
    rows = []
    for place, (name, row) in enumerate(zip(block.row_names, block.values, strict=True)):
        cells = "".join(
            f'<td style="text-align: center; {_MONO}; {_cell_style(block, value)}" '
            f'title="{_note(block, place, column)}">{_in_cell(block, place, column)}</td>'
            for column, value in enumerate(row)
        )
        rows.append(f'<tr><th style="text-align: right">{escape(name)}</th>{cells}</tr>')
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _cell_style(block: Heatmap, value: float | None) -> str:
    return _background(_scale_position(block, value), is_signed=block.is_diverging)


def _scale_position(block: Heatmap, value: float | None) -> float | None:
    if value is None:
        return None
    low, high, at = block.low or 0.0, block.high or 0.0, value
    if block.is_log:
        low, high, at = math.log(low), math.log(high), math.log(max(at, 1e-300))
    share = (at - low) / (high - low) if high != low else 0.5
    return max(0.0, min(1.0, share))


def _in_cell(block: Heatmap, row: int, column: int) -> str:
    number = format_number(block.values[row][column]) if block.shows_numbers else ""
    if not block.texts:
        return number
    return f"{escape(block.texts[row][column])} <small>{number}</small>"


def _note(block: Heatmap, row: int, column: int) -> str:
    exact = _exact(block.values[row][column])
    return escape(f"{exact} {block.notes[row][column]}") if block.notes else exact


def _colored_text(block: ColoredText) -> str:
    parts = _strongest_channel(block) if block.shows_strongest else []
    for channel, name in enumerate(block.channels):
        most = block.most[channel]
        parts.append(
            f'<div style="{_SOFT}; margin-top: 0.5em">{escape(name)}: full color at {format_number(most)}</div>'
        )
        parts += [_line_of_text(block, text, channel, most) for text in block.texts]
    return "".join(parts)


def _strongest_channel(block: ColoredText) -> list[str]:
    """The texts, each token in the color of its strongest channel."""
    if not block.channels:
        return []
    parts = [f'<div style="{_SOFT}">the strongest at each token</div>', _legend(block.channels)]
    for text in block.texts:
        tokens = []
        for place, token in enumerate(text.tokens):
            sizes = [abs(row[place] or 0.0) for row in text.values]
            best = max(range(len(sizes)), key=sizes.__getitem__)
            color = SERIES[best % len(SERIES)]
            most = block.most[best]
            # Alpha up to 140 of 255, so that text in the default color stays readable.
            deep = round(20 + 120 * min(1.0, sizes[best] / most)) if most and sizes[best] else 0
            ground = f"background: {color}{deep:02x}; box-shadow: inset 0 -2px {color}; " if deep else ""
            frame = "outline: 1.5px solid; " if place in text.marks else ""
            tokens.append(
                f'<span style="display: inline-block; padding: 1px 4px; margin: 1px; border-radius: 4px; '
                f'white-space: pre; {frame}{ground}" title="{escape(block.channels[best])}">{escape(token)}</span>'
            )
        title = f'<span style="{_SOFT}">{escape(text.title)} </span>' if text.title else ""
        parts.append(f'<div style="line-height: 1.9; {_MONO}">{title}{"".join(tokens)}</div>')
    return parts


def _line_of_text(block: ColoredText, text: Text, channel: int, most: float) -> str:
    tokens = []
    for place, (token, value) in enumerate(zip(text.tokens, text.values[channel], strict=True)):
        share = max(-1.0, min(1.0, (value or 0.0) / most)) if most else 0.0
        at = 0.5 + share / 2 if block.is_signed else max(0.0, share)
        ground = _background(at, is_signed=block.is_signed) if share and value is not None else ""
        frame = "outline: 1.5px solid; " if place in text.marks else ""
        tokens.append(
            f'<span style="display: inline-block; padding: 1px 4px; margin: 1px; border-radius: 4px; white-space: pre; '
            f'{frame}{ground}" title="{_exact(value)}">{escape(token)}</span>'
        )
    title = f'<span style="{_SOFT}">{escape(text.title)} </span>' if text.title else ""
    return f'<div style="line-height: 1.9; {_MONO}">{title}{"".join(tokens)}</div>'


def _background(at: float | None, *, is_signed: bool) -> str:
    """A background color, and a text color with enough contrast."""
    if at is None:
        return ""
    fill = interpolate(DIVERGING if is_signed else SEQUENTIAL, at)
    ink = max("#111111", "#ffffff", key=lambda color: contrast(fill, color))
    return f"background: {fill}; color: {ink}"


def _lines(block: Lines) -> str:
    values = [value for line in block.lines for value in (*line.y, *line.low, *line.high) if value is not None]
    if not values or not block.x:
        return _about("no points")
    is_log = block.is_log_x and (block.x[0] or 0.0) > 0
    xs = [math.log(x or 1.0) if is_log else x for x in block.x]
    drawn = []
    for number, line in enumerate(block.lines):
        dash = ' stroke-dasharray="6 4"' if line.is_dashed else ""
        path = _svg_path([(_x(xs, x), None if y is None else _y(values, y)) for x, y in zip(xs, line.y, strict=True)])
        drawn.append(f'<path fill="none" stroke="{SERIES[number % len(SERIES)]}" stroke-width="2"{dash} d="{path}"/>')
    ends = (
        format_number(block.x[0]),
        format_number(block.x[-1]),
        format_number(min(values)),
        format_number(max(values)),
    )
    return _image(drawn, ends, f"{block.y_name} over {block.x_name}") + _legend([line.name for line in block.lines])


def _svg_path(points: Sequence[tuple[float, float | None]]) -> str:
    """An SVG path through the points, interrupted at missing ones."""
    parts, is_on = [], False
    for x, y in points:
        parts += [] if y is None else [f"{'L' if is_on else 'M'}{x:.1f} {y:.1f}"]
        is_on = y is not None
    return "".join(parts)


def _histogram(block: Histogram) -> str:
    if len(block.edges) < 2:
        return _about("no bins")
    counts = [count or 0 for each in block.series for count in each.counts]
    values = [0.0, *counts]
    drawn = []
    for number, each in enumerate(block.series):
        points = [f"{_LEFT},{_HEIGHT - _BOTTOM}"]
        for place, count in enumerate(each.counts):
            for edge in (place, place + 1):
                points.append(f"{_x(block.edges, block.edges[edge]):.1f},{_y(values, count or 0):.1f}")
        points.append(f"{_WIDTH - 8},{_HEIGHT - _BOTTOM}")
        color = SERIES[number % len(SERIES)]
        drawn.append(
            f'<polyline fill="{color}" fill-opacity="0.18" stroke="{color}" stroke-width="1.5" '
            f'points="{" ".join(points)}"/>'
        )
    ends = (format_number(block.edges[0]), format_number(block.edges[-1]), "0", format_number(max(values)))
    return _image(drawn, ends, "count") + _legend([each.name for each in block.series])


def _x(xs: Sequence[float | None], x: float | None) -> float:
    low, high = xs[0] or 0.0, xs[-1] or 0.0
    return _LEFT + ((x or 0.0) - low) / ((high - low) or 1.0) * (_WIDTH - _LEFT - 8)


def _y(values: Sequence[float], y: float) -> float:
    low, high = min(values), max(values)
    return _HEIGHT - _BOTTOM - (y - low) / ((high - low) or 1.0) * (_HEIGHT - _BOTTOM - 10)


def _image(drawn: list[str], ends: tuple[str, str, str, str], name: str) -> str:
    """An `<img>`, because styles of an inline SVG would apply to the whole page."""
    left, right, low, high = ends
    ground = _HEIGHT - _BOTTOM
    text = 'font-family="monospace" font-size="11" fill="#777"'
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">'
        f'<path d="M{_LEFT} 8V{ground}H{_WIDTH - 8}" fill="none" stroke="#999"/>{"".join(drawn)}'
        f'<text x="{_LEFT}" y="{ground + 15}" {text}>{left}</text>'
        f'<text x="{_WIDTH - 8}" y="{ground + 15}" text-anchor="end" {text}>{right}</text>'
        f'<text x="{_LEFT - 5}" y="{ground}" text-anchor="end" {text}>{low}</text>'
        f'<text x="{_LEFT - 5}" y="17" text-anchor="end" {text}>{high}</text>'
        f'<text x="{_WIDTH // 2}" y="{ground + 29}" text-anchor="middle" {text}>{escape(name)}</text></svg>'
    )
    data = b64encode(svg.encode("utf-8", "replace")).decode()
    return f'<img alt="{escape(name)}" style="max-width: 100%" src="data:image/svg+xml;base64,{data}">'


def _legend(names: Sequence[str]) -> str:
    spans = (
        f'<span style="margin-right: 12px"><span style="color: {SERIES[number % len(SERIES)]}">■</span> {escape(name)}'
        "</span>"
        for number, name in enumerate(names)
    )
    return f'<div style="{_SOFT}">{"".join(spans)}</div>'


_RENDERERS: dict[str, Callable[[Any], str]] = {
    "prose": _prose,
    "facts": _facts,
    "table": _table,
    "lines": _lines,
    "bars": _bars,
    "histogram": _histogram,
    "heatmap": _heatmap,
    "text": _colored_text,
}
