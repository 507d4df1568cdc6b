"""Ring file of the flight recorder: memory-mapped, so that it survives `kill -9`.

The file has a head of frames (sizes, then schemas) and slots of equal size. A slot holds the frame of a step, then its
matrix of statistics. What is stored in a mapping is in the page cache at once: no system call is needed for a step,
and the death of the process loses nothing but the slot that was being written.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from secrets import token_hex
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.store.backends.backend import Backend
from cutaway.store.backends.local import LocalBackend
from cutaway.store.format.filenames import FLIGHT_SEGMENT, flight_name
from cutaway.store.format.frames import encode
from cutaway.store.format.records import Schema, StepRecord

FIRST_SCHEMA = 1 << 31
"""Ids of schemas in a ring count from here, so that they are not those of the session's index."""
_HEAD_BYTES = 1 << 14
_FRAME_BYTES = 4096
"""Room for the frame of a step; its texts are cut by whoever writes them."""


class FlightRing:
    """The ring file of one session. It grows if a step needs more room than the steps before.

    Args:
        backend: the archive, which must be a local folder.
        folder: the folder of the rank.
        session: the number of the session.
        n_slots: how many steps it holds.
    """

    def __init__(self, backend: Backend, folder: str, session: int, n_slots: int) -> None:
        if not isinstance(backend, LocalBackend):
            raise InputError(
                f"flight='disk' needs a local folder, and the run is at {backend.url}: pass flight=True to keep the "
                "ring in memory."
            )
        self._path = os.path.join(backend.url, flight_name(folder, session))
        self._n_slots = n_slots
        self._pid = os.getpid()
        self._map: mmap.mmap | None = None
        self._start = 0
        self._slot_bytes = 0
        self._head_end = 0
        self._schemas: dict[tuple[object, ...], Schema] = {}
        self._contents: dict[int, tuple[StepRecord, Schema, NDArray[np.float32]]] = {}
        """Slot → what it holds, for a larger file."""

    def put(self, slot: int, record: StepRecord, schema: Schema, matrix: NDArray[np.float32]) -> None:
        """Write a step into a slot, replacing the step in it.

        Args:
            record: the step, without its matrix.
            schema: the rows and statistics; its id does not matter.
        """
        if os.getpid() != self._pid:  # a forked child shares the mapping
            return
        schema = self._with_id(schema)
        self._contents[slot] = (record, schema, matrix)
        if self._map is None or not self._fits(schema, matrix) or not self._write(slot):
            self._rebuild()

    def _with_id(self, schema: Schema) -> Schema:
        key = (schema.rows, schema.statistics)
        known = self._schemas.get(key)
        if known is None:
            known = Schema(FIRST_SCHEMA + len(self._schemas), schema.rows, schema.statistics, "float32")
            self._schemas[key] = known
        return known

    def _fits(self, schema: Schema, matrix: NDArray[np.float32]) -> bool:
        """Whether the step has room; writes its schema if the file lacks it."""
        if schema.id >= self._next_schema:
            frame = encode(schema.to_record())
            if self._head_end + len(frame) > self._start:
                return False
            self._append_schema(frame, schema)
        return _FRAME_BYTES + matrix.nbytes <= self._slot_bytes

    def _append_schema(self, frame: bytes, schema: Schema) -> None:
        assert self._map is not None
        self._map[self._head_end : self._head_end + len(frame)] = frame
        self._head_end += len(frame)
        self._next_schema = schema.id + 1

    def _write(self, slot: int) -> bool:
        """Write a slot; False if its frame is too long."""
        assert self._map is not None
        record, schema, matrix = self._contents[slot]
        at = self._start + slot * self._slot_bytes
        offset = at + self._slot_bytes - matrix.nbytes
        data = matrix.tobytes()
        located = StepRecord(
            record.step, record.kind, record.time, record.elapsed, schema.id,
            (FLIGHT_SEGMENT, offset, crc32(data)), None, record.about,
        )  # fmt: skip
        frame = encode(located.to_record())
        if at + len(frame) > offset:
            return False
        # In this order, whatever moment a kill comes at: the old step is void, then the matrix, then the frame.
        self._map[at : at + 4] = bytes(4)
        self._map[offset : offset + len(data)] = data
        self._map[at : at + len(frame)] = frame
        return True

    def _rebuild(self) -> None:
        """Make a new file with room for everything, and put it in the place of the old one."""
        schemas = [encode(schema.to_record()) for schema in self._schemas.values()]
        start = max(_HEAD_BYTES, 2 * sum(map(len, schemas)) + 256)
        largest = max(matrix.nbytes for _, _, matrix in self._contents.values())
        slot_bytes = _FRAME_BYTES + largest + (largest >> 2)
        self._start, self._slot_bytes = start + -start % 8, slot_bytes + -slot_bytes % 8
        temporary = os.path.join(os.path.dirname(self._path), f".tmp-{token_hex(8)}")
        size = self._start + self._n_slots * self._slot_bytes
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            # Allocated, not sparse: a store into a page that a full disk cannot back would kill the process.
            os.posix_fallocate(descriptor, 0, size) if hasattr(os, "posix_fallocate") else os.ftruncate(
                descriptor, size
            )
            self._map = mmap.mmap(descriptor, size)
            sizes = {"start": self._start, "n_slots": self._n_slots, "slot_bytes": self._slot_bytes}
            frame = encode({"type": "flight", **sizes})
            self._map[: len(frame)] = frame
            self._head_end, self._next_schema = len(frame), FIRST_SCHEMA
            for encoded, schema in zip(schemas, self._schemas.values(), strict=True):
                self._append_schema(encoded, schema)
            for slot in self._contents:
                self._write(slot)
            os.replace(temporary, self._path)
        except BaseException:
            self._map = None
            with suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            os.close(descriptor)

    _next_schema = FIRST_SCHEMA
    """The id of the next schema that the file lacks."""

    def remove(self) -> None:
        """Remove the file: everything that is to be kept is in the run. Idempotent."""
        if os.getpid() != self._pid:
            return
        self._map = None
        self._contents.clear()
        with suppress(OSError):
            os.unlink(self._path)
