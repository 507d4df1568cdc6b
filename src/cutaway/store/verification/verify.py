"""`verify`: checks every byte of an archive against its checksums."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from cutaway.core.errors import DamagedError
from cutaway.core.formatting import listed, numbered, plural
from cutaway.core.progress import progress
from cutaway.store.backends.backend import Backend
from cutaway.store.format.filenames import (
    FLIGHT,
    FLIGHT_SEGMENT,
    HEAD,
    INDEX,
    SEALED,
    flight_name,
    rank_folder,
    session_stem,
    statistics_stem,
    values_stem,
)
from cutaway.store.format.problems import loss_text
from cutaway.store.format.records import StepRecord
from cutaway.store.reading.archive import Archive
from cutaway.store.reading.index import SessionIndex
from cutaway.store.verification.activations import check_activations
from cutaway.store.verification.index import check_index
from cutaway.store.verification.report import FileDamage, Findings, list_steps
from cutaway.store.verification.results import check_result
from cutaway.store.verification.segments import OwnedBlock, check_statistics, check_values, read_whole_file

_LEASE: Final = ".lease"
_FILE_NAME = re.compile(r"(rank-[0-9]+)/([0-9]{4,9})(?:-([vs])([0-9]{4,9}))?(\.[a-z]+)")
_MAX_LEASE = 64 << 10
_NOTHING: Final = "nothing can be read"


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify`. True if nothing is damaged."""

    path: str
    damage: tuple[FileDamage, ...]
    """Damage, with its cost."""
    remarks: tuple[str, ...]
    """Notable facts that are not damage: leftovers of a killed process, unknown files."""
    losses: tuple[str, ...]
    """Data that could not be written, as the recorder has noted: not damage, but missing."""
    n_files: int
    n_bytes: int
    n_frames: int
    """Valid records of the indexes."""
    n_tensors: int
    """Tensors whose values were checked."""
    n_matrices: int
    """Steps whose statistics were checked."""
    is_live: bool | None
    """Whether it was being written during the check; None if unknown."""

    def __bool__(self) -> bool:
        return not self.damage

    @property
    def cost(self) -> str:
        """What cannot be read, as one sentence."""
        costs = list(dict.fromkeys(entry.cost for entry in self.damage if entry.cost))
        if not self.damage and self.losses:
            return "Everything that was written is intact."
        if not self.damage:
            return "Everything is intact."
        if not costs:
            return "All recorded data is intact."
        if _NOTHING in costs:
            return "Nothing can be read."
        text = "; ".join(costs[:8]) + (f"; and {len(costs) - 8:,} more losses" if len(costs) > 8 else "")
        return f"{text[0].upper()}{text[1:]}; everything else is intact."

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was read, all damage, what was lost while recording, every remark, and the total cost."""
        summary = (
            f"{self.path}: read {plural(self.n_bytes, 'byte')} in {plural(self.n_files, 'file')}; checked "
            f"{plural(self.n_frames, 'record')}, {plural(self.n_tensors, 'tensor')} and the statistics of "
            f"{plural(self.n_matrices, 'step')}."
        )
        total = f"Damage found in {plural(len(self.damage), 'place')}." if self.damage else "No damage found."
        return (summary, *map(str, self.damage), *self.losses, *self.remarks, f"{total} {self.cost}")

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def verify(path: str | os.PathLike[str]) -> Verification:
    """Check every byte of an archive: frames, tensors, statistics, headers, sizes, names.

    verification = verify("runs/base")
    if not verification:
        print(verification.cost)

    Args:
        path: the archive.
    """
    # Without a cache: every byte must come from the disk.
    archive = Archive(path, cache_bytes=0)
    backend, findings = archive.backend, Findings()
    is_live = archive.is_live
    files = files_of(backend)
    _check_files(backend, archive, files, findings)
    seen = {HEAD}
    jobs: list[_Job] = []
    for sessions in archive.ranks.values():
        for index in sessions.values():
            jobs += _jobs(backend, index, findings)
    for job in progress(jobs, len(jobs), "files read"):
        seen.add(_run_job(job, findings))
    for sessions in archive.ranks.values():
        for index in sessions.values():
            _check_lost_steps(index, findings, is_live=is_live)
            _check_end(backend, index, findings, is_live=is_live is not False and index.number == max(sessions))
    _check_sessions(archive, files, findings)
    if archive.head is not None and archive.head.kind == "activations":
        check_activations(archive, findings, is_live=is_live)
    if archive.head is not None and archive.head.kind == "result":
        check_result(archive, findings, is_live=is_live)
    rest = {name: size for name, size in files.items() if name not in seen}
    _check_rest(archive, rest, findings, is_live=is_live is not False)
    if is_live is not False:
        findings.remarks.append("It is being written, or may be: only what existed at the start was checked.")
    return Verification(
        archive.path,
        tuple(findings.damage),
        tuple(findings.remarks),
        tuple(f"{index.name}: {loss_text(loss)}." for index in _sessions(archive) for loss in index.losses),
        len(files),
        findings.n_bytes,
        findings.n_frames,
        findings.n_tensors,
        findings.n_matrices,
        is_live,
    )


def files_of(backend: Backend) -> dict[str, int]:
    """Every file of an archive with its size; -1 for anything but a plain file."""
    sizes: dict[str, int] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        for name in backend.names(folder):
            full = f"{folder}/{name}" if folder else name
            try:
                sizes[full] = backend.size(full)
            except (FileNotFoundError, DamagedError) as error:
                if len(folders) < 1000 and full.count("/") < 4 and _children(backend, full):
                    folders.append(full)
                elif not isinstance(error, FileNotFoundError):  # else it was deleted meanwhile
                    sizes[full] = -1
    return dict(sorted(sizes.items()))


def _children(backend: Backend, folder: str) -> list[str]:
    try:
        return backend.names(folder)
    except (OSError, DamagedError):
        return []


@dataclass(frozen=True, slots=True)
class _Job:
    """The check of one file; returns the current name of the file."""

    name: str
    check: Callable[[], str]


def _run_job(job: _Job, findings: Findings) -> str:
    """Check a file; an unreadable file is damage, too."""
    try:
        try:
            return job.check()
        except FileNotFoundError:
            return job.check()  # it was sealed in between
    except (OSError, DamagedError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        findings.damaged(job.name, f"it cannot be read: {why.rstrip('.')}", f"the content of {job.name} cannot be read")
        return job.name


def _jobs(backend: Backend, index: SessionIndex, findings: Findings) -> list[_Job]:
    """One check per file of a session."""
    owned: dict[int, list[OwnedBlock]] = {}
    matrices: dict[int, list[StepRecord]] = {}
    for record in index.steps:
        if record.block is not None:
            owned.setdefault(record.block.segment, []).append(OwnedBlock(record.block, record.step, ""))
        if record.matrix is not None:
            matrices.setdefault(record.matrix[0], []).append(record)
    for block in index.blocks.values():
        owned.setdefault(block.block.segment, []).append(OwnedBlock(block.block, None, block.name))

    def check() -> str:
        check_index(backend, index, findings)
        return index.name

    jobs = [_Job(index.name, check)]
    for number, blocks in sorted(owned.items()):
        name = values_stem(index.folder, index.number, number)
        jobs.append(_Job(name, partial(check_values, backend, index, number, blocks, findings)))
    if (steps := matrices.pop(FLIGHT_SEGMENT, None)) is not None:
        name = flight_name(index.folder, index.number)
        jobs.append(_Job(name, partial(_check_ring, backend, name, len(steps), findings)))
    for number, steps in sorted(matrices.items()):
        name = statistics_stem(index.folder, index.number, number)
        jobs.append(_Job(name, partial(check_statistics, backend, index, number, steps, findings)))
    return jobs


def _check_ring(backend: Backend, name: str, n_steps: int, findings: Findings) -> str:
    """Check the ring of a killed flight recorder: reading it has checked every step, and left out a torn one."""
    read_whole_file(backend, name, findings)
    findings.n_matrices += n_steps
    findings.remark(name, f"a kill left the ring of the flight recorder; the run has its {plural(n_steps, 'step')}")
    return name


def _check_files(backend: Backend, archive: Archive, files: Mapping[str, int], findings: Findings) -> None:
    """Check the manifest and the leases; leases have no checksum, but must be readable."""
    findings.n_bytes += max(files.get(HEAD, 0), 0)
    for message in archive.manifest_damage:
        cost = "its creation time is lost" if archive.ranks else _NOTHING
        findings.damaged(HEAD, message.removeprefix("cutaway.json ").rstrip("."), cost)
    reported = {*archive.manifest_damage, *(message for index in _sessions(archive) for message in index.damage)}
    for message in archive.damage:
        if message not in reported:
            findings.damaged(archive.path, message.rstrip("."), "its content cannot be read")
    kinds = {index.session.kind for index in _sessions(archive) if index.session}
    if archive.head is not None and kinds and archive.head.kind not in kinds:
        findings.damaged(
            HEAD, f"it says that this is a {archive.head.kind}, but the sessions say {listed(sorted(kinds))}"
        )
    for name, size in files.items():
        match = _FILE_NAME.fullmatch(name)
        if match is None or match[5] != _LEASE or size < 0:
            continue
        findings.n_bytes += size
        if _lease_session(backend.read(name, 0, _MAX_LEASE + 1)) != int(match[2]):
            findings.damaged(name, "it is not a readable lease")


def _sessions(archive: Archive) -> list[SessionIndex]:
    return [index for rank in archive.ranks for index in archive.sessions(rank)]


def _lease_session(data: bytes) -> int | None:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    session = content.get("session") if isinstance(content, dict) else None
    return session if type(session) is int and len(data) <= _MAX_LEASE else None


def _check_end(backend: Backend, index: SessionIndex, findings: Findings, *, is_live: bool) -> None:
    """Check that a closed session has its last record."""
    if index.is_ended or is_live:
        return
    try:
        lease = json.loads(backend.read(session_stem(index.folder, index.number) + _LEASE, 0, _MAX_LEASE))
        is_closed = isinstance(lease, dict) and lease.get("closed") is True
    except (OSError, ValueError, RecursionError, DamagedError):
        is_closed = False
    if is_closed and not any(entry.where.startswith(index.name) for entry in findings.damage):
        findings.damaged(
            index.name,
            "its session was closed, but its end record is missing",
            f"the last notes and scalars of session {index.number} may be lost",
        )
    elif not is_closed:
        findings.remark(index.name, "the session was not closed (a kill, or a loss of power)")


def _check_lost_steps(index: SessionIndex, findings: Findings, *, is_live: bool | None) -> None:
    """Find steps in sealed segments that have no record in the index."""
    known = {record.step for record in index.steps}
    lost = findings.unindexed.get((index.folder, index.number), set()) - known
    # The writer may have appended these steps after the index was read.
    if is_live is not False and known:
        lost = {step for step in lost if step < max(known)}
    reported = " ".join(entry.cost for entry in findings.damage)
    # A damaged record of the index already names its step; the same loss is not reported twice.
    if lost and not all(re.search(rf"\b{step}\b", reported) for step in lost):
        cost = f"{list_steps(lost)} cannot be read, although the values are still in the segments"
        findings.damaged(index.name, f"{plural(len(lost), 'step')} in the segments have no record", cost)


def _check_sessions(archive: Archive, files: Mapping[str, int], findings: Findings) -> None:
    """Find missing sessions and ranks."""
    for rank, sessions in archive.ranks.items():
        folder = rank_folder(rank)
        started = {int(match[2]) for match in map(_FILE_NAME.fullmatch, files) if match and match[1] == folder}
        for number in sorted(set(range(1, max(started, default=0) + 1)) - sessions.keys()):
            others = [name for name in files if name.startswith(f"{session_stem(folder, number)}-")]
            name = session_stem(folder, number) + INDEX
            if number in started and not others:
                findings.remark(name, "the session ended before it wrote anything")
            else:
                findings.damaged(name, "the file is missing", f"nothing of session {number} can be read")
        for number in sorted(sessions):
            name = session_stem(folder, number) + _LEASE
            if name not in files:
                findings.damaged(name, "the file is missing")
    sizes = [index.session.world_size for index in archive.sessions() if index.session]
    missing = [rank for rank in range(max(sizes, default=0)) if rank not in archive.ranks]
    if missing:
        text = f"of {sizes[-1]} ranks, {numbered('rank', missing)} wrote nothing here"
        findings.remarks.append(f"{text[0].upper()}{text[1:]}.")


def _check_rest(archive: Archive, rest: Mapping[str, int], findings: Findings, *, is_live: bool) -> None:
    """Report files that no record refers to."""
    for name, size in rest.items():
        match = _FILE_NAME.fullmatch(name)
        if match and match[5] == _LEASE:
            continue
        if size < 0:
            findings.remark(name, "it is not a plain file and was not read")
            continue
        try:
            read_whole_file(archive.backend, name, findings)
        except FileNotFoundError:
            continue  # sealed meanwhile
        except OSError as error:
            findings.damaged(name, f"it cannot be read: {error.strerror or error}")
            continue
        if match is not None and match[3] is None and match[5] == FLIGHT:
            if not is_live:
                findings.remark(name, "a kill left the ring of the flight recorder; the run has every step in it")
        elif match is None or (match[3] is None and match[5] != INDEX):
            findings.remark(name, "nothing refers to it, and it is not a Cutaway file")
        elif int(match[2]) not in archive.ranks.get(int(match[1].removeprefix("rank-")), {}):
            pass  # the missing index is already reported
        elif is_live and int(match[2]) == max(archive.ranks[int(match[1].removeprefix("rank-"))]):
            pass  # it was created after the index was read
        elif match[5] == SEALED:
            findings.damaged(name, "no record refers to it", "its content can be read by other tools only")
        else:
            findings.remark(name, "a kill left it while a segment was started or sealed; nothing refers to it")
