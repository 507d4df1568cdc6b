"""What `every=` may say, and the schedule that each saying means."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from operator import index
from reprlib import repr as shortened
from typing import Any, Final, TypeAlias

from cutaway.core.errors import InputError
from cutaway.recording.schedules.base import Cost as Cost
from cutaway.recording.schedules.base import Schedule as Schedule
from cutaway.recording.schedules.base import State as State
from cutaway.recording.schedules.budget import ByteBudget, TimeShare
from cutaway.recording.schedules.fixed import EveryNth, Given, GrowingDistances, Never, Predicate
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

_WORKS: Final = (
    "What works: 50 (every 50th step of each kind), [0, 10, 100] or range(0, 1000, 10) (these steps), "
    '"1%" (of the training time), "500 MB" or "2GB" (for the whole run), "x1.1" or Growing(first=1, factor=1.1) '
    "(dense early, sparse later), a function of (step, kind), a Schedule, a dict from kinds to any of these "
    'with "*" for all other kinds, None (never).'
)


class PerKind(Schedule):
    """A schedule for each kind that is named, and one for the rest."""

    def __init__(self, kinds: Mapping[str, Schedule], rest: Schedule) -> None:
        self._kinds = dict(kinds)
        self._rest = rest

    def _of(self, kind: str) -> Schedule:
        return self._kinds.get(kind, self._rest)

    def wants(self, step: int, kind: str) -> bool:
        return self._of(kind).wants(step, kind)

    def recorded(self, kind: str, cost: Cost) -> None:
        self._of(kind).recorded(kind, cost)

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
    """The schedule that `every=` means; a new one at each call, unless it is a Schedule already.

    >>> schedule = schedule_of({"eval": 1, "*": 1000})
    >>> [schedule.wants(step, "eval") for step in range(3)], [schedule.wants(step, "train") for step in range(3)]
    ([True, True, True], [True, False, False])
    """
    if isinstance(every, Mapping):
        return _per_kind(every)
    return _schedule_of(every, f"every={shortened(every)}")


def _per_kind(every: Mapping[Any, Any]) -> PerKind:
    asked = f"every={shortened(every)}"
    if not every:
        raise InputError(f"{asked} names no kind of step; every=None records nothing. {_WORKS}")
    if REST in every and None in every:
        raise InputError(f'{asked} has both "*" and None, and both mean all other kinds: keep one of them.')
    kinds: dict[str, Schedule] = {}
    rest: Schedule = Never()
    for kind, rule in every.items():
        where = f"every[{kind!r}]={shortened(rule)}"
        if kind is None or kind == REST:
            rest = _schedule_of(rule, where)
        elif isinstance(kind, str):
            kinds[kind] = _schedule_of(rule, where)
        else:
            raise InputError(f'{where}: a kind of step is a text, and this is {_a(kind)}. "*" means all other kinds.')
    return PerKind(kinds, rest)


def _schedule_of(every: Any, asked: str) -> Schedule:
    if every is None:
        return Never()
    if isinstance(every, str):
        return _of_text(every, asked)
    if isinstance(every, Growing):
        return GrowingDistances(every)
    if isinstance(every, type):
        raise InputError(f"{asked} is a class: make an instance of it first. {_WORKS}")
    if hasattr(every, "wants"):
        return _whole(every, asked)
    if callable(every):
        return Predicate(_taking_two(every, asked))
    if isinstance(every, Mapping):
        raise InputError(f"{asked}: a dict within a dict means nothing. {_WORKS}")
    if isinstance(every, Collection) and not isinstance(every, bytes | bytearray):
        return Given(_steps(every, asked))
    n = _whole_number(every)
    if n is None:
        hint = f' For a share of the training time write "{every * 100:g}%".' if _is_share(every) else ""
        raise InputError(f"{asked} is {_a(every)}, which is no schedule.{hint} {_WORKS}")
    if n < 0:
        raise InputError(f"{asked} is negative: steps are counted from 0 up. {_WORKS}")
    return EveryNth(n) if n else Never()


def _of_text(text: str, asked: str) -> Schedule:
    stripped = text.strip()
    if found := _PERCENT.fullmatch(stripped):
        share = float(found[1]) / 100
        if share > 1:
            raise InputError(f'{asked} is more than all of the training time: it goes from "0%" to "100%".')
        return TimeShare(share) if share else Never()
    if found := _BYTES.fullmatch(stripped):
        n_bytes = int(float(found[1]) * _UNITS[found[2].lower()])
        return ByteBudget(n_bytes) if n_bytes else Never()
    if found := _FACTOR.fullmatch(stripped):
        return GrowingDistances(Growing(factor=float(found[1])))
    hint = f" For a number write it without quotes: every={stripped}." if stripped.isdecimal() else ""
    raise InputError(f"{asked} is not understood.{hint} {_WORKS}")


def _whole(every: Any, asked: str) -> Schedule:
    """A schedule of the user's own, if it has all that a recorder calls."""
    missing = [name for name in ("wants", "recorded", "state", "restore") if not callable(getattr(every, name, None))]
    if missing:
        raise InputError(
            f"{asked} has no {', '.join(missing)}. Let its class inherit from cutaway.schedules.Schedule, "
            "which has all but `wants`."
        )
    schedule: Schedule = every
    return schedule


def _taking_two(function: Callable[..., Any], asked: str) -> Callable[[int, str], bool]:
    """A function that can be called with a step and a kind, as far as can be told beforehand."""
    try:
        inspect.signature(function).bind(0, "")
    except ValueError:
        pass  # some built-in functions have no signature to look at
    except TypeError as error:
        raise InputError(
            f"{asked} is called with two arguments, (step, kind), and does not take them: {error}."
        ) from None
    return function


def _steps(steps: Collection[Any], asked: str) -> Collection[int]:
    if isinstance(steps, range):
        numbers: Collection[int] = steps  # it may be long, and answers `in` at once
        least = min(steps[0], steps[-1]) if steps else 0
    else:
        for step in steps:
            if _whole_number(step) is None or isinstance(step, bool):
                raise InputError(f"{asked} lists the steps to record, and {shortened(step)} is {_a(step)}. {_WORKS}")
        numbers = frozenset(map(index, steps))
        least = min(numbers, default=0)
    if least < 0:
        raise InputError(f"{asked} lists step {least}: steps are counted from 0 up.")
    return numbers


def _whole_number(value: Any) -> int | None:
    try:
        return index(value)
    except TypeError:
        return None


def _is_share(value: Any) -> bool:
    return isinstance(value, float) and 0 < value < 1


def _a(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
