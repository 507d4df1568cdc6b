"""Value segments: tensors back to back, growing as `.part`, a valid `.safetensors` file once sealed.

    u64 N | N bytes for the header | data

While a segment grows, the header area is empty and the index holds the location of each tensor. Sealing writes the
header, padded with spaces, and renames the file: no tensor moves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

from cutaway.core.arrays import Raw, nbytes_of
from cutaway.core.errors import DamagedError
from cutaway.core.safetensors import Entry, entry_length, header
from cutaway.store.backends.backend import Backend
from cutaway.store.format.filenames import PART, SEALED
from cutaway.store.format.sealed_files import write_sealed

_CHUNK = 8 << 20
_SLACK = 0.05
"""If unused header space would exceed this share of a segment, sealing copies the file without it."""
_METADATA = {"cutaway": "values"}
_HEADER_BASE = len(header([], _METADATA)) + 16


@dataclass(frozen=True, slots=True)
class Limits:
    """When a segment is sealed and the next one started: whichever limit is reached first."""

    bytes: int = 256 << 20
    tensors: int = 10_000
    steps: int = 4_096
    header: int = 2 << 20
    """Bytes reserved for the header; more if the first block needs it."""


@dataclass(frozen=True)
class BlockContents:
    """Keys, dtypes and shapes of the tensors of a block; shared by all steps, so that each step takes little memory."""

    keys: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]
    """Offset of each tensor within the block, then the end of the last one."""

    @property
    def n_bytes(self) -> int:
        return self.starts[-1]

    def header_length(self, prefix: str) -> int:
        """Bytes of their header entries, with room for twenty digits per offset."""
        length, n_names = self._lengths
        return length + n_names * (_quoted_length(prefix) + 1)

    @cached_property
    def _lengths(self) -> tuple[int, int]:
        """Bytes of the header entries without prefixes, and the number of prefixes."""
        length = n_names = 0
        for key, dtype, shape in zip(self.keys, self.dtypes, self.shapes, strict=True):
            size = nbytes_of(dtype, shape)
            one_letter, two_letters = (entry_length(Entry(name, dtype, shape, 0, size)) for name in ("x", "xx"))
            times = two_letters - one_letter  # a dtype unknown to safetensors repeats the name in the metadata
            length += one_letter + times * (_quoted_length(key) - 1) + 40 - len(f"0{size}")
            n_names += times
        return length, n_names

    def entries(self, prefix: str, offset: int) -> Iterator[Entry]:
        """Header entries of a block that starts at `offset`."""
        for number, key in enumerate(self.keys):
            start, stop = offset + self.starts[number], offset + self.starts[number + 1]
            yield Entry(f"{prefix}/{key}", self.dtypes[number], self.shapes[number], start, stop)


class ValuesSegment:
    """A growing value segment. The constructor reserves header space based on the first block, but writes nothing."""

    def __init__(
        self, backend: Backend, stem: str, number: int, limits: Limits, *, first: tuple[str, BlockContents]
    ) -> None:
        self.number = number
        self._backend = backend
        self._stem = stem
        self._limits = limits
        self._blocks: list[tuple[str, BlockContents | None, int]] = []
        """Prefix, contents and offset of each block; contents are None if no index refers to it."""
        self._n_blocks = 0
        self._n_tensors = 0
        self._header_length = _HEADER_BASE
        self._reserved = _reserve(*first, limits)
        self._file = backend.append(stem + PART)
        try:
            self._file.write([self._reserved.to_bytes(8, "little"), bytes(self._reserved)])
        except BaseException:
            self.drop()  # otherwise a full disk collects empty files
            raise
        self._start = self._file.size

    @property
    def n_bytes(self) -> int:
        """Bytes of data so far."""
        return self._file.size - self._start

    @property
    def is_empty(self) -> bool:
        """Whether no index refers to it."""
        return not self._n_blocks

    def has_room(self, prefix: str, contents: BlockContents) -> bool:
        """Whether a block fits within the limits."""
        limits = self._limits
        return not self._blocks or (
            self.n_bytes + contents.n_bytes <= limits.bytes
            and self._n_tensors + len(contents.keys) <= limits.tensors
            and self._n_blocks < limits.steps
            and self._header_length + contents.header_length(prefix) <= self._reserved
        )

    def write(self, prefix: str, contents: BlockContents, parts: Sequence[Raw]) -> int:
        """Append a block; returns its offset in the data."""
        offset = self._file.write([part.data for part in parts]) - self._start
        self._blocks.append((prefix, contents, offset))
        self._n_blocks += 1
        self._n_tensors += len(contents.keys)
        self._header_length += contents.header_length(prefix)
        return offset

    def forget_last(self) -> None:
        """Mark the last block as unknown to the index; the file stays valid."""
        prefix, contents, offset = self._blocks.pop()
        if contents is not None:
            self._blocks.append((prefix, None, offset))
            self._n_blocks -= 1
            # Minus one: the block stays in the file as a single "unindexed" tensor, so that the header has no gap.
            self._n_tensors -= len(contents.keys) - 1

    def _entries(self) -> list[Entry]:
        entries: list[Entry] = []
        names: set[str] = set()
        stops = [offset for _, _, offset in self._blocks[1:]] + [self.n_bytes]
        for (prefix, contents, offset), stop in zip(self._blocks, stops, strict=True):
            if contents is not None:
                entries += [_renamed(entry, names) for entry in contents.entries(prefix, offset)]
            elif stop > offset:
                entries.append(_renamed(Entry(f"unindexed/{offset}", "uint8", (stop - offset,), offset, stop), names))
        return entries

    def sync(self) -> None:
        """Wait until everything written would survive a power loss."""
        self._file.sync()

    def seal(self, *, fsync: bool) -> tuple[int, int]:
        """Turn it into a `.safetensors` file; returns its size and the CRC-32 of everything before the data."""
        text = header(self._entries(), _METADATA)
        # safetensors asks for data that starts at a multiple of 8 bytes, and allows trailing spaces in the header.
        text += b" " * (-len(text) % 8)
        # Patching the header in place is the usual case: no byte of the data is copied, however large the segment is.
        if len(text) > self._reserved or self._reserved - len(text) > _SLACK * self.n_bytes:
            return self._copy(text, fsync)
        text = text.ljust(self._reserved)
        self._file.patch(8, text)
        if fsync:
            self._file.sync()
        size = self._file.size
        self._file.close()
        self._backend.rename(self._stem + PART, self._stem + SEALED, sync=fsync)
        return size, crc32(text, crc32(self._reserved.to_bytes(8, "little")))

    def _copy(self, text: bytes, fsync: bool) -> tuple[int, int]:
        head = len(text).to_bytes(8, "little") + text
        n_bytes = self.n_bytes
        with write_sealed(self._backend, self._stem, fsync=fsync) as copy:
            copy.write([head])
            for at in range(0, n_bytes, _CHUNK):
                size = min(_CHUNK, n_bytes - at)
                data = self._backend.read(self._stem + PART, self._start + at, size)
                if len(data) < size:
                    # Copying less would give truncated data a valid header.
                    raise DamagedError(f"{self._stem + PART} was truncated by another process.")
                copy.write([data])
        self.drop()
        return copy.size, crc32(head)

    def drop(self) -> None:
        """Remove the `.part` file, once its content is elsewhere or no index refers to it."""
        with suppress(OSError):
            self._file.close()
            self._backend.remove(self._stem + PART)

    def close(self) -> None:
        """Close the file as it is; it stays readable."""
        self._file.close()


def _renamed(entry: Entry, names: set[str]) -> Entry:
    """The entry with a unique name."""
    name, again = entry.name, 1
    while name in names:
        again += 1
        name = f"{entry.name}~{again}"
    names.add(name)
    return entry if again == 1 else Entry(name, entry.dtype, entry.shape, entry.start, entry.stop)


def _quoted_length(text: str) -> int:
    is_plain = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
    return len(text) if is_plain else len(json.dumps(text)) - 2


def _reserve(prefix: str, contents: BlockContents, limits: Limits) -> int:
    """Header space for a full segment of such blocks, within the limit; at least enough for this block."""
    each = contents.header_length(prefix)
    n_bytes, n_tensors = max(contents.n_bytes, 1), max(len(contents.keys), 1)
    # A segment is full at whichever limit comes first, so the header never needs room for more blocks than that.
    n_blocks = min(limits.steps, limits.bytes // n_bytes + 1, limits.tensors // n_tensors + 1)
    wanted = max(_HEADER_BASE + each, min(_HEADER_BASE + each * n_blocks, limits.header))
    return wanted + -wanted % 8
