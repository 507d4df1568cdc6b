"""Frames of an index file: a torn end or a flipped bit costs one record.

    "CUT1" | u32 length | u32 CRC-32 of the length's four bytes and the payload | payload: a msgpack map | zeros to 8

All numbers are little-endian, and every frame starts at a multiple of eight bytes. After an invalid frame, the reader
searches for the next valid one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import msgpack

from cutaway.core.errors import InputError

MAGIC: Final = b"CUT1"
MOST_BYTES: Final = 64 << 20
"""The longest payload; larger data are arrays, stored in segments."""
MAX_ENTRIES: Final = 65_536
"""The longest list or map in a record: msgpack allocates by the stated length before it sees the entries."""

MAX_CONTAINERS: Final = 1 << 20
"""The most lists and maps in a large record: each takes one byte in the file and eighty in memory."""

# Below this, even a payload of nested empty lists cannot take more than about 300 KB: no need to count.
_LARGE: Final = 4096
_HEAD = struct.Struct("<4sII")
_ALIGN = 8

Plain = None | bool | int | float | str | bytes | list["Plain"] | dict[str, "Plain"]
"""The values a record can hold."""

Record = dict[str, Any]
"""A decoded frame: a map with a `type`. `records.py` validates it and turns it into dataclasses."""


def encode(record: Mapping[str, Any]) -> bytes:
    """Encode one frame. Refuses what `decode` would refuse.

    >>> frame = encode({"type": "note", "text": "hello"})
    >>> frame[:4], len(frame) % 8
    (b'CUT1', 0)
    """
    try:
        payload: bytes = msgpack.packb(record, use_bin_type=True, unicode_errors="surrogatepass")
        # Decoding what was just encoded: a record that readers would refuse must fail here, not be lost on disk.
        if len(payload) <= MOST_BYTES:
            decode(payload)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"cannot write a record of type {record.get('type')!r}: {error}. It must be plain data: None, bool, int "
            f"(64 bits), float, str, bytes, and lists and dicts with text keys of up to {MAX_ENTRIES:,} entries."
        ) from error
    if len(payload) > MOST_BYTES:
        raise InputError(
            f"a record of type {record.get('type')!r} has {len(payload):,} bytes; the limit is {MOST_BYTES:,}. "
            "Store large data as arrays."
        )
    head = _HEAD.pack(MAGIC, len(payload), _checksum(len(payload), payload))
    return b"".join((head, payload, bytes(-(len(head) + len(payload)) % _ALIGN)))


def _checksum(length: int, payload: bytes | memoryview) -> int:
    return crc32(payload, crc32(length.to_bytes(4, "little")))


def decode(payload: bytes | memoryview) -> Record:
    """Decode a payload; `ValueError` if it is invalid."""
    max_length = min(len(payload), MAX_ENTRIES)
    counted = _Containers() if len(payload) > _LARGE else None
    try:
        if counted is not None:
            _walk(payload)
        record = msgpack.unpackb(
            payload,
            raw=False,
            unicode_errors="surrogatepass",
            strict_map_key=True,
            max_array_len=max_length,
            max_map_len=max_length,
            max_ext_len=0,
            ext_hook=_no_extension,
            list_hook=counted,
            object_hook=counted,
        )
    except (ValueError, TypeError, RecursionError, MemoryError, OverflowError, msgpack.UnpackException) as error:
        raise ValueError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        raise ValueError("it is not a map with a type")
    return record


def _walk(payload: bytes | memoryview) -> None:
    """Walk through a large payload without building objects.

    msgpack allocates by the stated length of a list, and nested lists can multiply that. A payload that can be walked
    to its end really has the entries it states.
    """
    walker = msgpack.Unpacker(max_buffer_size=len(payload) + 1)
    walker.feed(payload)
    walker.skip()


class _Containers:
    """Counts lists and maps while decoding."""

    def __init__(self) -> None:
        self._left = MAX_CONTAINERS

    def __call__(self, container: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {MAX_CONTAINERS:,} lists and maps")
        return container


def _no_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"it has the msgpack extension type {code}")


@dataclass(slots=True)
class Damage:
    """A range of damaged bytes in a file."""

    start: int
    stop: int
    reason: str


@dataclass(slots=True)
class ScanResult:
    """The records and the damage in a range of an index file."""

    records: list[Record] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    """Start of each record's frame, relative to the range."""
    damages: list[Damage] = field(default_factory=list)
    n_read: int = 0
    """Bytes consumed; an unfinished frame follows."""


def scan(data: bytes, *, is_last: bool = True) -> ScanResult:
    """Read all frames in a range that starts at a multiple of eight bytes.

    Args:
        is_last: whether the file ends here. If so, a frame that runs past the end is either unfinished or has a damaged
            length; valid frames after it decide which.
    """
    result = ScanResult()
    view = memoryview(data)
    effort = 2 * len(data) + MOST_BYTES
    at = 0
    while at < len(data):
        stop = _end_of(data, at)
        if stop is None:
            reason: str | None = "no frame starts here"
        elif stop > len(data):
            if not is_last:
                break
            reason = "its length reaches past the end of the file"
        else:
            reason = _add_record(result, view, at, stop)
        if reason is None:
            # `stop` is never 0 here: a frame has at least the 12 bytes of its head.
            at = stop or at
            continue
        if effort < 0:
            after = None  # a crafted file could make the search quadratic: stop after a bounded effort
        else:
            after, effort = _next_frame(data, at + _ALIGN, effort, is_last=is_last)
        if after is None and is_last and _may_be_unfinished(data, at):
            break
        after = len(data) if after is None else after
        result.damages.append(Damage(at, after, reason))
        at = after
    result.n_read = min(at, len(data))
    return result


def _end_of(data: bytes, at: int) -> int | None:
    """End of the frame that starts at `at`, from its length field; None if no frame starts there."""
    if len(data) - at < _HEAD.size:
        # A head that is cut off: its length is unknown, so it ends somewhere behind the data.
        return len(data) + 1 if MAGIC.startswith(data[at : at + 4]) else None
    magic, length, _ = _HEAD.unpack_from(data, at)
    if magic != MAGIC or length > MOST_BYTES:
        return None
    size = _HEAD.size + length
    return int(at + size + -size % _ALIGN)


def _add_record(result: ScanResult, view: memoryview, at: int, stop: int) -> str | None:
    """Add the frame to the result, or return what is wrong with it."""
    _, length, checksum = _HEAD.unpack_from(view, at)
    payload = view[at + _HEAD.size : at + _HEAD.size + length]
    if _checksum(length, payload) != checksum:
        return "its checksum is wrong"
    try:
        record = decode(payload)
    except ValueError as error:
        # The checksum is right but no writer writes this: skip only this frame.
        result.damages.append(Damage(at, stop, f"it is not a record: {error}"))
        return None
    result.records.append(record)
    result.offsets.append(at)
    return None


def _next_frame(data: bytes, start: int, effort: int, *, is_last: bool) -> tuple[int | None, int]:
    """Start of the next valid frame, or of one that may be valid once more of the file is read.

    `effort` limits the number of bytes checksummed on the way.
    """
    at = data.find(MAGIC, start)
    while at >= 0 and effort >= 0:
        # Payloads may contain the magic bytes, for example in a note; only an aligned one can be a frame.
        stop = _end_of(data, at) if at % _ALIGN == 0 else None
        if stop is not None and stop > len(data):
            if not is_last:
                return at, effort
        elif stop is not None:
            _, length, checksum = _HEAD.unpack_from(data, at)
            effort -= length + _HEAD.size
            if _checksum(length, memoryview(data)[at + _HEAD.size : at + _HEAD.size + length]) == checksum:
                return at, effort
        at = data.find(MAGIC, at + 1)
    return None, effort


def _may_be_unfinished(data: bytes, at: int) -> bool:
    """Whether an incomplete frame starts here: the writer is busy or was killed."""
    stop = _end_of(data, at)
    return stop is not None and stop > len(data)
