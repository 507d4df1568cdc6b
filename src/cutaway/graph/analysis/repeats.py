"""Finds tandem repeats (sequences that repeat back to back) in a list of numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# A large prime, so that hashes of different sequences practically never collide.
_MODULUS = (1 << 61) - 1
_BASE = 1_000_003_579
_CANDIDATES = 3
"""How many of the next occurrences of the same number are tried as the start of the next copy."""


@dataclass(frozen=True, slots=True)
class Run:
    """From `start` to `end`, each number equals the one `period` before it; there are at least two copies."""

    start: int
    end: int
    period: int


def runs(numbers: list[int]) -> list[Run]:
    """The longest runs of repeated sequences, including the inner ones of nested loops, in linear time.

    Each run has its smallest period. A run is found only if some number occurs at most three times in its sequence.

    >>> runs([1, 2, 3, 2, 3, 2, 3, 2, 4])
    [Run(start=1, end=8, period=2)]
    """
    after = _following(numbers)
    text = _Hashed(numbers)
    ended = [*numbers, -1]  # a sentinel, so that both ends have a neighbor
    found: list[Run] = []
    active: list[Run] = []
    for i, following in enumerate(after):
        j, tries = following, _CANDIDATES
        while j >= 0 and tries:
            period = j - i
            if _is_known(active, i, j):
                break
            if period == 1 or ended[i + 1] == ended[j + 1] or (i and ended[i - 1] == ended[j - 1]):
                start, end = i - text.reach_back(i, j), j + text.reach(i, j)
                if end - start >= 2 * period:
                    active = [run for run in active if run.end > i]
                    active.append(Run(start, end, period))
                    found.append(active[-1])
            j, tries = after[j], tries - 1
    return found


def _is_known(active: list[Run], i: int, j: int) -> bool:
    """Whether the repetition of i at j is part of a run that was found already."""
    return any(run.start <= i and j < run.end and (j - i) % run.period == 0 for run in active)


def _following(numbers: list[int]) -> list[int]:
    """For each index, the next one with the same number; -1 for none."""
    after, last = [-1] * len(numbers), dict[int, int]()
    for i in range(len(numbers) - 1, -1, -1):
        after[i] = last.get(numbers[i], -1)
        last[numbers[i]] = i
    return after


class _Hashed:
    """Numbers with hashes of all prefixes (Rabin–Karp), which compare long sequences in constant time."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers
        self._prefix, self._powers = [0], [1]
        total, power = 0, 1
        for number in numbers:
            total = (total * _BASE + number) % _MODULUS
            power = power * _BASE % _MODULUS
            self._prefix.append(total)
            self._powers.append(power)

    def reach(self, i: int, j: int) -> int:
        """The length of the common sequence that starts at i and at a later j."""
        return self._longest(len(self._numbers) - j, lambda length: self._equal(i, j, length))

    def reach_back(self, i: int, j: int) -> int:
        """The length of the common sequence that ends before i and before j."""
        return self._longest(i, lambda length: self._equal(i - length, j - length, length))

    def _equal(self, i: int, j: int, length: int) -> bool:
        prefix, power = self._prefix, self._powers[length]
        return (prefix[i + length] - prefix[i] * power - prefix[j + length] + prefix[j] * power) % _MODULUS == 0

    @staticmethod
    def _longest(most: int, holds: Callable[[int], bool]) -> int:
        """The largest length up to `most` that holds, if all smaller ones do (exponential search)."""
        low, step = 0, 1
        while low + step <= most and holds(low + step):
            low += step
            step *= 2
        while step:
            if low + step <= most and holds(low + step):
                low += step
            step //= 2
        return low
