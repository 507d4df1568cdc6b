"""Arrays out of segments, sealed or growing: each checked against what was written."""

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
from cutaway.store.format.filenames import PART, SEALED, statistics_stem, values_stem
from cutaway.store.format.records import Block, Schema, StepRecord
from cutaway.store.reading.index import SessionIndex
from cutaway.store.reading.lru_cache import Cache

_MOST_TILE = 256 << 20
_MOST_PROBLEMS = 1000
_STEPS_AT_ONCE = 256
_BYTES_AT_ONCE = 1 << 20
"""So much is read, and checked, in one go; beyond that, the few bytes that are asked for are read one by one."""


class Segments:
    """Reads what the indexes of an archive point to."""

    def __init__(self, backend: Backend, cache: Cache) -> None:
        self._backend = backend
        self._cache = cache
        self._starts: dict[str, int] = {}
        self._headers: dict[str, Mapping[str, Entry]] = {}
        self._problems: dict[str, None] = {}
        self._good: set[tuple[str, int]] = set()

    @property
    def problems(self) -> tuple[str, ...]:
        """Damage that reading came upon and went around."""
        return tuple(self._problems)

    @property
    def n_cached(self) -> int:
        """Bytes of what was read that are kept in memory."""
        return self._cache.n_bytes

    def note(self, problem: DamagedError) -> None:
        """Keep in mind that something is missing in what was read."""
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems[str(problem)] = None

    # values

    def raw(self, index: SessionIndex, block: Block, place: int) -> Raw:
        """One tensor of a block, as it was written."""
        layout = index.layout_of(block)
        start, stop = layout.starts[place], layout.starts[place + 1]
        stem = values_stem(index.folder, index.number, block.segment)
        name, data = self._values(stem, block.offset + start, stop - start)
        expected = int.from_bytes(block.checksums[4 * place : 4 * place + 4], "little")
        if len(data) < stop - start:
            raise DamagedError(f"{name} ends before the values that should be there: it was cut short.")
        if crc32(data) != expected:
            raise DamagedError(f"{name}, {stop - start:,} bytes of values: they are not what was written.")
        return Raw(layout.dtypes[place], layout.shapes[place], data)

    def mapped(self, index: SessionIndex, block: Block, place: int) -> Raw:
        """One tensor of a block, mapped into memory where it lies in a sealed segment of this machine.

        It is checked the first time only; whoever holds it keeps the file mapped.
        """
        layout = index.layout_of(block)
        start, size = block.offset + layout.starts[place], layout.starts[place + 1] - layout.starts[place]
        name = values_stem(index.folder, index.number, block.segment) + SEALED
        if not isinstance(self._backend, MappingBackend):
            return self.raw(index, block, place)
        try:
            data = self._backend.map(name, self._start(name) + start, size)
        except (OSError, ValueError):  # it is not sealed, or this file system maps nothing
            self._starts.pop(name, None)
            return self.raw(index, block, place)
        if len(data) < size:
            raise DamagedError(f"{name} ends before the values that should be there: it was cut short.")
        if (name, start) not in self._good:
            if crc32(data) != int.from_bytes(block.checksums[4 * place : 4 * place + 4], "little"):
                raise DamagedError(f"{name}, {size:,} bytes of values: they are not what was written.")
            self._good.add((name, start))
        return Raw(layout.dtypes[place], layout.shapes[place], data)

    def _values(self, stem: str, offset: int, size: int) -> tuple[str, bytes]:
        """Bytes of the data of a segment, under whichever name it has now."""
        for name in (stem + SEALED, stem + PART, stem + SEALED):  # it may be sealed in between
            try:
                return name, self._read(name, self._start(name) + offset, size)
            except FileNotFoundError:
                self._starts.pop(name, None)
        raise DamagedError(f"neither {stem + SEALED} nor {stem + PART} is there, and the values in it cannot be read.")

    def _start(self, name: str) -> int:
        """Where the data of a file begins."""
        start = self._starts.get(name)
        if start is None:
            head = self._read(name, 0, 8)
            if len(head) < 8:
                raise DamagedError(f"{name} does not begin with the length of a header.")
            start = self._starts[name] = 8 + int.from_bytes(head, "little")
        return start

    # statistics

    def matrix(self, index: SessionIndex, step: StepRecord) -> NDArray[Any]:
        """All statistics of one step, `[row, statistic]`."""
        schema = index.schema_of(step.schema)
        shape = (len(schema.rows), len(schema.statistics))
        if step.matrix is None:
            return np.broadcast_to(np.asarray(np.nan, schema.dtype), shape)
        segment, offset, checksum = step.matrix
        name = _growing(index, segment)
        matrix: NDArray[Any] | None = None
        if not self._is_sealed(index, segment):
            try:
                data = _whole(self._read(name, offset, schema.matrix_bytes), schema.matrix_bytes, name)
                matrix = np.frombuffer(data, schema.dtype).reshape(shape)
            except FileNotFoundError:
                self._must_be_sealed(index, segment)  # in between
        if matrix is None:
            name = _sealed(index, segment)
            matrix = self._turned_back(index, segment, schema, step.step)
        if crc32(matrix.tobytes()) != checksum:
            raise DamagedError(f"{name}, statistics of step {step.step}: they are not what was written.")
        return matrix

    def curve(self, index: SessionIndex, steps: Sequence[StepRecord], row: int, column: int) -> NDArray[Any]:
        """One statistic of one row at steps of one schema whose matrices lie in one segment.

        Where some of it is damaged, that is NaN and `problems` says so; where all of it is, that is an error.
        """
        schema = index.schema_of(steps[0].schema)
        places = [step.matrix for step in steps if step.matrix is not None]
        segment = places[0][0]
        if not self._is_sealed(index, segment):
            try:
                return self._growing_curve(index, schema, places, row, column)
            except FileNotFoundError:
                self._must_be_sealed(index, segment)
        return self._sealed_curve(index, segment, steps, row, column)

    def rows(self, index: SessionIndex, steps: Sequence[StepRecord], row: int) -> NDArray[Any]:
        """Every statistic of one row at steps of one schema whose matrices lie in one segment, `[step, statistic]`.

        Only what holds these steps is read. What is damaged is NaN, and `problems` says so.
        """
        schema = index.schema_of(steps[0].schema)
        places = [step.matrix for step in steps if step.matrix is not None]
        segment = places[0][0]
        if not self._is_sealed(index, segment):
            try:
                return self._growing_rows(index, schema, places, row)
            except FileNotFoundError:
                self._must_be_sealed(index, segment)
        there = self._steps(index, segment, schema)
        wanted = np.fromiter((step.step for step in steps), np.int64, len(steps))
        at = np.minimum(np.searchsorted(there, wanted), max(len(there) - 1, 0))
        is_there = there[at] == wanted if len(there) else np.zeros(len(wanted), bool)
        found = np.full((len(steps), len(schema.statistics)), np.nan, schema.dtype)
        start = 0
        for number, entry in enumerate(self._tiles(index, segment, schema)):
            stop = start + entry.shape[2]
            inside = np.flatnonzero(is_there & (at >= start) & (at < stop))
            if len(inside):
                try:
                    tile = self._tile_row(index, segment, schema, number, row)
                    found[inside] = tile[:, at[inside] - start].T
                except DamagedError as error:
                    self.note(error)
            start = stop
        return found

    # statistics that grow

    def _growing_rows(
        self, index: SessionIndex, schema: Schema, places: Sequence[tuple[int, int, int]], row: int
    ) -> NDArray[Any]:
        name = _growing(index, places[0][0])
        try:
            return self._rows(name, schema, places, row)
        except DamagedError:
            found = np.full((len(places), len(schema.statistics)), np.nan, schema.dtype)
        for number, place in enumerate(places):
            try:
                found[number] = self._rows(name, schema, [place], row)[0]
            except DamagedError as error:
                self.note(error)
        return found

    def _growing_curve(
        self, index: SessionIndex, schema: Schema, places: Sequence[tuple[int, int, int]], row: int, column: int
    ) -> NDArray[Any]:
        name = _growing(index, places[0][0])
        found = np.full(len(places), np.nan, schema.dtype)
        problem: DamagedError | None = None
        n_read = 0
        for first in range(0, len(places), _STEPS_AT_ONCE):
            some = places[first : first + _STEPS_AT_ONCE]
            try:
                if len(some) == _STEPS_AT_ONCE:
                    key = (name, schema.id, row, some[0], some[-1])
                    rows = self._cache.find(key, lambda some=some: self._rows(name, schema, some, row))  # type: ignore[misc]
                else:
                    rows = self._rows(name, schema, some, row)
                found[first : first + len(some)] = rows[:, column]
                n_read += len(some)
            except DamagedError:
                for number, place in enumerate(some):
                    try:
                        found[first + number] = self._rows(name, schema, [place], row)[0, column]
                        n_read += 1
                    except DamagedError as error:
                        problem = error
                        self.note(error)
        if problem is not None and not n_read:
            raise problem
        return found

    def _rows(
        self, name: str, schema: Schema, places: Sequence[tuple[int, int, int]], row: int
    ) -> NDArray[Any]:  # [step, statistic]
        size = schema.matrix_bytes
        width = size // len(schema.rows)
        first = min(offset for _, offset, _ in places)
        span = max(offset for _, offset, _ in places) + size - first
        pieces: list[bytes | memoryview]
        if span > _BYTES_AT_ONCE:
            pieces = [self._row_of(name, offset, checksum, size, slice(row * width, (row + 1) * width))
                      for _, offset, checksum in places]  # fmt: skip
        else:
            data = memoryview(_whole(self._read(name, first, span), span, name))
            pieces = []
            for _, offset, checksum in places:
                matrix = data[offset - first : offset - first + size]
                if crc32(matrix) != checksum:
                    raise DamagedError(f"{name}, statistics at byte {offset}: they are not what was written.")
                pieces.append(matrix[row * width : (row + 1) * width])
        return np.frombuffer(b"".join(pieces), schema.dtype).reshape(len(places), len(schema.statistics))

    def _row_of(self, name: str, offset: int, checksum: int, size: int, row: slice) -> bytes:
        """A row of a matrix that is checked as a whole the first time something of it is read."""
        if (name, offset) in self._good:
            return _whole(self._read(name, offset + row.start, row.stop - row.start), row.stop - row.start, name)
        matrix = _whole(self._read(name, offset, size), size, name)
        if crc32(matrix) != checksum:
            raise DamagedError(f"{name}, statistics at byte {offset}: they are not what was written.")
        self._good.add((name, offset))
        return matrix[row]

    # statistics that were sealed

    def _turned_back(self, index: SessionIndex, segment: int, schema: Schema, step: int) -> NDArray[Any]:
        """The matrix of one step out of the tile it lies in."""
        steps = self._steps(index, segment, schema)
        place = int(np.searchsorted(steps, step))
        if place < len(steps) and steps[place] == step:
            for number, entry in enumerate(self._tiles(index, segment, schema)):
                if place < entry.shape[2]:
                    return np.ascontiguousarray(self._tile(index, segment, schema, number)[:, :, place])
                place -= entry.shape[2]
        raise DamagedError(f"{_sealed(index, segment)} does not hold step {step}.")

    def _sealed_curve(
        self, index: SessionIndex, segment: int, steps: Sequence[StepRecord], row: int, column: int
    ) -> NDArray[Any]:
        schema = index.schema_of(steps[0].schema)
        if segment not in index.matrix_seals:  # the checksums of rows are not known (yet), those of steps are
            return self._stepwise_curve(index, steps, row, column)
        there = self._steps(index, segment, schema)
        found = np.full(len(there), np.nan, schema.dtype)
        problem: DamagedError | None = None
        at = n_read = 0
        for number, entry in enumerate(self._tiles(index, segment, schema)):
            stop = at + entry.shape[2]
            try:
                found[at:stop] = self._tile_row(index, segment, schema, number, row)[column]
                n_read += 1
            except DamagedError as error:
                problem = error
                self.note(error)
            at = stop
        if problem is not None and not n_read:
            raise problem
        wanted = np.fromiter((step.step for step in steps), np.int64, len(steps))
        if np.array_equal(there, wanted):
            return found
        places = np.minimum(np.searchsorted(there, wanted), max(len(there) - 1, 0))
        is_there = there[places] == wanted if len(there) else np.zeros(len(wanted), bool)
        if not is_there.all():
            missing = DamagedError(f"{_sealed(index, segment)} does not hold step {wanted[~is_there][0]}.")
            self.note(missing)
            if not is_there.any():
                raise missing
        chosen = np.full(len(wanted), np.nan, schema.dtype)
        chosen[is_there] = found[places[is_there]]
        return chosen

    def _stepwise_curve(self, index: SessionIndex, steps: Sequence[StepRecord], row: int, column: int) -> NDArray[Any]:
        found = np.full(len(steps), np.nan, index.schema_of(steps[0].schema).dtype)
        problem: DamagedError | None = None
        n_read = 0
        for number, step in enumerate(steps):
            try:
                found[number] = self.matrix(index, step)[row, column]
                n_read += 1
            except DamagedError as error:
                problem = error
                self.note(error)
        if problem is not None and not n_read:
            raise problem
        return found

    def _tile(self, index: SessionIndex, segment: int, schema: Schema, number: int) -> NDArray[Any]:
        """One tile, `[row, statistic, step]`. Each step of it is checked by whoever takes it out."""

        def read() -> NDArray[Any]:
            entry = self._tiles(index, segment, schema)[number]
            data = self._sealed_bytes(_sealed(index, segment), entry.start, entry.stop - entry.start)
            return np.frombuffer(data, schema.dtype).reshape(entry.shape)

        return self._cache.find((_sealed(index, segment), schema.id, "tile", number), read)

    def _tile_row(self, index: SessionIndex, segment: int, schema: Schema, number: int, row: int) -> NDArray[Any]:
        """One row of a tile, `[statistic, step]`."""

        def read() -> NDArray[Any]:
            entry = self._tiles(index, segment, schema)[number]
            size = (entry.stop - entry.start) // len(schema.rows)
            data = self._sealed_bytes(_sealed(index, segment), entry.start + row * size, size)
            self._check(index, segment, entry.name, data, row)
            return np.frombuffer(data, schema.dtype).reshape(entry.shape[1:])

        return self._cache.find((_sealed(index, segment), schema.id, "row", number, row), read)

    def _steps(self, index: SessionIndex, segment: int, schema: Schema) -> NDArray[Any]:
        """The steps of one schema that a sealed file holds."""

        def read() -> NDArray[Any]:
            entry = self._steps_entry(index, segment, schema)
            data = self._sealed_bytes(_sealed(index, segment), entry.start, entry.stop - entry.start)
            self._check(index, segment, entry.name, data, 0)
            return np.frombuffer(data, "<i8")

        return self._cache.find((_sealed(index, segment), schema.id, "steps"), read)

    def _steps_entry(self, index: SessionIndex, segment: int, schema: Schema) -> Entry:
        name = _sealed(index, segment)
        entry = self._header(name).get(f"steps/{schema.id}")
        if entry is None or entry.dtype != "int64" or len(entry.shape) != 1:
            raise DamagedError(f"{name} does not say which steps of schema {schema.id} it holds.")
        _check_size(name, entry)
        return entry

    def _tiles(self, index: SessionIndex, segment: int, schema: Schema) -> list[Entry]:
        """Where the tiles of one schema lie."""
        name = _sealed(index, segment)
        header, found = self._header(name), list[Entry]()
        while (entry := header.get(f"statistics/{schema.id}/{len(found)}")) is not None:
            if entry.shape[:2] != (len(schema.rows), len(schema.statistics)) or len(entry.shape) != 3:
                raise DamagedError(f"{name}: {entry.name} has the shape {list(entry.shape)}, which its schema has not.")
            if entry.dtype != schema.dtype:
                raise DamagedError(f"{name}: {entry.name} is {entry.dtype}, and its schema says {schema.dtype}.")
            _check_size(name, entry)
            found.append(entry)
        n_steps = self._steps_entry(index, segment, schema).shape[0]
        if sum(entry.shape[2] for entry in found) != n_steps:
            raise DamagedError(f"{name} does not hold statistics of all the {n_steps:,} steps it says.")
        return found

    def _is_sealed(self, index: SessionIndex, segment: int) -> bool:
        """Whether the turned file is there: a reader may not know yet, or the record that says so be damaged."""
        name = _sealed(index, segment)
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
            name = _growing(index, segment)
            raise DamagedError(f"{name} is not there, and the statistics in it cannot be read without.")

    def _check(self, index: SessionIndex, segment: int, tensor: str, data: bytes, row: int) -> None:
        if segment not in index.matrix_seals:
            return  # its checksums are not known (yet)
        expected = index.matrix_seals[segment].checksums.get(tensor, b"")[4 * row : 4 * row + 4]
        if len(expected) != 4 or crc32(data) != int.from_bytes(expected, "little"):
            raise DamagedError(f"{_sealed(index, segment)}, row {row} of {tensor}: it is not what was written.")

    # files

    def _sealed_bytes(self, name: str, start: int, size: int) -> bytes:
        try:
            return _whole(self._read(name, self._start(name) + start, size), size, name)
        except FileNotFoundError:
            self._headers.pop(name, None)
            raise _missing(name) from None

    def _header(self, name: str) -> Mapping[str, Entry]:
        """What a sealed file says it holds."""
        found = self._headers.get(name)
        if found is None:
            found, _ = read_header(self._backend, name)
            self._headers[name] = found
        return found

    def _read(self, name: str, start: int, size: int) -> bytes:
        try:
            return self._backend.read(name, start, size)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unreadable(name, error) from error
        except MemoryError as error:
            raise MemoryLimitError(f"{name}: there is no memory for {size:,} bytes of it.") from error


def read_header(backend: Backend, name: str) -> tuple[Mapping[str, Entry], Mapping[str, str]]:
    """The tensors and the metadata of a sealed file."""
    try:
        head = backend.read(name, 0, 8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > MAX_HEADER_BYTES:
            raise DamagedError(f"{name} does not begin with the length of a header.")
        size = backend.size(name)
        text = _whole(backend.read(name, 8, length), length, name)
    except FileNotFoundError:
        raise _missing(name) from None
    except OSError as error:
        raise _unreadable(name, error) from error
    try:
        return parse(text, size - 8 - length)
    except DamagedError as error:
        raise DamagedError(f"{name}: {error}") from error


def _check_size(name: str, entry: Entry) -> None:
    """Refuse what no writer writes: a file can be one great hole, and take nothing but an allocation."""
    if entry.stop - entry.start > _MOST_TILE:
        raise DamagedError(f"{name}: {entry.name} takes {entry.stop - entry.start:,} bytes, which none does.")


def _whole(data: bytes, size: int, name: str) -> bytes:
    if len(data) < size:
        raise DamagedError(f"{name} ends before what should be there: it was cut short.")
    return data


def _missing(name: str) -> DamagedError:
    return DamagedError(f"{name} is not there, and what is in it cannot be read without.")


def _unreadable(name: str, error: OSError) -> DamagedError:
    return DamagedError(f"{name} cannot be read: {error.strerror or error}.")


def _sealed(index: SessionIndex, segment: int) -> str:
    return statistics_stem(index.folder, index.number, segment) + SEALED


def _growing(index: SessionIndex, segment: int) -> str:
    return statistics_stem(index.folder, index.number, segment) + PART
