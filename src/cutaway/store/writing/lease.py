"""Who may write: one session at a time for each rank's folder, and how the next one knows that the last is over.

A session's number is won by creating its lease file, which only one can. While it writes, the session counts up a
number in that file. A session whose process is dead is over; of a process on another machine, only silence can tell.
Nothing here looks at the time of day: clocks jump, and those of two machines differ.
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
from cutaway.store.writing.processes import identity, is_running, started

if TYPE_CHECKING:
    from cutaway.store.backends.backend import Backend

_LOG = logging.getLogger(__name__)
_NUMBERED = re.compile(r"([0-9]{4,9})\.(lease|index)")
_LAST_NUMBER = 999_999_999
_MOST_BYTES = 64 << 10
_LOOKS = 20
"""How often a silent lease is looked at, at least, before it is taken over."""


@dataclass(frozen=True, slots=True)
class LeaseState:
    """What the newest lease of a folder says."""

    number: int
    closed: bool
    host: str
    """Empty where the file is damaged."""
    pid: int | None
    is_same_machine: bool
    is_alive: bool | None
    """Whether somebody writes under it; None if that cannot be known from here."""


@dataclass(frozen=True, slots=True)
class _Content:
    """What is in a lease file."""

    session: int
    token: str
    pid: int
    host: str
    identity: str
    started: int | None
    """When the process began, in ticks since the machine did: a later process may be given the same number."""
    beat: int
    beat_every: float
    closed: bool

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A lease file as it was found."""

    number: int
    raw: bytes
    size: int
    content: _Content | None
    """None if the file is damaged."""


class Lease:
    """The right to write one session into a folder, until it is closed or somebody takes over.

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
        self._lock = Lock()  # a beat must not undo a close

    @classmethod
    def take(
        cls, backend: Backend, folder: str, *, patience: float = 30.0, beat_every: float = 5.0, force: bool = False
    ) -> Lease:
        """Win the next session's number, or LeaseError if somebody is writing.

        Args:
            patience: seconds for which a lease of another machine must be silent before it counts as left behind.
            beat_every: seconds between the beats of the new lease: well below anybody's patience.
            force: take over whoever is writing; that one fails at its next beat.
        """
        if not 0 <= patience < float("inf") or not 0 < beat_every < float("inf"):
            raise InputError(f"patience={patience!r} and beat_every={beat_every!r} are to be seconds")
        numbers = _numbers(backend, folder)
        number = max((n for n, _ in numbers), default=0) + 1
        if number > _LAST_NUMBER:
            raise LeaseError(f"{_place(backend, folder)} has a session {number - 1}, and no number is left after it")
        last = _newest(backend, folder, numbers)
        if last is not None and not force:
            _wait_for_end(backend, folder, last, patience)
        content = _Content(
            session=number,
            token=token_hex(16),
            pid=os.getpid(),
            host=os.uname().nodename,
            identity=identity(),
            started=started(os.getpid()),
            beat=0,
            beat_every=float(beat_every),
            closed=False,
        )
        try:
            backend.put(_name(folder, number), content.encoded(), new=True)
        except FileExistsError:
            raise LeaseError(
                f"{_place(backend, folder)}: somebody else began session {number} at the same moment. "
                "Try again when that one is closed"
            ) from None
        return cls(backend, folder, content)

    def beat(self) -> None:
        """Show that this session is alive; LeaseError if it is no longer the one to write."""
        if self._content.pid != os.getpid():
            raise LeaseError(
                f"{self._place} is being written by process {self._content.pid}, of which this process "
                f"({os.getpid()}) was forked: only that one may write there"
            )
        with self._lock:
            self._check()
            self._rewrite(replace(self._content, beat=self._content.beat + 1))

    def check(self) -> None:
        """LeaseError if this session is no longer the one to write."""
        with self._lock:
            self._check()

    def close(self) -> None:
        """Say that the session is over; in a forked child, and a second time, this does nothing."""
        if self._content.pid != os.getpid():
            return
        with self._lock:
            if not self._content.closed and self._is_mine():
                self._rewrite(replace(self._content, closed=True))
            self._content = replace(self._content, closed=True)

    @property
    def _place(self) -> str:
        return _place(self._backend, self._folder)

    def _check(self) -> None:
        if self._content.closed:
            raise LeaseError(f"session {self.number} of {self._place} was closed: begin a new one")
        highest = max((n for n, _ in _numbers(self._backend, self._folder)), default=0)
        if highest > self.number:
            raise LeaseError(
                f"session {highest} has taken over {self._place}: session {self.number} must not go on writing"
            )
        if not self._is_mine():
            raise LeaseError(
                f"{self._place}/{self.number:04d}.lease was removed or replaced: session {self.number} must not go on"
            )

    def _is_mine(self) -> bool:
        seen = _look(self._backend, self._folder, self.number)
        return seen is not None and seen.content is not None and seen.content.token == self._content.token

    def _rewrite(self, content: _Content) -> None:
        # Waiting for a busy disk here could last longer than the patience of others.
        self._backend.put(_name(self._folder, self.number), content.encoded(), sync=False)
        self._content = content


def state(backend: Backend, folder: str) -> LeaseState | None:
    """What the newest lease of a folder says; None if there is no lease."""
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


def _wait_for_end(backend: Backend, folder: str, last: _Seen, patience: float) -> None:
    """Return when the session of that lease is over; LeaseError if it is not."""
    content = last.content
    if content is not None and content.closed:
        return
    place = _place(backend, folder)
    if content is not None and content.identity == identity():
        if not is_running(content.pid, content.started):
            _LOG.info("%s: process %d ended without closing session %d", place, content.pid, last.number)
            return
        whose = "this very process" if content.pid == os.getpid() else f"process {content.pid} of this machine"
        raise LeaseError(f"{place} is being written by {whose}: close it first, or write to another path")
    who = "an unreadable lease" if content is None else f"process {content.pid} of {content.host!r}"
    _LOG.info("%s: watching %s for %g seconds", place, who, patience)
    end = monotonic() + patience
    while (left := end - monotonic()) > 0:
        sleep(min(left, patience / _LOOKS, 1.0))
        now = _look(backend, folder, last.number)
        if now is None or (now.content is not None and now.content.closed):
            return
        if (now.raw, now.size) != (last.raw, last.size):
            raise LeaseError(
                f"{place} is being written by {who}, another machine or container: its lease changed while we looked. "
                "Close it there first, or write to another path"
            )
    _LOG.warning("%s: taking over from %s, silent for %g seconds", place, who, patience)


def _numbers(backend: Backend, folder: str) -> list[tuple[int, str]]:
    """Number and ending of all leases and indexes: a removed lease must not lead to the same number again."""
    found = []
    for name in backend.names(folder):
        match = _NUMBERED.fullmatch(name)
        if match and match[1] == f"{int(match[1]):04d}":
            found.append((int(match[1]), match[2]))
    return found


def _newest(backend: Backend, folder: str, numbers: list[tuple[int, str]]) -> _Seen | None:
    number = max((n for n, ending in numbers if ending == "lease"), default=None)
    return None if number is None else _look(backend, folder, number)


def _look(backend: Backend, folder: str, number: int) -> _Seen | None:
    """A lease as it is now; None if it is not there."""
    name = _name(folder, number)
    try:
        size = backend.size(name)
        raw = backend.read(name, 0, _MOST_BYTES)
    except FileNotFoundError:
        return None
    except DamagedError:  # a folder, a pipe, a link that leads out
        return _Seen(number, b"", 0, None)
    return _Seen(number, raw, size, _parsed(raw) if size <= _MOST_BYTES else None)


def _parsed(raw: bytes) -> _Content | None:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or any(field.name not in found for field in fields(_Content)):
        return None
    content = _Content(**{field.name: found[field.name] for field in fields(_Content)})
    numbers = (content.session, content.pid, content.beat, content.started or 0)
    texts = (content.token, content.host, content.identity)
    is_right = (
        all(type(number) is int for number in numbers)
        and all(type(text) is str for text in texts)
        and type(content.closed) is bool
        and 0 < content.pid < 2**31
    )
    return content if is_right else None


def _name(folder: str, number: int) -> str:
    return f"{folder}/{number:04d}.lease" if folder else f"{number:04d}.lease"


def _place(backend: Backend, folder: str) -> str:
    return f"{backend.url}/{folder}" if folder else backend.url
