"""An archive opened for reading: ranks, sessions, documents, blocks. Never locks or changes anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from cutaway.core.arrays import Array, Raw
from cutaway.core.errors import DamagedError, NotFoundError, VersionError
from cutaway.core.formatting import listed, nearest_hint
from cutaway.store.backends.backend import Backend, backend_for
from cutaway.store.format.filenames import FLIGHT, HEAD, INDEX, PART, SEALED, rank_folder, rank_of, session_of
from cutaway.store.format.manifest import FORMAT_VERSION, Head, Kind, kind_of
from cutaway.store.format.records import BlockRecord
from cutaway.store.reading.flight_ring import add_ring
from cutaway.store.reading.index import SessionIndex
from cutaway.store.reading.lru_cache import LRUCache
from cutaway.store.reading.segment_reader import SegmentReader
from cutaway.store.writing.lease import state

CACHE_BYTES = 64 << 20
_MAX_LISTED = 8


class Archive:
    """A folder that Cutaway wrote.

    Args:
        cache_bytes: how many bytes of read data to cache.
    """

    def __init__(self, path: str | os.PathLike[str] | Backend, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.backend: Backend = backend_for(path) if isinstance(path, (str, os.PathLike)) else path
        self.path = os.fspath(path) if isinstance(path, (str, os.PathLike)) else path.url
        self.segments = SegmentReader(self.backend, LRUCache(cache_bytes))
        self.ranks: dict[int, dict[int, SessionIndex]] = {}
        """Rank → number → session."""
        self.n_changes = 0
        """How often `refresh` found new data."""
        self.manifest_damage: list[str] = []
        self._folder_damage: dict[str, str] = {}
        try:
            names = self.backend.names()
        except (OSError, ValueError) as error:
            raise NotFoundError(f"cannot open {self.path!r}: {error}.") from error
        if HEAD not in names and not any(rank_of(name) is not None for name in names):
            raise NotFoundError(
                f"no Cutaway archive at {self.path}: {_explain_absence(self.path, self.backend, names)}"
            )
        self.head = self._read_head()
        self.refresh()

    def _read_head(self) -> Head | None:
        try:
            return Head.read(self.backend.read(HEAD, 0, 1 << 20))
        except FileNotFoundError:
            self.manifest_damage.append("cutaway.json is missing.")
        except VersionError as error:
            raise VersionError(f"cannot open {self.path}: {error}") from error
        except DamagedError as error:
            self.manifest_damage.append(str(error))
        except OSError as error:
            self.manifest_damage.append(f"cannot read cutaway.json: {error.strerror or error}.")
        return None

    def refresh(self) -> bool:
        """Read what was written since; returns whether there was anything."""
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
                    self._folder_damage[f"{folder}/{index}"] = f"{folder}/{index} is missing, so {file} cannot be read."
            last = max(sessions, default=0)
            for number, session in sorted(sessions.items()):
                # Ended sessions do not change; skipping them keeps refresh() of a run with many resumes cheap.
                if number == last or not session.n_read or not session.is_ended:
                    is_new |= _read(session, self.backend)
                # A flight recorder that closes removes its ring file: if there is one, its process was killed.
                has_ring = f"{number:04d}{FLIGHT}" in files and not session.is_ended and not session.has_flight_ring
                if has_ring and (number != last or not self._is_alive(rank)):
                    is_new |= add_ring(self.backend, session)
        self.ranks = {rank: dict(sorted(ranks[rank].items())) for rank in sorted(ranks)}
        self.n_changes += is_new
        return is_new

    def _names(self, folder: str) -> list[str]:
        """The entries of a folder; empty if it cannot be opened."""
        try:
            return self.backend.names(folder) if folder else self.backend.names()
        except (DamagedError, OSError) as error:
            self._folder_damage[folder] = f"cannot open {folder or self.path}: {error}"
            return []

    @property
    def kind(self) -> Kind:
        """What it holds: "run", "trace", "activations", "result" or "generation"."""
        if self.head is not None:
            return self.head.kind
        for session in self.sessions():
            kind = kind_of(session.session.to_record()) if session.session else None
            if kind:
                return kind
        raise DamagedError(f"{self.path}: cutaway.json is missing, and no session record has the kind.")

    @property
    def id(self) -> str:
        """Unique id that stays the same when the folder moves; "" if lost."""
        return self.head.id if self.head else ""

    @property
    def created(self) -> str:
        """Creation time (ISO 8601)."""
        return self.head.created if self.head else ""

    def sessions(self, rank: int | None = None) -> list[SessionIndex]:
        """The sessions of one rank; of the first rank by default."""
        if rank is None:
            rank = next(iter(self.ranks), 0)
        return list(self.ranks.get(rank, {}).values())

    @property
    def is_live(self) -> bool | None:
        """Whether it is being written now; None if another machine may be writing."""
        states: list[bool | None] = []
        for rank, sessions in self.ranks.items():
            last = max(sessions, default=0)
            if sessions and sessions[last].is_ended:
                states.append(False)
                continue
            states.append(self._is_alive(rank))
        return True if True in states else None if None in states else False

    def _is_alive(self, rank: int) -> bool | None:
        """Whether the process that wrote the last session of a rank is running; None if unknown."""
        try:
            lease = state(self.backend, rank_folder(rank))
        except (DamagedError, OSError):
            return None
        return False if lease is None else lease.is_alive

    @property
    def documents(self) -> Mapping[str, Any]:
        """Plain data by name, of the first rank; later sessions replace earlier ones."""
        documents: dict[str, Any] = {}
        for session in self.sessions():
            documents |= session.documents
        return documents

    def document(self, name: str) -> Any:
        """One document by name."""
        documents = self.documents
        if name not in documents:
            names = listed(map(repr, sorted(documents)), _MAX_LISTED) or "none"
            raise NotFoundError(f"{self.path} has no document {name!r}. It has: {names}.")
        return documents[name]

    @property
    def blocks(self) -> Mapping[str, ArrayBlock]:
        """Named groups of arrays, of the first rank."""
        blocks = {}
        for session in self.sessions():
            for name, record in session.blocks.items():
                blocks[name] = ArrayBlock(self, session, record)
        return blocks

    @property
    def damage(self) -> list[str]:
        """Damage found so far by opening and reading; `verify` checks every byte."""
        sessions = [session for rank in self.ranks for session in self.sessions(rank)]
        indexes = (message for session in sessions for message in session.damage)
        folders = self._folder_damage.values()
        return [*self.manifest_damage, *folders, *indexes, *self.segments.damage]


class ArrayBlock(Mapping[str, Array]):
    """Named arrays, read on access."""

    def __init__(self, archive: Archive, session: SessionIndex, record: BlockRecord) -> None:
        self._archive = archive
        self._session = session
        self._record = record
        self.name = record.name
        self.about = record.about

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, in order of writing."""
        return tuple(self._positions)

    @cached_property
    def _positions(self) -> dict[str, int]:
        layout = self._session.layout_of(self._record.block)
        rows = self._session.schema_of(layout.schema).rows
        return {rows[row].site: position for position, row in enumerate(layout.rows)}

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of one array, without reading it."""
        return self._session.layout_of(self._record.block).shapes[self._position(name)]

    def dtype(self, name: str) -> str:
        """Dtype of one array, with torch's name."""
        return self._session.layout_of(self._record.block).dtypes[self._position(name)]

    def raw(self, name: str) -> Raw:
        """One array with its stored dtype."""
        return self._archive.segments.raw(self._session, self._record.block, self._position(name))

    def map(self, name: str) -> Raw:
        """One array with its stored dtype, memory-mapped if possible."""
        return self._archive.segments.map(self._session, self._record.block, self._position(name))

    def __getitem__(self, name: str) -> Array:
        return self.raw(name).array()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def _position(self, name: str) -> int:
        try:
            return self._positions[name]
        except KeyError:
            near = nearest_hint(name, self._positions)
            raise NotFoundError(f"block {self.name!r} has no array {name!r}.{near}") from None


def _read(session: SessionIndex, backend: Backend) -> bool:
    try:
        return session.refresh(backend)
    except FileNotFoundError:
        message = f"{session.name} no longer exists."
    except DamagedError as error:
        message = str(error)
    except OSError as error:
        message = f"cannot read {session.name}: {error.strerror or error}."
    if message not in session.damage:
        session.damage.append(message)
    return False


def _explain_absence(path: str, backend: Backend, names: list[str]) -> str:
    """Why a folder is not an archive, and what to pass instead."""
    parent, leaf = os.path.split(path.rstrip("/"))
    if rank_of(leaf) is not None:
        return f"it is a part of one. Pass {parent or '.'!r}."
    if archives := [name for name in names if _is_in(backend, name)]:
        example = f"{path.rstrip('/')}/{archives[0]}"
        return f"it is a folder of archives: {listed(map(repr, archives), 3)}. Name one, as in {example!r}."
    if names:
        contents = listed(map(repr, names), 3)
        return f"the folder has {contents}. Pass a folder that cutaway.record, cutaway.collect or .save() wrote."
    if "://" in path:
        return "it is empty or does not exist."
    if os.path.isdir(path):
        return "the folder is empty."
    return f"it does not exist.{_nearest_paths(parent, leaf)}"


def _nearest_paths(parent: str, leaf: str) -> str:
    """Entries of the same folder with a similar name, for a mistyped path."""
    try:
        siblings = os.listdir(parent or ".")
    except OSError:
        return f" Neither does the folder {parent!r}." if parent else ""
    return nearest_hint(os.path.join(parent, leaf), [os.path.join(parent, name) for name in siblings])


def _is_in(backend: Backend, folder: str) -> bool:
    try:
        return HEAD in backend.names(folder)
    except (DamagedError, OSError):
        return False
