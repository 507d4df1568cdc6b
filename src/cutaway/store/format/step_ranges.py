"""Many step numbers as few ranges: on a full disk, a few bytes must say which steps are lost."""

from __future__ import annotations

from typing import Any, Final

from numpy.typing import NDArray

from cutaway.core.errors import DamagedError

_MAX_LOST_STEPS: Final = 1 << 20


def ranges_of(steps: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Steps as (first, last, distance).

    >>> ranges_of((3, 4, 5, 100, 200, 300))
    [(3, 5, 1), (100, 300, 100)]
    """
    ranges: list[tuple[int, int, int]] = []
    for step in steps:
        first, last, distance = ranges[-1] if ranges else (step, step, 0)
        if ranges and step > last and (not distance or step - last == distance):
            ranges[-1] = (first, step, step - last)
        else:
            ranges.append((step, step, 0))
    return [(first, last, distance or 1) for first, last, distance in ranges]


def steps_in(ranges: NDArray[Any]) -> tuple[int, ...]:
    """The steps of `ranges_of`, from packed numbers; DamagedError if they are impossible."""
    if len(ranges) % 3:
        raise DamagedError("ranges of lost steps have wrong fields")
    steps: list[int] = []
    for first, last, distance in ranges.reshape(-1, 3).tolist():
        if distance < 1 or not 0 <= first <= last or (last - first) // distance > _MAX_LOST_STEPS - len(steps):
            raise DamagedError("ranges of lost steps are impossible or too long")
        steps += range(first, last + 1, distance)
    return tuple(steps)
