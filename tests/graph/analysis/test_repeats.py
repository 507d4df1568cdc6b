"""Repeated sequences, held against the definition."""

from __future__ import annotations

import random

import pytest
from tests.call_count import count_lines

from cutaway.graph.analysis.repeats import Run, runs


def by_definition(numbers: list[int]) -> set[tuple[int, int, int]]:
    """Every longest run of every period, by trying all."""
    found = set()
    for period in range(1, len(numbers) // 2 + 1):
        start = 0
        while start + period < len(numbers):
            end = start + period
            while end < len(numbers) and numbers[end] == numbers[end - period]:
                end += 1
            if end - start >= 2 * period:
                found.add((start, end, period))
            start = max(end - period + 1, start + 1)
    return found


def primitive(numbers: list[int]) -> set[tuple[int, int, int]]:
    """The runs whose period is not that of shorter repeats."""
    found = by_definition(numbers)
    return {
        (start, end, period)
        for start, end, period in found
        if not any(period % p == 0 and p < period and s <= start and end <= e for s, e, p in found)
    }


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_found_is_a_longest_run_and_no_body_of_few_kinds_is_missed(seed: int) -> None:
    rng = random.Random(seed)
    body = [rng.randrange(8) for _ in range(rng.randint(1, 9))]
    numbers = [rng.randrange(8, 12) for _ in range(rng.randint(0, 5))] + body * rng.randint(2, 6)
    numbers += body[: rng.randrange(len(body))] + [rng.randrange(8, 12) for _ in range(rng.randint(0, 5))]
    found = {(run.start, run.end, run.period) for run in runs(numbers)}
    assert found <= by_definition(numbers)
    rarest = min(body.count(number) for number in body)
    if rarest <= 3:
        outer = [run for run in primitive(numbers) if run[1] - run[0] >= 2 * len(body)]
        assert set(outer) <= found


@pytest.mark.parametrize("seed", range(40))
def test_in_random_numbers_all_runs_are_true(seed: int) -> None:
    rng = random.Random(seed)
    numbers = [rng.randrange(3) for _ in range(rng.randint(0, 40))]
    assert {(run.start, run.end, run.period) for run in runs(numbers)} <= by_definition(numbers)


def test_inner_and_outer_loops_are_both_found() -> None:
    numbers = [1, 2, 1, 2, 1, 2, 3] * 4
    periods = {run.period for run in runs(numbers)}
    assert periods == {2, 7}
    assert Run(0, 28, 7) in runs(numbers)


def test_two_copies_are_enough_wherever_the_rare_number_stands() -> None:
    assert Run(0, 12, 6) in runs([5, 5, 5, 5, 5, 1, 5, 5, 5, 5, 5, 1])


@pytest.mark.parametrize("body", [[1], [1, 2], list(range(50)), [1] * 30 + [2], [1, 2] * 15 + [3]])
def test_the_work_is_linear(body: list[int]) -> None:
    def n_lines(n: int) -> int:
        numbers = (body * (n // len(body) + 1))[:n]
        return count_lines(lambda: runs(numbers))

    assert n_lines(20_000) < 7 * n_lines(4_000)  # five times the numbers; quadratic would be 25 times
