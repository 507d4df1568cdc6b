"""Numbers that were logged during a run, as curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cutaway.core.errors import NotFoundError
from cutaway.core.formatting import nearest
from cutaway.core.dataframes import to_dataframe
from cutaway.store.reading.index import SessionIndex
from cutaway.store.format.records import Points
from cutaway.store.runs.series import Curve
from cutaway.store.runs.timeline import ends


class Scalars(Mapping[str, Curve]):
    """Logged numbers by name; what a later session logged takes the place of what it ran again."""

    def __init__(self, sessions: Sequence[SessionIndex]) -> None:
        self._points: dict[str, list[tuple[Points, int | None]]] = {}
        for index, end in zip(sessions, ends(sessions), strict=True):
            for record in index.scalars:
                for name, points in record.points.items():
                    self._points.setdefault(name, []).append((points, end))
        self._curves: dict[str, Curve] = {}

    def __getitem__(self, name: str) -> Curve:
        if name not in self._points:
            close = ", ".join(map(repr, nearest(name, self._points))) or ", ".join(map(repr, list(self._points)[:8]))
            raise NotFoundError(f"no scalar {name!r} was logged. There are: {close or 'none'}.")
        if name not in self._curves:
            self._curves[name] = _joined(self._points[name])
        return self._curves[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)

    def __contains__(self, name: object) -> bool:
        return name in self._points

    def table(self) -> Any:
        """One row for each step and scalar: a pandas DataFrame where pandas is installed, else a list of dicts."""
        return to_dataframe(
            {"step": step, "name": name, "value": value}
            for name, curve in self.items()
            for step, value in zip(curve.steps.tolist(), curve.values.tolist(), strict=True)
        )

    def __repr__(self) -> str:
        return f"<Scalars {', '.join(self._points) or 'none'}>"


def _joined(parts: Sequence[tuple[Points, int | None]]) -> Curve:
    steps = np.concatenate([points.steps for points, _ in parts])
    values = np.concatenate([points.values for points, _ in parts])
    elapsed = np.concatenate([points.elapsed for points, _ in parts])
    counts = np.concatenate(
        [np.full(len(points.steps), True) if end is None else points.steps < end for points, end in parts]
    )
    steps, values, elapsed = steps[counts], values[counts], elapsed[counts]
    order = np.argsort(steps, kind="stable")
    found = Curve(steps[order], values[order], elapsed[order])
    for array in (found.steps, found.values, found.elapsed):
        array.flags.writeable = False
    return found
