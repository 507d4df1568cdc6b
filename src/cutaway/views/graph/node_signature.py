"""What tells two ops of one function and shape apart: a picture may draw them as one only if nothing does."""

from __future__ import annotations

from cutaway.graph.diff.align import arguments_of
from cutaway.graph.tables import BUFFER, OP, PARAMETER
from cutaway.graph.trace import Trace
from cutaway.views.graph.conditions import decides


class Likeness:
    """For the rows of a trace: equal where one could take the place of the other, values aside."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._is_trained = {row.node: row.requires_grad for row in trace.tables.parameters}

    def of(self, row: int) -> tuple[object, ...]:
        """Type, arguments that are no tensors, parameters and buffers as its module sees them, tests, module class."""
        table = self._trace.tables.nodes
        meta = table.meta_of(row)
        if table.kind[row] != OP:
            return (meta,)
        module = self._trace.tables.calls[table.call[row]].module
        called = self._trace.tables.modules[module] if module >= 0 else None
        home = called.addresses[0] if called is not None else "."
        read = [
            (seen_from(home, table.path[parent]), table.meta_of(parent), self._is_trained.get(parent))
            for parent in table.parents[row]
            if table.kind[parent] in (PARAMETER, BUFFER)
        ]
        tests = tuple(decides(self._trace, [row]))
        return (meta, arguments_of(self._trace, row), *read, *tests, called and called.class_name)


def seen_from(home: str, address: str) -> tuple[int, str]:
    """An address as a module sees it: how many steps up, and the way down from there.

    >>> seen_from("h.0", "h.0.weight"), seen_from("h.1", "h.0.weight"), seen_from(".", "weight")
    ((0, 'weight'), (1, '0.weight'), (0, 'weight'))
    """
    base, parts = [part for part in home.split(".") if part], address.split(".")
    shared = 0
    while shared < min(len(base), len(parts)) and base[shared] == parts[shared]:
        shared += 1
    return len(base) - shared, ".".join(parts[shared:])
