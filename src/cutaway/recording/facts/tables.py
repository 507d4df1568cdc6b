"""Writes tables that rarely change (parameter groups, modes) once, as documents of the run.

A step refers to a table by the hash of its content, so that a table that comes back is not written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from cutaway.store.format.frames import Plain
from cutaway.store.writing.writer import Writer

_Built = TypeVar("_Built")
_MOST_KNOWN = 64


class FactTables:
    """The tables that this session has written.

    Args:
        writer: takes the documents.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._written: set[str] = set()
        self.first_options: dict[Any, list[dict[str, Plain]]] = {}
        """Parameter groups → their options at the first step of their optimizer."""
        self._known: dict[Any, Any] = {}

    def remember(self, state: Hashable, build: Callable[[], _Built]) -> _Built:
        """What `build` has returned for the same state, or returns now. Most steps differ in nothing from the last.

        Args:
            state: all that the result depends on.
        """
        if state not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[state] = build()
        built: _Built = self._known[state]
        return built

    def write(self, kind: str, content: dict[str, Plain]) -> str:
        """Write a table as document `<kind>/<hash>`, once. Returns the hash."""
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        if (name := f"{kind}/{digest}") not in self._written:
            self._writer.document(name, content)
            self._written.add(name)
        return digest
