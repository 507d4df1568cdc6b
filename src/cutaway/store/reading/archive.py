"""An archive, opened for reading: its ranks, their sessions, and what lies in them. Nothing is locked or changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from cutaway.core.arrays import Array, Raw
from cutaway.core.errors import DamagedError, NotFoundError
from cutaway.core.formatting import nearest
from cutaway.store.backends.backend import Backend, backend_for
from cutaway.store.format.filenames import HEAD, INDEX, PART, SEALED, rank_folder, rank_of, session_of
from cutaway.store.format.manifest import FORMAT_VERSION, Head, Kind, kind_of
from cutaway.store.format.records import BlockRecord
from cutaway.store.reading.index import SessionIndex
from cutaway.store.reading.lru_cache import Cache
from cutaway.store.reading.segment_reader import Segments
from cutaway.store.writing.lease import state

CACHE_BYTES = 64 << 20


class Archive:
    """One folder that Cutaway wrote.

    Args:
        cache_bytes: how much of what was read is kept in memory.
    """

    def __init__(self, path: str | os.PathLike[str] | Backend, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.backend: Backend = backend_for(path) if isinstance(path, (str, os.PathLike)) else path
        self.path = os.fspath(path) if isinstance(path, (str, os.PathLike)) else path.url
        self.segments = Segments(self.backend, Cache(cache_bytes))
        self.ranks: dict[int, dict[int, SessionIndex]] = {}
        """Rank → number → session."""
        self.n_changes = 0
        """How often `refresh` found something."""
        self.problems_of_head: list[str] = []
        self._problems_of_folders: dict[str, str] = {}
        try:
            names = self.backend.names()
        except (OSError, ValueError) as error:
            raise NotFoundError(f"{self.path!r} cannot be opened: {error}.") from error
        if HEAD not in names and not any(rank_of(name) is not None for name in names):
            raise NotFoundError(f"{self.path} holds nothing that Cutaway wrote{_instead(self.backend, names)}.")
        self.head = self._read_head()
        self.refresh()

    def _read_head(self) -> Head | None:
        try:
            return Head.read(self.backend.read(HEAD, 0, 1 << 20))
        except FileNotFoundError:
            self.problems_of_head.append("cutaway.json is not there.")
        except DamagedError as error:
            self.problems_of_head.append(str(error))
        except OSError as error:
            self.problems_of_head.append(f"cutaway.json cannot be read: {error.strerror or error}.")
        return None

    def refresh(self) -> bool:
        """Read what was written since; whether there was anything."""
        is_new = False
        ranks = {rank: dict(sessions) for rank, sessions in self.ranks.items()}
        for folder in self._names(""):
            rank = rank_of(folder)
            if rank is None:
                continue
            sessions = ranks.setdefault(rank, {})
            files = self._names(folder)
            for file in files:
                number = session_of(file)
                if number is not None and number not in sessions:
                    version = self.head.version if self.head else FORMAT_VERSION
                    sessions[number] = SessionIndex(number, folder, version)
                    is_new = True
            for file in files:
                index = file.split("-")[0] + INDEX
                if file.endswith((PART, SEALED)) and session_of(index) not in (None, *sessions):
                    self._problems_of_folders[f"{folder}/{index}"] = (
                        f"{folder}/{index} is not there, and says what {file} holds."
                    )
            last = max(sessions, default=0)
            for number, session in sorted(sessions.items()):
                if number == last or not session.n_read or not session.is_ended:
                    is_new |= _read(session, self.backend)
        self.ranks = {rank: dict(sorted(ranks[rank].items())) for rank in sorted(ranks)}
        self.n_changes += is_new
        return is_new

    def _names(self, folder: str) -> list[str]:
        """What is in a folder; nothing where it cannot be entered."""
        try:
            return self.backend.names(folder) if folder else self.backend.names()
        except (DamagedError, OSError) as error:
            self._problems_of_folders[folder] = f"{folder or self.path} cannot be entered: {error}"
            return []

    @property
    def kind(self) -> Kind:
        """What it holds: "run", "trace", "activations", "result" or "generation"."""
        if self.head is not None:
            return self.head.kind
        for session in self.sessions():
            found = kind_of(session.session.packed()) if session.session else None
            if found:
                return found
        raise DamagedError(f"{self.path}: cutaway.json is lost, and no session says what this is.")

    @property
    def id(self) -> str:
        """A number of its own, the same wherever the folder is moved; "" where it is lost."""
        return self.head.id if self.head else ""

    @property
    def created(self) -> str:
        """When it was begun, by the clock of then."""
        return self.head.created if self.head else ""

    def sessions(self, rank: int | None = None) -> list[SessionIndex]:
        """The sessions of one rank, of the first one if none is named."""
        if rank is None:
            rank = next(iter(self.ranks), 0)
        return list(self.ranks.get(rank, {}).values())

    @property
    def is_live(self) -> bool | None:
        """Whether somebody is writing now; None where another machine may be."""
        found: list[bool | None] = []
        for rank, sessions in self.ranks.items():
            last = max(sessions, default=0)
            if sessions and sessions[last].is_ended:
                found.append(False)
                continue
            try:
                lease = state(self.backend, rank_folder(rank))
            except (DamagedError, OSError):
                found.append(None)
                continue
            found.append(False if lease is None else lease.is_alive)
        return True if True in found else None if None in found else False

    @property
    def documents(self) -> Mapping[str, Any]:
        """Plain data by name, of the first rank; what a later session wrote goes before."""
        found: dict[str, Any] = {}
        for session in self.sessions():
            found |= session.documents
        return found

    def document(self, name: str) -> Any:
        """One document by its name."""
        found = self.documents
        if name not in found:
            raise NotFoundError(f"{self.path} has no document {name!r}. It has: {', '.join(sorted(found)) or 'none'}.")
        return found[name]

    @property
    def blocks(self) -> Mapping[str, ArrayBlock]:
        """Named groups of arrays, of the first rank."""
        found = {}
        for session in self.sessions():
            for name, record in session.blocks.items():
                found[name] = ArrayBlock(self, session, record)
        return found

    @property
    def problems(self) -> list[str]:
        """What is damaged, as far as opening and reading it has shown; `verify` looks at every byte."""
        sessions = [session for rank in self.ranks for session in self.sessions(rank)]
        indexes = (problem for session in sessions for problem in session.problems)
        folders = self._problems_of_folders.values()
        return [*self.problems_of_head, *folders, *indexes, *self.segments.problems]


class ArrayBlock(Mapping[str, Array]):
    """Named arrays that belong together, read when they are asked for."""

    def __init__(self, archive: Archive, session: SessionIndex, record: BlockRecord) -> None:
        self._archive = archive
        self._session = session
        self._record = record
        self.name = record.name
        self.about = record.about

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, in the order they were written."""
        return tuple(self._places)

    @cached_property
    def _places(self) -> dict[str, int]:
        layout = self._session.layout_of(self._record.block)
        rows = self._session.schema_of(layout.schema).rows
        return {rows[row].site: place for place, row in enumerate(layout.rows)}

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of one array, without reading it."""
        return self._session.layout_of(self._record.block).shapes[self._place(name)]

    def dtype(self, name: str) -> str:
        """Dtype of one array, as torch names it."""
        return self._session.layout_of(self._record.block).dtypes[self._place(name)]

    def raw(self, name: str) -> Raw:
        """One array as it was written."""
        return self._archive.segments.raw(self._session, self._record.block, self._place(name))

    def mapped(self, name: str) -> Raw:
        """One array as it was written; mapped into memory, not read, where that can be."""
        return self._archive.segments.mapped(self._session, self._record.block, self._place(name))

    def __getitem__(self, name: str) -> Array:
        return self.raw(name).array()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def _place(self, name: str) -> int:
        try:
            return self._places[name]
        except KeyError:
            close = ", ".join(map(repr, nearest(name, self._places)))
            near = f" Nearest: {close}." if close else ""
            raise NotFoundError(f"block {self.name!r} has no array {name!r}.{near}") from None


def _read(session: SessionIndex, backend: Backend) -> bool:
    try:
        return session.refresh(backend)
    except FileNotFoundError:
        problem = f"{session.name} is not there any more."
    except DamagedError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{session.name} cannot be read: {error.strerror or error}."
    if problem not in session.problems:
        session.problems.append(problem)
    return False


def _instead(backend: Backend, names: list[str]) -> str:
    """What to do about a folder that is no archive."""
    if not names:
        return ": it is empty or not there"
    inside = [name for name in names if _is_in(backend, name)]
    if inside:
        return f" itself, but {', '.join(map(repr, inside[:3]))}{'…' if len(inside) > 3 else ''} in it do"
    return ""


def _is_in(backend: Backend, folder: str) -> bool:
    try:
        return HEAD in backend.names(folder)
    except (DamagedError, OSError):
        return False
