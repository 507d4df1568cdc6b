"""Checks every byte of a segment against the checksums in the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError
from cutaway.core.formatting import listed, plural
from cutaway.core.safetensors import MAX_HEADER_BYTES, Entry, parse
from cutaway.store.backends.backend import Backend
from cutaway.store.format.filenames import PART, SEALED, statistics_stem, values_stem
from cutaway.store.format.records import VALUE, Block, Row, Schema, Seal, StepRecord
from cutaway.store.reading.index import SessionIndex
from cutaway.store.verification.report import Findings, join_words, list_steps

_CHUNK = 8 << 20


@dataclass(frozen=True, slots=True)
class OwnedBlock:
    """A block of values and its owner: a step or a named block."""

    block: Block
    step: int | None
    name: str
    """The name of a named block; "" for a step."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    start: int
    stop: int
    checksum: int
    dtype: str
    shape: tuple[int, ...]
    key: str
    owner: OwnedBlock


@dataclass(frozen=True, slots=True)
class _File:
    """A file to be read completely."""

    backend: Backend
    name: str
    size: int

    def chunks(self, start: int, stop: int) -> Iterator[bytes]:
        for at in range(start, stop, _CHUNK):
            yield self.backend.read(self.name, at, min(_CHUNK, stop - at))

    def checksum(self, start: int, stop: int) -> int | None:
        """CRC-32 of a range; None if the file is shorter or unreadable."""
        if stop > self.size:
            return None
        checksum = 0
        try:
            for chunk in self.chunks(start, stop):
                checksum = crc32(chunk, checksum)
        except FileNotFoundError:
            raise  # it was renamed meanwhile
        except OSError:
            return None
        return checksum


def check_values(
    backend: Backend, index: SessionIndex, segment: int, owned: Sequence[OwnedBlock], findings: Findings
) -> str:
    """Check a value segment; returns its file name, "" if it is missing."""
    stem = values_stem(index.folder, index.number, segment)
    file = _open_segment(backend, stem)
    if file is None:
        findings.damaged(stem + SEALED, "the file is missing", _cost_of_blocks(owned))
        return ""
    start = _check_head(file, index.values_seals.get(segment), findings)
    if start is None:
        findings.damaged(file.name, "it does not start with a header length", _cost_of_blocks(owned))
        return file.name
    tensors = _tensors(index, owned, findings)
    if file.name.endswith(SEALED):
        entries = _entries(file, start, findings, cost="")
        if entries is not None:
            _record_steps(findings, index, (name.split("/")[0] for name in entries))
            _compare_names(file, entries, tensors, findings)
    bad = [tensor for tensor in tensors if file.checksum(start + tensor.start, start + tensor.stop) != tensor.checksum]
    findings.n_tensors += len(tensors)
    if bad:
        end = start + max((tensor.stop for tensor in tensors), default=0)
        what = "it is truncated" if file.size < end else "values have a wrong checksum"
        findings.damaged(file.name, what, _cost_of_tensors(bad))
    _read_gaps(file, start, tensors, findings, is_part=file.name.endswith(PART))
    return file.name


def check_statistics(
    backend: Backend, index: SessionIndex, segment: int, steps: Sequence[StepRecord], findings: Findings
) -> str:
    """Check a statistics segment; returns its file name, "" if it is missing."""
    stem = statistics_stem(index.folder, index.number, segment)
    file = _open_segment(backend, stem)
    cost = f"statistics of {list_steps(record.step for record in steps)} cannot be read"
    if file is None:
        findings.damaged(stem + SEALED, "the file is missing", cost)
        return ""
    findings.n_matrices += len(steps)
    if file.name.endswith(PART):
        _check_growing(file, index, steps, findings)
        return file.name
    seal = index.matrix_seals.get(segment)
    start = _check_head(file, seal, findings)
    entries = None if start is None else _entries(file, start, findings, cost=cost)
    if start is None:
        findings.damaged(file.name, "it does not start with a header length", cost)
    if start is not None and entries is not None:
        _Sealed(file, start, index, seal, findings).check(entries, steps)
    return file.name


def read_whole_file(backend: Backend, name: str, findings: Findings) -> None:
    """Read a file that nothing refers to, to find disk errors."""
    file = _File(backend, name, backend.size(name))
    for chunk in file.chunks(0, file.size):
        findings.n_bytes += len(chunk)


def _open_segment(backend: Backend, stem: str) -> _File | None:
    for name in (stem + SEALED, stem + PART, stem + SEALED):  # it may be sealed between two attempts
        try:
            return _File(backend, name, backend.size(name))
        except FileNotFoundError:
            continue
    return None


def _check_head(file: _File, seal: Seal | None, findings: Findings) -> int | None:
    """Offset of the data; None if it is unknown."""
    findings.n_bytes += file.size
    length = int.from_bytes(file.backend.read(file.name, 0, 8), "little")
    if file.size < 8 or length > MAX_HEADER_BYTES:
        return None
    head = 8 + length
    if seal is not None and file.name.endswith(SEALED):
        if file.size != seal.size:
            findings.damaged(file.name, f"it has {file.size:,} bytes, but {seal.size:,} were written")
        if file.checksum(0, head) != seal.head:
            findings.damaged(
                file.name, "its header has a wrong checksum", "other tools may not open it or show wrong names"
            )
    return head


def _entries(file: _File, start: int, findings: Findings, *, cost: str) -> Mapping[str, Entry] | None:
    try:
        return parse(file.backend.read(file.name, 8, start - 8), file.size - start)[0]
    except DamagedError as error:
        cost = cost or "other tools cannot open it; Cutaway reads it through its index"
        findings.damaged(file.name, str(error).rstrip("."), cost)
        return None


def _record_steps(findings: Findings, index: SessionIndex, steps: Iterator[str]) -> None:
    steps_found = findings.unindexed.setdefault((index.folder, index.number), set())
    steps_found |= {int(step) for step in steps if step.isdecimal() and len(step) < 20 and step not in index.blocks}


def _tensors(index: SessionIndex, owned: Sequence[OwnedBlock], findings: Findings) -> list[_Tensor]:
    """The tensors of some blocks, in file order."""
    tensors: list[_Tensor] = []
    lost: dict[str, list[OwnedBlock]] = {}
    for owner in owned:
        block = owner.block
        try:
            layout = index.layout_of(block)
            rows = index.schema_of(layout.schema).rows
        except DamagedError as error:
            lost.setdefault(str(error), []).append(owner)
            continue
        for position, row in enumerate(layout.rows):
            start, stop = (block.offset + at for at in layout.starts[position : position + 2])
            checksum = int.from_bytes(block.checksums[4 * position : 4 * position + 4], "little")
            about = (layout.dtypes[position], layout.shapes[position], _label(rows[row]))
            tensors.append(_Tensor(start, stop, checksum, *about, owner))
    for reason, owners in lost.items():
        findings.damaged(index.name, reason.removeprefix(f"{index.name}: ").rstrip("."), _cost_of_blocks(owners))
    return sorted(tensors, key=lambda tensor: (tensor.start, tensor.stop))


def _compare_names(file: _File, entries: Mapping[str, Entry], tensors: Sequence[_Tensor], findings: Findings) -> None:
    listed_entries = {(entry.start, entry.stop, entry.dtype, entry.shape) for entry in entries.values()}
    missing = [t.key for t in tensors if (t.start, t.stop, t.dtype, t.shape) not in listed_entries]
    if missing:
        what = f"its header lacks {plural(len(missing), 'tensor')} of the index ({listed(missing)})"
        findings.damaged(file.name, what, "other tools do not show them; Cutaway reads them through its index")


def _read_gaps(file: _File, start: int, tensors: Sequence[_Tensor], findings: Findings, *, is_part: bool) -> None:
    """Read everything outside known tensors, too: header area, gaps, tail."""
    position = start
    n_between = 0
    for tensor in tensors:
        if start + tensor.start > position:
            n_between += start + tensor.start - position
            # Only to read the bytes: a disk error shows even where no record refers to the data.
            file.checksum(position, min(start + tensor.start, file.size))
        position = max(position, start + tensor.stop)
    n_after = max(file.size - position, 0)
    file.checksum(min(position, file.size), file.size)
    if is_part:
        _check_reserved(file, start, findings)
        if n_after:
            what = f"{n_after:,} bytes at its end belong to an unfinished step, which is normal after a kill"
            findings.remark(file.name, what)
    elif n_between or n_after:
        findings.remark(file.name, f"{n_between + n_after:,} bytes belong to nothing in the index")


def _check_reserved(file: _File, start: int, findings: Findings) -> None:
    # A growing file has zeros there; a header in a .part file means that a kill came between writing it and the rename.
    if any(any(chunk) for chunk in file.chunks(8, start)):
        findings.remark(file.name, "it was being sealed when its session ended; its values are read through the index")


def _check_growing(file: _File, index: SessionIndex, steps: Sequence[StepRecord], findings: Findings) -> None:
    findings.n_bytes += file.size
    bad: list[int] = []
    unnamed: list[int] = []
    end = 0
    for record in steps:
        schema = index.schemas.get(record.schema)
        if schema is None or record.matrix is None:
            unnamed.append(record.step)
            continue
        _, offset, checksum = record.matrix
        if file.checksum(offset, offset + schema.matrix_bytes) != checksum:
            bad.append(record.step)
        end = max(end, offset + schema.matrix_bytes)
    file.checksum(0, file.size)
    if bad:
        what = "it is truncated" if file.size < end else "statistics have a wrong checksum"
        findings.damaged(file.name, what, f"statistics of {list_steps(bad)} cannot be read")
    _report_missing_schema(index, unnamed, findings)
    if file.size > end and not unnamed:
        what = f"{file.size - end:,} bytes at its end belong to an unfinished step"
        findings.remark(file.name, f"{what}, which is normal after a kill")


def _report_missing_schema(index: SessionIndex, steps: Sequence[int], findings: Findings) -> None:
    if steps:
        cost = f"nothing of {list_steps(steps)} can be read"
        findings.damaged(index.name, "a schema is missing, so the names of its tensors are unknown", cost)


class _Sealed:
    """Checks a sealed statistics segment."""

    def __init__(self, file: _File, start: int, index: SessionIndex, seal: Seal | None, findings: Findings) -> None:
        self.file = file
        self.start = start
        self.index = index
        self.seal = seal
        self.findings = findings
        self.steps: dict[str, NDArray[np.int64]] = {}
        self.n_passed: dict[str, int] = {}
        self.bad_steps: list[int] = []

    def check(self, entries: Mapping[str, Entry], records: Sequence[StepRecord]) -> None:
        known = {record.step: record for record in records}
        for entry in sorted(entries.values(), key=lambda entry: entry.start):
            data = self.file.backend.read(self.file.name, self.start + entry.start, entry.stop - entry.start)
            schema = entry.name.split("/")[1] if "/" in entry.name else ""
            bad = self._bad_rows(entry, data)
            if entry.name == f"steps/{schema}":
                self._read_steps(schema, data, is_sound=not bad)
            elif entry.name.startswith("statistics/"):
                self._check_tile(entry, schema, data, bad, known)
        _record_steps(
            self.findings, self.index, (str(step) for steps in self.steps.values() for step in steps.tolist())
        )
        self._report(records)

    def _bad_rows(self, entry: Entry, data: bytes) -> list[int]:
        if self.seal is None:
            return []
        checksums = np.frombuffer(self.seal.checksums.get(entry.name, b"").ljust(4, b"\0"), "<u4")
        size = len(data) // max(len(checksums), 1)
        view = memoryview(data)
        return [row for row, checksum in enumerate(checksums.tolist())
                if crc32(view[row * size : (row + 1) * size]) != checksum]  # fmt: skip

    def _read_steps(self, schema: str, data: bytes, *, is_sound: bool) -> None:
        if is_sound and len(data) % 8 == 0:
            self.steps[schema] = np.frombuffer(data, "<i8")
        else:
            self.findings.damaged(
                self.file.name,
                "the list of its steps has a wrong checksum",
                "statistics of all its steps cannot be read",
            )

    def _check_tile(
        self, entry: Entry, id_: str, data: bytes, bad: Sequence[int], known: Mapping[int, StepRecord]
    ) -> None:
        first = self.n_passed.get(id_, 0)
        n_steps = entry.shape[-1] if entry.shape else 0
        self.n_passed[id_] = first + n_steps
        steps = self.steps.get(id_, np.empty(0, np.int64))[first : first + n_steps].tolist()
        schema = self.index.schemas.get(int(id_)) if id_.isdecimal() else None
        is_fitting = schema is not None and _fits(entry, schema)
        if schema is not None and not is_fitting and steps:
            cost = f"statistics of {list_steps(steps)} cannot be read"
            self.findings.damaged(self.file.name, f"{entry.name} does not have the shape of its schema", cost)
        bad_steps = []
        if schema is not None and is_fitting:
            matrices = np.frombuffer(data, schema.dtype).reshape(entry.shape)
            for number, step in enumerate(steps):
                record = known.get(step)
                matrix = np.ascontiguousarray(matrices[:, :, number])
                if record is not None and record.matrix is not None and crc32(matrix.data) != record.matrix[2]:
                    bad_steps.append(step)
        if not bad:
            self.bad_steps += bad_steps
            return
        curves = f"the curves of {_row_names(schema.rows if schema else (), bad)} at {list_steps(steps)}"
        parts = [curves, *([f"all statistics of {list_steps(bad_steps)}"] if bad_steps else [])]
        cost = f"{join_words(parts)} cannot be read" if steps else ""
        self.findings.damaged(self.file.name, "statistics have a wrong checksum", cost)

    def _report(self, records: Sequence[StepRecord]) -> None:
        stored = {step for steps in self.steps.values() for step in steps.tolist()}
        missing = [record.step for record in records if record.step not in stored and str(record.schema) in self.steps]
        if missing:
            cost = f"statistics of {list_steps(missing)} cannot be read"
            self.findings.damaged(self.file.name, "it lacks some of its steps", cost)
        if self.bad_steps:
            cost = f"statistics of {list_steps(self.bad_steps)} cannot be trusted"
            self.findings.damaged(self.file.name, "statistics differ from what was recorded", cost)
        absent = {record.schema for record in records} - self.index.schemas.keys()
        _report_missing_schema(
            self.index, [record.step for record in records if record.schema in absent], self.findings
        )


def _fits(entry: Entry, schema: Schema) -> bool:
    return (
        len(entry.shape) == 3
        and entry.shape[:2] == (len(schema.rows), len(schema.statistics))
        and entry.dtype == schema.dtype
    )


def _label(row: Row) -> str:
    """The name of a tensor in a sentence."""
    iteration = f" in iteration {row.iteration}" if row.iteration else ""
    return f"{row.site}{iteration}" if row.of == VALUE else f"{row.of} of {row.site}{iteration}"


def _row_names(rows: Sequence[Row], numbers: Sequence[int]) -> str:
    labels = (_label(rows[number]) if number < len(rows) else f"row {number}" for number in numbers)
    return listed(dict.fromkeys(labels))


def _cost_of_blocks(owned: Sequence[OwnedBlock]) -> str:
    steps = [owner.step for owner in owned if owner.step is not None]
    parts = [f"all values of {list_steps(steps)}"] if steps else []
    blocks = [repr(owner.name) for owner in owned if owner.step is None]
    parts += [f"the arrays of block {listed(dict.fromkeys(blocks))}"] if blocks else []
    return f"{join_words(parts)} cannot be read"


def _cost_of_tensors(bad: Sequence[_Tensor]) -> str:
    steps = [tensor.owner.step for tensor in bad if tensor.owner.step is not None]
    n_stepped = len(steps)
    parts = []
    if steps:
        names = listed(dict.fromkeys(tensor.key for tensor in bad if tensor.owner.step is not None))
        parts.append(f"values of {plural(n_stepped, 'tensor')} ({names}) at {list_steps(steps)}")
    others = [tensor for tensor in bad if tensor.owner.step is None]
    if others:
        parts.append(f"{plural(len(others), 'array')} ({listed(dict.fromkeys(tensor.key for tensor in others))})")
    return f"{join_words(parts)} cannot be read"
