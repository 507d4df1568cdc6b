"""Budgets are kept, and every kind of step gets its part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.recording.schedules.budget import ByteBudget, TimeShare
from cutaway.recording.schedules.parse import Cost, Schedule, schedule_of

COSTS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 5000), min_size=1)


@dataclass
class Taken:
    """What a schedule has chosen."""

    steps: dict[str, list[int]] = field(default_factory=dict)
    costs: list[tuple[str, int]] = field(default_factory=list)

    @property
    def n_bytes(self) -> int:
        return sum(cost for _, cost in self.costs)


def spend(schedule: Schedule, n_steps: int, kind_of: Callable[[int], str], cost_of: Callable[[int, str], int]) -> Taken:
    taken = Taken()
    for step in range(n_steps):
        kind = kind_of(step)
        if schedule.wants(step, kind):
            cost = cost_of(step, kind)
            taken.steps.setdefault(kind, []).append(step)
            taken.costs.append((kind, cost))
            schedule.recorded(kind, Cost(0.0, cost))
    return taken


def one_in_a_thousand(step: int) -> str:
    return "rare" if step % 1000 == 500 else "train"


# bytes


def test_a_rare_kind_gets_its_records_and_late_steps_are_still_recorded() -> None:
    taken = spend(schedule_of("20MB"), 100_000, one_in_a_thousand, lambda step, kind: 100_000)
    every = sorted(taken.steps["train"] + taken.steps["rare"])
    assert taken.n_bytes <= 20e6
    assert len(every) >= 100
    assert len(taken.steps["rare"]) >= 30
    assert sum(step < 100 for step in every) >= 30
    assert any(step >= 90_000 for step in every)


def test_a_kind_that_turns_up_late_gets_its_records() -> None:
    def kind_of(step: int) -> str:
        return one_in_a_thousand(step) if step >= 50_000 else "train"

    taken = spend(schedule_of("20MB"), 100_000, kind_of, lambda step, kind: 100_000)
    assert taken.n_bytes <= 20e6
    assert len(taken.steps["rare"]) >= 20
    assert any(step >= 60_000 for step in taken.steps["train"])


def test_a_dear_rare_kind_and_a_cheap_frequent_one_are_both_recorded() -> None:
    taken = spend(schedule_of("20MB"), 50_000, one_in_a_thousand, lambda step, kind: 10**6 if kind == "rare" else 10**4)
    assert taken.n_bytes <= 20e6
    assert len(taken.steps["rare"]) >= 4
    assert len(taken.steps["train"]) >= 100


def test_the_distances_grow() -> None:
    steps = spend(schedule_of("10MB"), 100_000, lambda step: "train", lambda step, kind: 100_000).steps["train"]
    assert steps[:5] == [0, 1, 2, 3, 4]
    counts = [sum(low <= step < 10 * low for step in steps) for low in (100, 1000, 10_000)]
    assert min(counts) >= 8, "each tenfold of steps has its records"
    assert max(counts) <= 2 * min(counts)


def test_a_large_budget_records_every_step() -> None:
    steps = spend(schedule_of("1TB"), 1000, lambda step: "train", lambda step, kind: 1000).steps["train"]
    assert steps == list(range(1000))


def test_records_that_cost_nothing_are_always_taken() -> None:
    assert len(spend(ByteBudget(1), 100, lambda step: "train", lambda step, kind: 0).costs) == 100


@given(costs=COSTS, beyond=st.integers(0, 100_000), order=st.lists(st.sampled_from("abcd"), max_size=400))
def test_the_budget_is_never_exceeded_whatever_each_kind_costs(
    costs: dict[str, int], beyond: int, order: list[str]
) -> None:
    budget = sum(costs.values()) + beyond
    kinds = [*costs, *(kind for kind in order if kind in costs)]
    taken = spend(ByteBudget(budget), len(kinds), kinds.__getitem__, lambda step, kind: costs[kind])
    assert set(taken.steps) == set(costs)
    assert taken.n_bytes <= budget


@given(
    budget=st.integers(1, 50_000),
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5000)), max_size=400),
)
def test_only_a_record_dearer_than_all_before_it_overruns(budget: int, steps: list[tuple[str, int]]) -> None:
    taken = spend(ByteBudget(budget), len(steps), lambda step: steps[step][0], lambda step, kind: steps[step][1])
    spent = 0
    largest: dict[str, int] = {}
    for kind, cost in taken.costs:
        assert spent < budget, "nothing is recorded once it is spent"
        assert spent + largest.get(kind, 0) <= budget
        spent += cost
        largest[kind] = max(cost, largest.get(kind, 0))


@pytest.mark.parametrize(("budget", "fits"), [(6001, True), (6000, False)])
def test_a_cheap_record_does_not_hide_that_a_dear_one_may_follow(budget: int, fits: bool) -> None:
    schedule = ByteBudget(budget)
    for step, n_bytes in enumerate([3000, 1]):
        schedule.wants(step, "train")
        schedule.recorded("train", Cost(0.0, n_bytes))
    assert any(schedule.wants(step, "train") for step in range(2, 10)) == fits


def test_a_recording_that_failed_is_tried_again() -> None:
    schedule = ByteBudget(1000)
    assert schedule.wants(0, "train")
    assert schedule.wants(1, "train"), "its cost is still unknown"


def test_a_kind_given_only_after_the_step_is_paid_for() -> None:
    schedule = ByteBudget(1000)
    assert schedule.wants(0, "undecided")
    schedule.recorded("odd", Cost(0.0, 900))
    assert not any(schedule.wants(step, "odd") for step in range(1, 100))


def test_a_resumed_run_has_no_second_budget() -> None:
    schedule = ByteBudget(100_000)
    before = spend(schedule, 5000, lambda step: "train", lambda step, kind: 1000)
    resumed = ByteBudget(100_000)
    resumed.restore(schedule.state())
    after = spend(resumed, 100_000, lambda step: "train", lambda step, kind: 1000)
    assert 0 < before.n_bytes < before.n_bytes + after.n_bytes <= 100_000


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("2GB", 2e9), ("500 MB", 5e8), ("1.5kb", 1500), (" 3 KiB ", 3072), ("1MiB", 2**20), ("7 B", 7), ("1TB", 1e12)],
)
def test_sizes_are_read_as_they_are_written(text: str, n_bytes: float) -> None:
    schedule = schedule_of(text)
    assert schedule.wants(0, "train")
    schedule.recorded("train", Cost(0.0, int(n_bytes) - 1))
    assert schedule.wants(1, "another"), "one byte is left"
    schedule.recorded("another", Cost(0.0, 1))
    assert not schedule.wants(2, "third")


# time


@dataclass
class Training:
    """A simulated training: the clock moves by what each step and each record takes."""

    now: float = 100.0
    overhead: float = 0.0
    n_recorded: dict[str, int] = field(default_factory=dict)
    n_seen: dict[str, int] = field(default_factory=dict)

    def clock(self) -> float:
        return self.now

    def run(
        self,
        schedule: Schedule,
        n_steps: int,
        kind_of: Callable[[int], str],
        cost_of: Callable[[int, str], float],
        step_seconds: float = 0.1,
    ) -> None:
        for step in range(n_steps):
            kind = kind_of(step)
            self.n_seen[kind] = self.n_seen.get(kind, 0) + 1
            wanted = schedule.wants(step, kind)
            self.now += step_seconds
            if wanted:
                cost = cost_of(step, kind)
                self.now += cost
                self.overhead += cost
                self.n_recorded[kind] = self.n_recorded.get(kind, 0) + 1
                schedule.recorded(kind, Cost(cost, 0))

    @property
    def share(self) -> float:
        return self.overhead / (self.now - 100.0)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("kind_of", [lambda step: "train", one_in_a_thousand, lambda step: "abc"[step % 3]])
def test_the_share_of_time_is_kept_and_used(share: float, kind_of: Callable[[int], str]) -> None:
    training = Training()
    training.run(TimeShare(share, clock=training.clock), 20_000, kind_of, lambda step, kind: 0.2)
    assert 0.7 * share <= training.share <= share


def test_the_share_is_kept_though_costs_vary_and_the_first_is_dear() -> None:
    training = Training()
    costs = [0.02, 0.05, 0.03, 0.08, 0.01]
    training.run(
        TimeShare(0.01, clock=training.clock),
        50_000,
        one_in_a_thousand,
        lambda step, kind: costs[step % 5] if step else 5.0,
    )
    assert 0.7 * 0.01 <= training.share <= 0.01 + 0.08 / training.now


def test_a_frequent_kind_does_not_eat_what_a_rare_one_needs() -> None:
    training = Training()
    training.run(
        TimeShare(0.01, clock=training.clock),
        100_000,
        one_in_a_thousand,
        lambda step, kind: 0.3 if kind == "rare" else 0.02,
    )
    assert training.n_seen["rare"] == 100
    assert training.n_recorded["rare"] >= 90
    assert training.n_recorded["train"] >= 1000


def test_kinds_that_come_equally_often_have_equal_parts_whatever_they_cost() -> None:
    training = Training()
    cost = {"a": 0.01, "b": 0.5}
    training.run(
        TimeShare(0.05, clock=training.clock), 50_000, lambda step: "ab"[step % 2], lambda step, kind: cost[kind]
    )
    spent = {kind: n * cost[kind] for kind, n in training.n_recorded.items()}
    assert spent["b"] == pytest.approx(spent["a"], rel=0.1)


def test_the_first_of_each_kind_is_recorded_whatever_it_costs() -> None:
    training = Training()
    training.run(TimeShare(0.01, clock=training.clock), 300, lambda step: "abc"[step // 100], lambda step, kind: 50.0)
    assert training.n_recorded == {"a": 1, "b": 1, "c": 1}


def test_time_before_the_first_step_does_not_count() -> None:
    training = Training()
    schedule = TimeShare(0.5, clock=training.clock)
    training.now += 1e6
    assert schedule.wants(0, "train")
    schedule.recorded("train", Cost(1.0, 0))
    assert not schedule.wants(1, "train")


def test_a_resumed_run_goes_on_with_its_time_and_spending() -> None:
    training = Training()
    schedule = TimeShare(0.01, clock=training.clock)
    training.run(schedule, 10_000, one_in_a_thousand, lambda step, kind: 0.2)
    state = schedule.state()
    assert state["elapsed"] == pytest.approx(training.now - 100.0)

    later = Training(now=7.0)
    resumed = TimeShare(0.01, clock=later.clock)
    resumed.restore(state)
    assert resumed.state() == state, "the pause between the two does not count"
    later.run(resumed, 10_000, one_in_a_thousand, lambda step, kind: 0.2)
    total = (training.overhead + later.overhead) / (training.now - 100.0 + later.now - 7.0)
    assert 0.7 * 0.01 <= total <= 0.01


def test_a_percentage_is_a_share_of_the_real_time() -> None:
    schedule = schedule_of("100%")
    assert schedule.wants(0, "train")
    schedule.recorded("train", Cost(3600.0, 0))
    assert not schedule.wants(1, "train"), "an hour has not passed"
    schedule.recorded("other", Cost(0.0, 0))
    assert not schedule.wants(2, "other"), "the hour is shared by all kinds"
