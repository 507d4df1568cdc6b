"""A trace on disk: `trace.save(path)`, and what `cutaway.load(path)` makes of it without torch."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError, NotFoundError, StoreError
from cutaway.graph.trace import Trace
from cutaway.store.reading.archive import Archive
from cutaway.store.traces.columns import Checked
from cutaway.store.traces.decode import trace_of
from cutaway.store.traces.encode import structure_of
from cutaway.store.traces.values import Arrays, ValueReader, ValueWriter
from cutaway.store.writing.writer import Writer

_DOCUMENT: Final = "trace"
_STRUCTURE: Final = "structure"


def save(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace into a new folder; `Trace.save` says more."""
    structure = structure_of(trace)  # first of all: whatever fails here leaves no folder behind
    with Writer(path, kind="trace") as writer:
        values = ValueWriter(writer.block)
        values.write(trace, structure.columns)
        writer.block(_STRUCTURE, structure.arrays())
        writer.document(_DOCUMENT, structure.document)  # last of all: without it, the trace is not complete
    if writer.problems:
        raise StoreError(f"the trace could not be written to {os.fspath(path)}: {'; '.join(writer.problems)}.")
    if values.lost:
        warnings.warn(_warning(values.lost), UserWarning, stacklevel=4)


def _warning(lost: Counter[str]) -> str:
    n = lost.total()
    reasons = "; ".join(f"{count:,}: {reason}" for reason, count in lost.most_common(3))
    more = f"; and {len(lost) - 3} reasons more" if len(lost) > 3 else ""
    return f"{n:,} value{'s' if n > 1 else ''} of this trace could not be saved ({reasons}{more})."


def read(archive: Archive) -> Trace:
    """The trace that an archive holds; its values are read when they are asked for."""
    blocks = archive.blocks
    try:
        document, structure = archive.document(_DOCUMENT), blocks[_STRUCTURE]
    except (NotFoundError, KeyError):
        problems = "; ".join(archive.problems)
        raise DamagedError(
            f"{archive.path} holds a trace that was not written to its end, or has lost a part since"
            f"{f' ({problems})' if problems else ''}: save the trace again, to another path."
        ) from None
    try:
        return unpacked(document, {name: structure.raw(name) for name in structure.names}, blocks, archive.path)
    except DamagedError as error:
        raise DamagedError(f"the trace in {archive.path} is damaged: {error}") from error


def unpacked(document: Any, structure: Mapping[str, Raw], blocks: Mapping[str, Arrays], path: str) -> Trace:
    """The trace that was written as these parts."""
    columns = Checked(structure)
    return trace_of(document, columns, ValueReader(columns, blocks), read_from=path)
