"""All recorded steps of a rank in order, over its sessions: a resumed session takes the place of what it ran again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cutaway.store.reading.index import SessionIndex
from cutaway.store.format.records import Schema, StepRecord


@dataclass(frozen=True, slots=True)
class Group:
    """Steps whose statistics lie together: of one session, one segment and one schema."""

    index: SessionIndex
    segment: int
    schema: int
    steps: list[StepRecord] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Where each of them stands in the timeline."""


class Timeline:
    """The steps of some sessions."""

    def __init__(self, sessions: Sequence[SessionIndex]) -> None:
        kept = _unshadowed(sessions)
        self.indexes: list[SessionIndex] = [index for index, _ in kept]
        self.records: list[StepRecord] = [record for _, record in kept]
        self.steps: NDArray[np.int64] = np.fromiter((record.step for record in self.records), np.int64, len(kept))
        self.steps.flags.writeable = False
        self.kinds: dict[str, NDArray[np.intp]] = _by_kind(self.records)
        self.groups = _grouped(kept)
        self.schemas: list[Schema] = _schemas(kept)

    def __len__(self) -> int:
        return len(self.records)

    def place(self, step: int) -> int | None:
        """Where a step stands; None if it was not recorded."""
        place = bisect_left(self.records, step, key=lambda record: record.step)
        return place if place < len(self.records) and self.records[place].step == step else None

    def nearest(self, step: int, n: int = 3) -> list[int]:
        """The recorded steps nearest to one that was not."""
        place = bisect_left(self.records, step, key=lambda record: record.step)
        around = (record.step for record in self.records[max(place - n, 0) : place + n])
        return sorted(sorted(around, key=lambda found: abs(found - step))[:n])

    def lasts(self) -> dict[int, int]:
        """Session → its last step here."""
        return {index.number: record.step for index, record in zip(self.indexes, self.records, strict=True)}


def first_step(index: SessionIndex) -> int | None:
    """The first step a session wrote anything of; None if it wrote none."""
    firsts = [index.steps[0].step] if index.steps else []
    firsts += [int(points.steps.min()) for record in index.scalars[:1] for points in record.points.values()
               if len(points.steps)]  # fmt: skip
    return min(firsts, default=None)


def ends(sessions: Sequence[SessionIndex]) -> list[int | None]:
    """For each session the step from which on a later one counts instead; None if none does."""
    found: list[int | None] = []
    end: int | None = None
    for index in reversed(sessions):
        found.append(end)
        first = first_step(index)
        if first is not None:
            end = first if end is None else min(end, first)
    return found[::-1]


def _unshadowed(sessions: Sequence[SessionIndex]) -> list[tuple[SessionIndex, StepRecord]]:
    return [
        (index, record)
        for index, end in zip(sessions, ends(sessions), strict=True)
        for record in index.steps
        if end is None or record.step < end
    ]


def _by_kind(records: Sequence[StepRecord]) -> dict[str, NDArray[np.intp]]:
    places: dict[str, list[int]] = {}
    for place, record in enumerate(records):
        places.setdefault(record.kind, []).append(place)
    return {kind: np.asarray(found, np.intp) for kind, found in places.items()}


def _schemas(kept: Sequence[tuple[SessionIndex, StepRecord]]) -> list[Schema]:
    """The schemas of these steps, in the order they first were; those that are lost are left out."""
    used = {(index.number, record.schema): index for index, record in kept}
    found = (index.schemas.get(id_) for (_, id_), index in used.items())
    return [schema for schema in found if schema is not None]


def _grouped(kept: Sequence[tuple[SessionIndex, StepRecord]]) -> list[Group]:
    groups: dict[tuple[int, int, int], Group] = {}
    for place, (index, record) in enumerate(kept):
        if record.matrix is None:
            continue
        key = (index.number, record.matrix[0], record.schema)
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(index, record.matrix[0], record.schema)
        group.steps.append(record)
        group.places.append(place)
    return list(groups.values())
