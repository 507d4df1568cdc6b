"""The index of one session, as far as it was read: it grows while the session is being written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from cutaway.core.errors import DamagedError
from cutaway.store.backends.backend import Backend
from cutaway.store.format.fields import count, plain, text
from cutaway.store.format.filenames import INDEX, session_stem
from cutaway.store.format.frames import MOST_BYTES, Record, Scanned, scan
from cutaway.store.format.manifest import FORMAT_VERSION, check_version, migrated
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
_MOST_PROBLEMS: Final = 1000
_MOST_DAMAGED: Final = 4 * MOST_BYTES
"""Where so many bytes in a row are no frames, the rest of the file is not read: it may be a hole of any size."""


@dataclass(slots=True)
class SessionIndex:
    """All records of one session. `refresh` reads what was added since."""

    number: int
    folder: str
    version: int = FORMAT_VERSION
    """The version of the format; its first record says which, where it is not lost."""
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
    problems: list[str] = field(default_factory=list)
    """What is damaged, in words."""
    n_read: int = 0
    n_torn: int = 0
    """Bytes behind the last whole frame: one is being written, or never was to its end."""
    _keep: bytes = b""
    _n_damaged: int = 0
    """Bytes since the last whole frame."""

    @property
    def name(self) -> str:
        """Its file."""
        return session_stem(self.folder, self.number) + INDEX

    def refresh(self, backend: Backend) -> bool:
        """Read what was added; whether there was anything. What was read stays as it is."""
        before = self.n_read
        while self._n_damaged < _MOST_DAMAGED:
            chunk = backend.read(self.name, self.n_read + len(self._keep), _CHUNK)
            data = self._keep + chunk
            found = scan(data, is_last=len(chunk) < _CHUNK)
            start = self.n_read
            self.n_read += found.n_read
            self._keep = data[found.n_read :]
            self._note(found, start)
            for record, offset in zip(found.records, found.offsets, strict=True):
                self._take(record, start + offset)
            if len(chunk) < _CHUNK:
                self.n_torn = len(self._keep)
                self._keep = b""
                break
        return self.n_read > before

    def _note(self, found: Scanned, start: int) -> None:
        """Say what is damaged, and how much of it there was in a row."""
        for damage in found.damages:
            self._problem(f"{self.name}, bytes {start + damage.start}–{start + damage.stop}: {damage.reason}")
        self._n_damaged = found.n_read - found.offsets[-1] if found.offsets else self._n_damaged + found.n_read
        if self._n_damaged >= _MOST_DAMAGED:
            self._keep = b""
            self._problem(f"{self.name}, from byte {self.n_read} on: after so much damage nothing more is read")

    def _problem(self, problem: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)

    def schema_of(self, id_: int) -> Schema:
        """A schema by its id. It may be known later than the steps that need it: writers repeat them."""
        schema = self.schemas.get(id_)
        if schema is None:
            raise DamagedError(f"{self.name}: schema {id_} is not there, so what was recorded under it has no names.")
        return schema

    def layout_of(self, block: Block) -> Layout:
        """The layout of a block, held against its schema and checksums."""
        layout = self.layouts.get(block.layout)
        if layout is None:
            raise DamagedError(f"{self.name}: layout {block.layout} is not there, so its values cannot be told apart.")
        n_rows = len(self.schema_of(layout.schema).rows)
        if layout.rows and max(layout.rows) >= n_rows:
            raise DamagedError(f"{self.name}: layout {layout.id} means row {max(layout.rows)} of {n_rows}.")
        if len(block.checksums) != 4 * len(layout.rows):
            raise DamagedError(f"{self.name}: a block of layout {layout.id} has not one checksum for each tensor.")
        return layout

    def _take(self, record: Record, offset: int) -> None:
        type_ = record["type"]
        reader = _READERS.get(type_)
        if reader is None:
            return  # a later version knows it
        try:
            reader(self, record if type_ == "session" else migrated(record, self.version))
        except DamagedError as error:
            self._problem(f"{self.name}, byte {offset}: a {type_} record is not as it should be: {error}")

    def _take_session(self, record: Record) -> None:
        if self.session is not None:
            raise DamagedError("the session has begun already")
        version = count(record.get("version"), "version of a session")
        check_version(version)
        self.version = version
        self.session = Session.read(migrated(record, version))

    def _take_schema(self, record: Record) -> None:
        if count(record.get("id"), "id of a schema") not in self.schemas:  # writers repeat them hundreds of times
            schema = Schema.read(record)
            self.schemas[schema.id] = schema

    def _take_layout(self, record: Record) -> None:
        if count(record.get("id"), "id of a layout") not in self.layouts:
            layout = Layout.read(record)
            self.layouts[layout.id] = layout

    def _take_step(self, record: Record) -> None:
        step = StepRecord.read(record)
        if self.steps and step.step <= self.steps[-1].step:
            raise DamagedError(f"step {step.step} comes after step {self.steps[-1].step}")
        self.steps.append(step)

    def _take_block(self, record: Record) -> None:
        found = BlockRecord.read(record)
        self.blocks[found.name] = found

    def _take_document(self, record: Record) -> None:
        name = text(record.get("name"), "name of a document")
        self.documents[name] = plain(record.get("content"), "a document")

    def _take_seal(self, record: Record) -> None:
        seal = Seal.read(record)
        (self.matrix_seals if seal.is_statistics else self.values_seals)[seal.segment] = seal

    def _take_end(self, record: Record) -> None:
        self.is_ended = True


_READERS: Final[dict[str, Callable[[SessionIndex, Record], None]]] = {
    "session": SessionIndex._take_session,
    "schema": SessionIndex._take_schema,
    "layout": SessionIndex._take_layout,
    "step": SessionIndex._take_step,
    "block": SessionIndex._take_block,
    "document": SessionIndex._take_document,
    "seal": SessionIndex._take_seal,
    "end": SessionIndex._take_end,
    "scalars": lambda index, record: index.scalars.append(ScalarsRecord.read(record)),
    "note": lambda index, record: index.notes.append(Note.read(record)),
    "lost": lambda index, record: index.losses.append(Loss.read(record)),
}
