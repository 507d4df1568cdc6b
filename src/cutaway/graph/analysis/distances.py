"""Distances of each op from inputs and outputs; orphans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cutaway.graph.tables import LEFT_TORCH, OP, Tables


@dataclass(frozen=True, slots=True)
class Distances:
    """Lengths of shortest paths, by node; None if there is no path."""

    from_input: list[int | None]
    to_output: list[int | None]


def distances(tables: Tables) -> Distances:
    """Compute all distances: one pass down for inputs, one pass up for outputs, as parents come before children."""
    parents = tables.nodes.parents
    down: list[int | None] = [None] * len(parents)
    for _, node in tables.inputs:
        down[node] = 0
    for node, above in enumerate(parents):
        if down[node] is None and above:
            reached = [d for parent in above if (d := down[parent]) is not None]
            down[node] = min(reached) + 1 if reached else None
    up: list[int | None] = [None] * len(parents)
    for _, node in tables.outputs:
        up[node] = 0
    for node in range(len(parents) - 1, -1, -1):
        distance = up[node]
        if distance is not None:
            for parent in parents[node]:
                if (known := up[parent]) is None or known > distance + 1:
                    up[parent] = distance + 1
    return Distances(down, up)


def connected_ops(tables: Tables, *, orphans: bool) -> list[int]:
    """The ops in order, without orphans: those that depend on no input and have no effect outside the graph.

    An effect is an output, a write to a buffer, a number that left torch, or the op that raised. Without known inputs
    and outputs (code without a model), there are no orphans.
    """
    nodes = tables.nodes
    kinds, parents = nodes.kind, nodes.parents
    ops = [node for node, kind in enumerate(kinds) if kind == OP]
    if orphans or not (tables.inputs or tables.outputs):
        return ops
    below = bytearray(len(kinds))
    for _, node in tables.inputs:
        below[node] = 1
    suspects = False
    for node, above in enumerate(parents):
        for parent in above:
            if below[parent]:
                below[node] = 1
                break
        else:
            suspects = suspects or kinds[node] == OP
    if not suspects:
        return ops
    above_output = bytearray(len(kinds))
    # The next run reads what is written to a buffer, and a number that left torch may decide a branch: both are
    # effects. An op that is kept also keeps its ancestors.
    kept = [node for node in ops if below[node] or nodes.flags[node] & LEFT_TORCH]
    failed = tables.failed_op.parents if tables.failed_op else ()
    _mark_ancestors([*(node for _, node in tables.outputs), *nodes.writes, *kept, *failed], parents, above_output)
    return [node for node in ops if below[node] or above_output[node]]


def _mark_ancestors(roots: Iterable[int], parents: list[tuple[int, ...]], mark: bytearray) -> None:
    stack = list(roots)
    while stack:
        node = stack.pop()
        if not mark[node]:
            mark[node] = 1
            stack.extend(parents[node])
