"""Signatures of ops, equal where a picture may draw two ops as one."""

from __future__ import annotations

from cutaway.graph.diff.align import arguments_of
from cutaway.graph.tables import BUFFER, OP, PARAMETER
from cutaway.graph.trace import Trace
from cutaway.views.graph.conditions import decision_lines


class NodeSignature:
    """Signatures of the rows of a trace: equal for ops that differ in nothing but their values."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._is_trained = {row.node: row.requires_grad for row in trace.tables.parameters}

    def of(self, row: int) -> tuple[object, ...]:
        """Tensor type, non-tensor arguments, parameters and buffers by relative address, tests, module class."""
        table = self._trace.tables.nodes
        meta = table.meta_of(row)
        if table.kind[row] != OP:
            return (meta,)
        module = self._trace.tables.calls[table.call[row]].module
        called = self._trace.tables.modules[module] if module >= 0 else None
        home = called.addresses[0] if called is not None else "."
        read = [
            (relative_address(home, table.path[parent]), table.meta_of(parent), self._is_trained.get(parent))
            for parent in table.parents[row]
            if table.kind[parent] in (PARAMETER, BUFFER)
        ]
        tests = tuple(decision_lines(self._trace, [row]))
        return (meta, arguments_of(self._trace, row), *read, *tests, called and called.class_name)


def relative_address(home: str, address: str) -> tuple[int, str]:
    """An address relative to a module: how many levels up, and the path down from there.

    >>> relative_address("h.0", "h.0.weight"), relative_address("h.1", "h.0.weight"), relative_address(".", "weight")
    ((0, 'weight'), (1, '0.weight'), (0, 'weight'))
    """
    base, parts = [part for part in home.split(".") if part], address.split(".")
    shared = 0
    while shared < min(len(base), len(parts)) and base[shared] == parts[shared]:
        shared += 1
    return len(base) - shared, ".".join(parts[shared:])
