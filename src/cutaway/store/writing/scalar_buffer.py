"""Buffers scalars so that many share one record; the buffer is bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from threading import Lock

import numpy as np

from cutaway.store.format.records import Points, ScalarsRecord

_MAX_POINTS = 10_000
"""Above this, a batch goes to the queue, where producers wait."""
_MAX_NAMES = 4096
"""Scalars per record."""
_POINT_BYTES = 160


@dataclass(slots=True)
class ScalarBatch:
    """Points of some scalars, on their way to disk."""

    columns: dict[str, tuple[list[int], list[float], list[float]]]
    steps: tuple[int, ...]
    n_bytes: int

    def __bool__(self) -> bool:
        return bool(self.columns)

    def first(self) -> ScalarsRecord:
        """The points of the next record."""
        some = islice(self.columns.items(), _MAX_NAMES)
        return ScalarsRecord(
            {
                name: Points(
                    np.asarray(steps, np.int64), np.asarray(values, np.float64), np.asarray(elapsed, np.float64)
                )
                for name, (steps, values, elapsed) in some
            }
        )

    def drop_first(self) -> None:
        """Remove the points of that record, after it is written."""
        for name in list(islice(self.columns, _MAX_NAMES)):
            del self.columns[name]


class ScalarBuffer:
    """Points that are in no batch yet. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._columns: dict[str, tuple[list[int], list[float], list[float]]] = {}
        self._n_points = 0

    def __bool__(self) -> bool:
        return bool(self._columns)

    def add(self, step: int, values: Mapping[str, float], elapsed: float) -> tuple[bool, ScalarBatch | None]:
        """Add scalars of one step. Returns whether the buffer was empty, and a batch once it is full."""
        with self._lock:
            is_first = not self._columns
            for name, value in values.items():
                steps, numbers, times = self._columns.setdefault(name, ([], [], []))
                steps.append(step)
                numbers.append(value)
                times.append(elapsed)
            self._n_points += len(values)
            return is_first, self._empty() if self._n_points >= _MAX_POINTS else None

    def take(self) -> ScalarBatch | None:
        """Empty the buffer; None if it is empty."""
        with self._lock:
            return self._empty() if self._columns else None

    def _empty(self) -> ScalarBatch:
        columns, self._columns = self._columns, {}
        size, self._n_points = self._n_points * _POINT_BYTES, 0
        steps = sorted({step for column in columns.values() for step in column[0]})
        return ScalarBatch(columns, tuple(steps), size)
