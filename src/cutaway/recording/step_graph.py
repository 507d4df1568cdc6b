"""The dependency graphs of a run: one for each distinct structure of its steps, found by tracing one step of it."""

from __future__ import annotations

from collections.abc import Sequence

from cutaway.core.errors import InputError
from cutaway.graph.dependencies.graph import Dependencies, Recorded, dependencies
from cutaway.graph.trace import Trace
from cutaway.recording.environment import to_plain
from cutaway.store.writing.writer import Writer

_MOST_TRIES = 3
"""How many steps of a kind are traced in vain (each has another structure) before that is left."""


class StepGraphs:
    """Knows which structures were seen, and writes each graph once."""

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
        """Whether the next step of a kind is to be traced; None if its kind shows only later, and it may be dropped."""
        if kind is None:
            # Nobody knows whether it will be kept: tried at the 1st, 2nd, 4th, 8th… until what came was all known.
            self._n_late_steps += 1
            return self._is_late_new and self._n_late_steps & (self._n_late_steps - 1) == 0
        schema = self._last.get(kind)
        is_new = schema is None or schema not in self._hashes
        return is_new and self._tries.get(kind, 0) < _MOST_TRIES

    def note_step(self, kind: str, schema: int, *, has_late_kind: bool = False) -> str:
        """A step of this schema was recorded; the hash of its structure, "" if that is not known (yet)."""
        if self._last.get(kind) != schema and schema in self._hashes:
            self._tries[kind] = 0
        self._last[kind] = schema
        if has_late_kind:
            was_new, self._is_late_new = self._is_late_new, schema not in self._hashes
            if self._is_late_new and not was_new:
                self._n_late_steps = 0
        return self._hashes.get(schema, "")

    def add_traced(self, kind: str, schema: int, recorded: Sequence[Recorded], trace: Trace) -> None:
        """A step of this schema was traced as well."""
        self._tries[kind] = self._tries.get(kind, 0) + 1
        try:
            graph = dependencies(trace, recorded, manual=self.manual)
        except InputError:
            if not self.manual:
                raise
            self.add(schema, dependencies(trace, recorded))
            raise  # a wrong link of the user's own: said, and the rest of the graph is there
        self.add(schema, graph)

    def add(self, schema: int, graph: Dependencies) -> None:
        """The graph of a schema: written if it is a new one."""
        self._hashes[schema] = graph.hash
        if graph.hash not in self._written:
            self._written.add(graph.hash)
            self._writer.document(f"structure/{graph.hash}", to_plain(graph.plain()))
