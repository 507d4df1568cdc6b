"""The files of one session, as they are written: segments first, then the frame that makes their content known."""

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
from cutaway.store.format.segments import Contents, Limits, ValuesSegment
from cutaway.store.format.statistic_segments import StatisticsSegment
from cutaway.store.writing.lost import kind_of, reason_of

_MOST_LAYOUTS = 4096
_MOST_REPEATED = 32
_MOST_PROBLEMS = 100
_LayoutKey = tuple[int, tuple[int, ...], tuple[str, ...], tuple[tuple[int, ...], ...]]


class Log:
    """Writes one session of one rank. It knows nothing of threads; what fails raises, and costs only itself.

    Args:
        guard: raises if this session may no longer write. Asked before files get other names or are removed: another
            session could have files of these names by then.
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
        self.problems: deque[tuple[str, str]] = deque(maxlen=_MOST_PROBLEMS)
        """What went wrong without a loss, and what kind of failure it was, for whoever owns this log to tell."""
        self._backend = backend
        self._folder = folder
        self._session = session.number
        self._limits = limits
        self._fsync = fsync
        self._guard = guard
        self._began = monotonic()
        self._schemas: dict[int, Schema] = {}
        self._written: set[int] = set()
        self._layouts: dict[_LayoutKey, tuple[Layout, Contents]] = {}
        self._n_layouts = 0
        self._values: ValuesSegment | None = None
        self._n_values = 0
        self._matrices: StatisticsSegment | None = None
        self._n_matrices = 0
        self._owed: deque[tuple[bytes, Callable[[], None]]] = deque()
        """Seals that the index does not know of yet, and what to do when it does."""
        name = session_stem(folder, session.number) + INDEX
        self._index = backend.append(name)
        try:
            self.record(session.packed())
        except BaseException:
            with suppress(OSError):
                self._index.close()
                backend.remove(name)
            raise

    def record(self, record: Mapping[str, Any]) -> None:
        """Append a record that has nothing but itself."""
        self.append(encode(record))

    def append(self, frame: bytes) -> None:
        """Append a frame that is already made. It is written once this returns, and nobody must try it again."""
        self._write(frame)
        try:
            self._sync()
        except OSError as error:
            said = "what was written may not survive a loss of power"
            self.problems.append((f"{said}: {reason_of(error)}", kind_of(error)))

    def schema(self, schema: Schema) -> None:
        """Announce a schema; it is written before the first step that needs it."""
        self._schemas[schema.id] = schema

    def step(self, about: StepRecord, matrix: NDArray[np.generic] | None, values: Mapping[int, Raw]) -> None:
        """Append a step; when this returns, it survives the death of the process."""
        schema = self._schema_of(about.schema)
        block = self._place(schema, values, str(about.step)) if values else None
        place: tuple[int, int, int] | None = None
        try:
            if matrix is not None:
                segment = self._matrices_with_room()
                place = (segment.number, *segment.write(schema, about.step, matrix))
            record = StepRecord(
                about.step, about.kind, about.time, about.elapsed, about.schema, place, block, about.about
            )
            self._publish(record.packed(), is_statistics=place is not None, has_values=block is not None)
        except BaseException:
            if block is not None and self._values is not None:
                self._values.disown()
            if place is not None and self._matrices is not None:
                self._matrices.disown(about.schema)
            raise
        self._sync()  # it is in the index now, and must not be disowned if this fails

    def block(self, name: str, schema: int, values: Mapping[int, Raw], about: Mapping[str, Any]) -> None:
        """Append a named block of arrays."""
        block = self._place(self._schema_of(schema), values, name)
        try:
            self._publish(BlockRecord(name, block, about).packed(), is_statistics=False, has_values=True)
        except BaseException:
            if self._values is not None:
                self._values.disown()
            raise
        self._sync()

    def close(self, *, is_whole: bool = True) -> None:
        """Seal what is open and say that this is the end; not that, if there are losses the index does not know of."""
        try:
            self._seal_values()
            self._seal_matrices()
            if is_whole:
                self.record({"type": "end", "time": time(), "elapsed": self.elapsed})
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Close the files as they are; they stay readable."""
        for file in (self._values, self._matrices, self._index):
            if file is not None:
                with suppress(OSError):
                    file.close()

    @property
    def elapsed(self) -> float:
        """Seconds since the session began, by a clock that cannot jump."""
        return monotonic() - self._began

    def _write(self, frame: bytes) -> None:
        while self._owed:
            owed, then = self._owed[0]
            self._index.write([owed])
            self._owed.popleft()
            self._sync()  # before anything is removed
            then()
        self._index.write([frame])

    def _sync(self) -> None:
        if self._fsync:
            self._index.sync()

    def _schema_of(self, id_: int) -> Schema:
        schema = self._schemas[id_]
        if id_ not in self._written:
            self.record(schema.packed())
            self._written.add(id_)
        return schema

    def _publish(self, record: Mapping[str, Any], *, is_statistics: bool, has_values: bool) -> None:
        frame = encode(record)
        if self._fsync:  # what the frame points to comes first
            if has_values and self._values is not None:
                self._values.sync()
            if is_statistics and self._matrices is not None:
                self._matrices.sync()
        self._write(frame)

    def _place(self, schema: Schema, values: Mapping[int, Raw], prefix: str) -> Block:
        layout, contents = self._layout_of(schema, values)
        parts = list(values.values())
        prefix = _clean(prefix)
        segment = self._values_with_room(prefix, contents)
        checksums = np.fromiter((crc32(part.data) for part in parts), "<u4", len(parts)).tobytes()
        return Block(layout.id, segment.number, segment.write(prefix, contents, parts), checksums)

    def _layout_of(self, schema: Schema, values: Mapping[int, Raw]) -> tuple[Layout, Contents]:
        parts = values.values()
        key = (schema.id, tuple(values), tuple(part.dtype for part in parts), tuple(part.shape for part in parts))
        found = self._layouts.get(key)
        if found is None:
            layout = Layout(self._n_layouts + 1, *key)
            names = tuple(_clean(schema.rows[row].key) for row in layout.rows)
            self.record(layout.packed())
            self._n_layouts += 1
            if len(self._layouts) >= _MOST_LAYOUTS:
                self._layouts.pop(next(iter(self._layouts)))
            found = self._layouts[key] = layout, Contents(names, layout.dtypes, layout.shapes, layout.starts)
        return found

    def _values_with_room(self, prefix: str, contents: Contents) -> ValuesSegment:
        if self._values is not None and not self._values.has_room(prefix, contents):
            self._seal_values()
        if self._values is None:
            number = self._n_values + 1
            stem = values_stem(self._folder, self._session, number)
            try:
                self._values = ValuesSegment(self._backend, stem, number, self._limits, first=(prefix, contents))
            except FileExistsError:
                self._n_values = number  # whosever it is, it stays, and the next try takes another name
                raise
            self._n_values = number
        return self._values

    def _matrices_with_room(self) -> StatisticsSegment:
        if self._matrices is not None and self._matrices.is_full:
            self._seal_matrices()
        if self._matrices is None:
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
        self._guard()
        self._values = None
        if segment.is_empty:
            segment.drop()
            return
        try:
            size, head = segment.seal(fsync=self._fsync)
        except Exception as error:
            segment.close()
            self._stays_open(segment.number, "values", error)
            return
        self._owe(Seal(segment.number, False, size, head), lambda: None)

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
            self._stays_open(segment.number, "statistics", error)
            return
        self._owe(seal, lambda: self._drop(segment))

    def _drop(self, segment: StatisticsSegment) -> None:
        """Remove the growing file of what was sealed; it may be that this comes much later."""
        with suppress(LeaseError, OSError):
            self._guard()
            segment.drop()

    def _stays_open(self, number: int, what: str, error: Exception) -> None:
        said = f"segment {number} of {what} could not be sealed and stays a .part, which Cutaway reads as well"
        self.problems.append((f"{said}: {reason_of(error)}", kind_of(error)))

    def _owe(self, seal: Seal, then: Callable[[], None]) -> None:
        """Write a seal, now or before the next record; with it schemas and layouts once more.

        They are repeated so that no single damaged record makes many steps unreadable.
        """
        self._owed.append((encode(seal.packed()), then))
        with suppress(OSError):
            for id_ in sorted(self._written)[-_MOST_REPEATED:]:
                self.record(self._schemas[id_].packed())
            for layout, _ in list(self._layouts.values())[-_MOST_REPEATED:]:
                self.record(layout.packed())


def _clean(name: str) -> str:
    """A name that stock tools accept: half a surrogate pair is no text to them."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()
