"""`cutaway verify`: every byte of an archive is read and held against what was written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from cutaway.core.errors import DamagedError
from cutaway.core.progress import progress
from cutaway.store.backends.backend import Backend
from cutaway.store.format.filenames import HEAD, INDEX, SEALED, rank_folder, session_stem, statistics_stem, values_stem
from cutaway.store.format.records import StepRecord
from cutaway.store.reading.archive import Archive
from cutaway.store.reading.index import SessionIndex
from cutaway.store.verification.activations import check_activations
from cutaway.store.verification.index import check_index
from cutaway.store.verification.report import Findings, Problem, counted, named, named_steps
from cutaway.store.verification.results import check_result
from cutaway.store.verification.segments import Owned, check_statistics, check_values, read_through

_LEASE: Final = ".lease"
_OURS = re.compile(r"(rank-[0-9]+)/([0-9]{4,9})(?:-([vs])([0-9]{4,9}))?(\.[a-z]+)")
_MOST_LEASE = 64 << 10
_NOTHING: Final = "nothing can be read"


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found. It is true where nothing is damaged."""

    path: str
    problems: tuple[Problem, ...]
    """What is damaged, and what each costs."""
    remarks: tuple[str, ...]
    """What is not damage but worth saying: what a kill left, files of others."""
    n_files: int
    n_bytes: int
    n_frames: int
    """Records of the indexes that are whole."""
    n_tensors: int
    """Tensors whose values were checked."""
    n_matrices: int
    """Steps whose statistics were checked."""
    is_live: bool | None
    """Whether it was being written meanwhile; None if that cannot be known."""

    def __bool__(self) -> bool:
        return not self.problems

    @property
    def cost(self) -> str:
        """What cannot be read, in one sentence."""
        costs = list(dict.fromkeys(problem.cost for problem in self.problems if problem.cost))
        if not self.problems:
            return "Everything is whole."
        if not costs:
            return "Everything that was recorded is whole all the same."
        if _NOTHING in costs:
            return "Nothing can be read."
        said = "; ".join(costs[:8]) + (f"; and {len(costs) - 8:,} losses more" if len(costs) > 8 else "")
        return f"{said[0].upper()}{said[1:]}; everything else is whole."

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was read, every problem, every remark, and what it all costs."""
        read = (
            f"{self.path}: {counted(self.n_bytes, 'byte')} in {counted(self.n_files, 'file')} read, "
            f"{counted(self.n_frames, 'record')}, {counted(self.n_tensors, 'tensor')} and the statistics of "
            f"{counted(self.n_matrices, 'step')} checked."
        )
        found = counted(len(self.problems), "problem") if self.problems else "No problem"
        return (read, *map(str, self.problems), *self.remarks, f"{found} found. {self.cost}")

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def verify(path: str | os.PathLike[str]) -> Verification:
    """Read every byte of an archive: frames, tensors, statistics, headers, sizes, names.

    verification = verify("runs/base")
    if not verification:
        print(verification.cost)
    """
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
        seen.add(_done(job, findings))
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
        findings.remarks.append("It is being written, or may be: what was there at the beginning was checked.")
    return Verification(
        archive.path,
        tuple(findings.problems),
        tuple(findings.remarks),
        len(files),
        findings.n_bytes,
        findings.n_frames,
        findings.n_tensors,
        findings.n_matrices,
        is_live,
    )


def files_of(backend: Backend) -> dict[str, int]:
    """Every file of an archive and its size; -1 for what is no plain file."""
    found: dict[str, int] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        for name in backend.names(folder):
            full = f"{folder}/{name}" if folder else name
            try:
                found[full] = backend.size(full)
            except (FileNotFoundError, DamagedError) as error:
                if len(folders) < 1000 and full.count("/") < 4 and _children(backend, full):
                    folders.append(full)
                elif not isinstance(error, FileNotFoundError):  # else it is gone meanwhile
                    found[full] = -1
    return dict(sorted(found.items()))


def _children(backend: Backend, folder: str) -> list[str]:
    try:
        return backend.names(folder)
    except (OSError, DamagedError):
        return []


@dataclass(frozen=True, slots=True)
class _Job:
    """The check of one file: it gives the name that the file has."""

    name: str
    check: Callable[[], str]


def _done(job: _Job, findings: Findings) -> str:
    """Check a file; that it cannot be read is a finding too."""
    try:
        try:
            return job.check()
        except FileNotFoundError:
            return job.check()  # it was sealed in between
    except (OSError, DamagedError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        findings.problem(job.name, f"it cannot be read: {why.rstrip('.')}", f"what lies in {job.name} cannot be read")
        return job.name


def _jobs(backend: Backend, index: SessionIndex, findings: Findings) -> list[_Job]:
    """One check for each file of a session."""
    owned: dict[int, list[Owned]] = {}
    matrices: dict[int, list[StepRecord]] = {}
    for record in index.steps:
        if record.block is not None:
            owned.setdefault(record.block.segment, []).append(Owned(record.block, record.step, ""))
        if record.matrix is not None:
            matrices.setdefault(record.matrix[0], []).append(record)
    for block in index.blocks.values():
        owned.setdefault(block.block.segment, []).append(Owned(block.block, None, block.name))

    def check() -> str:
        check_index(backend, index, findings)
        return index.name

    jobs = [_Job(index.name, check)]
    for number, mine in sorted(owned.items()):
        name = values_stem(index.folder, index.number, number)
        jobs.append(_Job(name, partial(check_values, backend, index, number, mine, findings)))
    for number, steps in sorted(matrices.items()):
        name = statistics_stem(index.folder, index.number, number)
        jobs.append(_Job(name, partial(check_statistics, backend, index, number, steps, findings)))
    return jobs


def _check_files(backend: Backend, archive: Archive, files: Mapping[str, int], findings: Findings) -> None:
    """The head and the leases: they have no checksums, but must be readable."""
    findings.n_bytes += max(files.get(HEAD, 0), 0)
    for problem in archive.problems_of_head:
        cost = "when it was begun is lost" if archive.ranks else _NOTHING
        findings.problem(HEAD, problem.removeprefix("cutaway.json ").rstrip("."), cost)
    told = {*archive.problems_of_head, *(problem for index in _sessions(archive) for problem in index.problems)}
    for problem in archive.problems:
        if problem not in told:
            findings.problem(archive.path, problem.rstrip("."), "what lies there cannot be read")
    kinds = {index.session.kind for index in _sessions(archive) if index.session}
    if archive.head is not None and kinds and archive.head.kind not in kinds:
        findings.problem(
            HEAD, f"it says that this is a {archive.head.kind}, and the sessions say {named(sorted(kinds))}"
        )
    for name, size in files.items():
        found = _OURS.fullmatch(name)
        if found is None or found[5] != _LEASE or size < 0:
            continue
        findings.n_bytes += size
        if _lease_session(backend.read(name, 0, _MOST_LEASE + 1)) != int(found[2]):
            findings.problem(name, "it cannot be read as a lease")


def _sessions(archive: Archive) -> list[SessionIndex]:
    return [index for rank in archive.ranks for index in archive.sessions(rank)]


def _lease_session(data: bytes) -> int | None:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    session = content.get("session") if isinstance(content, dict) else None
    return session if type(session) is int and len(data) <= _MOST_LEASE else None


def _check_end(backend: Backend, index: SessionIndex, findings: Findings, *, is_live: bool) -> None:
    """Whether the last record is there, where the session was closed."""
    if index.is_ended or is_live:
        return
    try:
        lease = json.loads(backend.read(session_stem(index.folder, index.number) + _LEASE, 0, _MOST_LEASE))
        is_closed = isinstance(lease, dict) and lease.get("closed") is True
    except (OSError, ValueError, RecursionError, DamagedError):
        is_closed = False
    if is_closed and not any(problem.where.startswith(index.name) for problem in findings.problems):
        findings.problem(
            index.name,
            "its session was closed, but the record that says so is not there",
            f"notes and scalars that session {index.number} wrote last may be lost",
        )
    elif not is_closed:
        findings.remark(index.name, "the session did not end properly (a kill, or a loss of power)")


def _check_lost_steps(index: SessionIndex, findings: Findings, *, is_live: bool | None) -> None:
    """Steps that lie in sealed segments, but of which the index has no record."""
    known = {record.step for record in index.steps}
    lost = findings.unindexed.get((index.folder, index.number), set()) - known
    if is_live is not False and known:
        lost = {step for step in lost if step < max(known)}
    told = " ".join(problem.cost for problem in findings.problems)
    if lost and not all(re.search(rf"\b{step}\b", told) for step in lost):
        cost = f"{named_steps(lost)} cannot be read, though the values still lie in the segments"
        findings.problem(index.name, f"{counted(len(lost), 'step')} in the segments have no record", cost)


def _check_sessions(archive: Archive, files: Mapping[str, int], findings: Findings) -> None:
    """Sessions and ranks that should be there and are not."""
    for rank, sessions in archive.ranks.items():
        folder = rank_folder(rank)
        begun = {int(found[2]) for found in map(_OURS.fullmatch, files) if found and found[1] == folder}
        for number in sorted(set(range(1, max(begun, default=0) + 1)) - sessions.keys()):
            others = [name for name in files if name.startswith(f"{session_stem(folder, number)}-")]
            name = session_stem(folder, number) + INDEX
            if number in begun and not others:
                findings.remark(name, "the session ended before it wrote anything")
            else:
                findings.problem(name, "the file is not there", f"nothing of session {number} can be read")
        for number in sorted(sessions):
            name = session_stem(folder, number) + _LEASE
            if name not in files:
                findings.problem(name, "the file is not there")
    sizes = [index.session.world_size for index in archive.sessions() if index.session]
    missing = [str(rank) for rank in range(max(sizes, default=0)) if rank not in archive.ranks]
    if missing:
        said = f"of {sizes[-1]} ranks, rank {named(missing)} wrote nothing here"
        findings.remarks.append(f"{said[0].upper()}{said[1:]}.")


def _check_rest(archive: Archive, rest: Mapping[str, int], findings: Findings, *, is_live: bool) -> None:
    """Files that no record refers to."""
    for name, size in rest.items():
        found = _OURS.fullmatch(name)
        if found and found[5] == _LEASE:
            continue
        if size < 0:
            findings.remark(name, "it is no plain file and was not read")
            continue
        try:
            read_through(archive.backend, name, findings)
        except FileNotFoundError:
            continue  # sealed meanwhile
        except OSError as error:
            findings.problem(name, f"it cannot be read: {error.strerror or error}")
            continue
        if found is None or (found[3] is None and found[5] != INDEX):
            findings.remark(name, "nothing refers to it, and it is none of Cutaway's files")
        elif int(found[2]) not in archive.ranks.get(int(found[1].removeprefix("rank-")), {}):
            pass  # the missing index was told
        elif is_live and int(found[2]) == max(archive.ranks[int(found[1].removeprefix("rank-"))]):
            pass  # it was begun since
        elif found[5] == SEALED:
            findings.problem(name, "no record refers to it", "what lies in it can be read by stock tools only")
        else:
            findings.remark(name, "a kill left it while a segment was begun or sealed; nothing refers to it")
