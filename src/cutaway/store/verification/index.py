"""Checks every byte of an index file; guesses what a damaged range was."""

from __future__ import annotations

import re
from collections import Counter

from cutaway.core.formatting import plural
from cutaway.store.backends.backend import Backend
from cutaway.store.format.frames import MOST_BYTES, ScanResult, scan
from cutaway.store.reading.index import SessionIndex
from cutaway.store.verification.report import Findings, join_words, list_steps

_CHUNK = 8 << 20
_HEAD = 12
_MAX_DAMAGES = 100
_TYPE = re.compile(rb"\xa4type[\xa0-\xbf]([a-z]{3,12})")
_STEP = re.compile(rb"\xa4type\xa4step\xa4step(?:([\x00-\x7f])|\xcc(.)|\xcd(..)|\xce(.{4})|\xcf(.{8}))", re.DOTALL)

_COSTS = {
    "session": "the time and the Cutaway version of this session are lost",
    "note": "{n} cannot be read",
    "scalars": "some points of scalars are lost",
    "document": "a document of the run is lost, or replaced by an earlier version",
    "block": "{n} of arrays cannot be read",
    "seal": "a sealed segment is read without its checksums",
    "lost": "the record of what could not be written is lost",
    "end": "the session looks as if its process was killed",
}


def check_index(backend: Backend, index: SessionIndex, findings: Findings) -> None:
    """Check an index frame by frame: checksums, records, and the zero padding between frames."""
    at, keep, n_damages = 0, b"", 0
    while True:
        chunk = backend.read(index.name, at + len(keep), _CHUNK)
        data = keep + chunk
        result = scan(data, is_last=len(chunk) < _CHUNK or len(data) > MOST_BYTES + _CHUNK)
        findings.n_bytes += len(chunk)
        findings.n_frames += len(result.records)
        for damage in result.damages:
            n_damages += 1
            if n_damages <= _MAX_DAMAGES:
                where = f"{index.name}, bytes {at + damage.start:,}–{at + damage.stop:,}"
                findings.damaged(where, damage.reason, _cost(index, data[damage.start : damage.stop]))
        for offset in _dirty_padding(result, data):
            findings.damaged(f"{index.name}, byte {at + offset:,}", "the padding of a frame is not zero")
        at += result.n_read
        keep = data[result.n_read :]
        if len(chunk) < _CHUNK:
            break
    if n_damages > _MAX_DAMAGES:
        findings.damaged(index.name, f"{n_damages - _MAX_DAMAGES:,} more ranges are damaged", "their records are lost")
    for message in index.damage:
        if message.startswith(f"{index.name}, byte "):  # the checksum is right, but the record is invalid
            findings.damaged(index.name, message.removeprefix(f"{index.name}, ").rstrip("."), "that record is skipped")
    if keep:
        findings.remark(
            index.name,
            f"the last {len(keep):,} bytes are an unfinished record, which is normal after a kill",
        )


def _dirty_padding(result: ScanResult, data: bytes) -> list[int]:
    """Ends of frames whose padding is not zero."""
    unclean = []
    for offset in result.offsets:
        end = offset + _HEAD + int.from_bytes(data[offset + 4 : offset + 8], "little")
        if any(data[end : end + -end % 8]):
            unclean.append(end)
    return unclean


def _cost(index: SessionIndex, damaged: bytes) -> str:
    """What a damaged range contained, as far as its bytes still show."""
    known = {record.step for record in index.steps}
    steps = {int.from_bytes(bytes(next(filter(None, match.groups()))), "big") for match in _STEP.finditer(damaged)}
    lost = steps - known
    kinds = Counter(match[1].decode() for match in _TYPE.finditer(damaged))
    costs = [f"{list_steps(lost)} cannot be read"] if lost else []
    if kinds["step"] > len(steps):
        costs.append("a step cannot be read")
    costs += [text.format(n=plural(kinds[kind], kind)) for kind, text in _COSTS.items() if kinds[kind]]
    if costs:
        return join_words(costs)
    if kinds["schema"] or kinds["layout"]:
        return ""  # they are repeated; if one is missing anyway, the steps that need it report it
    return "at least one record is lost"
