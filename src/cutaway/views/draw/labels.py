"""Short labels for shapes, sizes, parameters and module calls."""

from __future__ import annotations

from collections.abc import Iterable

from cutaway.core.formatting import human_bytes, short
from cutaway.graph.modules import ModuleCall
from cutaway.graph.op import Op


def module_name(call: ModuleCall) -> str:
    """The address of a module call, with its pass if the module ran several times."""
    several = len(call.trace.tables.modules[call.trace.tables.calls[call.number].module].calls) > 1
    return f"{call.address}:{call.pass_}" if several else call.address


def size_text(ops: Iterable[Op]) -> str:
    """Shapes and total bytes of one or several values: `2×16 · 128 B`."""
    values = list(ops)
    shapes = [shape_text(op) for op in values[:2]] + ([f"{len(values) - 2} more"] if len(values) > 2 else [])
    n_bytes = sum(op.bytes for op in values)
    return ", ".join(shapes) + (f" · {human_bytes(n_bytes)}" if n_bytes else "")


def shape_text(op: Op) -> str:
    """The shape of a value as `2×16` or `scalar`; for a Python number, its type."""
    if op.shape is None:
        return op.dtype or ""
    return "×".join(map(str, op.shape)) or "scalar"


def parameter_text(parameter: Op, call: ModuleCall | None) -> str:
    """The name of a parameter within its module, and its shape."""
    prefix = f"{call.address}." if call is not None else ""
    return short(f"{parameter.label.removeprefix(prefix)} {shape_text(parameter)}")
