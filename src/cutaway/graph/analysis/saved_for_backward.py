"""The tensors that autograd saves for a backward pass, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutaway.core.dataframes import to_dataframe
from cutaway.core.formatting import clipped, human_bytes
from cutaway.graph.op import Op
from cutaway.graph.selection import Selection

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace

_MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class RetainedTensor:
    """One tensor that the backward of an op needs."""

    op: Op
    """The op whose backward needs it."""
    name: str
    """Its name in autograd: "self", "weight", "result"…"""
    of: Op | None
    """The op whose value it is; None for a by-product of a kernel: a mask, indices, statistics."""
    bytes: int
    """The size of its storage; a view keeps the whole base tensor alive."""
    memory: int
    """An ID of the storage; tensors with the same ID share it."""

    @property
    def kind(self) -> str:
        """The kind of the op whose value it is: "op", "input", "parameter"…; "inside" for a by-product of a kernel."""
        return "inside" if self.of is None else self.of.kind


@dataclass(frozen=True, slots=True, eq=False)
class Retained:
    """Every tensor that autograd keeps alive for a backward pass. Shared memory counts once."""

    trace: Trace
    held: tuple[RetainedTensor, ...]
    """The tensors, in the order of the ops whose backward needs them."""
    note: str = ""
    """Why there are no tensors, or fewer than there were."""

    @property
    def bytes(self) -> int:
        """All memory that is kept alive, including parameters."""
        return sum({row.memory: row.bytes for row in self.held}.values())

    @property
    def by_kind(self) -> dict[str, int]:
        """Bytes by kind: "op", "inside" (by-products of kernels), "parameter", "input"…"""
        first = {row.memory: row for row in reversed(self.held)}.values()
        kinds = dict.fromkeys(row.kind for row in self.held)
        return {kind: sum(row.bytes for row in first if row.kind == kind) for kind in kinds}

    @property
    def by_op(self) -> dict[Op, int]:
        """Bytes that the backward of each op needs, largest first; a tensor that two ops need counts for both."""
        by_op: dict[Op, dict[int, int]] = {}
        for row in self.held:
            by_op.setdefault(row.op, {})[row.memory] = row.bytes
        sums = {op: sum(memory.values()) for op, memory in by_op.items()}
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    @property
    def ops(self) -> Selection:
        """The ops whose values are kept alive, without sources such as parameters."""
        nodes = {row.of.node for row in self.held if row.of is not None and not row.of.is_source}
        return Selection(self.trace, sorted(nodes))

    def table(self) -> Any:
        """One row per tensor: a pandas DataFrame if pandas is installed, else a list of dicts."""
        return to_dataframe(
            {
                "op": row.op.label,
                "name": row.name,
                "of": None if row.of is None else row.of.label,
                "kind": row.kind,
                "bytes": row.bytes,
                "memory": row.memory,
            }
            for row in self.held
        )

    def __repr__(self) -> str:
        if not self.held:
            return f"<Retained: nothing. {self.note}>"
        kinds = ", ".join(f"{human_bytes(size)} {_WORDS.get(kind, kind)}" for kind, size in self.by_kind.items())
        needs = self.by_op
        lines = [f"<Retained: {human_bytes(self.bytes)} for the backward of {len(needs)} ops>", clipped(f"  {kinds}")]
        for op, size in list(needs.items())[:_MOST_LINES]:
            rows = [row for row in self.held if row.op == op]
            names = ", ".join(f"{row.name} ({row.of.label if row.of else 'inside'})" for row in rows)
            lines.append(clipped(f"  {human_bytes(size):>9}  {op.label:<24} {names}"))
        if len(needs) > _MOST_LINES:
            lines.append(f"  and {len(needs) - _MOST_LINES} more ops")
        return "\n".join([*lines, *([f"  {self.note}"] if self.note else [])])


_WORDS = {"op": "of values", "inside": "made inside", "parameter": "of parameters", "input": "of inputs"}
