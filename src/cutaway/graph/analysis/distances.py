"""How far each op lies from the inputs and from the outputs, and which ops hang in the air."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cutaway.graph.tables import LEFT_TORCH, OP, Tables


@dataclass(frozen=True, slots=True)
class Distances:
    """Lengths of shortest paths, by node; None where there is no path."""

    from_input: list[int | None]
    to_output: list[int | None]


def distances(tables: Tables) -> Distances:
    """One pass down for the inputs, one pass up for the outputs: parents stand before their children."""
    parents = tables.nodes.parents
    down: list[int | None] = [None] * len(parents)
    for _, node in tables.inputs:
        down[node] = 0
    for node, above in enumerate(parents):
        if down[node] is None and above:
            known = [d for parent in above if (d := down[parent]) is not None]
            down[node] = min(known) + 1 if known else None
    up: list[int | None] = [None] * len(parents)
    for _, node in tables.outputs:
        up[node] = 0
    for node in range(len(parents) - 1, -1, -1):
        mine = up[node]
        if mine is not None:
            for parent in parents[node]:
                if (theirs := up[parent]) is None or theirs > mine + 1:
                    up[parent] = mine + 1
    return Distances(down, up)


def connected_ops(tables: Tables, *, orphans: bool) -> list[int]:
    """The operations in order, without those that neither come from an input nor lead out of the graph.

    A way out is an output, a buffer that is written, a number that left torch, or the operation that raised. Where
    nothing is known of inputs and outputs (code around no model), there are no orphans.
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
    # What is written into a buffer is read by the next run, and a number that left torch may decide what is run:
    # both lead somewhere. And what is kept keeps its parents.
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
