"""How commands print: tables and sentences in which nothing recorded reaches the terminal raw, or one JSON document."""

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

_MOST_CELL = 60


def printable(text: object) -> str:
    """A text without anything that could steer a terminal: control characters are shown as escapes.

    >>> printable("a\\x1b[31mb\\n")
    'a\\\\x1b[31mb\\\\n'
    """
    found = str(text)
    if found.isprintable():
        return found
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in found
    )


def say(*lines: str) -> None:
    """Print lines, each made safe; what the terminal's encoding lacks is escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        text = printable(line)
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def say_json(document: Any) -> None:
    """Print one JSON document; numbers that JSON has not (NaN, infinity) are null."""
    text = json.dumps(plain(document), indent=1, allow_nan=False)
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def plain(value: Any) -> Any:
    """Whatever a command found, as JSON has it: dataclasses by their attribute names, arrays as lists.

    >>> plain({"a": np.array([1.5, np.nan]), "b": (1, b"x")})
    {'a': [1.5, None], 'b': [1, 'eA==']}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return str(value)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lines of a table: numbers to the right, texts to the left.

    >>> table(["step", "kind"], [[5, "long"], [10, "short"]])
    ['step  kind', '   5  long', '  10  short']
    """
    values = [list(row) for row in rows]
    cells = [[shown(value) for value in row] for row in values]
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


def shown(value: Any) -> str:
    """One cell of a table."""
    if value is None:
        return ""
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    text = printable(value)
    return text if len(text) <= _MOST_CELL else f"{text[: _MOST_CELL - 1]}…"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def without_histogram(names: Sequence[str]) -> list[str]:
    """The statistics that are read one by one: a histogram is a picture, not sixteen numbers.

    >>> without_histogram(["mean", "low", "high", "h0", "h1"])
    ['mean']
    """
    return [name for name in names if statistic(name).part != "histogram"]


def when(seconds: float) -> str:
    """A time of day, of this machine's clock: "2026-11-15 15:20"."""
    try:
        return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")
    except (OverflowError, ValueError, OSError):
        return ""
