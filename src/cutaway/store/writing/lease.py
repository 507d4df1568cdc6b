"""Lease file: allows one writing session per rank folder, with heartbeats.

A session gets its number by creating its lease file exclusively. While it writes, it increments a heartbeat counter in
that file. A session whose process is dead is over; for a process on another machine, only missing heartbeats can tell.
Nothing here uses wall-clock time: clocks jump, and those of two machines differ.
"""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import asdict, dataclass, fields, replace
from secrets import token_hex
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING

from cutaway.core.errors import DamagedError, InputError, LeaseError
from cutaway.store.writing.processes import identity, is_running, start_ticks

if TYPE_CHECKING:
    from cutaway.store.backends.backend import Backend

_LOG = logging.getLogger(__name__)
_NUMBERED = re.compile(r"([0-9]{4,9})\.(lease|index)")
_LAST_NUMBER = 999_999_999
_MAX_BYTES = 64 << 10
_MIN_POLLS = 20
"""Minimum number of polls of a silent lease before it is taken over."""


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The state of the newest lease of a folder."""

    number: int
    closed: bool
    host: str
    """Empty if the file is damaged."""
    pid: int | None
    is_same_machine: bool
    is_alive: bool | None
    """Whether its session is being written; None if that is unknown from here."""


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a lease file."""

    session: int
    token: str
    pid: int
    host: str
    identity: str
    started: int | None
    """Start of the process, in ticks since boot: process ids are reused."""
    beat: int
    beat_every: float
    closed: bool

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class _LeaseFile:
    """A lease file as read at one moment."""

    number: int
    raw: bytes
    size: int
    content: _Content | None
    """None if the file is damaged."""


class Lease:
    """The right to write one session to a folder, until it is closed or another session takes over.

    >>> from cutaway.store.backends.memory import MemoryBackend
    >>> lease = Lease.take(MemoryBackend("leased"), "rank-0")
    >>> lease.number
    1
    >>> lease.beat()
    >>> lease.close()
    """

    def __init__(self, backend: Backend, folder: str, content: _Content) -> None:
        self.number = content.session
        self._backend = backend
        self._folder = folder
        self._content = content
        self._lock = Lock()  # a heartbeat must not undo a close

    @classmethod
    def take(
        cls, backend: Backend, folder: str, *, patience: float = 30.0, beat_every: float = 5.0, force: bool = False
    ) -> Lease:
        """Get the next session number; LeaseError if another session is being written.

        Args:
            patience: seconds without a heartbeat after which a lease of another machine counts as abandoned.
            beat_every: seconds between heartbeats of the new lease; must be well below the patience of others.
            force: take over from a live session, which then fails at its next heartbeat.
        """
        if not 0 <= patience < float("inf") or not 0 < beat_every < float("inf"):
            raise InputError(f"patience={patience!r} and beat_every={beat_every!r} must be finite numbers of seconds")
        numbers = _numbers(backend, folder)
        number = max((n for n, _ in numbers), default=0) + 1
        # A tenth digit would no longer match the file names that readers look for.
        if number > _LAST_NUMBER:
            raise LeaseError(f"{_folder_url(backend, folder)} has a session {number - 1}, the highest possible number")
        last = _newest(backend, folder, numbers)
        if last is not None and not force:
            _wait_for_end(backend, folder, last, patience)
        content = _Content(
            session=number,
            token=token_hex(16),
            pid=os.getpid(),
            host=os.uname().nodename,
            identity=identity(),
            started=start_ticks(os.getpid()),
            beat=0,
            beat_every=float(beat_every),
            closed=False,
        )
        try:
            backend.put(_name(folder, number), content.to_json(), new=True)
        except FileExistsError:
            raise LeaseError(
                f"{_folder_url(backend, folder)}: another process started session {number} at the same moment. "
                "Try again when it is closed"
            ) from None
        return cls(backend, folder, content)

    def beat(self) -> None:
        """Send a heartbeat; LeaseError if this session may no longer write."""
        if self._content.pid != os.getpid():
            raise LeaseError(
                f"{self._folder_url} is being written by process {self._content.pid}, the parent of this process "
                f"({os.getpid()}): only the parent may write there"
            )
        with self._lock:
            self._check()
            self._rewrite(replace(self._content, beat=self._content.beat + 1))

    def check(self) -> None:
        """LeaseError if this session may no longer write."""
        with self._lock:
            self._check()

    def close(self) -> None:
        """Mark the session as closed; does nothing in a forked child or when called again."""
        if self._content.pid != os.getpid():
            return
        with self._lock:
            # If the lease was replaced, it is somebody else's, and must not be closed here.
            if not self._content.closed and self._is_ours():
                self._rewrite(replace(self._content, closed=True))
            self._content = replace(self._content, closed=True)

    @property
    def _folder_url(self) -> str:
        return _folder_url(self._backend, self._folder)

    def _check(self) -> None:
        if self._content.closed:
            raise LeaseError(f"session {self.number} of {self._folder_url} is closed. Start a new one")
        highest = max((n for n, _ in _numbers(self._backend, self._folder)), default=0)
        if highest > self.number:
            raise LeaseError(
                f"session {highest} has taken over {self._folder_url}: session {self.number} must stop writing"
            )
        if not self._is_ours():
            raise LeaseError(
                f"{self._folder_url}/{self.number:04d}.lease was removed or replaced: session {self.number} must stop"
            )

    def _is_ours(self) -> bool:
        seen = _read_lease(self._backend, self._folder, self.number)
        return seen is not None and seen.content is not None and seen.content.token == self._content.token

    def _rewrite(self, content: _Content) -> None:
        # No fsync: on a busy disk it could take longer than the patience of others.
        self._backend.put(_name(self._folder, self.number), content.to_json(), sync=False)
        self._content = content


def state(backend: Backend, folder: str) -> LeaseState | None:
    """The state of the newest lease of a folder; None if there is no lease."""
    seen = _newest(backend, folder, _numbers(backend, folder))
    if seen is None:
        return None
    content = seen.content
    if content is None:
        return LeaseState(seen.number, False, "", None, False, None)
    is_same_machine = content.identity == identity()
    is_alive: bool | None = None
    if content.closed:
        is_alive = False
    elif is_same_machine:
        is_alive = is_running(content.pid, content.started)
    return LeaseState(seen.number, content.closed, content.host, content.pid, is_same_machine, is_alive)


def _wait_for_end(backend: Backend, folder: str, last: _LeaseFile, patience: float) -> None:
    """Return once the session of the lease is over; LeaseError if it is live."""
    content = last.content
    if content is not None and content.closed:
        return
    url = _folder_url(backend, folder)
    if content is not None and content.identity == identity():
        if not is_running(content.pid, content.started):
            _LOG.info("%s: process %d ended without closing session %d", url, content.pid, last.number)
            return
        owner = "this process" if content.pid == os.getpid() else f"process {content.pid} of this machine"
        raise LeaseError(f"{url} is being written by {owner}. Close it first, or write to another path")
    who = "an unreadable lease" if content is None else f"process {content.pid} of {content.host!r}"
    _LOG.info("%s: watching %s for %g seconds", url, who, patience)
    end = monotonic() + patience
    while (left := end - monotonic()) > 0:
        sleep(min(left, patience / _MIN_POLLS, 1.0))
        now = _read_lease(backend, folder, last.number)
        if now is None or (now.content is not None and now.content.closed):
            return
        # Bytes, not the beat: an unreadable lease that changes is alive, too.
        if (now.raw, now.size) != (last.raw, last.size):
            raise LeaseError(
                f"{url} is being written by {who}, on another machine or in another container. "
                "Close it there first, or write to another path"
            )
    _LOG.warning("%s: taking over from %s, silent for %g seconds", url, who, patience)


def _numbers(backend: Backend, folder: str) -> list[tuple[int, str]]:
    """Numbers of all leases and indexes: after a lease is removed, its number must not be used again."""
    numbers = []
    for name in backend.names(folder):
        match = _NUMBERED.fullmatch(name)
        # "00001.lease" is not a name that a writer makes; two spellings of one number would confuse the order.
        if match and match[1] == f"{int(match[1]):04d}":
            numbers.append((int(match[1]), match[2]))
    return numbers


def _newest(backend: Backend, folder: str, numbers: list[tuple[int, str]]) -> _LeaseFile | None:
    number = max((n for n, ending in numbers if ending == "lease"), default=None)
    return None if number is None else _read_lease(backend, folder, number)


def _read_lease(backend: Backend, folder: str, number: int) -> _LeaseFile | None:
    """Read a lease; None if it does not exist."""
    name = _name(folder, number)
    try:
        size = backend.size(name)
        raw = backend.read(name, 0, _MAX_BYTES)
    except FileNotFoundError:
        return None
    except DamagedError:  # a folder, a pipe, or a link out of the archive
        return _LeaseFile(number, b"", 0, None)
    return _LeaseFile(number, raw, size, _parse(raw) if size <= _MAX_BYTES else None)


def _parse(raw: bytes) -> _Content | None:
    try:
        fields_ = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields_, dict) or any(field.name not in fields_ for field in fields(_Content)):
        return None
    content = _Content(**{field.name: fields_[field.name] for field in fields(_Content)})
    numbers = (content.session, content.pid, content.beat, content.started or 0)
    texts = (content.token, content.host, content.identity)
    is_valid = (
        all(type(number) is int for number in numbers)
        and all(type(text) is str for text in texts)
        and type(content.closed) is bool
        # os.kill() with 0 or a negative number would address a whole process group.
        and 0 < content.pid < 2**31
    )
    return content if is_valid else None


def _name(folder: str, number: int) -> str:
    return f"{folder}/{number:04d}.lease" if folder else f"{number:04d}.lease"


def _folder_url(backend: Backend, folder: str) -> str:
    return f"{backend.url}/{folder}" if folder else backend.url
