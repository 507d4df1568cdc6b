"""Scalars logged during a run, as curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import NotFoundError
from cutaway.core.formatting import listed, nearest_hint
from cutaway.store.format.records import Points
from cutaway.store.reading.index import SessionIndex
from cutaway.store.runs.series import Curve
from cutaway.store.runs.timeline import replaced_from

_MAX_LISTED = 8


class Scalars(Mapping[str, Curve]):
    """Logged scalars by name; steps that a resumed session ran again count once, with the later values."""

    def __init__(self, sessions: Sequence[SessionIndex]) -> None:
        self._points: dict[str, list[tuple[Points, int | None]]] = {}
        for index, end in zip(sessions, replaced_from(sessions), strict=True):
            for record in index.scalars:
                for name, points in record.points.items():
                    self._points.setdefault(name, []).append((points, end))
        self._curves: dict[str, Curve] = {}

    def __getitem__(self, name: str) -> Curve:
        if name not in self._points:
            near = nearest_hint(str(name), self._points)
            known = listed(map(repr, self._points), _MAX_LISTED) or "none"
            raise NotFoundError(f"no scalar {name!r} was logged.{near or f' Logged scalars: {known}.'}")
        if name not in self._curves:
            self._curves[name] = _join_points(self._points[name])
        return self._curves[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)

    def __contains__(self, name: object) -> bool:
        return name in self._points

    def table(self) -> Any:
        """One row per step and scalar: a pandas DataFrame if pandas is installed, else a list of dicts."""
        return to_dataframe(
            {"step": step, "name": name, "value": value}
            for name, curve in self.items()
            for step, value in zip(curve.steps.tolist(), curve.values.tolist(), strict=True)
        )

    def __repr__(self) -> str:
        return f"<Scalars {', '.join(self._points) or 'none'}>"


def _join_points(parts: Sequence[tuple[Points, int | None]]) -> Curve:
    steps = np.concatenate([points.steps for points, _ in parts])
    values = np.concatenate([points.values for points, _ in parts])
    elapsed = np.concatenate([points.elapsed for points, _ in parts])
    is_current = np.concatenate(
        [np.full(len(points.steps), True) if end is None else points.steps < end for points, end in parts]
    )
    steps, values, elapsed = steps[is_current], values[is_current], elapsed[is_current]
    # Stable: of several values at one step, the last one logged stays last.
    order = np.argsort(steps, kind="stable")
    curve = Curve(steps[order], values[order], elapsed[order])
    for array in (curve.steps, curve.values, curve.elapsed):
        array.flags.writeable = False
    return curve
