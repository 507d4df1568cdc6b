"""Where activations lie: in memory, or in the windows of an archive, of which one at a time is mapped."""

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

_MOST_WINDOWS_OF_WORDS: Final = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong with one item while it was collected."""

    item: int
    what: str


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a collection as a whole."""

    n_items: int
    aggregate: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    is_whole: bool = True
    path: str | None = None


class Source(Protocol):
    """Activations in windows, one after the other. What it gives is read-only."""

    @property
    def sites(self) -> tuple[CollectedSite, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def starts(self) -> NDArray[np.int64]:
        """The row with which each window begins, and how many rows there are."""

    @property
    def about(self) -> About: ...

    @property
    def problems(self) -> Sequence[Problem]: ...

    def values(self, window: int, site: int) -> Array:
        """The values `[row, unit]` of one site in one window."""

    def rows(self, window: int) -> Rows:
        """Where the rows of a window come from."""

    def words(self, window: int) -> Sequence[str]:
        """The text of each row of a window."""


@dataclass(frozen=True, slots=True, eq=False)
class MemorySource:
    """Arrays at hand, as one window."""

    sites: tuple[CollectedSite, ...]
    arrays: tuple[Array, ...]
    all_rows: Rows
    all_words: Sequence[str]
    about: About
    problems: Sequence[Problem] = ()

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
    """What a collection on disk holds. Opening it reads the index alone."""

    def __init__(self, archive: Archive) -> None:
        document = archive.documents.get(DOCUMENT)
        if not isinstance(document, dict):
            problems = "; ".join(archive.problems)
            raise DamagedError(
                f"{archive.path} holds activations of which nothing is known{f' ({problems})' if problems else ''}: "
                "the collection was killed before it began, or has lost its description. Collect again."
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
        self.about = About(n_items, aggregate, provenance, document.get("whole") is True, archive.path)
        self.starts = np.array([0, *(window.stop_row for window in self.windows)], np.int64)
        self._held: tuple[int, dict[int, Array]] = (-1, {})
        self._words: OrderedDict[int, list[str]] = OrderedDict()

    @property
    def problems(self) -> list[Problem]:
        """What went wrong, item by item."""
        return [problem for window in self.windows if window.n_problems for problem in self._problems(window)]

    def values(self, window: int, site: int) -> Array:
        number, held = self._held
        if number != window:  # only one window is mapped, or in memory, at a time
            number, held = self._held = window, {}
        if site not in held:
            self.check(window, site)
            held[site] = self.windows[window].block.mapped(SITE + self.sites[site].site).array()
        return held[site]

    def rows(self, window: int) -> Rows:
        found = self.windows[window]
        columns = (self._column(found, f"row/{name}", found.n_rows) for name in ROW_COLUMNS)
        return Rows(*columns)

    def words(self, window: int) -> list[str]:
        words = self._words.get(window)
        if words is None:
            found = self.windows[window]
            words = self._texts(found, "words", found.n_rows)
            self._words[window] = words
            while len(self._words) > _MOST_WINDOWS_OF_WORDS:
                self._words.popitem(last=False)
        return words

    def check(self, window: int, site: int) -> None:
        """Raise if the values of a site in a window cannot be what they should be; they are not read."""
        found, wanted = self.windows[window], self.sites[site]
        name, block = SITE + wanted.site, self.windows[window].block
        shape = (found.n_rows, wanted.width)
        if name not in block or block.shape(name) != shape or block.dtype(name) != self.dtype.name:
            there = f"{block.dtype(name)} {list(block.shape(name))}" if name in block else "nothing"
            raise DamagedError(
                f"{self.about.path}: window {block.name!r} holds {there} of {wanted.site!r}, and {self.dtype} "
                f"{list(shape)} should be there."
            )

    def _column(self, window: Window, name: str, n: int) -> Array:
        column = window.block[name]
        if column.shape != (n,) or column.dtype.kind != "i":
            raise DamagedError(f"{self.about.path}: {name!r} of window {window.block.name!r} is not as it should be.")
        return column

    def _texts(self, window: Window, name: str, n: int) -> list[str]:
        found = split_strings(window.block[f"{name}/text"], window.block[f"{name}/offsets"])
        if len(found) != n:
            raise DamagedError(f"{self.about.path}: window {window.block.name!r} has {len(found):,} texts, not {n:,}.")
        return found

    def _problems(self, window: Window) -> list[Problem]:
        items = self._column(window, "problems/item", window.n_problems)
        texts = self._texts(window, "problems", window.n_problems)
        return [Problem(int(item), what) for item, what in zip(items, texts, strict=True)]

    def _check_whole(self, archive: Archive, document: Mapping[str, Any], n_items: int) -> None:
        """A collection that was finished must have all its windows: rows are never left out silently."""
        if document.get("whole") is True and document.get("n_items") != n_items:
            problems = "; ".join(archive.problems)
            raise DamagedError(
                f"the activations in {archive.path} are damaged: of {document.get('n_items')} items, those from "
                f"{n_items} on cannot be read{f' ({problems})' if problems else ''}. `cutaway verify` says more."
            )


def _dtype(name: Any) -> str:
    if name not in ("float32", "float16"):
        raise DamagedError(f"the dtype of the collection is {name!r}, which none has")
    return str(name)
