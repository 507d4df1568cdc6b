"""Schedules without a budget: never, listed steps, a function, every nth step, growing intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isfinite
from typing import Any, Final

from cutaway.core.errors import InputError, InputTypeError
from cutaway.recording.schedules.base import Schedule, State


class Never(Schedule):
    """Records no step."""

    def wants(self, step: int, kind: str) -> bool:
        return False


class AtSteps(Schedule):
    """Records the listed step numbers, whatever their kind."""

    def __init__(self, steps: Collection[int]) -> None:
        self._steps = steps

    def wants(self, step: int, kind: str) -> bool:
        return step in self._steps


class Predicate(Schedule):
    """Records the steps for which a function returns True."""

    def __init__(self, function: Callable[[int, str], bool]) -> None:
        self._function = function

    def wants(self, step: int, kind: str) -> bool:
        return bool(self._function(step, kind))


class EveryNth(Schedule):
    """Records the first step of each kind and every nth after it.

    >>> schedule = EveryNth(3)
    >>> [schedule.wants(step, "train") for step in range(5)]
    [True, False, False, True, False]
    """

    TAG: Final = "every nth"

    def __init__(self, n: int) -> None:
        self._n = n
        self._seen: Counter[str] = Counter()

    def wants(self, step: int, kind: str) -> bool:
        occurrence = self._seen[kind]
        self._seen[kind] += 1
        return occurrence % self._n == 0

    def state(self) -> State:
        return {"schedule": self.TAG, "seen": dict(self._seen)}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state.get("schedule") == self.TAG:
            self._seen = Counter(state["seen"])


@dataclass(frozen=True, slots=True)
class Growing:
    """Growing intervals: dense early, sparse later, counted separately for each kind.

    Args:
        first: the smallest distance between two recorded steps of a kind
        factor: each recorded occurrence comes at least this many times as late as the one before it
    """

    first: int = 1
    factor: float = 1.1

    def __post_init__(self) -> None:
        if isinstance(self.first, bool) or not isinstance(self.first, int) or self.first < 1:
            raise InputError(f"Growing(first={self.first!r}): pass an integer number of steps, 1 or more")
        if isinstance(self.factor, bool) or not isinstance(self.factor, int | float):
            raise InputTypeError(f"Growing(factor={self.factor!r}): pass a number, 1 or more, such as 1.1")
        if not isfinite(self.factor) or self.factor < 1:
            raise InputError(f"Growing(factor={self.factor!r}): pass a number, 1 or more, such as 1.1")


class GrowingSchedule(Schedule):
    """The schedule that `Growing` describes."""

    TAG: Final = "growing"

    def __init__(self, growing: Growing) -> None:
        self._first = growing.first
        # The exact decimal: the float 1.1 is slightly larger, and ceil(10 × 1.1) would be 12.
        self._factor = Fraction(repr(growing.factor))
        self._seen: Counter[str] = Counter()
        self._due: Counter[str] = Counter()

    def wants(self, step: int, kind: str) -> bool:
        occurrence = self._seen[kind]
        self._seen[kind] += 1
        if occurrence < self._due[kind]:
            return False
        self._due[kind] = max(occurrence + self._first, ceil(occurrence * self._factor))
        return True

    def state(self) -> State:
        return {"schedule": self.TAG, "seen": dict(self._seen), "due": dict(self._due)}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state.get("schedule") == self.TAG:
            self._seen, self._due = Counter(state["seen"]), Counter(state["due"])
