"""The values behind `color_by=`: one number for each node and each box."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint
from cutaway.graph.op import Op
from cutaway.graph.selection import rows_of
from cutaway.graph.tables import OP
from cutaway.graph.trace import Trace
from cutaway.layout.graph_view import GraphView, Measure, Scale
from cutaway.layout.picture import Picture
from cutaway.views.graph.measures import measures

ColorBy = str | Mapping[str, float] | Callable[[Op], Any]
"""The name of a measure, a mapping from sites to numbers, or a function from an op to a number."""

_WIDE = 100.0
"""From this ratio of the largest to the smallest value on, the scale is logarithmic."""


def measure_of(trace: Trace, view: GraphView, by: ColorBy) -> Measure:
    """The measure that `color_by=` asks for, with a value for each node of the view."""
    if isinstance(by, str):
        known = {measure.name: measure for measure in (*view.measures, *measures(trace, view.nodes.row))}
        if by not in known:
            names = ", ".join(known) or "none, because no op ran"
            raise InputError(
                f"cannot color this trace by {by!r}: there is no such measure, or it is 0 everywhere."
                f"{hint(by, known)} Available: {names}."
            )
        return known[by]
    numbers: dict[int, float] = {}
    if isinstance(by, Mapping):
        name = "value"
        for site, number in by.items():
            numbers |= dict.fromkeys(rows_of(trace, site), _number(number, site))
    elif callable(by):
        name = getattr(by, "__name__", "value").replace("<lambda>", "value")
        kinds = trace.tables.nodes.kind
        for row in view.nodes.row:
            if row >= 0 and kinds[row] == OP and (number := by(Op(trace, row))) is not None:
                numbers[row] = _number(number, Op(trace, row).label)
    else:
        raise InputTypeError(
            f"color_by must be the name of a measure, a mapping from sites to numbers or a function, got {by!r}."
        )
    values = tuple(numbers.get(row) for row in view.nodes.row)
    return Measure(name, name, "", "max", _scale(values), values)


def box_values(picture: Picture, keys: Sequence[str], measure: Measure) -> tuple[float | None, ...]:
    """The value of each box: the sum or the largest of its nodes."""
    by_key: dict[str, list[float]] = {}
    for key, value in zip(keys, measure.values, strict=True):
        if value is not None:
            by_key.setdefault(key, []).append(value)
    return tuple(_total(by_key.get(box.key, ()), measure) for box in picture.boxes)


def _total(values: Iterable[float], measure: Measure) -> float | None:
    numbers = list(values)
    if not numbers:
        return None
    if measure.total == "sum":
        return sum(numbers)
    # On a diverging scale both signs are extremes.
    return max(numbers, key=abs) if measure.scale == "diverging" else max(numbers)


def _scale(values: Iterable[float | None]) -> Scale:
    known = [value for value in values if value is not None and value == value]
    if not known or min(known) < 0:
        return "diverging" if known and max(known) > 0 else "linear"
    return "log" if min(known) > 0 and max(known) > _WIDE * min(known) else "linear"


def _number(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"color_by gave {value!r} for {what}, which is not a number.") from error
