"""Reads every byte of an index file, and says what a damaged stretch of it most likely was."""

from __future__ import annotations

import re
from collections import Counter

from cutaway.store.backends.backend import Backend
from cutaway.store.format.frames import MOST_BYTES, Scanned, scan
from cutaway.store.reading.index import SessionIndex
from cutaway.store.verification.report import Findings, counted, named_steps, spoken

_CHUNK = 8 << 20
_HEAD = 12
_MOST_DAMAGES = 100
_TYPE = re.compile(rb"\xa4type[\xa0-\xbf]([a-z]{3,12})")
_STEP = re.compile(rb"\xa4type\xa4step\xa4step(?:([\x00-\x7f])|\xcc(.)|\xcd(..)|\xce(.{4})|\xcf(.{8}))", re.DOTALL)

_COSTS = {
    "session": "when and by which version of Cutaway this session was written is lost",
    "note": "{n} cannot be read",
    "scalars": "some points of the scalars are lost",
    "document": "a document of the run is lost, or an earlier version of it counts again",
    "block": "{n} of arrays cannot be read",
    "seal": "a sealed segment is read without its checksums",
    "lost": "what could not be written is no longer told",
    "end": "the session looks as if it had been killed",
}


def check_index(backend: Backend, index: SessionIndex, findings: Findings) -> None:
    """Read an index frame by frame: checksums, records, and the zeros between frames."""
    at, keep, n_damages = 0, b"", 0
    while True:
        chunk = backend.read(index.name, at + len(keep), _CHUNK)
        data = keep + chunk
        found = scan(data, is_last=len(chunk) < _CHUNK or len(data) > MOST_BYTES + _CHUNK)
        findings.n_bytes += len(chunk)
        findings.n_frames += len(found.records)
        for damage in found.damages:
            n_damages += 1
            if n_damages <= _MOST_DAMAGES:
                where = f"{index.name}, bytes {at + damage.start:,}–{at + damage.stop:,}"
                findings.problem(where, damage.reason, _cost(index, data[damage.start : damage.stop]))
        for offset in _unclean(found, data):
            findings.problem(f"{index.name}, byte {at + offset:,}", "the bytes that fill up a frame are not zero")
        at += found.n_read
        keep = data[found.n_read :]
        if len(chunk) < _CHUNK:
            break
    if n_damages > _MOST_DAMAGES:
        findings.problem(index.name, f"{n_damages - _MOST_DAMAGES:,} more places are damaged", "their records are lost")
    for problem in index.problems:
        if problem.startswith(f"{index.name}, byte "):  # sound bytes, but no sound record
            findings.problem(index.name, problem.removeprefix(f"{index.name}, ").rstrip("."), "that record is left out")
    if keep:
        findings.remark(
            index.name,
            f"the last {len(keep):,} bytes are a record that was not written to its end, which is normal after a kill",
        )


def _unclean(found: Scanned, data: bytes) -> list[int]:
    """Frames behind which something else stands than zeros."""
    unclean = []
    for offset in found.offsets:
        end = offset + _HEAD + int.from_bytes(data[offset + 4 : offset + 8], "little")
        if any(data[end : end + -end % 8]):
            unclean.append(end)
    return unclean


def _cost(index: SessionIndex, damaged: bytes) -> str:
    """What a damaged stretch held, as far as its bytes still tell."""
    known = {record.step for record in index.steps}
    steps = {int.from_bytes(bytes(next(filter(None, found.groups()))), "big") for found in _STEP.finditer(damaged)}
    lost = steps - known
    kinds = Counter(found[1].decode() for found in _TYPE.finditer(damaged))
    costs = [f"{named_steps(lost)} cannot be read"] if lost else []
    if kinds["step"] > len(steps):
        costs.append("a step cannot be read")
    costs += [text.format(n=counted(kinds[kind], kind)) for kind, text in _COSTS.items() if kinds[kind]]
    if costs:
        return spoken(costs)
    if kinds["schema"] or kinds["layout"]:
        return ""  # they are repeated; where one is missing all the same, the steps that need it say so
    return "one record or more are lost"
