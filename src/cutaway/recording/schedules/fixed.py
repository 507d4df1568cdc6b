"""Schedules that need no cost: never, given steps, a function, every nth, growing distances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isfinite
from typing import Any, Final

from cutaway.core.errors import InputError
from cutaway.recording.schedules.base import Schedule, State


class Never(Schedule):
    """No step at all."""

    def wants(self, step: int, kind: str) -> bool:
        return False


class Given(Schedule):
    """The steps of a collection, by their numbers, whatever their kind."""

    def __init__(self, steps: Collection[int]) -> None:
        self._steps = steps

    def wants(self, step: int, kind: str) -> bool:
        return step in self._steps


class Predicate(Schedule):
    """The steps for which a function says so."""

    def __init__(self, function: Callable[[int, str], bool]) -> None:
        self._function = function

    def wants(self, step: int, kind: str) -> bool:
        return bool(self._function(step, kind))


class EveryNth(Schedule):
    """Of each kind the first step and every nth after it.

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
    """Growing distances: dense early, sparse later, counted for each kind by itself.

    Args:
        first: the least distance between two recorded steps of a kind
        factor: each recorded occurrence comes at least this many times as late as the one before it
    """

    first: int = 1
    factor: float = 1.1

    def __post_init__(self) -> None:
        if isinstance(self.first, bool) or not isinstance(self.first, int) or self.first < 1:
            raise InputError(f"Growing(first={self.first!r}): the least distance is a whole number of steps from 1 up")
        if isinstance(self.factor, bool) or not isinstance(self.factor, int | float):
            raise InputError(f"Growing(factor={self.factor!r}): the factor is a number from 1 up, such as 1.1")
        if not isfinite(self.factor) or self.factor < 1:
            raise InputError(f"Growing(factor={self.factor!r}): the factor is a number from 1 up, such as 1.1")


class GrowingDistances(Schedule):
    """The schedule that `Growing` describes."""

    TAG: Final = "growing"

    def __init__(self, growing: Growing) -> None:
        self._first = growing.first
        # As it is written: the float 1.1 is a little more, and 10 × 1.1 would come out as 12.
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
