"""Schedules with a budget: bytes for the whole run, or a share of the training time.

Both divide the budget among the kinds of steps seen so far, so that a frequent kind cannot starve a rare one. Neither
knows how long training will last.
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
"""The horizon is always at least this many times the number of steps so far."""


@dataclass(slots=True)
class _ByteAccount:
    """What a byte budget tracks per kind of step."""

    seen: int = 0
    last: int = 0
    """The last chosen occurrence, counted from 1."""
    spent: int = 0
    cost: int | None = None
    """Bytes of the last record; None before the first."""
    largest: int = 0

    def packed(self) -> list[int | None]:
        return [self.seen, self.last, self.spent, self.cost, self.largest]


class ByteBudget(Schedule):
    """At most this many bytes in the whole run: dense early, sparse later, never used up early.

    Each kind may spend an equal share of the budget and, beyond that, an equal share of what is left. It spreads its
    share evenly over the logarithm of its occurrences, up to as many as the horizon holds at its current frequency.

    A step is chosen only if the largest record of its kind so far would still fit. A run can therefore exceed the
    budget by one record at most: one that is larger than all earlier records of its kind, or the first of a kind.
    """

    TAG: Final = "byte budget"

    def __init__(self, n_bytes: int) -> None:
        self._budget = n_bytes
        self._spent = 0
        self._n_steps = 0
        self._kinds: dict[str, _ByteAccount] = {}

    def wants(self, step: int, kind: str) -> bool:
        account = self._kinds.setdefault(kind, _ByteAccount())
        account.seen += 1
        self._n_steps += 1
        left = self._budget - self._spent
        chosen = left > 0 and left >= account.largest and self._is_due(account, left)
        if chosen:
            account.last = account.seen
        return chosen

    def _is_due(self, account: _ByteAccount, left: int) -> bool:
        if not account.cost:
            return True
        n_kinds = len(self._kinds)
        share = min(left, max(self._budget / n_kinds - account.spent, left / n_kinds))
        n_left = share / account.cost
        horizon = max(HORIZON, AHEAD * self._n_steps) * account.seen / self._n_steps
        last = max(account.last, 1)
        # Next due at last × (horizon / last) ^ (1 / n_left), rounded down. The bound keeps exp() from overflowing.
        return last * exp(min(log(horizon / last) / n_left, 100.0)) < account.seen + 1

    def recorded(self, kind: str, cost: Cost) -> None:
        account = self._kinds.setdefault(kind, _ByteAccount())
        account.spent += cost.n_bytes
        account.cost = cost.n_bytes
        account.largest = max(account.largest, cost.n_bytes)
        self._spent += cost.n_bytes

    def state(self) -> State:
        kinds = {kind: account.packed() for kind, account in self._kinds.items()}
        return {"schedule": self.TAG, "spent": self._spent, "steps": self._n_steps, "kinds": kinds}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state.get("schedule") == self.TAG:
            self._kinds = {kind: _ByteAccount(*fields) for kind, fields in state["kinds"].items()}
            self._spent, self._n_steps = state["spent"], state["steps"]


@dataclass(slots=True)
class _TimeAccount:
    """What a time share tracks per kind of step."""

    spent: float = 0.0
    cost: float | None = None
    """Seconds of the last record; None before the first."""


class TimeShare(Schedule):
    """Records as many steps as fit into a share of the training time.

    The first step of each kind is always recorded. A later step is recorded if a record as expensive as the last of
    its kind fits into the share, and still leaves room for one record of every other kind that is behind its equal
    part.
    """

    TAG: Final = "time share"

    def __init__(self, share: float, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._share = share
        self._clock = clock
        self._started: float | None = None
        self._before = 0.0
        """Seconds taken by earlier sessions of a resumed run."""
        self._spent = 0.0
        self._kinds: dict[str, _TimeAccount] = {}

    def _elapsed(self) -> float:
        return self._before + (0.0 if self._started is None else self._clock() - self._started)

    def wants(self, step: int, kind: str) -> bool:
        if self._started is None:
            self._started = self._clock()
        account = self._kinds.setdefault(kind, _TimeAccount())
        if account.cost is None:
            return True
        allowed = self._share * self._elapsed()
        after = self._spent + account.cost
        # The cheap comparison first: it spares most steps the sum over all kinds.
        return after <= allowed and after + self._reserved(kind, allowed / len(self._kinds)) <= allowed

    def _reserved(self, kind: str, part: float) -> float:
        """Seconds to reserve: one record for each other kind that is behind its equal part."""
        others = ((account.spent, account.cost or 0.0) for name, account in self._kinds.items() if name != kind)
        return sum(cost for spent, cost in others if spent + cost <= part)

    def recorded(self, kind: str, cost: Cost) -> None:
        account = self._kinds.setdefault(kind, _TimeAccount())
        account.spent += cost.seconds
        account.cost = cost.seconds
        self._spent += cost.seconds

    def state(self) -> State:
        kinds = {kind: [account.spent, account.cost] for kind, account in self._kinds.items()}
        return {"schedule": self.TAG, "elapsed": self._elapsed(), "spent": self._spent, "kinds": kinds}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state.get("schedule") == self.TAG:
            self._kinds = {kind: _TimeAccount(*fields) for kind, fields in state["kinds"].items()}
            self._before, self._spent = state["elapsed"], state["spent"]
            self._started = None
