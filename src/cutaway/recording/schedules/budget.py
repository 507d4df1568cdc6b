"""Schedules that keep within a budget by themselves: bytes for the whole run, or a share of the training time.

Both divide what they have among the kinds of steps seen so far, so that a frequent kind does not eat what a rare one
needs. How long training will last is known to neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any, Final

from cutaway.recording.schedules.base import Cost, Schedule, State

HORIZON: Final = 1e7
"""A byte budget is spread as if training took this many steps."""
AHEAD: Final = 10
"""The horizon stays at least this many times as far as training has come."""


@dataclass(slots=True)
class _Bytes:
    """What a byte budget knows of one kind."""

    seen: int = 0
    last: int = 0
    """The occurrence last chosen, counted from 1."""
    spent: int = 0
    cost: int | None = None
    """Of the last record; None before the first."""
    largest: int = 0

    def packed(self) -> list[int | None]:
        return [self.seen, self.last, self.spent, self.cost, self.largest]


class ByteBudget(Schedule):
    """At most so many bytes in the whole run: dense early, sparse later, never used up early.

    A kind may spend an equal share of the budget and, beyond that, an equal part of what is left. It spreads this
    evenly over the logarithm of its occurrences, up to as many as the horizon holds at its present frequency.

    A step is chosen only if the dearest record of its kind so far would still fit. So the budget can be overrun by
    one record alone: one that is dearer than all before it of its kind, as the first of a kind may be.
    """

    TAG: Final = "byte budget"

    def __init__(self, n_bytes: int) -> None:
        self._budget = n_bytes
        self._spent = 0
        self._n_steps = 0
        self._kinds: dict[str, _Bytes] = {}

    def wants(self, step: int, kind: str) -> bool:
        account = self._kinds.setdefault(kind, _Bytes())
        account.seen += 1
        self._n_steps += 1
        left = self._budget - self._spent
        chosen = left > 0 and left >= account.largest and self._is_due(account, left)
        if chosen:
            account.last = account.seen
        return chosen

    def _is_due(self, account: _Bytes, left: int) -> bool:
        if not account.cost:
            return True
        n_kinds = len(self._kinds)
        share = min(left, max(self._budget / n_kinds - account.spent, left / n_kinds))
        n_left = share / account.cost
        horizon = max(HORIZON, AHEAD * self._n_steps) * account.seen / self._n_steps
        last = max(account.last, 1)
        # The next is due at last × (horizon / last) ^ (1 / n_left), rounded down; the bound keeps exp within floats.
        return last * exp(min(log(horizon / last) / n_left, 100.0)) < account.seen + 1

    def recorded(self, kind: str, cost: Cost) -> None:
        account = self._kinds.setdefault(kind, _Bytes())
        account.spent += cost.n_bytes
        account.cost = cost.n_bytes
        account.largest = max(account.largest, cost.n_bytes)
        self._spent += cost.n_bytes

    def state(self) -> State:
        kinds = {kind: account.packed() for kind, account in self._kinds.items()}
        return {"schedule": self.TAG, "spent": self._spent, "steps": self._n_steps, "kinds": kinds}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state.get("schedule") == self.TAG:
            self._kinds = {kind: _Bytes(*fields) for kind, fields in state["kinds"].items()}
            self._spent, self._n_steps = state["spent"], state["steps"]


@dataclass(slots=True)
class _Seconds:
    """What a time share knows of one kind."""

    spent: float = 0.0
    cost: float | None = None
    """Of the last record; None before the first."""


class TimeShare(Schedule):
    """As many steps as can be recorded within a share of the time that training takes.

    The first step of each kind is always recorded. After that a step is recorded if another record as dear as the
    last of its kind is within the share, and leaves room for one record of every other kind that has not had an equal
    part.
    """

    TAG: Final = "time share"

    def __init__(self, share: float, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._share = share
        self._clock = clock
        self._started: float | None = None
        self._before = 0.0
        """Seconds that earlier parts of a resumed run took."""
        self._spent = 0.0
        self._kinds: dict[str, _Seconds] = {}

    def _elapsed(self) -> float:
        return self._before + (0.0 if self._started is None else self._clock() - self._started)

    def wants(self, step: int, kind: str) -> bool:
        if self._started is None:
            self._started = self._clock()
        account = self._kinds.setdefault(kind, _Seconds())
        if account.cost is None:
            return True
        allowed = self._share * self._elapsed()
        after = self._spent + account.cost
        # The first question spares most steps the sum over all kinds.
        return after <= allowed and after + self._owed(kind, allowed / len(self._kinds)) <= allowed

    def _owed(self, kind: str, part: float) -> float:
        """Room for one record of each other kind that has not had its part."""
        others = ((account.spent, account.cost or 0.0) for name, account in self._kinds.items() if name != kind)
        return sum(cost for spent, cost in others if spent + cost <= part)

    def recorded(self, kind: str, cost: Cost) -> None:
        account = self._kinds.setdefault(kind, _Seconds())
        account.spent += cost.seconds
        account.cost = cost.seconds
        self._spent += cost.seconds

    def state(self) -> State:
        kinds = {kind: [account.spent, account.cost] for kind, account in self._kinds.items()}
        return {"schedule": self.TAG, "elapsed": self._elapsed(), "spent": self._spent, "kinds": kinds}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state.get("schedule") == self.TAG:
            self._kinds = {kind: _Seconds(*fields) for kind, fields in state["kinds"].items()}
            self._before, self._spent = state["elapsed"], state["spent"]
            self._started = None
