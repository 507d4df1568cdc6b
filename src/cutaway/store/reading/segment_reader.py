"""Reads arrays from segments, sealed or growing, and verifies their checksums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError, MemoryLimitError
from cutaway.core.safetensors import MAX_HEADER_BYTES, Entry, parse
from cutaway.store.backends.backend import Backend, MappingBackend
from cutaway.store.format.filenames import FLIGHT_SEGMENT, PART, SEALED, flight_name, statistics_stem, values_stem
from cutaway.store.format.records import Block, Schema, StepRecord
from cutaway.store.reading.index import SessionIndex
from cutaway.store.reading.lru_cache import LRUCache

# Writers make tiles of 4 MiB, or of 16 steps where one step is larger; MOST_CELLS bounds those at 256 MiB.
_MAX_TILE = 256 << 20
_MAX_DAMAGE = 1000
_STEPS_AT_ONCE = 256
_BYTES_AT_ONCE = 1 << 20
"""Up to this many bytes are read and verified in one go; beyond that, rows are read one by one."""


class SegmentReader:
    """Reads what the indexes of an archive refer to."""

    def __init__(self, backend: Backend, cache: LRUCache) -> None:
        self._backend = backend
        self._cache = cache
        self._starts: dict[str, int] = {}
        self._headers: dict[str, Mapping[str, Entry]] = {}
        self._damage: dict[str, None] = {}
        self._verified: set[tuple[str, int]] = set()

    @property
    def damage(self) -> tuple[str, ...]:
        """Damage that reading found and skipped."""
        return tuple(self._damage)

    @property
    def n_cached(self) -> int:
        """Bytes of cached data."""
        return self._cache.n_bytes

    def note(self, error: DamagedError) -> None:
        """Record damage that was skipped."""
        if len(self._damage) < _MAX_DAMAGE:
            self._damage[str(error)] = None

    # Values

    def raw(self, index: SessionIndex, block: Block, position: int) -> Raw:
        """One tensor of a block with its stored dtype."""
        layout = index.layout_of(block)
        start, stop = layout.starts[position], layout.starts[position + 1]
        stem = values_stem(index.folder, index.number, block.segment)
        name, data = self._values(stem, block.offset + start, stop - start)
        expected = int.from_bytes(block.checksums[4 * position : 4 * position + 4], "little")
        if len(data) < stop - start:
            raise DamagedError(f"{name} is truncated: it ends before the values.")
        if crc32(data) != expected:
            raise DamagedError(f"{name}: {stop - start:,} bytes of values have a wrong checksum.")
        return Raw(layout.dtypes[position], layout.shapes[position], data)

    def map(self, index: SessionIndex, block: Block, position: int) -> Raw:
        """One tensor of a block, memory-mapped if it is in a sealed local segment.

        The checksum is verified on first access only. The file stays mapped as long as the array lives.
        """
        layout = index.layout_of(block)
        start, size = block.offset + layout.starts[position], layout.starts[position + 1] - layout.starts[position]
        name = values_stem(index.folder, index.number, block.segment) + SEALED
        if not isinstance(self._backend, MappingBackend):
            return self.raw(index, block, position)
        try:
            data = self._backend.map(name, self._start(name) + start, size)
        except (OSError, ValueError):  # not sealed, or the file system cannot map
            self._starts.pop(name, None)
            return self.raw(index, block, position)
        if len(data) < size:
            raise DamagedError(f"{name} is truncated: it ends before the values.")
        # A checksum reads all pages of the mapping; doing so on each access would defeat mapping.
        if (name, start) not in self._verified:
            if crc32(data) != int.from_bytes(block.checksums[4 * position : 4 * position + 4], "little"):
                raise DamagedError(f"{name}: {size:,} bytes of values have a wrong checksum.")
            self._verified.add((name, start))
        return Raw(layout.dtypes[position], layout.shapes[position], data)

    def _values(self, stem: str, offset: int, size: int) -> tuple[str, bytes]:
        """Bytes of a segment's data, under its current name."""
        for name in (stem + SEALED, stem + PART, stem + SEALED):  # it may be sealed between two attempts
            try:
                return name, self._read(name, self._start(name) + offset, size)
            except FileNotFoundError:
                self._starts.pop(name, None)
        raise DamagedError(f"{stem + SEALED} and {stem + PART} are both missing, so their values cannot be read.")

    def _start(self, name: str) -> int:
        """Offset of the data in a file."""
        start = self._starts.get(name)
        if start is None:
            head = self._read(name, 0, 8)
            if len(head) < 8:
                raise DamagedError(f"{name} does not start with a header length.")
            start = self._starts[name] = 8 + int.from_bytes(head, "little")
        return start

    # Statistics

    def matrix(self, index: SessionIndex, step: StepRecord) -> NDArray[Any]:
        """All statistics of one step, `[row, statistic]`."""
        schema = index.schema_of(step.schema)
        shape = (len(schema.rows), len(schema.statistics))
        if step.matrix is None:
            return np.broadcast_to(np.asarray(np.nan, schema.dtype), shape)
        segment, offset, checksum = step.matrix
        name = _growing_name(index, segment)
        matrix: NDArray[Any] | None = None
        if not self._is_sealed(index, segment):
            try:
                data = _check_length(self._read(name, offset, schema.matrix_bytes), schema.matrix_bytes, name)
                matrix = np.frombuffer(data, schema.dtype).reshape(shape)
            except FileNotFoundError:
                self._must_be_sealed(index, segment)  # it was sealed in between
        if matrix is None:
            name = _sealed_name(index, segment)
            matrix = self._matrix_from_tile(index, segment, schema, step.step)
        if crc32(matrix.tobytes()) != checksum:
            raise DamagedError(f"{name}: the statistics of step {step.step} have a wrong checksum.")
        return matrix

    def curve(self, index: SessionIndex, steps: Sequence[StepRecord], row: int, column: int) -> NDArray[Any]:
        """One statistic of one row, at steps of one schema whose matrices are in one segment.

        Damaged steps are NaN and reported in `damage`; if all are damaged, raises DamagedError.
        """
        schema = index.schema_of(steps[0].schema)
        locations = [step.matrix for step in steps if step.matrix is not None]
        segment = locations[0][0]
        if not self._is_sealed(index, segment):
            try:
                return self._growing_curve(index, schema, locations, row, column)
            except FileNotFoundError:
                self._must_be_sealed(index, segment)
        return self._sealed_curve(index, segment, steps, row, column)

    def rows(self, index: SessionIndex, steps: Sequence[StepRecord], row: int) -> NDArray[Any]:
        """All statistics of one row, `[step, statistic]`, at steps of one schema whose matrices are in one segment.

        Reads only the tiles that hold these steps. Damaged steps are NaN and reported in `damage`.
        """
        schema = index.schema_of(steps[0].schema)
        locations = [step.matrix for step in steps if step.matrix is not None]
        segment = locations[0][0]
        if not self._is_sealed(index, segment):
            try:
                return self._growing_rows(index, schema, locations, row)
            except FileNotFoundError:
                self._must_be_sealed(index, segment)
        stored = self._steps(index, segment, schema)
        wanted = np.fromiter((step.step for step in steps), np.int64, len(steps))
        # searchsorted returns len(stored) for a step behind the last one, which would be out of range.
        at = np.minimum(np.searchsorted(stored, wanted), max(len(stored) - 1, 0))
        is_stored = stored[at] == wanted if len(stored) else np.zeros(len(wanted), bool)
        values = np.full((len(steps), len(schema.statistics)), np.nan, schema.dtype)
        start = 0
        for number, entry in enumerate(self._tiles(index, segment, schema)):
            stop = start + entry.shape[2]
            inside = np.flatnonzero(is_stored & (at >= start) & (at < stop))
            if len(inside):
                try:
                    tile = self._tile_row(index, segment, schema, number, row)
                    values[inside] = tile[:, at[inside] - start].T
                except DamagedError as error:
                    self.note(error)
            start = stop
        return values

    # Growing statistics

    def _growing_rows(
        self, index: SessionIndex, schema: Schema, locations: Sequence[tuple[int, int, int]], row: int
    ) -> NDArray[Any]:
        name = _growing_name(index, locations[0][0])
        try:
            return self._rows(name, schema, locations, row)
        # One bad matrix fails the whole read; now step by step, so that only that one is missing.
        except DamagedError:
            values = np.full((len(locations), len(schema.statistics)), np.nan, schema.dtype)
        for number, location in enumerate(locations):
            try:
                values[number] = self._rows(name, schema, [location], row)[0]
            except DamagedError as error:
                self.note(error)
        return values

    def _growing_curve(
        self, index: SessionIndex, schema: Schema, locations: Sequence[tuple[int, int, int]], row: int, column: int
    ) -> NDArray[Any]:
        name = _growing_name(index, locations[0][0])
        values = np.full(len(locations), np.nan, schema.dtype)
        failure: DamagedError | None = None
        n_read = 0
        for first in range(0, len(locations), _STEPS_AT_ONCE):
            some = locations[first : first + _STEPS_AT_ONCE]
            try:
                # Only full groups: the last one grows with each step, and each of its states would fill the cache.
                if len(some) == _STEPS_AT_ONCE:
                    key = (name, schema.id, row, some[0], some[-1])
                    rows = self._cache.find(key, lambda some=some: self._rows(name, schema, some, row))  # type: ignore[misc]
                else:
                    rows = self._rows(name, schema, some, row)
                values[first : first + len(some)] = rows[:, column]
                n_read += len(some)
            except DamagedError:
                for number, location in enumerate(some):
                    try:
                        values[first + number] = self._rows(name, schema, [location], row)[0, column]
                        n_read += 1
                    except DamagedError as error:
                        failure = error
                        self.note(error)
        if failure is not None and not n_read:
            raise failure
        return values

    def _rows(
        self, name: str, schema: Schema, locations: Sequence[tuple[int, int, int]], row: int
    ) -> NDArray[Any]:  # [step, statistic]
        size = schema.matrix_bytes
        width = size // len(schema.rows)
        first = min(offset for _, offset, _ in locations)
        span = max(offset for _, offset, _ in locations) + size - first
        pieces: list[bytes | memoryview]
        if span > _BYTES_AT_ONCE:
            pieces = [self._row_of(name, offset, checksum, size, slice(row * width, (row + 1) * width))
                      for _, offset, checksum in locations]  # fmt: skip
        else:
            # One read for all steps: their matrices lie next to each other while the schema does not change.
            data = memoryview(_check_length(self._read(name, first, span), span, name))
            pieces = []
            for _, offset, checksum in locations:
                matrix = data[offset - first : offset - first + size]
                if crc32(matrix) != checksum:
                    raise DamagedError(f"{name}: the statistics at byte {offset} have a wrong checksum.")
                pieces.append(matrix[row * width : (row + 1) * width])
        return np.frombuffer(b"".join(pieces), schema.dtype).reshape(len(locations), len(schema.statistics))

    def _row_of(self, name: str, offset: int, checksum: int, size: int, row: slice) -> bytes:
        """A row of a matrix; verifies the whole matrix on first access."""
        if (name, offset) in self._verified:
            return _check_length(self._read(name, offset + row.start, row.stop - row.start), row.stop - row.start, name)
        matrix = _check_length(self._read(name, offset, size), size, name)
        if crc32(matrix) != checksum:
            raise DamagedError(f"{name}: the statistics at byte {offset} have a wrong checksum.")
        self._verified.add((name, offset))
        return matrix[row]

    # Sealed statistics

    def _matrix_from_tile(self, index: SessionIndex, segment: int, schema: Schema, step: int) -> NDArray[Any]:
        """The matrix of one step, from its tile."""
        steps = self._steps(index, segment, schema)
        position = int(np.searchsorted(steps, step))
        if position < len(steps) and steps[position] == step:
            for number, entry in enumerate(self._tiles(index, segment, schema)):
                if position < entry.shape[2]:
                    return np.ascontiguousarray(self._tile(index, segment, schema, number)[:, :, position])
                position -= entry.shape[2]
        raise DamagedError(f"{_sealed_name(index, segment)} lacks step {step}.")

    def _sealed_curve(
        self, index: SessionIndex, segment: int, steps: Sequence[StepRecord], row: int, column: int
    ) -> NDArray[Any]:
        schema = index.schema_of(steps[0].schema)
        if segment not in index.matrix_seals:  # row checksums are not known (yet), only those of steps
            return self._stepwise_curve(index, steps, row, column)
        stored = self._steps(index, segment, schema)
        values = np.full(len(stored), np.nan, schema.dtype)
        failure: DamagedError | None = None
        at = n_read = 0
        for number, entry in enumerate(self._tiles(index, segment, schema)):
            stop = at + entry.shape[2]
            try:
                values[at:stop] = self._tile_row(index, segment, schema, number, row)[column]
                n_read += 1
            except DamagedError as error:
                failure = error
                self.note(error)
            at = stop
        if failure is not None and not n_read:
            raise failure
        wanted = np.fromiter((step.step for step in steps), np.int64, len(steps))
        if np.array_equal(stored, wanted):
            return values
        positions = np.minimum(np.searchsorted(stored, wanted), max(len(stored) - 1, 0))
        is_stored = stored[positions] == wanted if len(stored) else np.zeros(len(wanted), bool)
        if not is_stored.all():
            missing = DamagedError(f"{_sealed_name(index, segment)} lacks step {wanted[~is_stored][0]}.")
            self.note(missing)
            if not is_stored.any():
                raise missing
        chosen = np.full(len(wanted), np.nan, schema.dtype)
        chosen[is_stored] = values[positions[is_stored]]
        return chosen

    def _stepwise_curve(self, index: SessionIndex, steps: Sequence[StepRecord], row: int, column: int) -> NDArray[Any]:
        values = np.full(len(steps), np.nan, index.schema_of(steps[0].schema).dtype)
        failure: DamagedError | None = None
        n_read = 0
        for number, step in enumerate(steps):
            try:
                values[number] = self.matrix(index, step)[row, column]
                n_read += 1
            except DamagedError as error:
                failure = error
                self.note(error)
        if failure is not None and not n_read:
            raise failure
        return values

    def _tile(self, index: SessionIndex, segment: int, schema: Schema, number: int) -> NDArray[Any]:
        """One tile, `[row, statistic, step]`. The caller verifies the step that it takes out."""

        def read() -> NDArray[Any]:
            entry = self._tiles(index, segment, schema)[number]
            data = self._sealed_bytes(_sealed_name(index, segment), entry.start, entry.stop - entry.start)
            return np.frombuffer(data, schema.dtype).reshape(entry.shape)

        return self._cache.find((_sealed_name(index, segment), schema.id, "tile", number), read)

    def _tile_row(self, index: SessionIndex, segment: int, schema: Schema, number: int, row: int) -> NDArray[Any]:
        """One row of a tile, `[statistic, step]`."""

        def read() -> NDArray[Any]:
            entry = self._tiles(index, segment, schema)[number]
            size = (entry.stop - entry.start) // len(schema.rows)
            data = self._sealed_bytes(_sealed_name(index, segment), entry.start + row * size, size)
            self._check(index, segment, entry.name, data, row)
            return np.frombuffer(data, schema.dtype).reshape(entry.shape[1:])

        return self._cache.find((_sealed_name(index, segment), schema.id, "row", number, row), read)

    def _steps(self, index: SessionIndex, segment: int, schema: Schema) -> NDArray[Any]:
        """The steps of one schema in a sealed file."""

        def read() -> NDArray[Any]:
            entry = self._steps_entry(index, segment, schema)
            data = self._sealed_bytes(_sealed_name(index, segment), entry.start, entry.stop - entry.start)
            self._check(index, segment, entry.name, data, 0)
            return np.frombuffer(data, "<i8")

        return self._cache.find((_sealed_name(index, segment), schema.id, "steps"), read)

    def _steps_entry(self, index: SessionIndex, segment: int, schema: Schema) -> Entry:
        name = _sealed_name(index, segment)
        entry = self._header(name).get(f"steps/{schema.id}")
        if entry is None or entry.dtype != "int64" or len(entry.shape) != 1:
            raise DamagedError(f"{name} does not list its steps of schema {schema.id}.")
        _check_size(name, entry)
        return entry

    def _tiles(self, index: SessionIndex, segment: int, schema: Schema) -> list[Entry]:
        """Header entries of the tiles of one schema."""
        name = _sealed_name(index, segment)
        header, tiles = self._header(name), list[Entry]()
        while (entry := header.get(f"statistics/{schema.id}/{len(tiles)}")) is not None:
            if entry.shape[:2] != (len(schema.rows), len(schema.statistics)) or len(entry.shape) != 3:
                raise DamagedError(f"{name}: {entry.name} has shape {list(entry.shape)}, unlike its schema.")
            if entry.dtype != schema.dtype:
                raise DamagedError(f"{name}: {entry.name} is {entry.dtype}, but its schema says {schema.dtype}.")
            _check_size(name, entry)
            tiles.append(entry)
        n_steps = self._steps_entry(index, segment, schema).shape[0]
        if sum(entry.shape[2] for entry in tiles) != n_steps:
            raise DamagedError(f"{name} lacks statistics for some of its {n_steps:,} steps.")
        return tiles

    def _is_sealed(self, index: SessionIndex, segment: int) -> bool:
        """Whether the sealed file exists: its seal record may not be read yet, or be damaged."""
        name = _sealed_name(index, segment)
        if segment == FLIGHT_SEGMENT:
            return False
        if segment in index.matrix_seals or name in self._headers:
            return True
        try:
            self._backend.size(name)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unreadable(name, error) from error
        return True

    def _must_be_sealed(self, index: SessionIndex, segment: int) -> None:
        if not self._is_sealed(index, segment):
            name = _growing_name(index, segment)
            raise DamagedError(f"{name} is missing, so its statistics cannot be read.")

    def _check(self, index: SessionIndex, segment: int, tensor: str, data: bytes, row: int) -> None:
        if segment not in index.matrix_seals:
            return  # the checksums are not known (yet)
        expected = index.matrix_seals[segment].checksums.get(tensor, b"")[4 * row : 4 * row + 4]
        if len(expected) != 4 or crc32(data) != int.from_bytes(expected, "little"):
            raise DamagedError(f"{_sealed_name(index, segment)}: row {row} of {tensor} has a wrong checksum.")

    # Files

    def _sealed_bytes(self, name: str, start: int, size: int) -> bytes:
        try:
            return _check_length(self._read(name, self._start(name) + start, size), size, name)
        except FileNotFoundError:
            self._headers.pop(name, None)
            raise _missing_file(name) from None

    def _header(self, name: str) -> Mapping[str, Entry]:
        """The header entries of a sealed file."""
        entries = self._headers.get(name)
        if entries is None:
            entries, _ = read_header(self._backend, name)
            self._headers[name] = entries
        return entries

    def _read(self, name: str, start: int, size: int) -> bytes:
        try:
            return self._backend.read(name, start, size)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unreadable(name, error) from error
        except MemoryError as error:
            raise MemoryLimitError(f"{name}: not enough memory to read {size:,} bytes.") from error


def read_header(backend: Backend, name: str) -> tuple[Mapping[str, Entry], Mapping[str, str]]:
    """The tensors and the metadata of a sealed file."""
    try:
        head = backend.read(name, 0, 8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > MAX_HEADER_BYTES:
            raise DamagedError(f"{name} does not start with a header length.")
        size = backend.size(name)
        text = _check_length(backend.read(name, 8, length), length, name)
    except FileNotFoundError:
        raise _missing_file(name) from None
    except OSError as error:
        raise _unreadable(name, error) from error
    try:
        return parse(text, size - 8 - length)
    except DamagedError as error:
        raise DamagedError(f"{name}: {error}") from error


def _check_size(name: str, entry: Entry) -> None:
    """Refuse sizes that no writer writes: a sparse file costs an attacker nothing but makes us allocate."""
    if entry.stop - entry.start > _MAX_TILE:
        raise DamagedError(f"{name}: {entry.name} has {entry.stop - entry.start:,} bytes; the limit is {_MAX_TILE:,}.")


def _check_length(data: bytes, size: int, name: str) -> bytes:
    if len(data) < size:
        raise DamagedError(f"{name} is truncated.")
    return data


def _missing_file(name: str) -> DamagedError:
    return DamagedError(f"{name} is missing, so its content cannot be read.")


def _unreadable(name: str, error: OSError) -> DamagedError:
    return DamagedError(f"cannot read {name}: {error.strerror or error}.")


def _sealed_name(index: SessionIndex, segment: int) -> str:
    return statistics_stem(index.folder, index.number, segment) + SEALED


def _growing_name(index: SessionIndex, segment: int) -> str:
    if segment == FLIGHT_SEGMENT:
        return flight_name(index.folder, index.number)
    return statistics_stem(index.folder, index.number, segment) + PART
