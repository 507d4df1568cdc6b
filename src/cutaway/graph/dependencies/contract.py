"""Contracts a trace to chosen rows: which lead to which, and where gradients can flow.

One pass over the rows in order of execution. Each row stores its nearest chosen ancestors as the bits of one integer,
so merging two rows costs one `|`, however many rows are chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from cutaway.core.events import Context
from cutaway.graph.tables import ALIAS, INPLACE, LEFT_TORCH, NEEDS_GRAD, OP, PARAMETER, Nodes, Tables

_APART: Final = frozenset({"detach", "data"})
"""Functions that return the same memory without its autograd history."""
_FORGETFUL: Final = _APART | {
    "detach_", "tensor", "new_tensor", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like",
    "randint_like", "new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided", "nested_tensor",
}  # fmt: skip
"""Functions whose results never require a gradient."""
_UNSEEN: Final = "made_unseen"
_MANY: Final = 32
"""With more set bits than this, NumPy finds them faster."""
_CAN_CARRY: Final = ("float", "bfloat", "complex", "half", "double")


class Contraction:
    """The contraction of a trace.

    Args:
        chosen: the rows to keep → whether that tensor requires a gradient; None to derive it from the trace.
        parameters: the result of `parameter_rows`.
    """

    def __init__(self, tables: Tables, chosen: Mapping[int, bool | None], parameters: Mapping[int, int]) -> None:
        n = len(tables.nodes)
        self._nodes = tables.nodes
        self._chosen = chosen
        self._rows = sorted(chosen)
        self._bits = {row: 1 << place for place, row in enumerate(self._rows)}
        self._parameters = parameters
        self._requires_grad = {row.node: row.requires_grad for row in tables.parameters}
        self._near = [0] * n
        """The nearest chosen rows that a reader of the row depends on; the row itself if it is chosen."""
        self._flow = [0] * n
        """Those of them to which a gradient can flow back from a reader of the row."""
        self._needs = bytearray(n)
        """Whether the row requires a gradient, as far as the trace shows."""
        self._unseen = [0] * n
        """Those to which a gradient would flow if the ops without gradients were inside a `torch.autograd.Function`."""
        self._apart = [-1] * n
        """The last row at which its memory was detached."""

    def parents(self) -> Iterator[tuple[int, list[int], list[int]]]:
        """Each chosen row, its nearest chosen ancestors, and those of them to which a gradient can flow back."""
        for row, kind in enumerate(self._nodes.kind):
            if kind != OP:
                self._needs[row] = self._requires_grad.get(row, True) and _can_carry(self._nodes, row)
            elif row in self._parameters:
                self._repeat(row, self._parameters[row])
                continue
            else:
                self._join(row)
            if row in self._chosen:
                near, flow = self._keep(row)
                yield row, [self._rows[at] for at in _places(near)], [self._rows[at] for at in _places(flow)]

    def _repeat(self, row: int, first: int) -> None:
        """Treat an overwritten parameter as the original parameter, whatever was written into it."""
        self._near[row], self._flow[row], self._needs[row] = self._near[first], self._flow[first], self._needs[first]

    def _join(self, row: int) -> None:
        nodes, near, flow = self._nodes, 0, 0
        parents, name = nodes.parents[row], nodes.name[row]
        for parent in parents:
            near |= self._near[parent]
        if _can_carry(nodes, row):
            needs = int(_asks_for_grad(nodes.event[row]))
            for parent in self._givers(row):
                flow |= self._flow[parent]
                needs |= self._needs[parent]
            if not needs and name not in _FORGETFUL:
                for parent in parents:
                    self._unseen[row] |= self._flow[parent] | self._unseen[parent]
            self._needs[row] = needs
        self._near[row], self._flow[row] = near, flow
        self._apart[row] = row if name in _APART else self._apart[parents[0]] if parents else -1
        if name == "detach_" and parents:  # later readers still refer to the row that made the tensor
            self._flow[parents[0]] = self._needs[parents[0]] = 0
        elif nodes.flags[row] & NEEDS_GRAD:
            self._reveal(row)

    def _reveal(self, row: int) -> None:
        """Record that a row requires a gradient: the ops without gradients had a custom backward."""
        if not self._needs[row]:
            self._needs[row] = 1
            self._flow[row] |= self._unseen[row]

    def _givers(self, row: int) -> tuple[int, ...]:
        """The parents to which it passes a gradient."""
        nodes = self._nodes
        parents, flags, name, event = nodes.parents[row], nodes.flags[row], nodes.name[row], nodes.event[row]
        if flags & ALIAS:
            history = self._apart[parents[0]]
            writers = (at for at in parents[1:] if nodes.flags[at] & INPLACE and self._apart[at] == history)
            return (parents[0], *writers)
        if name in _FORGETFUL or event is None:
            return ()
        if name == "grad" and not hasattr(event[0], "target"):  # torch.autograd.grad, not torch.func.grad
            return parents if _creates_graph(event) else ()
        if name == "set_data" or not (_with_grad(event[11]) or name == _UNSEEN):
            # A tensor that is overwritten without autograd (`no_grad`, `.data`) keeps its history.
            target = _target(nodes, row) if flags & INPLACE else -1
            return (target,) if target >= 0 else ()
        return parents

    def _keep(self, row: int) -> tuple[int, int]:
        """Make a chosen row the nearest one for its readers; returns its own ancestors."""
        known, bit = self._chosen[row], self._bits[row]
        if known:
            self._reveal(row)
        elif known is not None:
            self._needs[row] = self._flow[row] = 0
        near, flow = self._near[row], self._flow[row]
        self._near[row], self._flow[row] = bit, bit if self._needs[row] else 0
        self._unseen[row] = 0 if self._needs[row] or not _can_carry(self._nodes, row) else self._unseen[row] and bit
        return near, flow


def _places(bits: int) -> list[int]:
    """The indices of the set bits."""
    if bits.bit_count() > _MANY:
        packed = np.frombuffer(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), np.uint8)
        indices: list[int] = np.flatnonzero(np.unpackbits(packed, bitorder="little")).tolist()
        return indices
    places = []
    while bits:
        lowest = bits & -bits
        places.append(lowest.bit_length() - 1)
        bits ^= lowest
    return places


def parameter_rows(tables: Tables) -> dict[int, int]:
    """Rows that are a parameter, original or overwritten → the original row."""
    nodes = tables.nodes
    found = {row: row for row, kind in enumerate(nodes.kind) if kind == PARAMETER}
    first = {parameter.addresses[0]: parameter.node for parameter in tables.parameters if not parameter.is_buffer}
    for row, flags in enumerate(nodes.flags):
        if flags & (INPLACE | ALIAS):
            written = [first[address] for address in nodes.writes.get(row, ()) if first.get(address, -1) >= 0]
            source = found.get(written[0] if written else _target(nodes, row))
            if source is not None:
                found[row] = source
    return found


def _target(nodes: Nodes, row: int) -> int:
    """The row that a row overwrote; -1 if it is not among the first arguments."""
    event, parents, path = nodes.event[row], nodes.parents[row], nodes.path[row]
    if not parents or (event is not None and event[2] and "out" in event[2]):
        return -1
    return parents[int(path)] if path.isdecimal() and int(path) < len(parents) else parents[0]


def _can_carry(nodes: Nodes, row: int) -> bool:
    """Whether the dtype of a row can have gradients."""
    if nodes.flags[row] & LEFT_TORCH:
        return False
    meta = nodes.meta_of(row)
    return meta is None or meta.dtype.startswith(_CAN_CARRY)


def _with_grad(context: Any) -> bool:
    """Whether grad mode was on. A trace loaded from disk does not know; it is then assumed."""
    if isinstance(context, Context):
        return context.grad
    return context is None or bool(context)


def _asks_for_grad(event: tuple[Any, ...] | None) -> bool:
    """Whether a tensor was created with `requires_grad=True`."""
    return event is not None and bool(event[2]) and event[2].get("requires_grad") is True


def _creates_graph(event: tuple[Any, ...]) -> bool:
    """Whether gradients were computed with `create_graph=True`."""
    args, kwargs = event[1], event[2] or {}
    return bool(kwargs.get("create_graph", len(args) > 4 and args[4] is True))
