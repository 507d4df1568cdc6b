"""Reads the index of one session, incrementally while it grows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from cutaway.core.errors import DamagedError
from cutaway.store.backends.backend import Backend
from cutaway.store.format.fields import count, plain, text
from cutaway.store.format.filenames import FLIGHT_SEGMENT, INDEX, session_stem
from cutaway.store.format.frames import MOST_BYTES, Record, ScanResult, scan
from cutaway.store.format.manifest import FORMAT_VERSION, check_version, migrate
from cutaway.store.format.records import (
    Block,
    BlockRecord,
    Layout,
    Loss,
    Note,
    ScalarsRecord,
    Schema,
    Seal,
    Session,
    StepRecord,
)

_CHUNK: Final = 8 << 20
_MAX_DAMAGE: Final = 1000
_MAX_DAMAGED: Final = 4 * MOST_BYTES
"""After this many bytes without a valid frame, the rest is not read: the file may be a hole of any size."""


@dataclass(slots=True)
class SessionIndex:
    """All records of one session. `refresh` reads new ones."""

    number: int
    folder: str
    version: int = FORMAT_VERSION
    """The format version, from the first record if that is readable."""
    session: Session | None = None
    schemas: dict[int, Schema] = field(default_factory=dict)
    layouts: dict[int, Layout] = field(default_factory=dict)
    steps: list[StepRecord] = field(default_factory=list)
    blocks: dict[str, BlockRecord] = field(default_factory=dict)
    scalars: list[ScalarsRecord] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    documents: dict[str, Any] = field(default_factory=dict)
    values_seals: dict[int, Seal] = field(default_factory=dict)
    matrix_seals: dict[int, Seal] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    is_ended: bool = False
    has_flight_ring: bool = False
    """Whether the ring file that its flight recorder left was read."""
    damage: list[str] = field(default_factory=list)
    """Damage found so far."""
    n_read: int = 0
    n_torn: int = 0
    """Bytes after the last complete frame: one is being written, or was never finished."""
    _unparsed: bytes = b""
    _n_damaged: int = 0
    """Bytes since the last valid frame."""

    @property
    def name(self) -> str:
        """The index file."""
        return session_stem(self.folder, self.number) + INDEX

    def refresh(self, backend: Backend) -> bool:
        """Read new records; returns whether there were any. Existing ones do not change."""
        before = self.n_read
        while self._n_damaged < _MAX_DAMAGED:
            chunk = backend.read(self.name, self.n_read + len(self._unparsed), _CHUNK)
            data = self._unparsed + chunk
            result = scan(data, is_last=len(chunk) < _CHUNK)
            start = self.n_read
            self.n_read += result.n_read
            self._unparsed = data[result.n_read :]
            self._record_damage(result, start)
            for record, offset in zip(result.records, result.offsets, strict=True):
                self._add_record(record, start + offset)
            if len(chunk) < _CHUNK:
                self.n_torn = len(self._unparsed)
                # Read again next time: after a failed write, the writer cuts these bytes off and writes others.
                self._unparsed = b""
                break
        return self.n_read > before

    def _record_damage(self, result: ScanResult, start: int) -> None:
        """Record the damage, and count consecutive damaged bytes."""
        for damage in result.damages:
            self._add_damage(f"{self.name}, bytes {start + damage.start}–{start + damage.stop}: {damage.reason}")
        self._n_damaged = result.n_read - result.offsets[-1] if result.offsets else self._n_damaged + result.n_read
        if self._n_damaged >= _MAX_DAMAGED:
            self._unparsed = b""
            self._add_damage(f"{self.name}, from byte {self.n_read} on: not read, because too much of it is damaged")

    def _add_damage(self, message: str) -> None:
        if len(self.damage) < _MAX_DAMAGE:
            self.damage.append(message)

    def schema_of(self, id_: int) -> Schema:
        """A schema by id. It may follow the steps that need it: writers repeat schemas."""
        schema = self.schemas.get(id_)
        if schema is None:
            raise DamagedError(f"{self.name}: schema {id_} is missing, so the names of its tensors are unknown.")
        return schema

    def layout_of(self, block: Block) -> Layout:
        """The layout of a block, checked against its schema and checksums."""
        layout = self.layouts.get(block.layout)
        if layout is None:
            raise DamagedError(f"{self.name}: layout {block.layout} is missing, so its values cannot be located.")
        n_rows = len(self.schema_of(layout.schema).rows)
        if layout.rows and max(layout.rows) >= n_rows:
            raise DamagedError(f"{self.name}: layout {layout.id} refers to row {max(layout.rows)} of {n_rows}.")
        if len(block.checksums) != 4 * len(layout.rows):
            raise DamagedError(f"{self.name}: a block of layout {layout.id} does not have one checksum per tensor.")
        return layout

    def _add_record(self, record: Record, offset: int) -> None:
        type_ = record["type"]
        reader = _READERS.get(type_)
        if reader is None:
            return  # from a later version
        try:
            reader(self, record if type_ == "session" else migrate(record, self.version))
        except DamagedError as error:
            self._add_damage(f"{self.name}, byte {offset}: invalid {type_} record: {error}")

    def _add_session(self, record: Record) -> None:
        if self.session is not None:
            raise DamagedError("the session already has a session record")
        version = count(record.get("version"), "version of a session")
        check_version(version)
        self.version = version
        self.session = Session.read(migrate(record, version))

    def _add_schema(self, record: Record) -> None:
        if count(record.get("id"), "id of a schema") not in self.schemas:  # writers repeat it hundreds of times
            schema = Schema.read(record)
            self.schemas[schema.id] = schema

    def _add_layout(self, record: Record) -> None:
        if count(record.get("id"), "id of a layout") not in self.layouts:
            layout = Layout.read(record)
            self.layouts[layout.id] = layout

    def _add_step(self, record: Record) -> None:
        self.add_step(StepRecord.read(record))

    def add_step(self, step: StepRecord) -> None:
        """Add a step in the order of steps: those of the flight recorder are written after later ones."""
        if not self.steps or step.step > self.steps[-1].step:
            self.steps.append(step)
            return
        # Of any other step, this is damage: writers write them in order.
        if "flight" not in step.about and not self.has_flight_ring:
            raise DamagedError(f"step {step.step} follows step {self.steps[-1].step}")
        position = bisect_left(self.steps, step.step, key=lambda record: record.step)
        known = self.steps[position]
        if known.step != step.step:
            self.steps.insert(position, step)
        elif known.matrix is not None and known.matrix[0] == FLIGHT_SEGMENT:
            self.steps[position] = step  # the run has it after all, so the ring is not needed
        else:
            raise DamagedError(f"step {step.step} is recorded twice")

    def _add_block(self, record: Record) -> None:
        block = BlockRecord.read(record)
        self.blocks[block.name] = block

    def _add_document(self, record: Record) -> None:
        name = text(record.get("name"), "name of a document")
        self.documents[name] = plain(record.get("content"), "a document")

    def _add_seal(self, record: Record) -> None:
        seal = Seal.read(record)
        (self.matrix_seals if seal.is_statistics else self.values_seals)[seal.segment] = seal

    def _add_end(self, record: Record) -> None:
        self.is_ended = True


_READERS: Final[dict[str, Callable[[SessionIndex, Record], None]]] = {
    "session": SessionIndex._add_session,
    "schema": SessionIndex._add_schema,
    "layout": SessionIndex._add_layout,
    "step": SessionIndex._add_step,
    "block": SessionIndex._add_block,
    "document": SessionIndex._add_document,
    "seal": SessionIndex._add_seal,
    "end": SessionIndex._add_end,
    "scalars": lambda index, record: index.scalars.append(ScalarsRecord.read(record)),
    "note": lambda index, record: index.notes.append(Note.read(record)),
    "lost": lambda index, record: index.losses.append(Loss.read(record)),
}
