"""Frames: how records lie in an index file, so that a torn end or a flipped bit costs one record and no more.

    "CUT1" | u32 length | u32 CRC-32 of the length's four bytes and the payload | payload: a msgpack map | zeros to 8

All numbers are little-endian, and every frame begins at a multiple of eight. Where a frame does not hold, the
next place is searched at which one does.
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
"""The longest payload; larger things are arrays, and lie in segments."""
MOST_ENTRIES: Final = 65_536
"""The longest list or map in a record: a reader allocates for what a length says before it sees the entries."""

MOST_CONTAINERS: Final = 1 << 20
"""The most lists and maps in a large record."""

_LARGE: Final = 4096
_HEAD = struct.Struct("<4sII")
_ALIGN = 8

Plain = None | bool | int | float | str | bytes | list["Plain"] | dict[str, "Plain"]
"""What a record can hold."""

Record = dict[str, Any]
"""A decoded frame: a map with a `type`. `records.py` turns it into dataclasses and checks every field."""


def encode(record: Mapping[str, Any]) -> bytes:
    """One frame, ready to be appended. What `decode` would refuse is not written.

    >>> frame = encode({"type": "note", "text": "hello"})
    >>> frame[:4], len(frame) % 8
    (b'CUT1', 0)
    """
    try:
        payload: bytes = msgpack.packb(record, use_bin_type=True, unicode_errors="surrogatepass")
        if len(payload) <= MOST_BYTES:
            decode(payload)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"a record of type {record.get('type')!r} cannot be written: {error}. Plain data can: None, bool, int "
            f"(64 bits), float, str, bytes, and lists and dicts, with text as keys, of up to {MOST_ENTRIES:,} entries."
        ) from error
    if len(payload) > MOST_BYTES:
        raise InputError(
            f"a record of type {record.get('type')!r} takes {len(payload):,} bytes, more than the {MOST_BYTES:,} that "
            "one can have: keep large things as arrays."
        )
    head = _HEAD.pack(MAGIC, len(payload), _checksum(len(payload), payload))
    return b"".join((head, payload, bytes(-(len(head) + len(payload)) % _ALIGN)))


def _checksum(length: int, payload: bytes | memoryview) -> int:
    return crc32(payload, crc32(length.to_bytes(4, "little")))


def decode(payload: bytes | memoryview) -> Record:
    """The record in a payload; `ValueError` if it is none."""
    most = min(len(payload), MOST_ENTRIES)
    counted = _Containers() if len(payload) > _LARGE else None
    try:
        if counted is not None:
            _walk(payload)
        record = msgpack.unpackb(
            payload,
            raw=False,
            unicode_errors="surrogatepass",
            strict_map_key=True,
            max_array_len=most,
            max_map_len=most,
            max_ext_len=0,
            ext_hook=_no_extension,
            list_hook=counted,
            object_hook=counted,
        )
    except (ValueError, TypeError, RecursionError, MemoryError, OverflowError, msgpack.UnpackException) as error:
        raise ValueError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        raise ValueError("it is no map with a type")
    return record


def _walk(payload: bytes | memoryview) -> None:
    """Go through a large payload without making anything of it.

    msgpack allocates for what a list says it holds, and a list that says so can lie in another one that does, and so
    on. What was walked through to its end does hold what it says.
    """
    walker = msgpack.Unpacker(max_buffer_size=len(payload) + 1)
    walker.feed(payload)
    walker.skip()


class _Containers:
    """Counts lists and maps: one takes a byte in a file and eighty in memory."""

    def __init__(self) -> None:
        self._left = MOST_CONTAINERS

    def __call__(self, found: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it holds more than {MOST_CONTAINERS:,} lists and maps")
        return found


def _no_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"it holds an extension type, {code}")


@dataclass(slots=True)
class Damage:
    """Bytes of a file that are not what was written."""

    start: int
    stop: int
    reason: str


@dataclass(slots=True)
class Scanned:
    """What lies in a stretch of an index file."""

    records: list[Record] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    """Where in the stretch the frame of each record begins."""
    damages: list[Damage] = field(default_factory=list)
    n_read: int = 0
    """Up to here everything is settled; what follows is an unfinished frame."""


def scan(data: bytes, *, is_last: bool = True) -> Scanned:
    """Read all frames in a stretch that begins at a multiple of eight.

    Args:
        is_last: whether the file ends here. If so, a frame that runs past the end either is unfinished or has a
            damaged length: whole frames behind it tell.
    """
    found = Scanned()
    view = memoryview(data)
    effort = 2 * len(data) + MOST_BYTES
    at = 0
    while at < len(data):
        stop = _end_of(data, at)
        if stop is None:
            reason: str | None = "no frame begins here"
        elif stop > len(data):
            if not is_last:
                break
            reason = "its length reaches past the end of the file"
        else:
            reason = _take(found, view, at, stop)
        if reason is None:
            at = stop or at
            continue
        if effort < 0:
            after = None  # so much of this file is made to be searched in vain that the rest is not
        else:
            after, effort = _next_frame(data, at + _ALIGN, effort, is_last=is_last)
        if after is None and is_last and _may_be_unfinished(data, at):
            break
        after = len(data) if after is None else after
        found.damages.append(Damage(at, after, reason))
        at = after
    found.n_read = min(at, len(data))
    return found


def _end_of(data: bytes, at: int) -> int | None:
    """Where the frame that begins at `at` ends, by its length; None if none begins."""
    if len(data) - at < _HEAD.size:
        return len(data) + 1 if MAGIC.startswith(data[at : at + 4]) else None
    magic, length, _ = _HEAD.unpack_from(data, at)
    if magic != MAGIC or length > MOST_BYTES:
        return None
    size = _HEAD.size + length
    return int(at + size + -size % _ALIGN)


def _take(found: Scanned, view: memoryview, at: int, stop: int) -> str | None:
    """Add the frame between two places to what was found, or say what is wrong with it."""
    _, length, checksum = _HEAD.unpack_from(view, at)
    payload = view[at + _HEAD.size : at + _HEAD.size + length]
    if _checksum(length, payload) != checksum:
        return "its checksum does not hold"
    try:
        record = decode(payload)
    except ValueError as error:
        # What was written is there, but it is nothing a writer writes: leave it out alone.
        found.damages.append(Damage(at, stop, f"it is no record: {error}"))
        return None
    found.records.append(record)
    found.offsets.append(at)
    return None


def _next_frame(data: bytes, start: int, effort: int, *, is_last: bool) -> tuple[int | None, int]:
    """The next place at which a whole frame lies, or may lie once more of the file was read.

    `effort` bounds the bytes that are summed up on the way.
    """
    at = data.find(MAGIC, start)
    while at >= 0 and effort >= 0:
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
    """Whether what begins here is the beginning of a frame whose rest was not written (yet)."""
    stop = _end_of(data, at)
    return stop is not None and stop > len(data)
