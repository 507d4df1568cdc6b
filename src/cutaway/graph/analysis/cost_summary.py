"""Time, FLOPs and bytes by function, module or any other group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from cutaway.core.errors import InputError
from cutaway.core.formatting import clipped, human_bytes, human_number, human_seconds
from cutaway.graph.op import Op
from cutaway.graph.tables import IDENTITY, OP

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace

Measure = Literal["seconds", "flops", "bytes"]
Grouping = Literal["function", "module", "module_class"]
_MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class Total:
    """The total cost of some ops."""

    count: int
    """Number of calls; one that returned several tensors counts once."""
    seconds: float
    flops: int
    bytes: int
    """Size of the values; an op that returned its input unchanged counts 0."""
    share: float
    """Share of the total of the measure that the table is sorted by, from 0 to 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Totals(Mapping[str, Total]):
    """A `Total` for each function or module, largest first."""

    rows: dict[str, Total]
    of: str
    """The measure that it is sorted by and that shares refer to: "seconds", "flops" or "bytes"."""

    def __getitem__(self, key: str) -> Total:
        return self.rows[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        width = min(30, max((len(name) or 21 for name in self.rows), default=0))
        lines = [f"{'':<{width}}  count       time     flops      bytes  of {self.of}"]
        for name, row in list(self.rows.items())[:_MOST_ROWS]:
            flops = human_number(row.flops) if row.flops else ""
            name = name or "(outside all modules)"
            lines.append(
                f"{clipped(name, width):<{width}} {row.count:>5,}×  {human_seconds(row.seconds):>9}  {flops:>8}"
                f"  {human_bytes(row.bytes):>9}  {row.share:>5.1%}"
            )
        if len(self.rows) > _MOST_ROWS:
            lines.append(f"and {len(self.rows) - _MOST_ROWS} more")
        return "\n".join(lines)


def totals(
    trace: Trace, nodes: Sequence[int], by: Grouping | Callable[[Op], Any], *, of: Measure, inclusive: bool
) -> Totals:
    """The cost of some rows by function, by module, or by the return value of a function of each op."""
    check_measure(of)
    keys_of = _grouping(trace, by, inclusive)
    sums: dict[str, list[float]] = {}
    # Shares refer to each op once, even if it counts for several modules.
    whole = [0.0, 0.0, 0.0, 0.0]
    for node, spent in zip(nodes, _costs(trace, nodes), strict=True):
        for row in (whole, *(sums.setdefault(key, [0, 0.0, 0, 0]) for key in keys_of(node))):
            for i, amount in enumerate(spent):
                row[i] += amount
    place = 1 + get_args(Measure).index(of)
    rows = {
        key: Total(int(row[0]), row[1], int(row[2]), int(row[3]), row[place] / whole[place] if whole[place] else 0.0)
        for key, row in sorted(sums.items(), key=lambda item: -item[1][place])
    }
    return Totals(rows, of)


def total(trace: Trace, nodes: Sequence[int]) -> Total:
    """The total cost of some rows."""
    count, seconds, flops, size = 0, 0.0, 0, 0
    for row in _costs(trace, nodes):
        count, seconds, flops, size = count + row[0], seconds + row[1], flops + row[2], size + row[3]
    return Total(count, seconds, flops, size, 1.0)


def weights(trace: Trace, nodes: Sequence[int], by: Measure) -> list[float]:
    """The cost of each row by itself: every result of a call has the whole time of the call, sources have 0."""
    check_measure(by)
    kinds, flags = trace.tables.nodes.kind, trace.tables.nodes.flags
    if by == "bytes":
        return [0 if kinds[node] != OP or flags[node] & IDENTITY else Op(trace, node).bytes for node in nodes]
    if by == "flops":
        return [Op(trace, _first_result(trace, node)).flops for node in nodes]
    return [Op(trace, node).seconds for node in nodes]


def check_measure(measure: object) -> None:
    if measure not in get_args(Measure):
        raise InputError(f"unknown measure {measure!r}: give 'seconds', 'flops' or 'bytes'.")


def _costs(trace: Trace, nodes: Sequence[int]) -> Iterator[tuple[int, float, int, int]]:
    """Count, seconds, FLOPs and bytes for each row; further results of one call add only bytes."""
    events, flags = trace.tables.nodes.event, trace.tables.nodes.flags
    last: Any = None
    for node in nodes:
        op, event = Op(trace, node), events[node]
        size = 0 if flags[node] & IDENTITY else op.bytes
        # Results of one call are adjacent rows.
        if event is not None and event is last:
            yield 0, 0.0, 0, size
        else:
            yield int(event is not None), op.seconds, Op(trace, _first_result(trace, node)).flops, size
        last = event


def _first_result(trace: Trace, node: int) -> int:
    """The first result of the call that made a row, which has the FLOPs of the call."""
    events = trace.tables.nodes.event
    if events[node] is not None:
        while node > 0 and events[node - 1] is events[node]:
            node -= 1
    return node


def _grouping(trace: Trace, by: Grouping | Callable[[Op], Any], inclusive: bool) -> Callable[[int], Iterable[str]]:
    nodes = trace.tables.nodes
    if callable(by):
        return lambda node: (str(by(Op(trace, node))),)
    if by == "function":
        return lambda node: (nodes.name[node],)
    if by not in get_args(Grouping):
        raise InputError(f"cannot group by {by!r}: give 'function', 'module', 'module_class', or a function of an op.")
    calls, modules = trace.tables.calls, trace.tables.modules

    @cache
    def names(call: int) -> tuple[str, ...]:
        """The module of a call and, if inclusive, those around it, each name once."""
        row = calls[call]
        module = modules[row.module] if row.module >= 0 else None
        name = "" if module is None else module.class_name if by == "module_class" else module.addresses[0]
        if not inclusive or not call:
            return (name,)
        return tuple(dict.fromkeys([name, *filter(None, names(row.parent))]))

    return lambda node: names(nodes.call[node])
