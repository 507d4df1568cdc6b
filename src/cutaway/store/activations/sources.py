"""Protocol of activation sources; sources in memory and in an archive."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Array
from cutaway.core.errors import DamagedError
from cutaway.store.activations.windows import DOCUMENT, SITE, CollectedSite, Window, windows_of
from cutaway.store.activations.writer import ROW_COLUMNS, Rows
from cutaway.store.format.fields import mapping, text
from cutaway.store.format.ragged import split_strings
from cutaway.store.reading.archive import Archive

_MAX_CACHED_WINDOWS: Final = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """An error with one item during collection."""

    item: int
    what: str


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """Facts about a whole collection."""

    n_items: int
    aggregate: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    is_whole: bool = True
    path: str | None = None


class Source(Protocol):
    """Activations in consecutive windows. All returned arrays are read-only."""

    @property
    def sites(self) -> tuple[CollectedSite, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each window, then the number of rows."""

    @property
    def about(self) -> CollectionInfo: ...

    @property
    def problems(self) -> Sequence[Problem]: ...

    @property
    def damage(self) -> tuple[str, ...]:
        """Damage on disk that reading has found so far."""

    def values(self, window: int, site: int) -> Array:
        """Values `[row, unit]` of one site in one window."""

    def rows(self, window: int) -> Rows:
        """The origin of each row of a window."""

    def words(self, window: int) -> Sequence[str]:
        """The text of each row of a window."""


@dataclass(frozen=True, slots=True, eq=False)
class MemorySource:
    """Arrays in memory, as one window."""

    sites: tuple[CollectedSite, ...]
    arrays: tuple[Array, ...]
    all_rows: Rows
    all_words: Sequence[str]
    about: CollectionInfo
    problems: Sequence[Problem] = ()
    damage: tuple[str, ...] = ()

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*self.arrays)

    @property
    def starts(self) -> NDArray[np.int64]:
        return np.array([0, len(self.all_rows)], np.int64)

    def values(self, window: int, site: int) -> Array:
        return self.arrays[site]

    def rows(self, window: int) -> Rows:
        return self.all_rows

    def words(self, window: int) -> Sequence[str]:
        return self.all_words


class ArchiveSource:
    """A collection on disk. Opening it reads only the index; one window is mapped at a time."""

    def __init__(self, archive: Archive) -> None:
        document = archive.documents.get(DOCUMENT)
        if not isinstance(document, dict):
            damage = "; ".join(archive.damage)
            raise DamagedError(
                f"{archive.path} has activations without a description{f' ({damage})' if damage else ''}: "
                "the process was killed before it wrote one, or the description is damaged. Collect again."
            )
        try:
            self.sites = tuple(map(CollectedSite.read, document.get("sites") or ()))
            self.dtype = np.dtype(_dtype(document.get("dtype")))
            self.windows = windows_of(archive)
            aggregate = text(document.get("aggregate", ""), "aggregate of the collection")
            provenance = mapping(document.get("provenance"), "provenance of the collection")
        except DamagedError as error:
            raise DamagedError(f"the activations in {archive.path} are damaged: {error}.") from error
        if not self.sites:
            raise DamagedError(f"the activations in {archive.path} are damaged: they have no sites.")
        n_items = self.windows[-1].stop_item if self.windows else 0
        self._check_whole(archive, document, n_items)
        self.about = CollectionInfo(n_items, aggregate, provenance, document.get("whole") is True, archive.path)
        self.starts = np.array([0, *(window.stop_row for window in self.windows)], np.int64)
        self._archive = archive
        self._mapped: tuple[int, dict[int, Array]] = (-1, {})
        self._words: OrderedDict[int, list[str]] = OrderedDict()

    @property
    def problems(self) -> list[Problem]:
        """Errors during collection, item by item."""
        return [problem for window in self.windows if window.n_problems for problem in self._problems(window)]

    @property
    def damage(self) -> tuple[str, ...]:
        return tuple(self._archive.damage)

    def values(self, window: int, site: int) -> Array:
        number, arrays = self._mapped
        if number != window:  # keep only one window mapped or in memory
            number, arrays = self._mapped = window, {}
        if site not in arrays:
            self.check(window, site)
            arrays[site] = self.windows[window].block.map(SITE + self.sites[site].site).array()
        return arrays[site]

    def rows(self, window: int) -> Rows:
        entry = self.windows[window]
        columns = (self._column(entry, f"row/{name}", entry.n_rows) for name in ROW_COLUMNS)
        return Rows(*columns)

    def words(self, window: int) -> list[str]:
        words = self._words.get(window)
        if words is None:
            entry = self.windows[window]
            words = self._texts(entry, "words", entry.n_rows)
            self._words[window] = words
            while len(self._words) > _MAX_CACHED_WINDOWS:
                self._words.popitem(last=False)
        return words

    def check(self, window: int, site: int) -> None:
        """Raise DamagedError if a site in a window has the wrong shape or dtype; reads no values."""
        site_info, block = self.sites[site], self.windows[window].block
        name = SITE + site_info.site
        shape = (self.windows[window].n_rows, site_info.width)
        if name not in block or block.shape(name) != shape or block.dtype(name) != self.dtype.name:
            actual = f"{block.dtype(name)} {list(block.shape(name))}" if name in block else "nothing"
            raise DamagedError(
                f"{self.about.path}: window {block.name!r} has {actual} for {site_info.site!r}, expected {self.dtype} "
                f"{list(shape)}."
            )

    def _column(self, window: Window, name: str, n: int) -> Array:
        column = window.block[name]
        if column.shape != (n,) or column.dtype.kind != "i":
            raise DamagedError(f"{self.about.path}: {name!r} of window {window.block.name!r} is malformed.")
        return column

    def _texts(self, window: Window, name: str, n: int) -> list[str]:
        texts = split_strings(window.block[f"{name}/text"], window.block[f"{name}/offsets"])
        if len(texts) != n:
            raise DamagedError(f"{self.about.path}: window {window.block.name!r} has {len(texts):,} texts, not {n:,}.")
        return texts

    def _problems(self, window: Window) -> list[Problem]:
        items = self._column(window, "problems/item", window.n_problems)
        texts = self._texts(window, "problems", window.n_problems)
        return [Problem(int(item), what) for item, what in zip(items, texts, strict=True)]

    def _check_whole(self, archive: Archive, document: Mapping[str, Any], n_items: int) -> None:
        """A finished collection must have all its windows: rows are never dropped silently."""
        if document.get("whole") is True and document.get("n_items") != n_items:
            damage = "; ".join(archive.damage)
            raise DamagedError(
                f"the activations in {archive.path} are damaged: of {document.get('n_items')} items, those from number "
                f"{n_items} on are unreadable{f' ({damage})' if damage else ''}. Run `cutaway verify` for details."
            )


def _dtype(name: Any) -> str:
    if name not in ("float32", "float16"):
        raise DamagedError(f"the collection has dtype {name!r}, expected float32 or float16")
    return str(name)
