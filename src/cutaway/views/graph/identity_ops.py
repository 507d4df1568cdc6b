"""Edges from ops that returned their input unchanged, such as dropout in eval mode.

Dropout in eval mode returns the same tensor object, so in the trace its readers are readers of the original tensor. A
picture draws them after the dropout, as in the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutaway.graph.tables import IDENTITY, Tables


def identity_sources(
    tables: Tables, ops: Sequence[int], parents: Mapping[int, Sequence[int]]
) -> dict[tuple[int, int], int]:
    """(tensor, reader) → the identity op from which the picture draws the edge to that reader.

    This applies inside the module call of the identity op, and outside of it if the call returned the tensor. A norm
    that begins with `x.to(x.dtype)` does not return that tensor, so the skip connection around the norm is not moved.

    Args:
        parents: op → its parents that are drawn.
    """
    returned: dict[int, list[tuple[int, int]]] = {}
    sources: dict[tuple[int, int], int] = {}
    for row in ops:
        for parent in parents[row]:
            # Of several identity ops in a row, the reader is drawn after the last one.
            for op, scope in reversed(returned.get(parent, ())):
                if _is_inside(tables, tables.nodes.call[row], scope):
                    sources[parent, row] = op
                    break
        if tables.nodes.flags[row] & IDENTITY and len(set(tables.nodes.parents[row])) == 1 and parents[row]:
            returned.setdefault(parents[row][0], []).append((row, _scope(tables, row, parents[row][0])))
    return sources


def _scope(tables: Tables, row: int, tensor: int) -> int:
    """The outermost module call whose code can get the tensor from this op."""
    call = tables.nodes.call[row]
    while call and any(node in (row, tensor) for _, node in tables.calls[call].outputs):
        call = tables.calls[call].parent
    return call


def _is_inside(tables: Tables, call: int, scope: int) -> bool:
    while call and call != scope:
        call = tables.calls[call].parent
    return call == scope
