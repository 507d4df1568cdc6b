"""Writes the files of one session: segments first, then the frame that refers to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic, time
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Raw
from cutaway.core.errors import LeaseError
from cutaway.store.backends.backend import Backend
from cutaway.store.format.filenames import INDEX, session_stem, statistics_stem, values_stem
from cutaway.store.format.frames import encode
from cutaway.store.format.records import Block, BlockRecord, Layout, Schema, Seal, Session, StepRecord
from cutaway.store.format.segments import BlockContents, Limits, ValuesSegment
from cutaway.store.format.statistic_segments import StatisticsSegment
from cutaway.store.writing.lost import kind_of, reason_of
from cutaway.store.writing.reserve import Reserve

_MAX_LAYOUTS = 4096
_MAX_REPEATED = 32
_MAX_PROBLEMS = 100
_LayoutKey = tuple[int, tuple[int, ...], tuple[str, ...], tuple[tuple[int, ...], ...]]


class SessionFiles:
    """Writes one session of one rank, without threads. A failed call raises and loses only its own data.

    Args:
        guard: raises if this session may no longer write. Called before files are renamed or removed, because another
            session could own files of these names by then.
    """

    def __init__(
        self,
        backend: Backend,
        folder: str,
        *,
        session: Session,
        limits: Limits,
        fsync: bool,
        guard: Callable[[], None],
    ) -> None:
        self.reserve = Reserve(backend, folder, session.number)
        """Room for the records of what is lost."""
        self.problems: deque[tuple[str, str]] = deque(maxlen=_MAX_PROBLEMS)
        """(message, cause) of failures without data loss, for the owner to report."""
        self._backend = backend
        self._folder = folder
        self._session = session.number
        self._limits = limits
        self._fsync = fsync
        self._guard = guard
        self._began = monotonic()
        self._schemas: dict[int, Schema] = {}
        self._written: set[int] = set()
        self._layouts: dict[_LayoutKey, tuple[Layout, BlockContents]] = {}
        self._n_layouts = 0
        self._values: ValuesSegment | None = None
        self._n_values = 0
        self._matrices: StatisticsSegment | None = None
        self._n_matrices = 0
        self._pending_seals: deque[tuple[bytes, Callable[[], None]]] = deque()
        """Seal records that are not in the index yet, each with a callback for afterwards."""
        name = session_stem(folder, session.number) + INDEX
        self._index = backend.append(name)
        try:
            self.record(session.to_record())
        except BaseException:
            with suppress(OSError):
                self._index.close()
                backend.remove(name)
            raise

    def record(self, record: Mapping[str, Any]) -> None:
        """Append a record without arrays."""
        self.append(encode(record))

    def append(self, frame: bytes) -> None:
        """Append an encoded frame. Once this returns, the frame is written and must not be retried."""
        self._write(frame)
        try:
            self._sync()
        except OSError as error:
            message = "the data may not survive a power loss"
            self.problems.append((f"{message}: {reason_of(error)}", kind_of(error)))

    def schema(self, schema: Schema) -> None:
        """Register a schema; it is written before the first step that needs it."""
        self._schemas[schema.id] = schema

    def step(self, about: StepRecord, matrix: NDArray[np.generic] | None, values: Mapping[int, Raw]) -> None:
        """Append a step; once this returns, it survives the death of the process."""
        schema = self._schema_of(about.schema)
        # Data first, then the frame that refers to it: whatever a crash leaves behind, no frame points to nothing.
        block = self._write_values(schema, values, str(about.step)) if values else None
        location: tuple[int, int, int] | None = None
        try:
            if matrix is not None:
                segment = self._matrices_with_room()
                location = (segment.number, *segment.write(schema, about.step, matrix))
            record = StepRecord(
                about.step, about.kind, about.time, about.elapsed, about.schema, location, block, about.about
            )
            self._publish(record.to_record(), is_statistics=location is not None, has_values=block is not None)
        except BaseException:
            if block is not None and self._values is not None:
                self._values.forget_last()
            if location is not None and self._matrices is not None:
                self._matrices.forget_last(about.schema)
            raise
        self._sync()  # it is in the index now: if this fails, it must not be disowned

    def block(self, name: str, schema: int, values: Mapping[int, Raw], about: Mapping[str, Any]) -> None:
        """Append a named block of arrays."""
        block = self._write_values(self._schema_of(schema), values, name)
        try:
            self._publish(BlockRecord(name, block, about).to_record(), is_statistics=False, has_values=True)
        except BaseException:
            if self._values is not None:
                self._values.forget_last()
            raise
        self._sync()

    def close(self, *, is_whole: bool = True, is_full: bool = False) -> None:
        """Seal open segments and write the end record.

        Args:
            is_whole: False if there are losses that the index lacks: then there is no end record.
            is_full: whether the disk is full: segments stay `.part` files, which leaves room for the end record.
        """
        try:
            if not is_full:
                self._seal_values()
                self._seal_matrices()
            if is_whole:
                self.record({"type": "end", "time": time(), "elapsed": self.elapsed})
        finally:
            self.close_files()

    def close_files(self) -> None:
        """Close the files as they are; they stay readable."""
        self.reserve.close()
        for file in (self._values, self._matrices, self._index):
            if file is not None:
                with suppress(OSError):
                    file.close()

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the session, on a monotonic clock."""
        return monotonic() - self._began

    def _write(self, frame: bytes) -> None:
        # Before any other record, so that the index tells about a sealed file as soon as it can be written again.
        while self._pending_seals:
            frame_owed, then = self._pending_seals[0]
            self._index.write([frame_owed])
            self._pending_seals.popleft()
            self._sync()  # before the callback removes files
            then()
        self._index.write([frame])

    def _sync(self) -> None:
        if self._fsync:
            self._index.sync()

    def _schema_of(self, id_: int) -> Schema:
        schema = self._schemas[id_]
        if id_ not in self._written:
            self.record(schema.to_record())
            self._written.add(id_)
        return schema

    def _publish(self, record: Mapping[str, Any], *, is_statistics: bool, has_values: bool) -> None:
        frame = encode(record)
        if self._fsync:  # the data must be on disk before the frame that refers to it
            if has_values and self._values is not None:
                self._values.sync()
            if is_statistics and self._matrices is not None:
                self._matrices.sync()
        self._write(frame)

    def _write_values(self, schema: Schema, values: Mapping[int, Raw], prefix: str) -> Block:
        layout, contents = self._layout_of(schema, values)
        parts = list(values.values())
        prefix = _clean(prefix)
        segment = self._values_with_room(prefix, contents)
        checksums = np.fromiter((crc32(part.data) for part in parts), "<u4", len(parts)).tobytes()
        return Block(layout.id, segment.number, segment.write(prefix, contents, parts), checksums)

    def _layout_of(self, schema: Schema, values: Mapping[int, Raw]) -> tuple[Layout, BlockContents]:
        parts = values.values()
        key = (schema.id, tuple(values), tuple(part.dtype for part in parts), tuple(part.shape for part in parts))
        cached = self._layouts.get(key)
        if cached is None:
            layout = Layout(self._n_layouts + 1, *key)
            names = tuple(_clean(schema.rows[row].key) for row in layout.rows)
            self.record(layout.to_record())
            self._n_layouts += 1
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.pop(next(iter(self._layouts)))
            cached = self._layouts[key] = layout, BlockContents(names, layout.dtypes, layout.shapes, layout.starts)
        return cached

    def _values_with_room(self, prefix: str, contents: BlockContents) -> ValuesSegment:
        if self._values is not None and not self._values.has_room(prefix, contents):
            self._seal_values()
        if self._values is None:
            self._guard()  # a deleted folder must not come back as one with a single file
            number = self._n_values + 1
            stem = values_stem(self._folder, self._session, number)
            try:
                self._values = ValuesSegment(self._backend, stem, number, self._limits, first=(prefix, contents))
            except FileExistsError:
                self._n_values = number  # another session's file stays; the next attempt uses another name
                raise
            self._n_values = number
        return self._values

    def _matrices_with_room(self) -> StatisticsSegment:
        if self._matrices is not None and self._matrices.is_full:
            self._seal_matrices()
        if self._matrices is None:
            self._guard()
            number = self._n_matrices + 1
            stem = statistics_stem(self._folder, self._session, number)
            try:
                self._matrices = StatisticsSegment(self._backend, stem, number, self._limits)
            except FileExistsError:
                self._n_matrices = number
                raise
            self._n_matrices = number
        return self._matrices

    def _seal_values(self) -> None:
        segment = self._values
        if segment is None:
            return
        # Sealing renames and removes files. A session that was taken over must leave them to its successor.
        self._guard()
        self._values = None
        if segment.is_empty:
            segment.drop()
            return
        try:
            size, head = segment.seal(fsync=self._fsync)
        except Exception as error:
            segment.close()
            self._report_unsealed(segment.number, "values", error)
            return
        self._write_seal(Seal(segment.number, False, size, head), lambda: None)

    def _seal_matrices(self) -> None:
        segment = self._matrices
        if segment is None:
            return
        self._guard()
        self._matrices = None
        if segment.is_empty:
            segment.drop()
            return
        try:
            seal = segment.seal(fsync=self._fsync)
        except Exception as error:
            segment.close()
            self._report_unsealed(segment.number, "statistics", error)
            return
        self._write_seal(seal, lambda: self._drop(segment))

    def _drop(self, segment: StatisticsSegment) -> None:
        """Remove the growing file of a sealed segment; may run much later than the sealing."""
        with suppress(LeaseError, OSError):
            self._guard()
            segment.drop()

    def _report_unsealed(self, number: int, what: str, error: Exception) -> None:
        message = f"segment {number} of {what} could not be sealed and stays a .part file, which Cutaway can read"
        self.problems.append((f"{message}: {reason_of(error)}", kind_of(error)))

    def _write_seal(self, seal: Seal, then: Callable[[], None]) -> None:
        """Write a seal record, now or before the next record, and repeat schemas and layouts.

        Repeating them limits the cost of a single damaged record.
        """
        self._pending_seals.append((encode(seal.to_record()), then))
        with suppress(OSError):
            for id_ in sorted(self._written)[-_MAX_REPEATED:]:
                self.record(self._schemas[id_].to_record())
            for layout, _ in list(self._layouts.values())[-_MAX_REPEATED:]:
                self.record(layout.to_record())


def _clean(name: str) -> str:
    """Escape lone surrogates, which other tools reject."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()
