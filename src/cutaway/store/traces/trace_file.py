"""Saves a trace to an archive, and reads it back without torch."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError, NotFoundError, StoreError
from cutaway.core.formatting import plural
from cutaway.graph.trace import Trace
from cutaway.store.reading.archive import Archive
from cutaway.store.traces.columns import ColumnReader
from cutaway.store.traces.decode import trace_of
from cutaway.store.traces.encode import EXPANDED_VERSION, Structure, structure_of
from cutaway.store.traces.origin import DOCUMENT
from cutaway.store.traces.values import Arrays, ValueReader, ValueWriter
from cutaway.store.writing.writer import Writer

_STRUCTURE: Final = "structure"


def save(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace to a new folder; see `Trace.save`."""
    structure = structure_of(trace)  # first, so that a failure leaves no folder behind
    with Writer(path, kind="trace") as writer:
        values = encode_values(trace, structure, writer.block)
        writer.block(_STRUCTURE, structure.arrays())
        writer.document(DOCUMENT, structure.document)  # last: its presence marks the trace as complete
    if writer.problems:
        raise StoreError(f"cannot write the trace to {os.fspath(path)}: {'; '.join(writer.problems)}.")
    if values.lost:
        warnings.warn(_warning(values.lost), UserWarning, stacklevel=4)


def encode_values(trace: Trace, structure: Structure, put: Callable[[str, Mapping[str, Raw]], object]) -> ValueWriter:
    """Pass the values to `put`, block by block, and complete the structure."""
    values = ValueWriter(put)
    values.write(trace, structure.columns)
    if values.has_expanded:
        structure.document["version"] = EXPANDED_VERSION
    return values


def _warning(lost: Counter[str]) -> str:
    reasons = "; ".join(f"{count:,}: {reason}" for reason, count in lost.most_common(3))
    more = f"; and {len(lost) - 3} more reasons" if len(lost) > 3 else ""
    return f"{plural(lost.total(), 'value')} of this trace could not be saved ({reasons}{more})."


def read(archive: Archive) -> Trace:
    """Read the trace in an archive; its values are read on access."""
    blocks = archive.blocks
    try:
        document, structure = archive.document(DOCUMENT), blocks[_STRUCTURE]
    except (NotFoundError, KeyError):
        damage = "; ".join(archive.damage)
        raise DamagedError(
            f"the trace in {archive.path} was not saved completely, or is damaged"
            f"{f' ({damage})' if damage else ''}. Save the trace again, to another path."
        ) from None
    try:
        return decode_trace(document, {name: structure.raw(name) for name in structure.names}, blocks, archive.path)
    except DamagedError as error:
        raise DamagedError(f"the trace in {archive.path} is damaged: {error}") from error


def decode_trace(document: Any, structure: Mapping[str, Raw], blocks: Mapping[str, Arrays], path: str) -> Trace:
    """Decode a trace from its parts."""
    columns = ColumnReader(structure)
    return trace_of(document, columns, ValueReader(columns, blocks), read_from=path)
