"""The measures by which a graph can be colored: costs and value statistics of every op."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.statistics import STATISTICS, Statistic
from cutaway.graph.op import Op
from cutaway.graph.tables import IDENTITY, Unsaved
from cutaway.graph.trace import Trace
from cutaway.layout.graph_view import Measure, Scale, Total
from cutaway.views.values.numbers import Numbers, numbers_of
from cutaway.views.values.summaries import Summaries, summaries

_MOST_ELEMENTS: Final = 1 << 14
"""Sample size per value: enough to choose a color."""
_MOST_AT_ONCE: Final = 1 << 20
Column = list[float | None]


@dataclass(frozen=True, slots=True)
class _Kind:
    """Name, unit, aggregation and color scale of a measure."""

    name: str
    title: str
    unit: str
    total: Total
    scale: Scale


_SECONDS = _Kind("seconds", "Time", "s", "sum", "log")
_FLOPS = _Kind("flops", "FLOPs", "FLOP", "sum", "log")
_BYTES = _Kind("bytes", "Size of the value", "B", "sum", "log")


def _of_value(name: str, title: str, about: Statistic) -> _Kind:
    """A statistic as a measure; signed ones get a diverging color scale."""
    return _Kind(name, title, "", "max", "diverging" if about.is_signed else about.scale)


_VALUES: dict[_Kind, Callable[[Summaries], NDArray[Any]]] = {
    _of_value("mean", "Mean", STATISTICS["mean"]): lambda found: found.mean,
    _of_value("std", "Standard deviation", STATISTICS["std"]): lambda found: found.std,
    _of_value("abs_max", "Largest magnitude", STATISTICS["abs_max"]): lambda found: np.maximum(
        abs(found.low), abs(found.high)
    ),
    _of_value("zeros", "Share of zeros", STATISTICS["zero_share"]): lambda found: found.n_zeros / found.count,
}
_NOT_FINITE = _Kind("n_nan", "NaN and infinite", "", "sum", "log")
_GRAD_NORM = _Kind("grad_norm", "Norm of the gradient", "", "max", "log")


def measures(trace: Trace, nodes: Sequence[int]) -> tuple[Measure, ...]:
    """Every measure with one number for each of these rows; None for row -1 and where the number is unknown.

    Statistics ignore NaN and infinite elements. Mean, std, zeros and norm of large values are computed on a sample; the
    largest magnitude and the count of NaN and infinite elements are always exact. A measure that is unknown or 0
    everywhere is left out. Time and FLOPs are attributed to the first result of a call, so that they add up; an op that
    returned its argument unchanged counts 0 bytes.
    """
    columns = _costs(trace, nodes)
    statistics, not_finite = _summarize((_value(trace, node) for node in nodes), is_exact=True)
    # A missing value has count 0: 0 / 0 is NaN here, and None in the column.
    with np.errstate(all="ignore"):
        columns += [(kind, _column(numbers(statistics))) for kind, numbers in _VALUES.items()]
    columns.append((_NOT_FINITE, not_finite))
    if trace.tables.nodes.grads:
        columns.append((_GRAD_NORM, _grad_norms(trace, nodes)))
    return tuple(
        Measure(kind.name, kind.title, kind.unit, kind.total, kind.scale, tuple(values))
        for kind, values in columns
        if any(values)
    )


def _costs(trace: Trace, nodes: Sequence[int]) -> list[tuple[_Kind, Column]]:
    seconds: Column = [None] * len(nodes)
    flops, sizes = seconds.copy(), seconds.copy()
    table, counted = trace.tables.nodes, set()
    for i, node in enumerate(nodes):
        if node < 0:
            continue
        op, event = Op(trace, node), table.event[node]
        sizes[i] = 0.0 if table.flags[node] & IDENTITY else float(op.bytes)
        if event is None:
            continue
        is_first = id(event) not in counted
        counted.add(id(event))
        seconds[i] = max(op.seconds, 0.0) if is_first else 0.0
        flops[i] = float(_flops(op)) if is_first else 0.0
    return [(_SECONDS, seconds), (_FLOPS, flops), (_BYTES, sizes)]


def _flops(op: Op) -> int:
    """The FLOPs of the call, which its first result has."""
    return (op if not op.output_path else op.siblings[0]).flops


def _value(trace: Trace, node: int) -> Any:
    """The value of a row; None if it was not saved or is no longer available."""
    if node < 0 or isinstance(trace.tables.nodes.value[node], Unsaved):
        return None
    try:
        return Op(trace, node).value
    except Exception:  # overwritten since, or stored elsewhere and not readable
        return None


def _grad_norms(trace: Trace, nodes: Sequence[int]) -> Column:
    """The norm of the gradient in the last backward pass."""
    statistics, _ = _summarize((_grad(trace, node) for node in nodes), is_exact=False)
    return _column(statistics.norm)


def _grad(trace: Trace, node: int) -> Any:
    try:
        return Op(trace, node).grad if node in trace.tables.nodes.grads else None
    except Exception:  # not stored, or cannot be read
        return None


def _column(numbers: NDArray[Any]) -> Column:
    return [number if math.isfinite(number) else None for number in numbers.tolist()]


# statistics of many values at a time


@dataclass(slots=True)
class _ValueStatistics:
    """What is known of values beyond the statistics of their sampled elements."""

    is_exact: bool
    is_there: list[bool] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    """How many elements each sampled one stands for."""
    wholes: dict[int, tuple[float, float, int]] = field(default_factory=dict)
    """Index of a sampled value → exact lowest, highest and number of non-finite elements."""


def _summarize(values: Iterable[Any], *, is_exact: bool) -> tuple[Summaries, Column]:
    """Statistics of each value, and the number of its non-finite elements; None where there is no value.

    Args:
        is_exact: whether extremes and non-finite counts cover all elements instead of the sample.
    """
    extra = _ValueStatistics(is_exact)
    parts = [summaries(chunk) for chunk in _chunks(values, extra)] or [summaries([])]
    statistics = Summaries(
        *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Summaries))
    )
    statistics.norm[:] *= np.sqrt(extra.weights)  # from the norm of a sample to that of the whole
    not_finite = (statistics.n_nan + statistics.n_inf).astype(float)
    for i, (low, high, n) in extra.wholes.items():
        not_finite[i] = n
        # Otherwise the exact extremes are NaN or Inf, and those of the sample are more useful.
        if not n:
            statistics.low[i], statistics.high[i] = low, high
    numbers = zip(extra.is_there, not_finite.tolist(), strict=True)
    return statistics, [number if is_there else None for is_there, number in numbers]


def _chunks(values: Iterable[Any], extra: _ValueStatistics) -> Iterator[list[NDArray[Any]]]:
    """Sampled elements of each value, a few values at a time; an empty array where there is no value."""
    chunk: list[NDArray[Any]] = []
    size = 0
    for i, value in enumerate(values):
        taken, weight = _NOTHING, 1
        numbers = None if value is None else numbers_of(value)
        if numbers is not None and numbers.source is not None:
            try:
                taken, weight = numbers.sample(_MOST_ELEMENTS)
                if weight > 1 and extra.is_exact:
                    extra.wholes[i] = _whole(numbers)
            except Exception:  # a tensor subclass or stand-in may refuse any operation
                taken, weight = _NOTHING, 1
        extra.is_there.append(taken.size > 0)
        extra.weights.append(weight)
        chunk.append(taken)
        size += taken.size
        if size > _MOST_AT_ONCE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _whole(numbers: Numbers) -> tuple[float, float, int]:
    """Extremes and non-finite count over all elements: a sample could miss the only NaN."""
    low, high = numbers.extremes()
    is_finite = math.isfinite(low) and math.isfinite(high)
    return low, high, 0 if is_finite else sum(numbers.n_not_finite())


_NOTHING: NDArray[Any] = np.empty(0)
