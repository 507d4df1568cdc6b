"""Dependency graphs of a run: one per distinct structure of its steps."""

from __future__ import annotations

from collections.abc import Sequence

from cutaway.core.errors import InputError
from cutaway.graph.dependencies.graph import Dependencies, RecordedSite, dependencies
from cutaway.graph.trace import Trace
from cutaway.recording.environment import to_plain
from cutaway.store.writing.writer import Writer

_MOST_TRIES = 3
"""Stop tracing a kind after this many traced steps that each had another structure."""


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
