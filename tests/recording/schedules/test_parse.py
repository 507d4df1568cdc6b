"""What `every=` means, step by step."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.core.errors import InputError
from cutaway.recording.schedules.parse import Cost, Growing, Schedule, schedule_of

KINDS = st.lists(st.sampled_from(["train", "eval", "rare"]), max_size=200)


def chosen(every: Any, kinds: list[str]) -> list[int]:
    schedule = schedule_of(every)
    return [step for step, kind in enumerate(kinds) if schedule.wants(step, kind)]


# counting


@given(n=st.integers(1, 20), kinds=KINDS)
def test_every_n_is_modular_arithmetic_within_each_kind(n: int, kinds: list[str]) -> None:
    expected = [step for step, kind in enumerate(kinds) if kinds[:step].count(kind) % n == 0]
    assert chosen(n, kinds) == expected


@given(n=st.integers(1, 1000), kinds=KINDS)
def test_the_first_of_each_kind_is_recorded(n: int, kinds: list[str]) -> None:
    firsts = {kinds.index(kind) for kind in set(kinds)}
    assert firsts <= set(chosen(n, kinds))
    assert firsts <= set(chosen("x3", kinds))


@pytest.mark.parametrize("tenths", [10, 11, 12, 15, 20, 37])
@pytest.mark.parametrize("first", [1, 2, 5])
def test_growing_distances_equal_a_plain_loop(tenths: int, first: int) -> None:
    expected, occurrence = [], 0
    while occurrence < 20_000:
        expected.append(occurrence)
        following = occurrence + first
        while 10 * following < tenths * occurrence:
            following += 1
        occurrence = following
    assert chosen(Growing(first=first, factor=tenths / 10), ["train"] * 20_000) == expected


def test_growing_distances_begin_dense() -> None:
    expected = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 21, 24, 27]
    assert chosen("x1.1", ["train"] * 30) == expected
    assert chosen("× 1.1", ["train"] * 30) == expected


@given(kinds=KINDS)
def test_growing_distances_are_counted_within_each_kind(kinds: list[str]) -> None:
    alone = set(chosen("x1.5", ["train"] * 200))
    seen: Counter[str] = Counter()
    expected = []
    for step, kind in enumerate(kinds):
        if seen[kind] in alone:
            expected.append(step)
        seen[kind] += 1
    assert chosen("x1.5", kinds) == expected


def test_one_description_serves_two_runs() -> None:
    growing = Growing()
    assert chosen(growing, ["train"] * 50) == chosen(growing, ["train"] * 50)


# steps and functions


@pytest.mark.parametrize("steps", [[1, 4], (4, 1), {1, 4}, range(1, 7, 3), np.array([1, 4]), [np.int64(1), 4, 1]])
def test_given_steps_are_recorded_whatever_their_kind(steps: Any) -> None:
    assert chosen(steps, ["a", "b", "a", "b", "b", "a"]) == [1, 4]


def test_a_long_range_is_not_spelled_out() -> None:
    schedule = schedule_of(range(0, 10**15, 1000))
    assert schedule.wants(10**12, "train")
    assert not schedule.wants(10**12 + 1, "train")


def test_a_function_decides_by_step_and_kind() -> None:
    assert chosen(lambda step, kind: kind == "eval" and step > 1, ["eval", "train", "eval", "train"]) == [2]


def test_a_function_may_return_anything_that_is_true_or_false() -> None:
    schedule = schedule_of(lambda step, kind: np.bool_(step == 1))
    assert schedule.wants(1, "train") is True


def test_what_a_function_raises_is_left_to_the_recorder() -> None:
    with pytest.raises(ZeroDivisionError):
        schedule_of(lambda step, kind: 1 // step > 0).wants(0, "train")


@pytest.mark.parametrize("every", [0, None, False, "0%", "0 MB", []])
def test_nothing_means_never(every: Any) -> None:
    assert chosen(every, ["train", "eval"] * 20) == []


def test_true_means_every_step() -> None:
    assert chosen(True, ["train"] * 3) == [0, 1, 2]


# schedules of one's own


def test_a_schedule_of_ones_own_needs_only_wants() -> None:
    class Third(Schedule):
        def wants(self, step: int, kind: str) -> bool:
            return step == 3

    mine = Third()
    assert schedule_of(mine) is mine
    mine.recorded("train", Cost(0.1, 10))
    mine.restore(mine.state())
    assert chosen(mine, ["train"] * 5) == [3]


def test_a_schedule_is_told_what_its_own_kinds_have_cost() -> None:
    class Told(Schedule):
        def __init__(self) -> None:
            self.costs: list[tuple[str, Cost]] = []

        def wants(self, step: int, kind: str) -> bool:
            return True

        def recorded(self, kind: str, cost: Cost) -> None:
            self.costs.append((kind, cost))

    train, rest = Told(), Told()
    schedule = schedule_of({"train": train, None: rest})
    schedule.recorded("train", Cost(1.0, 10))
    schedule.recorded("eval", Cost(2.0, 20))
    assert train.costs == [("train", Cost(1.0, 10))]
    assert rest.costs == [("eval", Cost(2.0, 20))]


# one for each kind


@pytest.mark.parametrize("rest", ["*", None])
def test_a_dict_gives_each_kind_its_own_schedule(rest: str | None) -> None:
    kinds = ["train", "eval", "train", "other", "train", "other", "eval"]
    assert chosen({"train": 2, "eval": [6], rest: 1}, kinds) == [0, 3, 4, 5, 6]


def test_kinds_that_a_dict_does_not_name_are_not_recorded() -> None:
    assert chosen({"eval": 1}, ["train", "eval", "train"]) == [1]


def test_the_rest_is_still_counted_by_kind() -> None:
    assert chosen({"*": 2}, ["a", "b", "a", "b", "a", "b"]) == [0, 1, 4, 5]


# errors


@pytest.mark.parametrize(
    ("every", "message"),
    [
        (-1, r"every=-1 is negative"),
        ("5 parsecs", r"every='5 parsecs' is not a valid schedule.*Valid: 50 "),
        ("", r"every='' is not a valid schedule"),
        ("-5%", r"not a valid schedule"),
        ("nan%", r"not a valid schedule"),
        ("9" * 400 + "GB", r"not a valid schedule"),
        ("50", r"without quotes: every=50"),
        ("101%", r'more than all of the training time: pass "0%" to "100%"'),
        ("x0.5", r"Growing\(factor=0.5\): pass a number, 1 or more"),
        (0.01, r'a float, which is not a schedule. For a share of the training time write "1%"'),
        (50.0, r"every=50.0 is a float, which is not a schedule"),
        (float("nan"), r"is not a schedule"),
        (object(), r"an object, which is not a schedule"),
        (b"1%", r"is not a schedule"),
        ({}, r"every={} names no kind of step"),
        ({"*": 1, None: 2}, r'both "\*" and None'),
        ({3: 1}, r"every\[3\]=1: a kind of step must be a str, got an int"),
        ({"eval": "5 parsecs"}, r"every\['eval'\]='5 parsecs' is not a valid schedule"),
        ({"eval": {"a": 1}}, r"a dict inside a dict"),
        ([1, -2], r"lists step -2: step numbers start at 0"),
        (range(5, -5, -1), r"lists step -4"),
        ([1, 2.5], r"2.5 is a float"),
        (["1%"], r"'1%' is a str"),
        ([True], r"True is a bool"),
        (Growing, r"is a class: pass an instance"),
        (lambda step: True, r"called with two arguments, \(step, kind\).*too many positional arguments"),
    ],
)
def test_nonsense_is_refused_with_what_works(every: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        schedule_of(every)


@pytest.mark.parametrize(
    "arguments",
    [{"first": 0}, {"first": 1.5}, {"first": True}, {"factor": 0.9}, {"factor": float("inf")}, {"factor": "2"}],
)
def test_growing_refuses_what_does_not_grow(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="1 or more"):
        Growing(**arguments)


def test_half_a_schedule_is_refused_with_what_is_missing() -> None:
    class Half:
        def wants(self, step: int, kind: str) -> bool:
            return True

    with pytest.raises(InputError, match=r"has no recorded, state, restore: inherit from"):
        schedule_of(Half())  # type: ignore[arg-type]


def test_a_long_list_is_not_quoted_whole() -> None:
    with pytest.raises(InputError) as caught:
        schedule_of([*range(10_000), -1])
    assert len(str(caught.value)) < 200


# resuming

EVERY: list[Any] = [3, "x1.3", [2, 30, 77], None, "20kB", {"rare": 2, "*": "x1.2"}, {"train": "9kB", None: "9kB"}]


@given(every=st.sampled_from(EVERY), kinds=KINDS, cut=st.integers(0, 200))
def test_a_resumed_schedule_goes_on_as_if_nothing_had_happened(every: Any, kinds: list[str], cut: int) -> None:
    def run(schedule: Schedule, steps: range) -> list[int]:
        taken = []
        for step in steps:
            if schedule.wants(step, kinds[step]):
                taken.append(step)
                schedule.recorded(kinds[step], Cost(0.01, 500 + 40 * (step % 7)))
        return taken

    cut = min(cut, len(kinds))
    whole, first, second = schedule_of(every), schedule_of(every), schedule_of(every)
    expected = run(whole, range(len(kinds)))
    before = run(first, range(cut))
    second.restore(msgpack.unpackb(msgpack.packb(first.state())))
    assert before + run(second, range(cut, len(kinds))) == expected
    assert second.state() == whole.state()


@pytest.mark.parametrize("left_by", EVERY)
@pytest.mark.parametrize("every", [*EVERY, "1%"])
def test_a_run_may_be_resumed_with_another_schedule(left_by: Any, every: Any) -> None:
    old, new = schedule_of(left_by), schedule_of(every)
    for step in range(50):
        if old.wants(step, "train"):
            old.recorded("train", Cost(0.01, 500))
    new.restore(old.state())
    new.wants(50, "train")
    assert new.state().get("schedule") == schedule_of(every).state().get("schedule")


def test_a_state_does_not_change_with_the_schedule_it_came_from() -> None:
    schedule = schedule_of({"eval": 2, "*": "20kB"})
    schedule.wants(0, "train")
    state = schedule.state()
    kept = msgpack.packb(state)
    for step in range(1, 9):
        schedule.wants(step, "eval")
        schedule.wants(step, "train")
        schedule.recorded("train", Cost(0.01, 500))
    assert msgpack.packb(state) == kept


def test_schedules_need_no_torch() -> None:
    code = "import sys, cutaway.recording.schedules.parse; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
