"""Statistics segments: one matrix per step while they grow, transposed to curves when sealed.

A growing segment is a sequence of `[row, statistic]` matrices, so that writing a step is one append. A sealed segment
is a `.safetensors` file with, for each schema, `steps/<id>` and the tiles `statistics/<id>/<number>`, each
`[row, statistic, step]` for some steps: a curve takes one short read per tile, a step's matrix one tile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError
from cutaway.core.safetensors import Entry, header
from cutaway.store.backends.backend import Backend
from cutaway.store.format.filenames import PART
from cutaway.store.format.records import Schema, Seal
from cutaway.store.format.sealed_files import write_sealed
from cutaway.store.format.segments import Limits

_TILE_BYTES = 4 << 20
_TILE_STEPS = (16, 1024)
_MAX_METADATA = 4 << 20
"""Bytes of metadata, which JSON escapes once more: readers refuse headers over 16 MiB."""


def steps_in_tile(schema: Schema) -> int:
    """Steps per tile: few enough to read a tile for one step, many enough to read few tiles for a curve."""
    least, most = _TILE_STEPS
    return max(least, min(most, _TILE_BYTES // max(schema.matrix_bytes, 1)))


@dataclass(slots=True)
class _Group:
    """The steps of one schema in a segment."""

    schema: Schema
    steps: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)


class StatisticsSegment:
    """A growing segment of statistics."""

    def __init__(self, backend: Backend, stem: str, number: int, limits: Limits) -> None:
        self.number = number
        self._backend = backend
        self._stem = stem
        self._limits = limits
        self._groups: dict[int, _Group] = {}
        self._n_steps = 0
        self._file = backend.append(stem + PART)

    @property
    def is_full(self) -> bool:
        """Whether the next step goes to another segment."""
        return self._n_steps >= self._limits.steps or self._file.size >= self._limits.bytes

    @property
    def is_empty(self) -> bool:
        """Whether no index refers to it."""
        return not self._n_steps

    def write(self, schema: Schema, step: int, matrix: NDArray[np.generic]) -> tuple[int, int]:
        """Append the matrix of one step; returns its offset and CRC-32."""
        data = matrix.tobytes()
        offset = self._file.write([data])
        group = self._groups.setdefault(schema.id, _Group(schema))
        group.steps.append(step)
        group.offsets.append(offset)
        group.checksums.append(crc32(data))
        self._n_steps += 1
        return offset, group.checksums[-1]

    def forget_last(self, schema: int) -> None:
        """Forget the last matrix of a schema: no index refers to it."""
        group = self._groups[schema]
        group.steps.pop()
        group.offsets.pop()
        group.checksums.pop()
        self._n_steps -= 1
        if not group.steps:
            del self._groups[schema]

    def sync(self) -> None:
        """Wait until everything written would survive a power loss."""
        self._file.sync()

    def seal(self, *, fsync: bool) -> Seal:
        """Write the transposed file. The `.part` file stays until `drop`, for current readers."""
        entries, metadata = self._contents()
        text = header(entries, metadata)
        text += b" " * (-len(text) % 8)
        head = len(text).to_bytes(8, "little") + text
        checksums = {}
        with write_sealed(self._backend, self._stem, fsync=fsync) as file:
            file.write([head])
            for id_, group in self._groups.items():
                steps = np.asarray(group.steps, "<i8").tobytes()
                file.write([steps])
                checksums[f"steps/{id_}"] = np.asarray([crc32(steps)], "<u4").tobytes()
                for number, tile in enumerate(self._tiles(group)):
                    file.write([tile.data])
                    # One checksum per row, because a curve reads only its own row of a tile.
                    checksums[f"statistics/{id_}/{number}"] = np.asarray([*map(crc32, tile)], "<u4").tobytes()
        return Seal(self.number, True, file.size, crc32(head), checksums)

    def _contents(self) -> tuple[list[Entry], dict[str, str]]:
        """Entries and metadata of the sealed file, in order."""
        entries, metadata, end = [], {"cutaway": "statistics"}, 0
        for id_, group in self._groups.items():
            schema, n_steps = group.schema, len(group.steps)
            entries.append(Entry(f"steps/{id_}", "int64", (n_steps,), end, end + 8 * n_steps))
            end += 8 * n_steps
            each = steps_in_tile(schema)
            for number, first in enumerate(range(0, n_steps, each)):
                n_here = min(each, n_steps - first)
                shape = (len(schema.rows), len(schema.statistics), n_here)
                stop = end + schema.matrix_bytes * n_here
                entries.append(Entry(f"statistics/{id_}/{number}", schema.dtype, shape, end, stop))
                end = stop
            about = {"statistics": schema.statistics, "rows": [row.to_record() for row in schema.rows]}
            text = json.dumps(about)
            if len(text) + sum(map(len, metadata.values())) <= _MAX_METADATA:
                metadata[f"schema/{id_}"] = text  # for other tools; the index has it, too
        return entries, metadata

    def _tiles(self, group: _Group) -> Iterator[NDArray[np.generic]]:
        """The matrices of some steps at a time, transposed to `[row, statistic, step]`."""
        schema = group.schema
        each = steps_in_tile(schema)
        for first in range(0, len(group.steps), each):
            some = [self._matrix(group, position) for position in range(first, min(first + each, len(group.steps)))]
            shape = (len(some), len(schema.rows), len(schema.statistics))
            matrices = np.frombuffer(b"".join(some), schema.dtype).reshape(shape)
            # The copy makes each row contiguous on disk, which is the point of the transposition.
            yield np.ascontiguousarray(matrices.transpose(1, 2, 0))

    def _matrix(self, group: _Group, position: int) -> bytes:
        data = self._backend.read(self._stem + PART, group.offsets[position], group.schema.matrix_bytes)
        if crc32(data) != group.checksums[position]:
            # Sealing would give it a new, valid checksum, and hide the damage.
            step = group.steps[position]
            raise DamagedError(f"{self._stem + PART}: the statistics of step {step} have a wrong checksum.")
        return data

    def drop(self) -> None:
        """Remove the `.part` file, once its content is in the sealed file or no index refers to it."""
        with suppress(OSError):
            self._file.close()
            self._backend.remove(self._stem + PART)

    def close(self) -> None:
        """Close the file as it is; it stays readable."""
        self._file.close()
