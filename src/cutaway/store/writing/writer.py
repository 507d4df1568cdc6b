"""The writer of an archive: takes what is handed in, and a thread of its own brings it to disk."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from time import time
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Raw, nbytes_of
from cutaway.core.errors import DamagedError, ExistsError, InputError
from cutaway.core.version import __version__
from cutaway.store.backends.backend import Backend, backend_for
from cutaway.store.format.filenames import HEAD, rank_folder, rank_of, session_of
from cutaway.store.format.frames import MOST_ENTRIES, Plain, encode, scan
from cutaway.store.format.manifest import FORMAT_VERSION, Head, Kind
from cutaway.store.format.records import MOST_CELLS, Block, BlockRecord, Note, Row, Schema, Session, StepRecord
from cutaway.store.format.segments import Limits
from cutaway.store.writing.lease import Lease
from cutaway.store.writing.session_files import Log
from cutaway.store.writing.thread import Job, Worker

_MOST_STEP = 1 << 62
_nbytes_of = lru_cache(4096)(nbytes_of)


@dataclass(frozen=True, slots=True)
class Options:
    """How an archive is written."""

    fsync: bool = False
    """Whether each step waits until it would survive a loss of power, not only the death of the process."""
    queue_bytes: int = 256 << 20
    """What may wait in memory for the disk; beyond that, whoever hands in more waits."""
    beat_every: float = 5.0
    """Seconds between two signs of life in the lease."""
    patience: float = 30.0
    """Seconds for which the silent lease of another machine is watched before it is taken over."""
    limits: Limits = field(default_factory=Limits)


class Writer:
    """Writes one session of an archive; a `with`. What was there before is never touched.

    Arrays that are handed in must not change until they are written: `flush` waits for that.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        kind: Kind,
        resume: bool = False,
        rank: int = 0,
        world_size: int = 1,
        options: Options | None = None,
    ) -> None:
        options = options or Options()
        self.path = os.fspath(path)
        self.backend = backend_for(path)
        self._pid = os.getpid()
        folder = rank_folder(rank)
        self.head = _claim(self.backend, self.path, kind, rank, resume=resume)
        lease = Lease.take(self.backend, folder, patience=options.patience, beat_every=options.beat_every)
        self.session = lease.number
        session = Session(lease.number, kind, FORMAT_VERSION, __version__, rank, world_size, time())
        try:
            self._log = Log(
                self.backend, folder, session=session, limits=options.limits, fsync=options.fsync, guard=lease.check
            )
            self._worker = Worker(self._log, lease, options.queue_bytes, options.beat_every)
        except BaseException:
            with suppress(OSError):
                lease.close()
            raise
        self._schemas: dict[tuple[Any, ...], Schema] = {}
        self._by_id: dict[int, Schema] = {}
        self._last_step = -1
        # A program that ends, or forgets its writer, loses nothing. The thread that writes does not hold the writer.
        atexit.register(self._worker.close)

    # what can be written

    def schema(self, rows: Sequence[Row], statistics: Sequence[str] = (), *, dtype: str = "float32") -> int:
        """The id under which these rows and statistics are known; the same ones have the same id."""
        key = (tuple(rows), tuple(statistics), dtype)
        found = self._schemas.get(key)
        if found is None:
            if len(rows) > MOST_ENTRIES or len(statistics) > MOST_ENTRIES:
                raise InputError(
                    f"{len(rows):,} rows and {len(statistics):,} statistics; at most {MOST_ENTRIES:,} each."
                )
            if len(rows) * len(statistics) > MOST_CELLS:
                raise InputError(
                    f"{len(rows):,} rows of {len(statistics):,} statistics; at most {MOST_CELLS:,} numbers a step."
                )
            if dtype not in ("float32", "float64"):
                raise InputError(f"statistics are kept as float32 or float64, not {dtype!r}.")
            found = Schema(len(self._schemas) + 1, *key)
            _readable(found.packed(), Schema.read)
            self._schemas[key] = self._by_id[found.id] = found
            self._log.schema(found)
        return found.id

    def step(
        self,
        step: int,
        *,
        schema: int,
        kind: str = "",
        matrix: NDArray[Any] | None = None,
        values: Mapping[int, Raw] | None = None,
        about: Mapping[str, Plain] | None = None,
    ) -> None:
        """Hand in a step: its matrix `[row, statistic]`, and the values of some rows. Step numbers must grow."""
        known = self._known(schema)
        if type(step) is not int or not self._last_step < step < _MOST_STEP:
            raise InputError(f"step {step!r} does not come after step {self._last_step}: step numbers must grow.")
        values = dict(sorted((values or {}).items()))
        if values and not 0 <= min(values) <= max(values) < len(known.rows):
            raise InputError(f"values of row {max(values)}, and schema {schema} has {len(known.rows)} rows.")
        if matrix is not None:
            if matrix.shape != (len(known.rows), len(known.statistics)):
                wanted = [len(known.rows), len(known.statistics)]
                raise InputError(
                    f"a matrix of statistics of shape {list(matrix.shape)}, and the schema wants {wanted}."
                )
            matrix = np.array(matrix, dtype=known.dtype, order="C")
        record = StepRecord(step, kind, time(), self._log.elapsed, schema, None, None, dict(about or {}))
        frame = _readable(record.packed(), StepRecord.read)
        n_bytes = len(frame) + (0 if matrix is None else known.matrix_bytes) + _size(values)
        self._last_step = step
        log, matrix_ = self._log, matrix
        self._put(Job("steps", lambda: log.step(record, matrix_, values), n_bytes, steps=(step,)))

    def block(self, name: str, arrays: Mapping[str, Raw], about: Mapping[str, Plain] | None = None) -> None:
        """Hand in named arrays that belong together."""
        schema = self.schema([Row(site) for site in arrays])
        numbered = dict(enumerate(arrays.values()))
        known = dict(about or {})
        frame = _readable(BlockRecord(name, Block(0, 0, 0, b""), known).packed(), BlockRecord.read)
        n_bytes = len(frame) + _size(numbered)
        log = self._log
        self._put(Job(f"block {name!r}", lambda: log.block(name, schema, numbered, known), n_bytes))

    def document(self, name: str, content: Plain) -> None:
        """Hand in plain data under a name; a later one of the same name takes its place."""
        if not isinstance(name, str):
            raise InputError(f"a document has a text as its name, not {name!r}.")
        self._record(encode({"type": "document", "name": name, "content": content}), f"document {name!r}")

    def note(
        self, text: str, *, step: int | None = None, level: str = "info", about: Mapping[str, Plain] | None = None
    ) -> None:
        """Hand in something that was said."""
        note = Note(text, step, time(), level, dict(about or {}))
        self._record(_readable(note.packed(), Note.read), "note")

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Hand in numbers of one step. They reach the disk within a quarter of a second, or with the next step."""
        if type(step) is not int or not 0 <= step < _MOST_STEP:
            raise InputError(f"step {step!r} is no whole number from 0.")
        if self._is_mine():
            self._worker.scalars(step, {str(name): float(value) for name, value in values.items()}, self._log.elapsed)

    def _record(self, frame: bytes, what: str) -> None:
        log = self._log
        self._put(Job(what, lambda: log.append(frame), len(frame), again=True))

    def _known(self, schema: int) -> Schema:
        try:
            return self._by_id[schema]
        except KeyError:
            raise InputError(
                f"schema {schema!r} was not made by this writer: writer.schema(rows) gives its id."
            ) from None

    def _put(self, job: Job) -> None:
        if self._is_mine():
            self._worker.put(job)

    def _is_mine(self) -> bool:
        """Whether this is the process that opened the writer: a forked child has no thread to write with."""
        return os.getpid() == self._pid

    # how it goes

    @property
    def acknowledged(self) -> int | None:
        """The last step that survives the death of the process; None before the first."""
        return self._worker.acknowledged

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong so far, in words."""
        return tuple(self._worker.problems)

    @property
    def n_lost(self) -> int:
        """How many things that were handed in could not be written."""
        return self._worker.n_lost

    @property
    def seconds_waited(self) -> float:
        """How long the program had to wait for the disk."""
        return self._worker.seconds_waited

    @property
    def n_waiting_bytes(self) -> int:
        """Bytes in memory that are not on disk yet."""
        return self._worker.n_waiting_bytes

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was handed in is on disk; False if that took longer than `timeout` seconds."""
        return not self._is_mine() or self._worker.flush(timeout)

    def close(self) -> None:
        """Bring everything to disk, seal the segments, give the lease back. Calling it again does nothing."""
        if self._is_mine():
            self._worker.close()
            atexit.unregister(self._worker.close)

    def __del__(self) -> None:
        worker = getattr(self, "_worker", None)
        if worker is not None and self._is_mine():
            worker.stop()  # waiting here could be waiting for oneself

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _readable(record: Mapping[str, Any], read: Callable[[Mapping[str, Any]], object]) -> bytes:
    """The frame of a record that readers will take: what is handed in wrong is refused now, not lost later."""
    try:
        read(record)
    except DamagedError as error:
        raise InputError(f"this cannot be written: {error}.") from error
    return encode(record)


def _size(values: Mapping[int, Raw]) -> int:
    """Bytes of all arrays, each held against its dtype and shape."""
    size = 0
    for part in values.values():
        n_bytes = memoryview(part.data).nbytes
        if n_bytes != _nbytes_of(part.dtype, part.shape):
            raise InputError(f"{n_bytes:,} bytes for {part.dtype} {list(part.shape)}, which takes {part.nbytes:,}.")
        size += n_bytes
    return size


def _claim(backend: Backend, path: str, kind: Kind, rank: int, *, resume: bool) -> Head:
    """Make the folder ours, or go on with the one that is there."""
    there = backend.names()
    head: Head | None = None
    if HEAD in there:
        try:
            head = Head.read(backend.read(HEAD, 0, 1 << 20))
        except DamagedError as error:
            if not resume or not any(_kinds(backend, there)):
                message = f"{path} holds a damaged cutaway.json ({error}): move the folder away first."
                raise ExistsError(message) from error
    for found in {head.kind} if head else _kinds(backend, there):
        if found != kind:
            raise ExistsError(f"{path} holds a {found}, not a {kind}: give another path.")
    if not resume and any(session_of(name) is not None for name in backend.names(rank_folder(rank))):
        raise ExistsError(
            f"{path} already holds a {kind}, and nothing is overwritten: "
            f"{'resume=True goes on with it, or ' if kind == 'run' else ''}give another path."
        )
    if head is not None:
        return head
    if HEAD in there:
        return Head(kind, "", "")  # damaged; it is not ours to replace
    others = [name for name in there if rank_of(name) is None and not name.startswith(".")]
    if others:
        raise ExistsError(f"{path} holds other files ({', '.join(sorted(others)[:3])}…): give a path of its own.")
    head = Head.new(kind)
    try:
        backend.put(HEAD, head.packed(), new=True)
    except FileExistsError:  # another rank of the same job was faster
        return _claim(backend, path, kind, rank, resume=resume)
    return head


def _kinds(backend: Backend, there: Sequence[str]) -> set[str]:
    """What the sessions say that this is."""
    found = set()
    for folder in there:
        if rank_of(folder) is not None:
            for name in backend.names(folder):
                if session_of(name) is not None:
                    first = scan(backend.read(f"{folder}/{name}", 0, 1 << 16), is_last=False).records[:1]
                    found |= {record["kind"] for record in first if isinstance(record.get("kind"), str)}
    return found
