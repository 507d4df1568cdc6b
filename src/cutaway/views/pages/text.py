"""Renders a page as plain text, for terminals and logs."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import figures, percent
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
)

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SHADES = " ░▒▓█"
_LEVELS = " ▁▂▃▄▅▆▇█"
_LEAST_WIDTH = 40
_MOST_ROWS = 40
_MOST_POINTS = 20
_MOST_BINS = 24


def as_text(page: Page, width: int = 100) -> str:
    """The page in lines of at most `width` characters; longer names are cut."""
    if not isinstance(width, int):
        raise InputTypeError(f"width must be a number of characters, got {width!r}.")
    if width < _LEAST_WIDTH:
        raise InputError(f"width must be at least {_LEAST_WIDTH} characters, got {width}.")
    lines = [*_title(page.title, "=", width), *_wrapped(page.about, width)]
    for section in page.sections:
        lines += ["", *_title(section.title, "-", width), *_wrapped(section.about, width)]
        for place, block in enumerate(section.blocks):
            lines += [""] if place or section.about else []
            lines += _title(block.title, "", width) if block.title else []
            lines += _lines_of(block, width)
    return "\n".join(line.rstrip() for line in lines)


def format_number(value: float | None) -> str:
    """A number with three significant figures.

    >>> format_number(0.12345), format_number(1234567), format_number(-1e-9), format_number(None)
    ('0.123', '1,234,567', '−1e−9', '–')
    """
    if value is None:
        return "–"
    return f"{value:,}".replace("-", "−") if isinstance(value, int) else figures(value)


def one_line(text: str) -> str:
    """A text on one line, with control characters escaped so that it cannot affect a terminal.

    >>> one_line("a\\x1b[31m\\n")
    'a\\\\x1b[31m↵'
    """
    visible = text.replace("\n", "↵").replace("\t", "→")
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in visible)


def _title(text: str, line: str, width: int) -> list[str]:
    title = _cut(one_line(text), width)
    return [title, line * len(title)] if line else [title]


def _wrapped(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for paragraph in filter(None, text.split("\n")):
        lines += textwrap.wrap(one_line(paragraph), width) or [""]
    return lines


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _bar(share: float, width: int) -> str:
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).strip()


def _lines_of(block: Block, width: int) -> list[str]:
    write: Callable[[Any, int], Iterable[str]] = _RENDERERS[block.kind]
    return list(write(block, width))


def _prose(block: Prose, width: int) -> list[str]:
    return _wrapped(block.text, width)


def _facts(block: Facts, width: int) -> Iterator[str]:
    wide = min(max((len(one_line(item.name)) for item in block.items), default=0), width // 3)
    for item in block.items:
        remark = f"  ({one_line(item.remark)})" if item.remark else ""
        yield _cut(f"{_cut(one_line(item.name), wide):<{wide}}  {one_line(item.value)}{remark}", width)


def _table(block: Table, width: int) -> Iterator[str]:
    shown = block.rows[:_MOST_ROWS]
    columns = [_column(column, [row[place] for row in shown], width) for place, column in enumerate(block.columns)]
    n = _n_fitting_columns([max(map(len, cells)) for cells in columns], width)
    for row in range(len(shown) + 1):
        yield "  ".join(cells[row] for cells in columns[:n])
        if row == 0:
            yield "  ".join("─" * len(cells[0]) for cells in columns[:n])
    left = [column.name for column in block.columns[n:]]
    if left:
        yield _cut(f"further columns: {', '.join(map(one_line, left))}", width)
    if len(block.rows) > len(shown):
        yield f"and {len(block.rows) - len(shown):,} more rows"


def _column(column: Column, cells: Sequence[Cell], width: int) -> list[str]:
    """Header and cells of a column, all of one width."""
    if column.kind == "text":
        texts = [one_line(str(cell)) for cell in cells]
    elif column.kind == "share":
        texts = ["–" if cell is None else percent(float(cell)) for cell in cells]
    else:
        texts = [format_number(cell) if not isinstance(cell, str) else cell for cell in cells]
    texts = [_cut(text, max(12, width // 3)) for text in (one_line(column.name), *texts)]
    wide = max(map(len, texts))
    return [text.ljust(wide) if column.kind == "text" else text.rjust(wide) for text in texts]


def _n_fitting_columns(widths: Sequence[int], width: int) -> int:
    """How many columns fit side by side; at least one."""
    total = -2
    for n, wide in enumerate(widths):
        total += wide + 2
        if total > width and n:
            return n
    return len(widths)


def _bars(block: Bars, width: int) -> Iterator[str]:
    names = [_cut(one_line(name), width // 3) for name in block.names]
    numbers = [format_number(value) for value in block.values]
    if block.low and block.high:
        ends = zip(numbers, block.low, block.high, strict=True)
        numbers = [f"{number} [{format_number(low)}, {format_number(high)}]" for number, low, high in ends]
    wide, right = max(map(len, names), default=0), max(map(len, numbers), default=0)
    room = max(4, width - wide - right - 4)
    most = max((abs(value) for value in block.values if value is not None), default=0.0) or 1.0
    for name, value, number in zip(names, block.values, numbers, strict=True):
        share = abs(value or 0.0) / most
        if block.is_signed:
            half = room // 2
            bar = _bar(share, half)
            drawn = f"{bar:<{half}}" if (value or 0) >= 0 else ""
            # Partial blocks are cut from the right, so bars to the left of the middle use whole blocks only.
            left = ("█" * round(share * half)).rjust(half) if (value or 0) < 0 else " " * half
            yield f"{name:<{wide}}  {left}│{drawn:<{half}} {number:>{right}}"
        else:
            yield f"{name:<{wide}}  {_bar(share, room):<{room}}  {number:>{right}}"


def _lines(block: Lines, width: int) -> Iterator[str]:
    """Lines as a table of their points."""
    columns = [Column(block.x_name, "number"), *(Column(line.name, "number") for line in block.lines)]
    rows: list[tuple[Cell, ...]] = list(zip(block.x, *(line.y for line in block.lines), strict=True))
    if block.x_names:
        columns.insert(1, Column(""))
        rows = [(row[0], name, *row[1:]) for name, row in zip(block.x_names, rows, strict=True)]
    step = -(-len(rows) // _MOST_POINTS) or 1
    every = f"; every {step}th point is shown" if step > 1 else ""
    yield f"{one_line(block.y_name)} by {one_line(block.x_name)}{every}"
    yield from _table(Table(columns, [*rows[:-1:step], *rows[-1:]]), width)


def _histogram(block: Histogram, width: int) -> Iterator[str]:
    n = len(block.edges) - 1
    if n < 1:
        return
    step = -(-n // min(_MOST_BINS, n))
    wide = min(max((len(one_line(each.name)) for each in block.series), default=0), width // 3)
    for each in block.series:
        counts = [sum(count or 0 for count in each.counts[first : first + step]) for first in range(0, n, step)]
        most = max(counts, default=0) or 1
        # Rounded up, so that a bin with a single count is not drawn as empty.
        drawn = "".join(_LEVELS[math.ceil(8 * max(0.0, count) / most)] for count in counts)
        yield f"{_cut(one_line(each.name), wide):<{wide}}  {drawn}  {format_number(sum(counts))} in all"
    yield f"{'':<{wide}}  from {format_number(block.edges[0])} to {format_number(block.edges[-1])}"


def _heatmap(block: Heatmap, width: int) -> Iterator[str]:
    if block.shows_numbers or block.texts:
        yield from _heatmap_table(block, width)
        return
    wide = min(max(map(len, map(one_line, block.row_names)), default=0), width // 3)
    n = (width - wide - 2) // 2
    ground = 0.0 if block.is_diverging else _size(block, block.low)
    most = _size(block, block.high) - ground
    for name, row in list(zip(block.row_names, block.values, strict=True))[:_MOST_ROWS]:
        cells = (" ?" if value is None else _shade(_size(block, value), ground, most) for value in row[:n])
        yield f"{_cut(one_line(name), wide):<{wide}}  {''.join(cells)}"
    hidden = (max(0, len(block.row_names) - _MOST_ROWS), max(0, len(block.column_names) - n))
    if any(hidden):
        yield f"and {hidden[0]:,} more rows, {hidden[1]:,} more columns"
    yield f"full at {format_number(block.high)}" + (
        ", `-` below zero" if block.is_diverging else f", empty at {format_number(block.low)}"
    )


def _size(block: Heatmap, value: float | None) -> float:
    """The number that decides the shade of a value."""
    return math.log(max(value or 0.0, 1e-300)) if block.is_log else value or 0.0


def _shade(value: float, ground: float, most: float) -> str:
    """Two characters: the sign, and the shade."""
    share = (value - ground) / most if most else 0.0
    level = min(4, round(4 * abs(share)))
    return ("-" if share < 0 and level else " ") + _SHADES[level]


def _heatmap_table(block: Heatmap, width: int) -> Iterator[str]:
    columns = [Column("", "text"), *(Column(name, "text" if block.texts else "number") for name in block.column_names)]
    rows: list[tuple[Cell, ...]] = []
    for place, (name, row) in enumerate(zip(block.row_names, block.values, strict=True)):
        if block.texts:
            number = format_number if block.shows_numbers else lambda _: ""
            texts = zip(block.texts[place], row, strict=True)
            rows.append((name, *(f"{text} {number(value)}".strip() for text, value in texts)))
        else:
            rows.append((name, *row))
    yield from _table(Table(columns, rows), width)


def _colored_text(block: ColoredText, width: int) -> Iterator[str]:
    """Each token with shading characters as dense as its value is large, and `+` or `-` before it."""
    if block.shows_strongest:
        yield from _strongest_channel(block, width)
    for channel, name in enumerate(block.channels):
        most = block.most[channel]
        yield _cut(
            f"{one_line(name)}: full at {format_number(most)}" if most else f"{one_line(name)}: zero everywhere", width
        )
        for text in block.texts:
            if text.title:
                yield _cut(f"  {one_line(text.title)}", width)
            tokens = [
                _token(token, value, most, is_marked=place in text.marks)
                for place, (token, value) in enumerate(zip(text.tokens, text.values[channel], strict=True))
            ]
            yield from textwrap.wrap(
                " ".join(tokens), width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
            )


def _strongest_channel(block: ColoredText, width: int) -> Iterator[str]:
    """Each token with the number of its strongest channel."""
    yield _cut("the strongest at each token, numbered as below", width)
    for text in block.texts:
        if text.title:
            yield _cut(f"  {one_line(text.title)}", width)
        tokens = []
        for place, token in enumerate(text.tokens):
            sizes = [abs(row[place] or 0.0) for row in text.values]
            best = max(range(len(sizes)), key=sizes.__getitem__, default=0)
            word = one_line(token).replace(" ", "·") or "∅"
            word = f"[{word}]" if place in text.marks else word
            tokens.append(f"{best}:{word}" if sizes and sizes[best] else word)
        yield from textwrap.wrap(
            " ".join(tokens), width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )


def _token(token: str, value: float | None, most: float, *, is_marked: bool) -> str:
    word = one_line(token).replace(" ", "·") or "∅"
    word = f"[{word}]" if is_marked else word
    share = abs(value or 0.0) / most if most else 0.0
    shade = _SHADES[min(4, round(4 * share))].strip()
    return f"{'-' if (value or 0.0) < 0 else '+'}{shade}{word}" if shade else word


_RENDERERS: dict[str, Callable[[Any, int], Iterable[str]]] = {
    "prose": _prose,
    "facts": _facts,
    "table": _table,
    "lines": _lines,
    "bars": _bars,
    "histogram": _histogram,
    "heatmap": _heatmap,
    "text": _colored_text,
}
