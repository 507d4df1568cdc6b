"""Parses `every=` into a schedule."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from operator import index
from reprlib import repr as shortened
from typing import Any, Final, TypeAlias

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.recording.schedules.base import Cost as Cost
from cutaway.recording.schedules.base import Schedule as Schedule
from cutaway.recording.schedules.base import State as State
from cutaway.recording.schedules.budget import ByteBudget, TimeShare
from cutaway.recording.schedules.fixed import AtSteps, EveryNth, GrowingSchedule, Never, Predicate
from cutaway.recording.schedules.fixed import Growing as Growing

EveryLike: TypeAlias = (
    "int | str | Growing | Schedule | Callable[[int, str], bool] | Collection[int] "
    "| Mapping[str | None, EveryLike] | Mapping[str, EveryLike] | None"
)

REST: Final = "*"
_UNITS: Final = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_NUMBER: Final = r"(\d{1,15}(?:\.\d{1,15})?)"
_PERCENT: Final = re.compile(rf"{_NUMBER}\s*%")
_BYTES: Final = re.compile(rf"{_NUMBER}\s*({'|'.join(_UNITS)})", re.IGNORECASE)
_FACTOR: Final = re.compile(rf"[x×]\s*{_NUMBER}", re.IGNORECASE)

_VALID: Final = (
    "Valid: 50 (every 50th step of each kind), [0, 10, 100] or range(0, 1000, 10) (these steps), "
    '"1%" (of the training time), "500 MB" or "2GB" (for the whole run), "x1.1" or Growing(first=1, factor=1.1) '
    "(dense early, sparse later), a function of (step, kind), a Schedule, a dict from kinds to any of these "
    'with "*" for all other kinds, None (never).'
)


class PerKind(Schedule):
    """One schedule per named kind, and one for all other kinds."""

    def __init__(self, kinds: Mapping[str, Schedule], rest: Schedule) -> None:
        self._kinds = dict(kinds)
        self._rest = rest

    def _schedule_for(self, kind: str) -> Schedule:
        return self._kinds.get(kind, self._rest)

    def wants(self, step: int, kind: str) -> bool:
        return self._schedule_for(kind).wants(step, kind)

    def recorded(self, kind: str, cost: Cost) -> None:
        self._schedule_for(kind).recorded(kind, cost)

    def state(self) -> State:
        kinds = {kind: schedule.state() for kind, schedule in self._kinds.items()}
        return {"schedule": "per kind", "kinds": kinds, "rest": self._rest.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state.get("schedule") == "per kind":
            for kind, schedule in self._kinds.items():
                if kind in state["kinds"]:
                    schedule.restore(state["kinds"][kind])
            self._rest.restore(state["rest"])


def schedule_of(every: EveryLike) -> Schedule:
    """Parse `every=`. Returns a new schedule at each call, unless `every` is a Schedule already.

    >>> schedule = schedule_of({"eval": 1, "*": 1000})
    >>> [schedule.wants(step, "eval") for step in range(3)], [schedule.wants(step, "train") for step in range(3)]
    ([True, True, True], [True, False, False])

    Args:
        every: what `cutaway.record(every=)` takes: a number, steps, a text, a function, a dict, a Schedule or None.
    """
    if isinstance(every, Mapping):
        return _per_kind(every)
    return _schedule_of(every, f"every={shortened(every)}")


def _per_kind(every: Mapping[Any, Any]) -> PerKind:
    argument = f"every={shortened(every)}"
    if not every:
        raise InputError(f"{argument} names no kind of step; pass every=None to record nothing. {_VALID}")
    if REST in every and None in every:
        raise InputError(f'{argument} has both "*" and None, which both mean all other kinds: keep one of them.')
    kinds: dict[str, Schedule] = {}
    rest: Schedule = Never()
    for kind, rule in every.items():
        where = f"every[{kind!r}]={shortened(rule)}"
        if kind is None or kind == REST:
            rest = _schedule_of(rule, where)
        elif isinstance(kind, str):
            kinds[kind] = _schedule_of(rule, where)
        else:
            raise InputTypeError(
                f'{where}: a kind of step must be a str, got {type_text(kind)}. "*" means all other kinds.'
            )
    return PerKind(kinds, rest)


def _schedule_of(every: Any, argument: str) -> Schedule:
    if every is None:
        return Never()
    if isinstance(every, str):
        return _parse_text(every, argument)
    if isinstance(every, Growing):
        return GrowingSchedule(every)
    if isinstance(every, type):
        raise InputTypeError(f"{argument} is a class: pass an instance of it. {_VALID}")
    if hasattr(every, "wants"):
        return _check_methods(every, argument)
    if callable(every):
        return Predicate(_check_signature(every, argument))
    if isinstance(every, Mapping):
        raise InputTypeError(f"{argument}: a dict inside a dict is not a schedule. {_VALID}")
    if isinstance(every, Collection) and not isinstance(every, bytes | bytearray):
        return AtSteps(_parse_steps(every, argument))
    n = _as_int(every)
    if n is None:
        # Where the meaning is clear, the one repair is enough; the list of all forms would bury it.
        repair = f'For a share of the training time write "{every * 100:g}%".' if _is_share(every) else _VALID
        raise InputTypeError(f"{argument} is {type_text(every)}, which is not a schedule. {repair}")
    if n < 0:
        raise InputError(f"{argument} is negative: pass 1 for every step, n for every nth, or None to record none.")
    # True and False are ints: `every=True` is every step.
    return EveryNth(n) if n else Never()


def _parse_text(text: str, argument: str) -> Schedule:
    stripped = text.strip()
    if match := _PERCENT.fullmatch(stripped):
        share = float(match[1]) / 100
        if share > 1:
            raise InputError(f'{argument} is more than all of the training time: pass "0%" to "100%".')
        return TimeShare(share) if share else Never()
    if match := _BYTES.fullmatch(stripped):
        n_bytes = int(float(match[1]) * _UNITS[match[2].lower()])
        return ByteBudget(n_bytes) if n_bytes else Never()
    if match := _FACTOR.fullmatch(stripped):
        return GrowingSchedule(Growing(factor=float(match[1])))
    repair = f"Write a number without quotes: every={stripped}." if stripped.isdecimal() else _VALID
    raise InputError(f"{argument} is not a valid schedule. {repair}")


def _check_methods(every: Any, argument: str) -> Schedule:
    """Check that a schedule has every method that a recorder calls."""
    missing = [name for name in ("wants", "recorded", "state", "restore") if not callable(getattr(every, name, None))]
    if missing:
        raise InputError(
            f"{argument} has no {', '.join(missing)}: inherit from cutaway.schedules.Schedule, "
            "which implements everything but `wants`."
        )
    schedule: Schedule = every
    return schedule


def _check_signature(function: Callable[..., Any], argument: str) -> Callable[[int, str], bool]:
    """Check, where the signature can be read, that a function takes a step and a kind."""
    try:
        inspect.signature(function).bind(0, "")
    except ValueError:
        pass  # some built-in functions have no signature
    except TypeError as error:
        raise InputError(
            f"{argument} is called with two arguments, (step, kind), but does not accept them: {error}."
        ) from None
    return function


def _parse_steps(steps: Collection[Any], argument: str) -> Collection[int]:
    if isinstance(steps, range):
        numbers: Collection[int] = steps  # may be long; `in` takes constant time
        least = min(steps[0], steps[-1]) if steps else 0
    else:
        for step in steps:
            if _as_int(step) is None or isinstance(step, bool):
                raise InputTypeError(
                    f"{argument} lists the steps to record, but {shortened(step)} is {type_text(step)}. {_VALID}"
                )
        numbers = frozenset(map(index, steps))
        least = min(numbers, default=0)
    if least < 0:
        raise InputError(f"{argument} lists step {least}: step numbers start at 0.")
    return numbers


def _as_int(value: Any) -> int | None:
    try:
        return index(value)
    except TypeError:
        return None


def _is_share(value: Any) -> bool:
    return isinstance(value, float) and 0 < value < 1
