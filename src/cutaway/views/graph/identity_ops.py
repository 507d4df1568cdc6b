"""Tensors that an op gave back as they were: behind which op their readers stand in a picture.

A dropout in evaluation returns the very tensor it got, so whoever reads it afterwards is a reader of that tensor, and
the trace says so. In a picture such a reader stands behind the dropout, where the code has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutaway.graph.tables import IDENTITY, Tables


def passed_on(tables: Tables, ops: Sequence[int], parents: Mapping[int, Sequence[int]]) -> dict[tuple[int, int], int]:
    """(tensor, reader) → the op that gave the tensor back before, where the reader can have it from there.

    That is so inside the module call in which it was given back, and outside as well if the call returned it: a norm
    that begins with `x.to(x.dtype)` keeps that to itself, and the skip connection around it stays where it is.

    Args:
        parents: op → those of its parents that are drawn.
    """
    given_back: dict[int, list[tuple[int, int]]] = {}
    found: dict[tuple[int, int], int] = {}
    for row in ops:
        for parent in parents[row]:
            for op, scope in reversed(given_back.get(parent, ())):
                if _is_inside(tables, tables.nodes.call[row], scope):
                    found[parent, row] = op
                    break
        if tables.nodes.flags[row] & IDENTITY and len(set(tables.nodes.parents[row])) == 1 and parents[row]:
            given_back.setdefault(parents[row][0], []).append((row, _scope(tables, row, parents[row][0])))
    return found


def _scope(tables: Tables, row: int, tensor: int) -> int:
    """The outermost module call whose code can have the tensor from this op."""
    call = tables.nodes.call[row]
    while call and any(node in (row, tensor) for _, node in tables.calls[call].outputs):
        call = tables.calls[call].parent
    return call


def _is_inside(tables: Tables, call: int, scope: int) -> bool:
    while call and call != scope:
        call = tables.calls[call].parent
    return call == scope
