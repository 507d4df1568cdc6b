"""Sequence alignment: longest common subsequence and heaviest matching."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

# 128 MB.
_MOST_BITS = 1 << 30
"""Largest size of the bit table; if more bits are needed, both sequences are cut in half."""


# 16 MB in int32.
MOST_CELLS = 4_000_000
"""Largest size of a table of weights."""

Match = tuple[int, int, int]
"""Start of a stretch in each sequence, and its length."""


def heaviest(looks: Iterable[tuple[Sequence[int], Sequence[int], int]]) -> list[Match]:
    """The matching with the greatest total weight; two items match with the weights of all criteria they agree in.

    >>> heaviest([([1, 1, 2], [1, 2], 4), ([7, 8, 9], [8, 9], 1)])
    [(1, 0, 2)]
    """
    weights = np.sum([np.equal.outer(a, b).astype(np.int32) * weight for a, b, weight in looks], axis=0)
    n, m = weights.shape
    best = np.zeros((n + 1, m + 1), np.int32)  # [i, j]: the best weight of the first i and the first j items
    for i in range(n):
        best[i + 1, 1:] = np.maximum.accumulate(np.maximum(best[i, 1:], best[i, :-1] + weights[i]))
    pairs = []
    i, j = n, m
    while i and j:
        if weights[i - 1, j - 1] and best[i, j] == best[i - 1, j - 1] + weights[i - 1, j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif best[i, j] == best[i, j - 1]:
            j -= 1
        else:
            i -= 1
    return _stretches(pairs[::-1])


def ends(a: Sequence[int], b: Sequence[int]) -> tuple[int, int]:
    """The lengths of the common prefix and, of the rest, of the common suffix."""
    n = min(len(a), len(b))
    head = next((i for i in range(n) if a[i] != b[i]), n)
    return head, next((i for i in range(n - head) if a[-1 - i] != b[-1 - i]), n - head)


def common(a: Sequence[int], b: Sequence[int]) -> list[Match]:
    """The stretches of a longest common subsequence.

    >>> common([1, 2, 3, 4], [1, 9, 3, 4])
    [(0, 0, 1), (2, 2, 2)]
    """
    head, tail = ends(a, b)
    pairs = [(i, i) for i in range(head)]
    pairs += [(i + head, j + head) for i, j in _middle(a[head : len(a) - tail], b[head : len(b) - tail])]
    pairs += [(len(a) - tail + i, len(b) - tail + i) for i in range(tail)]
    return _stretches(pairs)


def _stretches(pairs: list[tuple[int, int]]) -> list[Match]:
    found: list[Match] = []
    for i, j in pairs:
        if found and (i, j) == (found[-1][0] + found[-1][2], found[-1][1] + found[-1][2]):
            found[-1] = (found[-1][0], found[-1][1], found[-1][2] + 1)
        else:
            found.append((i, j, 1))
    return found


def _middle(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Match without the tokens that occur in only one of the two, which makes the table smaller."""
    both = set(a) & set(b)
    in_a = [i for i, token in enumerate(a) if token in both]
    in_b = [j for j, token in enumerate(b) if token in both]
    pairs = _longest([a[i] for i in in_a], [b[j] for j in in_b])
    return [(in_a[i], in_b[j]) for i, j in pairs]


def _longest(a: list[int], b: list[int]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    if len(a) * len(b) > _MOST_BITS:
        i, j = len(a) // 2, len(b) // 2
        return _longest(a[:i], b[:j]) + [(i + p, j + q) for p, q in _longest(a[i:], b[j:])]
    rows = _table(a, b)
    found = []
    i, j = len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1]:
            i, j = i - 1, j - 1
            found.append((i, j))
        elif rows[i] >> (j - 1) & 1:  # the length does not grow with the last item of b
            j -= 1
        else:
            i -= 1
    return found[::-1]


def _table(a: list[int], b: list[int]) -> list[int]:
    """One integer for each prefix of `a`, whose bit j is 0 if the length of the LCS grows with b[j].

    Bit-parallel: a whole row of the LCS table in a few operations on long integers (Hyyrö 2004).
    """
    full = (1 << len(b)) - 1
    places: dict[int, int] = {}
    for j, token in enumerate(b):
        places[token] = places.get(token, 0) | 1 << j
    row = full
    rows = [row]
    for token in a:
        matches = row & places.get(token, 0)
        row = ((row + matches) | (row - matches)) & full
        rows.append(row)
    return rows
