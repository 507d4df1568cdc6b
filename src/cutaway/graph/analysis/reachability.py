"""Which rows lead to which, and by which chain.

Parents always stand before their children, so each question is one walk over the rows, up or down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


def best_chains(
    links: dict[int, list[int]], weight: dict[int, float], starts: Collection[int]
) -> tuple[dict[int, float], dict[int, int]]:
    """For each row that a start leads to: the weight of the heaviest chain down to it, and the row before it there."""
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
    """The rows of the chain that ends here, in order."""
    found = [node]
    while node in before:
        node = before[node]
        found.append(node)
    return found[::-1]


def upstream(parents: list[tuple[int, ...]], roots: Iterable[int]) -> bytearray:
    """Marks every row that leads to one of the roots."""
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
    """Marks every op to which one of the roots leads."""
    mark, is_root = bytearray(len(parents)), bytearray(len(parents))
    for root in roots:
        is_root[root] = 1
    for node in ops:
        for parent in parents[node]:
            if mark[parent] or is_root[parent]:
                mark[node] = 1
                break
    return mark
