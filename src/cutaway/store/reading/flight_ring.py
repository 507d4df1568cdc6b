"""Reads the ring file that a killed flight recorder left: its steps become steps of the session."""

from __future__ import annotations

from zlib import crc32

from cutaway.core.errors import DamagedError
from cutaway.store.backends.backend import Backend
from cutaway.store.format.fields import count
from cutaway.store.format.filenames import FLIGHT_SEGMENT, flight_name
from cutaway.store.format.frames import Record, scan
from cutaway.store.format.records import Schema, StepRecord
from cutaway.store.reading.index import SessionIndex

_MOST_SLOTS = 65_536
_MOST_HEAD = 16 << 20
_HEAD_FRAME = 256
"""Bytes that are sure to hold the first frame."""


def add_ring(backend: Backend, index: SessionIndex) -> bool:
    """Add the steps of a session's ring file to its index; returns whether there were any.

    A step that the process was writing when it died has a wrong checksum and is left out. So is a step that the run
    has already.
    """
    index.has_flight_ring = True
    name = flight_name(index.folder, index.number)
    try:
        schemas, steps = read_ring(backend, name)
    except (DamagedError, OSError) as error:
        index.damage.append(f"{name}: the ring of the flight recorder cannot be read: {error}")
        return False
    known = {record.step for record in index.steps}
    new = [step for step in steps if step.step not in known]
    index.schemas |= {schema.id: schema for schema in schemas}
    for step in new:
        index.add_step(step)
    return bool(new)


def read_ring(backend: Backend, name: str) -> tuple[list[Schema], list[StepRecord]]:
    """The schemas and the intact steps of a ring file, in order."""
    first = scan(backend.read(name, 0, _HEAD_FRAME)).records[:1]
    if not first or first[0]["type"] != "flight":
        raise DamagedError("it does not begin with a record of type 'flight'")
    start, n_slots, slot_bytes = (count(first[0].get(key), key) for key in ("start", "n_slots", "slot_bytes"))
    if not start <= _MOST_HEAD or not n_slots <= _MOST_SLOTS or start + n_slots * slot_bytes > backend.size(name):
        raise DamagedError("its slots do not fit into the file")
    head = scan(backend.read(name, 0, start))
    schemas = {schema.id: schema for schema in map(_schema, head.records) if schema is not None}
    slots = (_step(backend, name, start + number * slot_bytes, slot_bytes, schemas) for number in range(n_slots))
    steps = sorted((step for step in slots if step is not None), key=lambda step: step.step)
    return list(schemas.values()), steps


def _schema(record: Record) -> Schema | None:
    try:
        return Schema.read(record) if record["type"] == "schema" else None
    except DamagedError:
        return None


def _step(backend: Backend, name: str, at: int, n_bytes: int, schemas: dict[int, Schema]) -> StepRecord | None:
    """The step in one slot; None if the slot is empty or was being written."""
    head = backend.read(name, at, 12)
    if head[:4] != b"CUT1" or (length := int.from_bytes(head[4:8], "little")) > n_bytes:
        return None
    n = 12 + length
    frame = scan(backend.read(name, at, n + -n % 8)).records
    try:
        step = StepRecord.read(frame[0]) if frame and frame[0]["type"] == "step" else None
    except DamagedError:
        return None
    schema = None if step is None else schemas.get(step.schema)
    if step is None or schema is None or step.matrix is None or step.matrix[0] != FLIGHT_SEGMENT:
        return None
    _, offset, checksum = step.matrix
    is_inside = at <= offset and offset + schema.matrix_bytes <= at + n_bytes
    is_intact = is_inside and crc32(backend.read(name, offset, schema.matrix_bytes)) == checksum
    return step if is_intact and step.block is None else None
