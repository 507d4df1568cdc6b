"""Prints tables, sentences and JSON; escapes control characters so that recorded text cannot control the terminal."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from cutaway.core.statistics import statistic

_MAX_CELL = 60


def printable(text: object) -> str:
    """Escape control characters, so that a text cannot control the terminal.

    >>> printable("a\\x1b[31mb\\n")
    'a\\\\x1b[31mb\\\\n'
    """
    string = str(text)
    if string.isprintable():
        return string
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in string
    )


def print_lines(*lines: str) -> None:
    """Print lines, escaped; characters outside the terminal's encoding become backslash escapes."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        text = printable(line)
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def print_json(document: Any) -> None:
    """Print one JSON document; NaN and infinity become null."""
    text = json.dumps(to_jsonable(document), indent=1, allow_nan=False)
    # json escapes every control character but DEL.
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def to_jsonable(value: Any) -> Any:
    """Convert a value to JSON types: dataclasses become objects keyed by attribute names, arrays become lists.

    >>> to_jsonable({"a": np.array([1.5, np.nan]), "b": (1, b"x")})
    {'a': [1.5, None], 'b': [1, 'eA==']}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, np.generic):
        return to_jsonable(value.item())
    if isinstance(value, np.ndarray):
        return to_jsonable(value.tolist())
    if isinstance(value, complex):
        return [to_jsonable(value.real), to_jsonable(value.imag)]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if dataclasses.is_dataclass(value):
        return {field.name: to_jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_jsonable(item) for item in value]
    return str(value)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Format a table; numbers are right-aligned, texts left-aligned.

    >>> table(["step", "kind"], [[5, "long"], [10, "short"]])
    ['step  kind', '   5  long', '  10  short']
    """
    values = [list(row) for row in rows]
    cells = [[format_cell(value) for value in row] for row in values]
    names = [printable(name) for name in head]
    widths = [max(len(name), *(len(row[place]) for row in cells), 0) for place, name in enumerate(names)]
    is_number = [
        bool(values) and all(row[place] is None or _is_number(row[place]) for row in values)
        for place in range(len(names))
    ]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in (names, *cells)
    ]


def format_cell(value: Any) -> str:
    """Format one table cell."""
    if value is None:
        return ""
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    text = printable(value)
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"


def exact_count(name: str, value: Any) -> Any:
    """A statistic as a table cell: a number of elements as an integer, which is printed with all digits.

    >>> exact_count("count", 2147483651.0), exact_count("mean", 0.5)
    (2147483651, 0.5)
    """
    is_count = isinstance(value, float) and math.isfinite(value) and statistic(name).unit == "elements"
    return int(value) if is_count else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def without_histogram(names: Sequence[str]) -> list[str]:
    """Drop histogram bins, which are unreadable as sixteen columns of numbers.

    >>> without_histogram(["mean", "low", "high", "h0", "h1"])
    ['mean']
    """
    return [name for name in names if statistic(name).part != "histogram"]


def format_time(seconds: float) -> str:
    """Format a Unix time in local time: "2026-11-15 15:20"."""
    try:
        return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")
    except (OverflowError, ValueError, OSError):
        return ""
