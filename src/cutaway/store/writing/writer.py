"""`Writer`: writes one session of an archive through a background thread."""

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
from cutaway.core.errors import DamagedError, ExistsError, InputError, InputTypeError
from cutaway.core.version import __version__
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.filenames import rank_folder
from cutaway.store.format.frames import MAX_ENTRIES, Plain, encode
from cutaway.store.format.manifest import FORMAT_VERSION, Kind
from cutaway.store.format.problems import BY_CUTAWAY, is_problem, problems_of
from cutaway.store.format.records import (
    MOST_CELLS,
    OPEN_STEP,
    STEPS,
    Block,
    BlockRecord,
    Note,
    Row,
    Schema,
    Session,
    StepRecord,
)
from cutaway.store.format.segments import Limits
from cutaway.store.writing.folders import open_folder
from cutaway.store.writing.lease import Lease
from cutaway.store.writing.session_files import SessionFiles
from cutaway.store.writing.thread import Job, WriterThread

_MAX_STEP = 1 << 62
_nbytes_of = lru_cache(4096)(nbytes_of)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a `Writer`."""

    fsync: bool = False
    """Whether each step waits until it would survive a power loss, not only the death of the process."""
    queue_bytes: int = 256 << 20
    """Maximum bytes waiting in memory for the disk; beyond that, calls block."""
    beat_every: float = 5.0
    """Seconds between heartbeats in the lease."""
    patience: float = 30.0
    """Seconds without a heartbeat after which the lease of another machine is taken over."""
    limits: Limits = field(default_factory=Limits)


class Writer:
    """Writes one session of an archive; a context manager. Existing data is never changed.

    Do not change arrays that you pass until they are written: `flush` waits for that.

    Args:
        path: the folder of the archive.
        kind: "run", "trace", "activations", "result" or "generation".
        resume: whether to add a session to an existing archive.
        rank: the rank of this process in a distributed job.
        world_size: the number of processes in that job.
        options: durability, memory and heartbeats; see `Options`.
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
        self.backend = backend_for(path)
        self.rank = rank
        self.path = os.fspath(path)
        self._pid = os.getpid()
        folder = rank_folder(rank)
        try:
            self.head = open_folder(self.backend, self.path, kind, rank, resume=resume)
        except NotADirectoryError:
            raise ExistsError(
                f"{self.path} is a file, or is inside one. Use the path of a new or empty folder."
            ) from None
        lease = Lease.take(self.backend, folder, patience=options.patience, beat_every=options.beat_every)
        self.session = lease.number
        session = Session(lease.number, kind, FORMAT_VERSION, __version__, rank, world_size, time())
        try:
            self._log = SessionFiles(
                self.backend, folder, session=session, limits=options.limits, fsync=options.fsync, guard=lease.check
            )
            self._worker = WriterThread(self._log, lease, options.queue_bytes, options.beat_every)
        except BaseException:
            with suppress(OSError):
                lease.close()
            raise
        self._schemas: dict[tuple[Any, ...], Schema] = {}
        self._by_id: dict[int, Schema] = {}
        self._last_step = -1
        self._problem_notes: list[Note] = []
        # A program that ends without closing its writer loses nothing. The thread holds no reference to the writer.
        atexit.register(self._worker.close)

    # Data

    def schema(self, rows: Sequence[Row], statistics: Sequence[str] = (), *, dtype: str = "float32") -> int:
        """The id of a schema with these rows and statistics; equal arguments return the same id.

        Args:
            rows: what is recorded: one row per tensor, quantity and pass.
            statistics: names of the columns of each step's matrix.
            dtype: the dtype of that matrix, "float32" or "float64".
        """
        key = (tuple(rows), tuple(statistics), dtype)
        cached = self._schemas.get(key)
        if cached is None:
            if len(rows) > MAX_ENTRIES or len(statistics) > MAX_ENTRIES:
                raise InputError(
                    f"got {len(rows):,} rows and {len(statistics):,} statistics; the limit is {MAX_ENTRIES:,} each."
                )
            if len(rows) * len(statistics) > MOST_CELLS:
                raise InputError(
                    f"got {len(rows):,} rows of {len(statistics):,} statistics; the limit is {MOST_CELLS:,} per step."
                )
            if dtype not in ("float32", "float64"):
                raise InputError(f"dtype of statistics must be float32 or float64, got {dtype!r}.")
            cached = Schema(len(self._schemas) + 1, *key)
            _checked_frame(cached.to_record(), Schema.read)
            self._schemas[key] = self._by_id[cached.id] = cached
            self._log.schema(cached)
        return cached.id

    def step(
        self,
        step: int,
        *,
        schema: int,
        kind: str = "",
        matrix: NDArray[Any] | None = None,
        values: Mapping[int, Raw] | None = None,
        about: Mapping[str, Plain] | None = None,
        when: tuple[float, float] | None = None,
    ) -> None:
        """Write a step: its matrix `[row, statistic]`, and the values of some rows. Step numbers must increase.

        Args:
            step: the number of the step.
            schema: the id that `schema` returned.
            kind: the kind of step, such as "train".
            matrix: the statistics, copied; None if there are none.
            values: row number → array, for the rows with values.
            about: further plain data.
            when: for a step that is written later than it ran: its `time` and `elapsed`. Its number may be below
                those of steps written before, except of the same schema.
        """
        known = self._known(schema)
        if type(step) is not int or not (self._last_step + 1 if when is None else 0) <= step < _MAX_STEP:
            raise InputError(f"step {step!r} does not follow step {self._last_step}. Step numbers must increase.")
        values = dict(sorted((values or {}).items()))
        if values and not 0 <= min(values) <= max(values) < len(known.rows):
            raise InputError(f"got values of row {max(values)}, but schema {schema} has {len(known.rows)} rows.")
        if matrix is not None:
            if matrix.shape != (len(known.rows), len(known.statistics)):
                wanted = [len(known.rows), len(known.statistics)]
                raise InputError(
                    f"the matrix of statistics has shape {list(matrix.shape)}, but the schema needs {wanted}."
                )
            # A copy: the caller may reuse its buffer while the step waits in the queue.
            matrix = np.array(matrix, dtype=known.dtype, order="C")
        at, elapsed = (time(), self._log.elapsed) if when is None else when
        record = StepRecord(step, kind, at, elapsed, schema, None, None, dict(about or {}))
        frame = _checked_frame(record.to_record(), StepRecord.read)
        n_bytes = len(frame) + (0 if matrix is None else known.matrix_bytes) + _size(values)
        # Only now: a step that was refused must not block its number.
        self._last_step = max(step, self._last_step)
        log, matrix_ = self._log, matrix
        self._put(Job(STEPS, lambda: log.step(record, matrix_, values), n_bytes, steps=(step,)))

    def open_step(self, step: int | None) -> None:
        """Announce a step, so that a later session can tell that it was lost if this process dies before writing it.

        Args:
            step: the number of the step that is being recorded; None if it will not be written.
        """
        self.document(OPEN_STEP, step)

    def lose(self, steps: Sequence[int], reason: str) -> None:
        """Record that an earlier session has lost steps.

        Args:
            steps: the steps that it recorded, or was about to, and did not write.
            reason: why.
        """
        if self._is_same_process():
            self._worker.lose(tuple(steps), reason)

    def block(self, name: str, arrays: Mapping[str, Raw], about: Mapping[str, Plain] | None = None) -> None:
        """Write a named group of arrays.

        Args:
            name: the name of the block; a later block of the same name replaces it.
            arrays: the arrays by name.
            about: further plain data.
        """
        schema = self.schema([Row(site) for site in arrays])
        numbered = dict(enumerate(arrays.values()))
        known = dict(about or {})
        frame = _checked_frame(BlockRecord(name, Block(0, 0, 0, b""), known).to_record(), BlockRecord.read)
        n_bytes = len(frame) + _size(numbered)
        log = self._log
        self._put(Job(f"block {name!r}", lambda: log.block(name, schema, numbered, known), n_bytes))

    def document(self, name: str, content: Plain) -> None:
        """Write plain data under a name; it replaces earlier data of that name.

        Args:
            name: the name of the document.
            content: dicts, lists, texts, numbers and None.
        """
        if not isinstance(name, str):
            raise InputTypeError(f"the name of a document must be text, got {name!r}.")
        self._record(encode({"type": "document", "name": name, "content": content}), f"document {name!r}")

    def note(
        self, text: str, *, step: int | None = None, level: str = "info", about: Mapping[str, Plain] | None = None
    ) -> None:
        """Write a note.

        Args:
            text: the note.
            step: the step that it is attached to; None for the whole run.
            level: "info", "warning", "error" or any other word to search for.
            about: further plain data.
        """
        note = Note(text, step, time(), level, dict(about or {}))
        self._record(_checked_frame(note.to_record(), Note.read), "note")
        if is_problem(note) and self._is_same_process():
            self._problem_notes.append(note)

    def problem(self, text: str, *, step: int | None = None, level: str = "error") -> None:
        """Write a note about a problem of the recording itself; `problems` lists it, here and in the loaded run.

        Args:
            text: what went wrong.
            step: the step at which it did.
            level: "error", "warning" or "info".
        """
        self.note(text, step=step, level=level, about=BY_CUTAWAY)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write scalars of one step. They reach the disk within 0.25 seconds, or with the next step.

        Args:
            step: the number of the step.
            values: numbers by name.
        """
        if type(step) is not int or not 0 <= step < _MAX_STEP:
            raise InputError(f"step must be an integer from 0, got {step!r}.")
        if self._is_same_process():
            self._worker.scalars(step, {str(name): float(value) for name, value in values.items()}, self._log.elapsed)

    def _record(self, frame: bytes, what: str) -> None:
        log = self._log
        self._put(Job(what, lambda: log.append(frame), len(frame), retry=True))

    def _known(self, schema: int) -> Schema:
        try:
            return self._by_id[schema]
        except KeyError:
            raise InputError(
                f"schema {schema!r} does not belong to this writer. Get an id with writer.schema(rows)."
            ) from None

    def _put(self, job: Job) -> None:
        if self._is_same_process():
            self._worker.put(job)

    def _is_same_process(self) -> bool:
        """Whether this process opened the writer: a forked child has no writer thread."""
        return os.getpid() == self._pid

    # Progress

    @property
    def acknowledged(self) -> int | None:
        """The last step that survives the death of the process; None before the first."""
        return self._worker.acknowledged

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong so far: `Run.problems` of this session, then what the archive cannot record."""
        worker = self._worker
        return (*problems_of([*self._problem_notes, *worker.notes], worker.losses), *worker.unrecorded)

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the session."""
        return self._log.elapsed

    @property
    def n_lost(self) -> int:
        """Number of steps, blocks, documents… that could not be written."""
        return self._worker.n_lost

    @property
    def seconds_waited(self) -> float:
        """How long the program waited for the disk."""
        return self._worker.seconds_waited

    @property
    def n_waiting_bytes(self) -> int:
        """Bytes in memory that are not on disk yet."""
        return self._worker.n_waiting_bytes

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything is on disk; False after `timeout` seconds.

        Args:
            timeout: the most seconds to wait; None waits until it is done.
        """
        return not self._is_same_process() or self._worker.flush(timeout)

    def close(self) -> None:
        """Write everything to disk, seal the segments and release the lease. Idempotent."""
        if self._is_same_process():
            self._worker.close()
            atexit.unregister(self._worker.close)

    def __del__(self) -> None:
        try:
            worker = getattr(self, "_worker", None)
            if worker is not None and self._is_same_process():
                worker.stop()  # no join: the garbage collector may run this in the writer thread itself
        except Exception:  # at exit, modules are gone; Python would print whatever is raised here
            pass

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _checked_frame(record: Mapping[str, Any], read: Callable[[Mapping[str, Any]], object]) -> bytes:
    """Encode a record after checking that readers accept it: bad input is refused now, not lost later."""
    try:
        read(record)
    except DamagedError as error:
        raise InputError(f"cannot write this: {error}.") from error
    return encode(record)


def _size(values: Mapping[int, Raw]) -> int:
    """Bytes of all arrays; checks each against its dtype and shape."""
    size = 0
    for part in values.values():
        n_bytes = memoryview(part.data).nbytes
        if n_bytes != _nbytes_of(part.dtype, part.shape):
            raise InputError(f"got {n_bytes:,} bytes for {part.dtype} {list(part.shape)}, which needs {part.nbytes:,}.")
        size += n_bytes
    return size
