"""Pages of plates as text: for a terminal, a log, a reader who has no browser."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from cutaway.core.errors import InputError
from cutaway.core.formatting import figures, percent
from cutaway.views.pages.model import (
    Bars,
    Cell,
    ColouredText,
    Column,
    Facts,
    Heatmap,
    Histogram,
    Lines,
    Page,
    Plate,
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
    """The whole page in lines of at most so many characters; names that are longer still are cut."""
    if width < _LEAST_WIDTH:
        raise InputError(f"a page needs a width of at least {_LEAST_WIDTH} characters; {width} were given.")
    lines = [*_title(page.title, "=", width), *_wrapped(page.about, width)]
    for section in page.sections:
        lines += ["", *_title(section.title, "-", width), *_wrapped(section.about, width)]
        for place, plate in enumerate(section.plates):
            lines += [""] if place or section.about else []
            lines += _title(plate.title, "", width) if plate.title else []
            lines += _lines_of(plate, width)
    return "\n".join(line.rstrip() for line in lines)


def said(value: float | None) -> str:
    """A number of three figures.

    >>> said(0.12345), said(1234567), said(-1e-9), said(None)
    ('0.123', '1,234,567', '−1e−9', '–')
    """
    if value is None:
        return "–"
    return f"{value:,}".replace("-", "−") if isinstance(value, int) else figures(value)


def safe(text: str) -> str:
    """A text in one line without anything that could steer a terminal.

    >>> safe("a\\x1b[31m\\n")
    'a\\\\x1b[31m↵'
    """
    found = text.replace("\n", "↵").replace("\t", "→")
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in found)


def _title(text: str, line: str, width: int) -> list[str]:
    found = _cut(safe(text), width)
    return [found, line * len(found)] if line else [found]


def _wrapped(text: str, width: int) -> list[str]:
    found: list[str] = []
    for paragraph in filter(None, text.split("\n")):
        found += textwrap.wrap(safe(paragraph), width) or [""]
    return found


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _bar(share: float, width: int) -> str:
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).strip()


def _lines_of(plate: Plate, width: int) -> list[str]:
    write: Callable[[Any, int], Iterable[str]] = _WRITERS[plate.kind]
    return list(write(plate, width))


def _prose(plate: Prose, width: int) -> list[str]:
    return _wrapped(plate.text, width)


def _facts(plate: Facts, width: int) -> Iterator[str]:
    wide = min(max((len(safe(item.name)) for item in plate.items), default=0), width // 3)
    for item in plate.items:
        remark = f"  ({safe(item.remark)})" if item.remark else ""
        yield _cut(f"{_cut(safe(item.name), wide):<{wide}}  {safe(item.value)}{remark}", width)


def _table(plate: Table, width: int) -> Iterator[str]:
    shown = plate.rows[:_MOST_ROWS]
    columns = [_column(column, [row[place] for row in shown], width) for place, column in enumerate(plate.columns)]
    n = _fitting([max(map(len, cells)) for cells in columns], width)
    for row in range(len(shown) + 1):
        yield "  ".join(cells[row] for cells in columns[:n])
        if row == 0:
            yield "  ".join("─" * len(cells[0]) for cells in columns[:n])
    left = [column.name for column in plate.columns[n:]]
    if left:
        yield _cut(f"further columns: {', '.join(map(safe, left))}", width)
    if len(plate.rows) > len(shown):
        yield f"and {len(plate.rows) - len(shown):,} more rows"


def _column(column: Column, cells: Sequence[Cell], width: int) -> list[str]:
    """Its head and its cells, all of one width."""
    if column.kind == "text":
        found = [safe(str(cell)) for cell in cells]
    elif column.kind == "share":
        found = ["–" if cell is None else percent(float(cell)) for cell in cells]
    else:
        found = [said(cell) if not isinstance(cell, str) else cell for cell in cells]
    found = [_cut(text, max(12, width // 3)) for text in (safe(column.name), *found)]
    wide = max(map(len, found))
    return [text.ljust(wide) if column.kind == "text" else text.rjust(wide) for text in found]


def _fitting(widths: Sequence[int], width: int) -> int:
    """How many of the columns fit beside each other; one at least."""
    total = -2
    for n, wide in enumerate(widths):
        total += wide + 2
        if total > width and n:
            return n
    return len(widths)


def _bars(plate: Bars, width: int) -> Iterator[str]:
    names = [_cut(safe(name), width // 3) for name in plate.names]
    numbers = [said(value) for value in plate.values]
    if plate.low and plate.high:
        ends = zip(numbers, plate.low, plate.high, strict=True)
        numbers = [f"{number} [{said(low)}, {said(high)}]" for number, low, high in ends]
    wide, right = max(map(len, names), default=0), max(map(len, numbers), default=0)
    room = max(4, width - wide - right - 4)
    most = max((abs(value) for value in plate.values if value is not None), default=0.0) or 1.0
    for name, value, number in zip(names, plate.values, numbers, strict=True):
        share = abs(value or 0.0) / most
        if plate.is_signed:
            half = room // 2
            bar = _bar(share, half)
            drawn = f"{bar:<{half}}" if (value or 0) >= 0 else ""
            # The eighths of a block are cut from its left: to the left of the middle only whole ones will do.
            left = ("█" * round(share * half)).rjust(half) if (value or 0) < 0 else " " * half
            yield f"{name:<{wide}}  {left}│{drawn:<{half}} {number:>{right}}"
        else:
            yield f"{name:<{wide}}  {_bar(share, room):<{room}}  {number:>{right}}"


def _lines(plate: Lines, width: int) -> Iterator[str]:
    """Lines are read best as a table of their points."""
    columns = [Column(plate.x_name, "number"), *(Column(line.name, "number") for line in plate.lines)]
    rows: list[tuple[Cell, ...]] = list(zip(plate.x, *(line.y for line in plate.lines), strict=True))
    if plate.x_names:
        columns.insert(1, Column(""))
        rows = [(row[0], name, *row[1:]) for name, row in zip(plate.x_names, rows, strict=True)]
    step = -(-len(rows) // _MOST_POINTS) or 1
    every = f"; one of {step} points is told" if step > 1 else ""
    yield f"{safe(plate.y_name)} by {safe(plate.x_name)}{every}"
    yield from _table(Table(columns, [*rows[:-1:step], *rows[-1:]]), width)


def _histogram(plate: Histogram, width: int) -> Iterator[str]:
    n = len(plate.edges) - 1
    if n < 1:
        return
    step = -(-n // min(_MOST_BINS, n))
    wide = min(max((len(safe(each.name)) for each in plate.series), default=0), width // 3)
    for each in plate.series:
        counts = [sum(count or 0 for count in each.counts[first : first + step]) for first in range(0, n, step)]
        most = max(counts, default=0) or 1
        drawn = "".join(_LEVELS[math.ceil(8 * max(0.0, count) / most)] for count in counts)
        yield f"{_cut(safe(each.name), wide):<{wide}}  {drawn}  {said(sum(counts))} in all"
    yield f"{'':<{wide}}  from {said(plate.edges[0])} to {said(plate.edges[-1])}"


def _heatmap(plate: Heatmap, width: int) -> Iterator[str]:
    if plate.shows_numbers or plate.texts:
        yield from _numbered(plate, width)
        return
    wide = min(max(map(len, map(safe, plate.row_names)), default=0), width // 3)
    n = (width - wide - 2) // 2
    ground = 0.0 if plate.is_diverging else _size(plate, plate.low)
    most = _size(plate, plate.high) - ground
    for name, row in list(zip(plate.row_names, plate.values, strict=True))[:_MOST_ROWS]:
        cells = (" ?" if value is None else _shade(_size(plate, value), ground, most) for value in row[:n])
        yield f"{_cut(safe(name), wide):<{wide}}  {''.join(cells)}"
    hidden = (max(0, len(plate.row_names) - _MOST_ROWS), max(0, len(plate.column_names) - n))
    if any(hidden):
        yield f"and {hidden[0]:,} more rows, {hidden[1]:,} more columns"
    yield f"full at {said(plate.high)}" + (
        ", `-` below zero" if plate.is_diverging else f", empty at {said(plate.low)}"
    )


def _size(plate: Heatmap, value: float | None) -> float:
    """By what a value is coloured."""
    return math.log(max(value or 0.0, 1e-300)) if plate.is_log else value or 0.0


def _shade(value: float, ground: float, most: float) -> str:
    """Two signs: which side, how much."""
    share = (value - ground) / most if most else 0.0
    level = min(4, round(4 * abs(share)))
    return ("-" if share < 0 and level else " ") + _SHADES[level]


def _numbered(plate: Heatmap, width: int) -> Iterator[str]:
    columns = [Column("", "text"), *(Column(name, "text" if plate.texts else "number") for name in plate.column_names)]
    rows: list[tuple[Cell, ...]] = []
    for place, (name, row) in enumerate(zip(plate.row_names, plate.values, strict=True)):
        if plate.texts:
            number = said if plate.shows_numbers else lambda _: ""
            texts = zip(plate.texts[place], row, strict=True)
            rows.append((name, *(f"{text} {number(value)}".strip() for text, value in texts)))
        else:
            rows.append((name, *row))
    yield from _table(Table(columns, rows), width)


def _coloured(plate: ColouredText, width: int) -> Iterator[str]:
    """Every token in signs as dense as its value is large, `+` or `-` before it."""
    if plate.is_contest:
        yield from _contest(plate, width)
    for channel, name in enumerate(plate.channels):
        most = plate.most[channel]
        yield _cut(f"{safe(name)}: full at {said(most)}" if most else f"{safe(name)}: zero everywhere", width)
        for text in plate.texts:
            if text.title:
                yield _cut(f"  {safe(text.title)}", width)
            tokens = [
                _token(token, value, most, is_marked=place in text.marks)
                for place, (token, value) in enumerate(zip(text.tokens, text.values[channel], strict=True))
            ]
            yield from textwrap.wrap(
                " ".join(tokens), width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
            )


def _contest(plate: ColouredText, width: int) -> Iterator[str]:
    """Every token with the number of the channel that is largest there."""
    yield _cut("the strongest at each token, by its place below", width)
    for text in plate.texts:
        if text.title:
            yield _cut(f"  {safe(text.title)}", width)
        tokens = []
        for place, token in enumerate(text.tokens):
            sizes = [abs(row[place] or 0.0) for row in text.values]
            best = max(range(len(sizes)), key=sizes.__getitem__, default=0)
            word = safe(token).replace(" ", "·") or "∅"
            word = f"[{word}]" if place in text.marks else word
            tokens.append(f"{best}:{word}" if sizes and sizes[best] else word)
        yield from textwrap.wrap(
            " ".join(tokens), width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )


def _token(token: str, value: float | None, most: float, *, is_marked: bool) -> str:
    word = safe(token).replace(" ", "·") or "∅"
    word = f"[{word}]" if is_marked else word
    share = abs(value or 0.0) / most if most else 0.0
    shade = _SHADES[min(4, round(4 * share))].strip()
    return f"{'-' if (value or 0.0) < 0 else '+'}{shade}{word}" if shade else word


_WRITERS: dict[str, Callable[[Any, int], Iterable[str]]] = {
    "prose": _prose,
    "facts": _facts,
    "table": _table,
    "lines": _lines,
    "bars": _bars,
    "histogram": _histogram,
    "heatmap": _heatmap,
    "text": _coloured,
}
