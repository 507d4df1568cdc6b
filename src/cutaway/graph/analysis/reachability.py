"""Ancestors, descendants and heaviest chains of rows.

Parents always come before their children, so each function is one pass over the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def best_chains(
    links: dict[int, list[int]], weight: dict[int, float], starts: Collection[int]
) -> tuple[dict[int, float], dict[int, int]]:
    """For each row reachable from a start, the weight of the heaviest chain to it, and its previous row there."""
    total: dict[int, float] = {}
    before: dict[int, int] = {}
    for node, parents in links.items():
        best = 0.0
        if node not in starts:
            known = [parent for parent in parents if parent in total]
            if not known:
                continue
            before[node] = max(known, key=total.__getitem__)
            best = total[before[node]]
        else:
            for parent in parents:
                if parent in total and total[parent] > best:
                    before[node], best = parent, total[parent]
        total[node] = best + weight[node]
    return total, before


def chain(node: int, before: dict[int, int]) -> list[int]:
    """The rows of the chain that ends at a row, in order."""
    rows = [node]
    while node in before:
        node = before[node]
        rows.append(node)
    return rows[::-1]


def upstream(parents: list[tuple[int, ...]], roots: Iterable[int]) -> bytearray:
    """Mark every ancestor of the roots."""
    mark, is_root = bytearray(len(parents)), bytearray(len(parents))
    last = -1
    for root in roots:
        is_root[root] = 1
        last = max(last, root)
    for node in range(last, -1, -1):
        if mark[node] or is_root[node]:
            for parent in parents[node]:
                mark[parent] = 1
    return mark


def downstream(ops: list[int], parents: list[tuple[int, ...]], roots: Iterable[int]) -> bytearray:
    """Mark every op that descends from one of the roots."""
    mark, is_root = bytearray(len(parents)), bytearray(len(parents))
    for root in roots:
        is_root[root] = 1
    for node in ops:
        for parent in parents[node]:
            if mark[parent] or is_root[parent]:
                mark[node] = 1
                break
    return mark


def direct_children(ops: Sequence[int], parents: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """For each row, the ops that have it as a parent, in order."""
    children: list[list[int]] = [[] for _ in parents]
    for node in ops:
        for parent in parents[node]:
            siblings = children[parent]
            # `x + x` has two edges from one parent; ops come in order, so only the last entry can be a duplicate.
            if not siblings or siblings[-1] != node:
                siblings.append(node)
    return children


def grouped_by(nodes: Iterable[int], keys: Sequence[int]) -> dict[int, list[int]]:
    """Key → the rows that have it, in order."""
    groups: dict[int, list[int]] = {}
    for node in nodes:
        groups.setdefault(keys[node], []).append(node)
    return groups
