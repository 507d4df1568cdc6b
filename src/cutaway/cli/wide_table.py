"""Formats several curves as one table: a row per step, a column per curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cutaway.cli.output import table

_MAX_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Column:
    """One curve."""

    name: str
    steps: Sequence[int]
    values: Any
    kinds: Sequence[str] = ()


def wide_table(lines: Iterable[Column]) -> list[str]:
    """Format the table; with more than 8 curves, one row per curve and step instead.

    >>> wide_table([Column("a", [1, 2], [0.5, 0.25]), Column("b", [2], [4.0])])
    ['step     a  b', '   1   0.5', '   2  0.25  4']
    """
    curves = list(lines)
    if len(curves) > _MAX_COLUMNS:
        rows = ([line.name, step, value] for line in curves
                for step, value in zip(line.steps, line.values, strict=True))  # fmt: skip
        return table(["of", "step", "value"], rows)
    kinds = {step: kind for line in curves for step, kind in zip(line.steps, line.kinds, strict=False)}
    columns = [dict(zip(line.steps, line.values, strict=True)) for line in curves]
    has_kinds = any(kinds.values())
    head = ["step", *(["kind"] if has_kinds else []), *(line.name for line in curves)]
    steps = sorted({step for line in curves for step in line.steps})
    body = (
        [step, *([kinds.get(step, "")] if has_kinds else []), *(column.get(step) for column in columns)]
        for step in steps
    )
    return table(head, body)
