"""The number by which a picture is coloured: of every node, and of every box that stands for several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cutaway.core.errors import InputError
from cutaway.graph.op import Op
from cutaway.graph.selection import rows_of
from cutaway.graph.tables import OP
from cutaway.graph.trace import Trace
from cutaway.layout.graph_view import GraphView, Measure, Scale
from cutaway.layout.picture import Picture
from cutaway.views.graph.measures import measures

ColourBy = str | Mapping[str, float] | Callable[[Op], Any]
"""The name of a measure, a mapping from sites to numbers, or a function that gives the number of an op."""

_WIDE = 100.0
"""Numbers whose largest is so many times the smallest are spread over a logarithmic ramp."""


def measure_of(trace: Trace, view: GraphView, by: ColourBy) -> Measure:
    """The numbers of all nodes of a graph."""
    if isinstance(by, str):
        known = {measure.name: measure for measure in (*view.measures, *measures(trace, view.nodes.row))}
        if by not in known:
            names = ", ".join(known) or "none: nothing ran"
            raise InputError(
                f"this trace can not be coloured by {by!r}: nothing is known of it, or it is 0 everywhere. "
                f"There is {names}."
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
        raise InputError(
            f"color_by is the name of a measure, a mapping from sites to numbers or a function; not {by!r}."
        )
    values = tuple(numbers.get(row) for row in view.nodes.row)
    return Measure(name, name, "", "max", _scale(values), values)


def box_values(picture: Picture, keys: Sequence[str], measure: Measure) -> tuple[float | None, ...]:
    """The number of each box: of what it holds, the sum or the largest."""
    held: dict[str, list[float]] = {}
    for key, value in zip(keys, measure.values, strict=True):
        if value is not None:
            held.setdefault(key, []).append(value)
    return tuple(_total(held.get(box.key, ()), measure) for box in picture.boxes)


def _total(values: Iterable[float], measure: Measure) -> float | None:
    found = list(values)
    if not found:
        return None
    if measure.total == "sum":
        return sum(found)
    return max(found, key=abs) if measure.scale == "diverging" else max(found)


def _scale(values: Iterable[float | None]) -> Scale:
    known = [value for value in values if value is not None and value == value]
    if not known or min(known) < 0:
        return "diverging" if known and max(known) > 0 else "linear"
    return "log" if min(known) > 0 and max(known) > _WIDE * min(known) else "linear"


def _number(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"color_by gives {value!r} for {what}, which is no number.") from error
