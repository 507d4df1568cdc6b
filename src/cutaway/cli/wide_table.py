"""Several curves side by side: one row a step, one column a curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cutaway.cli.output import table

_MOST_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One curve."""

    name: str
    steps: Sequence[int]
    values: Any
    kinds: Sequence[str] = ()


def wide(lines: Iterable[Line]) -> list[str]:
    """The table; with many curves, one row for each curve and step instead.

    >>> wide([Line("a", [1, 2], [0.5, 0.25]), Line("b", [2], [4.0])])
    ['step     a  b', '   1   0.5', '   2  0.25  4']
    """
    found = list(lines)
    if len(found) > _MOST_COLUMNS:
        rows = ([line.name, step, float(value)] for line in found
                for step, value in zip(line.steps, line.values, strict=True))  # fmt: skip
        return table(["of", "step", "value"], rows)
    kinds = {step: kind for line in found for step, kind in zip(line.steps, line.kinds, strict=False)}
    columns = [dict(zip(line.steps, line.values, strict=True)) for line in found]
    has_kinds = any(kinds.values())
    head = ["step", *(["kind"] if has_kinds else []), *(line.name for line in found)]
    steps = sorted({step for line in found for step in line.steps})
    body = (
        [step, *([kinds.get(step, "")] if has_kinds else []), *(column.get(step) for column in columns)]
        for step in steps
    )
    return table(head, body)
