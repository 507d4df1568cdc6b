"""All recorded steps of a rank in order, over its sessions; a resumed session replaces the steps that it ran again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cutaway.store.format.records import STEPS, Schema, StepRecord
from cutaway.store.reading.index import SessionIndex


@dataclass(frozen=True, slots=True)
class Group:
    """Steps whose statistics are stored together: of one session, segment and schema."""

    index: SessionIndex
    segment: int
    schema: int
    steps: list[StepRecord] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    """Positions of the steps in the timeline."""


class Timeline:
    """The steps of some sessions."""

    def __init__(self, sessions: Sequence[SessionIndex]) -> None:
        current = _current_steps(sessions)
        self.indexes: list[SessionIndex] = [index for index, _ in current]
        self.records: list[StepRecord] = [record for _, record in current]
        self.steps: NDArray[np.int64] = np.fromiter((record.step for record in self.records), np.int64, len(current))
        self.steps.flags.writeable = False
        self.kinds: dict[str, NDArray[np.intp]] = _by_kind(self.records)
        self.groups = _group_steps(current)
        self.schemas: list[Schema] = _schemas(current)

    def __len__(self) -> int:
        return len(self.records)

    def position(self, step: int) -> int | None:
        """The position of a step; None if it was not recorded."""
        position = bisect_left(self.records, step, key=lambda record: record.step)
        return position if position < len(self.records) and self.records[position].step == step else None

    def nearest(self, step: int, n: int = 3) -> list[int]:
        """The recorded steps nearest to a step."""
        position = bisect_left(self.records, step, key=lambda record: record.step)
        around = (record.step for record in self.records[max(position - n, 0) : position + n])
        return sorted(sorted(around, key=lambda other: abs(other - step))[:n])

    def keys(self) -> set[tuple[int, int]]:
        """Session and number of every step."""
        return {(index.number, record.step) for index, record in zip(self.indexes, self.records, strict=True)}


def first_step(index: SessionIndex) -> int | None:
    """The first step that a session wrote anything for; None if there is none."""
    firsts = [index.steps[0].step] if index.steps else []
    # Scalars count, too: a session may log for many steps before the first one that it records.
    firsts += [int(points.steps.min()) for record in index.scalars[:1] for points in record.points.values()
               if len(points.steps)]  # fmt: skip
    return min(firsts, default=None)


def replaced_from(sessions: Sequence[SessionIndex]) -> list[int | None]:
    """For each session, the first step that a later session replaces; None if none does."""
    ends: list[int | None] = []
    end: int | None = None
    # Backwards, because a session is replaced by all later ones: the smallest of their first steps counts.
    for index in reversed(sessions):
        ends.append(end)
        first = first_step(index)
        if first is not None:
            end = first if end is None else min(end, first)
    return ends[::-1]


def lost_steps(sessions: Sequence[SessionIndex]) -> tuple[int, ...]:
    """The steps that could not be written and that no later session has run again, in order."""
    lost = {
        step
        for index, end in zip(sessions, replaced_from(sessions), strict=True)
        for loss in index.losses
        if loss.what == STEPS
        for step in loss.steps
        if end is None or step < end
    }
    # A step whose fsync failed is in the index all the same.
    return tuple(sorted(lost - {record.step for _, record in _current_steps(sessions)}))


def _current_steps(sessions: Sequence[SessionIndex]) -> list[tuple[SessionIndex, StepRecord]]:
    return [
        (index, record)
        for index, end in zip(sessions, replaced_from(sessions), strict=True)
        for record in index.steps
        if end is None or record.step < end
    ]


def _by_kind(records: Sequence[StepRecord]) -> dict[str, NDArray[np.intp]]:
    positions: dict[str, list[int]] = {}
    for position, record in enumerate(records):
        positions.setdefault(record.kind, []).append(position)
    return {kind: np.asarray(numbers, np.intp) for kind, numbers in positions.items()}


def _schemas(current: Sequence[tuple[SessionIndex, StepRecord]]) -> list[Schema]:
    """The schemas of these steps, in order of first occurrence; skips lost ones."""
    used = {(index.number, record.schema): index for index, record in current}
    schemas = (index.schemas.get(id_) for (_, id_), index in used.items())
    return [schema for schema in schemas if schema is not None]


def _group_steps(current: Sequence[tuple[SessionIndex, StepRecord]]) -> list[Group]:
    groups: dict[tuple[int, int, int], Group] = {}
    for position, (index, record) in enumerate(current):
        if record.matrix is None:
            continue
        key = (index.number, record.matrix[0], record.schema)
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(index, record.matrix[0], record.schema)
        group.steps.append(record)
        group.positions.append(position)
    return list(groups.values())
