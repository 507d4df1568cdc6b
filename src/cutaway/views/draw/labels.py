"""How pictures name things: shapes, sizes, parameters and module calls in few words."""

from __future__ import annotations

from collections.abc import Iterable

from cutaway.core.formatting import human_bytes, short
from cutaway.graph.modules import ModuleCall
from cutaway.graph.op import Op


def module_name(call: ModuleCall) -> str:
    """The address, and the pass where the module ran several times."""
    several = len(call.trace.tables.modules[call.trace.tables.calls[call.number].module].calls) > 1
    return f"{call.address}:{call.pass_}" if several else call.address


def size_text(ops: Iterable[Op]) -> str:
    """Shapes and bytes of one or several values: `2×16 · 128 B`."""
    values = list(ops)
    shapes = [shape_text(op) for op in values[:2]] + ([f"{len(values) - 2} more"] if len(values) > 2 else [])
    n_bytes = sum(op.bytes for op in values)
    return ", ".join(shapes) + (f" · {human_bytes(n_bytes)}" if n_bytes else "")


def shape_text(op: Op) -> str:
    """`2×16`; `scalar`, or the Python type of a number."""
    if op.shape is None:
        return op.dtype or ""
    return "×".join(map(str, op.shape)) or "scalar"


def parameter_text(parameter: Op, call: ModuleCall | None) -> str:
    """Name within its module, and shape."""
    own = f"{call.address}." if call is not None else ""
    return short(f"{parameter.label.removeprefix(own)} {shape_text(parameter)}")
