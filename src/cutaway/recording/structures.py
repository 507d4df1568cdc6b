"""The dependency graphs of a run: one for each distinct structure of its steps, found by tracing one step of it."""

from __future__ import annotations

from collections.abc import Sequence

from cutaway.graph.dependencies import Dependencies, Recorded, dependencies
from cutaway.graph.trace import Trace
from cutaway.recording.environment import plain
from cutaway.store.writer import Writer

_MOST_TRIES = 3
"""How many steps of a kind are traced in vain (each has another structure) before that is left."""


class Structures:
    """Knows which structures were seen, and writes each graph once."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._hashes: dict[int, str] = {}
        self._written: set[str] = set()
        self._last: dict[str, int] = {}
        self._tries: dict[str, int] = {}
        self.manual: list[tuple[str, str]] = []

    def is_wanted(self, kind: str) -> bool:
        """Whether the next step of a kind is to be traced."""
        schema = self._last.get(kind)
        is_new = schema is None or schema not in self._hashes
        return is_new and self._tries.get(kind, 0) < _MOST_TRIES

    def seen(self, kind: str, schema: int) -> str:
        """A step of this schema was recorded; the hash of its structure, "" if that is not known (yet)."""
        if self._last.get(kind) != schema and schema in self._hashes:
            self._tries[kind] = 0
        self._last[kind] = schema
        return self._hashes.get(schema, "")

    def traced(self, kind: str, schema: int, recorded: Sequence[Recorded], trace: Trace) -> None:
        """A step of this schema was traced as well."""
        self._tries[kind] = self._tries.get(kind, 0) + 1
        self.known(schema, dependencies(trace, recorded, manual=self.manual))

    def known(self, schema: int, graph: Dependencies) -> None:
        """The graph of a schema: written if it is a new one."""
        self._hashes[schema] = graph.hash
        if graph.hash not in self._written:
            self._written.add(graph.hash)
            self._writer.document(f"structure/{graph.hash}", plain(graph.plain()))
