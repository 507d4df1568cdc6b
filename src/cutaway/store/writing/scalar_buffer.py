"""Scalars that wait to be written together: one record for many of them, and never more than a bounded number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from threading import Lock

import numpy as np

from cutaway.store.format.records import Points, ScalarsRecord

_MOST_POINTS = 10_000
"""More than these go into the queue, where whoever hands in more has to wait."""
_MOST_NAMES = 4096
"""Scalars in one record."""
_POINT_BYTES = 160


@dataclass(slots=True)
class Batch:
    """Some points of some scalars, on their way to disk."""

    columns: dict[str, tuple[list[int], list[float], list[float]]]
    steps: tuple[int, ...]
    n_bytes: int

    def __bool__(self) -> bool:
        return bool(self.columns)

    def first(self) -> ScalarsRecord:
        """As many as go into one record."""
        some = islice(self.columns.items(), _MOST_NAMES)
        return ScalarsRecord(
            {
                name: Points(
                    np.asarray(steps, np.int64), np.asarray(values, np.float64), np.asarray(elapsed, np.float64)
                )
                for name, (steps, values, elapsed) in some
            }
        )

    def drop_first(self) -> None:
        """The first record is written."""
        for name in list(islice(self.columns, _MOST_NAMES)):
            del self.columns[name]


class Gathered:
    """Points that no job was made of yet; two threads may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._columns: dict[str, tuple[list[int], list[float], list[float]]] = {}
        self._n_points = 0

    def __bool__(self) -> bool:
        return bool(self._columns)

    def add(self, step: int, values: Mapping[str, float], elapsed: float) -> tuple[bool, Batch | None]:
        """Add numbers of one step. Gives whether they are the first ones, and a batch once there are many."""
        with self._lock:
            is_first = not self._columns
            for name, value in values.items():
                steps, found, times = self._columns.setdefault(name, ([], [], []))
                steps.append(step)
                found.append(value)
                times.append(elapsed)
            self._n_points += len(values)
            return is_first, self._taken() if self._n_points >= _MOST_POINTS else None

    def take(self) -> Batch | None:
        """All of them, if there are any."""
        with self._lock:
            return self._taken() if self._columns else None

    def _taken(self) -> Batch:
        columns, self._columns = self._columns, {}
        size, self._n_points = self._n_points * _POINT_BYTES, 0
        steps = sorted({step for column in columns.values() for step in column[0]})
        return Batch(columns, tuple(steps), size)
