"""The structures of a run's steps: their rows, in an order that stays, and one dependency graph for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cutaway.core.errors import InputError
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.dependencies.graph import Dependencies, RecordedSite, dependencies
from cutaway.graph.trace import Trace
from cutaway.recording.environment import to_plain
from cutaway.recording.tensors import StepTensors
from cutaway.store.format.records import VALUE, Row
from cutaway.store.writing.writer import Writer

_MOST_TRIES = 3
"""Stop tracing a kind after this many traced steps that each had another structure."""
_MOST_STRUCTURES = 16
"""Largest number of structures whose rows are kept: sequences of any length have as many."""


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows of one structure."""

    recorded: list[Row]
    """As they were recorded."""
    rows: list[Row]
    """In the order of the run."""
    order: list[int]
    """Where each of `rows` is in `recorded`."""
    layouts: list[UnitLayout | None]
    """Kept, so that the ids by which they are compared are not reused."""
    _arrays: dict[tuple[int, str], Row] = field(default_factory=dict)
    _schemas: dict[tuple[object, ...], int] = field(default_factory=dict)

    def array_row(self, index: int, name: str) -> Row:
        """The row of an array of the level "full".

        Args:
            index: the row, as it was recorded, that the array belongs to.
            name: "unit" or "samples".
        """
        row = self._arrays.get((index, name))
        if row is None:
            of = self.recorded[index].of
            row = replace(self.recorded[index], of=name if of == VALUE else f"{name}/{of}")
            self._arrays[index, name] = row
        return row

    def schema(self, writer: Writer, arrays: Sequence[Row], statistics: Sequence[str], dtype: str) -> int:
        """The schema of all rows and of these arrays, which `array_row` has returned."""
        # By identity: hashing thousands of rows at every step would take milliseconds.
        key = (dtype, *map(id, arrays))
        schema = self._schemas.get(key)
        if schema is None:
            schema = self._schemas[key] = writer.schema([*self.rows, *arrays], statistics, dtype=dtype)
        return schema


class RowOrder:
    """An order of rows that stays the same over a run: gradients arrive in no fixed order.

    Remembers the rows of recent structures. Most steps of a run have the same, and to compare is cheaper than to build.
    """

    def __init__(self) -> None:
        self._positions: dict[tuple[str, str, int], int] = {}
        self._known: dict[tuple[Any, ...], StepRows] = {}

    @property
    def sites(self) -> list[str]:
        """The sites of all rows so far."""
        return [site for site, *_ in self._positions]

    def of(self, tensors: StepTensors) -> StepRows:
        """The rows of a step."""
        structure = tensors.structure()
        known = self._known.get(structure)
        if known is None:
            if len(self._known) >= _MOST_STRUCTURES:
                self._known.clear()
            known = self._known[structure] = self._sorted(tensors)
        return known

    def _sorted(self, tensors: StepTensors) -> StepRows:
        rows, positions = tensors.rows(), self._positions
        numbers = [positions.setdefault((row.site, row.of, row.iteration), len(positions)) for row in rows]
        order = sorted(range(len(rows)), key=numbers.__getitem__)
        return StepRows(rows, [rows[index] for index in order], order, [record.layout for record in tensors.records])


class StepGraphs:
    """Knows the structures seen so far, and writes each graph once."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._hashes: dict[int, str] = {}
        self._written: set[str] = set()
        self._last: dict[str, int] = {}
        self._tries: dict[str, int] = {}
        self._n_late_steps = 0
        self._is_late_new = True
        self.manual: list[tuple[str, str]] = []

    def needs_trace(self, kind: str | None) -> bool:
        """Whether to trace the next step of a kind; None if its kind becomes known only at its end."""
        if kind is None:
            # The step may be dropped: try the 1st, 2nd, 4th, 8th… until the structures that come are all known.
            self._n_late_steps += 1
            return self._is_late_new and self._n_late_steps & (self._n_late_steps - 1) == 0
        schema = self._last.get(kind)
        is_new = schema is None or schema not in self._hashes
        return is_new and self._tries.get(kind, 0) < _MOST_TRIES

    def note_step(self, kind: str, schema: int, *, has_late_kind: bool = False) -> str:
        """Note a recorded step. Returns the hash of its structure, or "" if that is unknown so far."""
        # The structure has settled, so a later change may be traced again.
        if self._last.get(kind) != schema and schema in self._hashes:
            self._tries[kind] = 0
        self._last[kind] = schema
        if has_late_kind:
            was_new, self._is_late_new = self._is_late_new, schema not in self._hashes
            if self._is_late_new and not was_new:
                self._n_late_steps = 0
        return self._hashes.get(schema, "")

    def add_traced(self, kind: str, schema: int, recorded: Sequence[RecordedSite], trace: Trace) -> None:
        """Add the graph of a traced step."""
        self._tries[kind] = self._tries.get(kind, 0) + 1
        try:
            graph = dependencies(trace, recorded, manual=self.manual)
        except InputError:
            if not self.manual:
                raise
            self.add(schema, dependencies(trace, recorded))
            raise  # an invalid run.link(): report it, but keep the rest of the graph
        self.add(schema, graph)

    def add(self, schema: int, graph: Dependencies) -> None:
        """Add the graph of a schema; write it if it is new."""
        self._hashes[schema] = graph.hash
        if graph.hash not in self._written:
            self._written.add(graph.hash)
            self._writer.document(f"structure/{graph.hash}", to_plain(graph.plain()))
