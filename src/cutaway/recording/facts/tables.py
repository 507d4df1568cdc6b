"""Writes tables that rarely change (parameter groups, modes) once, as documents of the run.

A step refers to a table by the hash of its content, so that a table that comes back is not written again.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from cutaway.store.format.frames import Plain
from cutaway.store.writing.writer import Writer


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

    def write(self, kind: str, content: dict[str, Plain]) -> str:
        """Write a table as document `<kind>/<hash>`, once. Returns the hash."""
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        if (name := f"{kind}/{digest}") not in self._written:
            self._writer.document(name, content)
            self._written.add(name)
        return digest
