"""Longest common subsequences, against the textbook table."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from cutaway.graph.diff import sequences
from cutaway.graph.diff.sequences import common, ends, heaviest


def length_by_table(a: list[int], b: list[int]) -> int:
    rows = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, p in enumerate(a):
        for j, q in enumerate(b):
            rows[i + 1][j + 1] = rows[i][j] + 1 if p == q else max(rows[i][j + 1], rows[i + 1][j])
    return rows[-1][-1]


def check(a: list[int], b: list[int]) -> int:
    """Stretches are equal, in order, apart from each other and as long as they can be; returns their length."""
    end_a = end_b = 0
    for at_a, at_b, n in common(a, b):
        assert n > 0
        assert at_a >= end_a
        assert at_b >= end_b
        assert a[at_a : at_a + n] == b[at_b : at_b + n]
        end_a, end_b = at_a + n, at_b + n
    return sum(n for _, _, n in common(a, b))


@pytest.mark.parametrize("seed", range(60))
def test_no_common_subsequence_is_longer(seed: int) -> None:
    draw = random.Random(seed)
    many = draw.choice((2, 3, 8, 40))
    a = [draw.randrange(many) for _ in range(draw.randrange(40))]
    b = [draw.randrange(many) for _ in range(draw.randrange(40))]
    assert check(a, b) == length_by_table(a, b)


def test_one_more_in_a_long_sequence_is_one_gap() -> None:
    a = [i % 7 for i in range(20_000)]
    b = [*a[:9_000], 99, *a[9_000:]]
    assert common(a, b) == [(0, 0, 9_000), (9_000, 9_001, 11_000)]


def test_sequences_too_long_for_the_table_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "_MOST_BITS", 64)
    draw = random.Random(0)
    a = [draw.randrange(30) for _ in range(300)]
    b = [token for token in a if draw.random() < 0.9]
    assert check(a, b) > 0


def test_nothing_has_nothing_in_common() -> None:
    assert common([], [1]) == common([1], []) == common([], []) == common([1], [2]) == []


def weight_by_table(looks: list[tuple[list[int], list[int], int]]) -> int:
    n, m = len(looks[0][0]), len(looks[0][1])
    rows = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n):
        for j in range(m):
            here = sum(weight for a, b, weight in looks if a[i] == b[j])
            rows[i + 1][j + 1] = max(rows[i][j] + here, rows[i][j + 1], rows[i + 1][j])
    return rows[-1][-1]


@pytest.mark.parametrize("seed", range(40))
def test_no_matching_is_heavier(seed: int) -> None:
    draw = random.Random(seed)
    n, m = draw.randrange(1, 20), draw.randrange(1, 20)
    looks = [
        ([draw.randrange(many) for _ in range(n)], [draw.randrange(many) for _ in range(m)], weight)
        for many, weight in ((3, 5), (6, 2), (2, 1))
    ]
    pairs = [(i + k, j + k) for i, j, n in heaviest(looks) for k in range(n)]
    assert all(p < r and q < s for (p, q), (r, s) in pairwise(pairs))
    assert sum(weight for a, b, weight in looks for i, j in pairs if a[i] == b[j]) == weight_by_table(looks)
    assert all(any(a[i] == b[j] for a, b, _ in looks) for i, j in pairs)


def test_the_ends_do_not_overlap() -> None:
    assert ends([1, 1], [1, 1, 1]) == (2, 0)
    assert ends([1, 2, 3], [1, 9, 3]) == (1, 1)
