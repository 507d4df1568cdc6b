"""Joins the shards of a collection that several processes wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Array
from cutaway.core.errors import InputError, NotFoundError
from cutaway.core.formatting import listed, plural
from cutaway.store.activations.sources import ArchiveSource, CollectionInfo, Problem, Source
from cutaway.store.activations.windows import same_sites
from cutaway.store.activations.writer import Rows
from cutaway.store.backends.backend import backend_for
from cutaway.store.reading.archive import CACHE_BYTES, Archive

_SHARD = re.compile(r"shard-(\d{5})-of-(\d{5})")
_PER_SHARD: Final = ("corpus", "left_out", "shard", "time", "versions")
"""Provenance keys that may differ between shards of one collection."""


def shard_name(number: int, n_shards: int) -> str:
    """The folder name of one shard.

    >>> shard_name(2, 8)
    'shard-00002-of-00008'
    """
    return f"shard-{number:05d}-of-{n_shards:05d}"


class JoinedSource:
    """Concatenates sources along rows; item numbers continue."""

    def __init__(self, sources: Sequence[Source], path: str | None = None) -> None:
        if not sources:
            raise InputError("got no activations to join.")
        for number, source in enumerate(sources[1:], 1):
            _check_alike(sources[0], source, number)
        self._sources = tuple(sources)
        self._windows = [
            (part, window) for part, source in enumerate(sources) for window in range(len(source.starts) - 1)
        ]
        items = np.cumsum([0, *(source.about.n_items for source in sources)])
        rows = np.cumsum([0, *(int(source.starts[-1]) for source in sources)])
        self._first_items: list[int] = items[:-1].tolist()
        self.sites = sources[0].sites
        self.dtype: np.dtype[Any] = sources[0].dtype
        self.starts: NDArray[np.int64] = np.concatenate(
            [[0], *(source.starts[1:] + first for source, first in zip(sources, rows, strict=False))]
        ).astype(np.int64)
        first = sources[0].about
        # The joined collection is not a shard of anything.
        about = {name: value for name, value in first.provenance.items() if name != "shard"}
        is_whole = all(source.about.is_whole for source in sources)
        self.about = CollectionInfo(int(items[-1]), first.aggregate, about, is_whole, path)

    @property
    def problems(self) -> list[Problem]:
        parts = zip(self._sources, self._first_items, strict=True)
        return [Problem(problem.item + first, problem.what) for source, first in parts for problem in source.problems]

    @property
    def damage(self) -> tuple[str, ...]:
        return tuple(message for source in self._sources for message in source.damage)

    def values(self, window: int, site: int) -> Array:
        part, inside = self._windows[window]
        return self._sources[part].values(inside, site)

    def rows(self, window: int) -> Rows:
        part, inside = self._windows[window]
        rows = self._sources[part].rows(inside)
        return Rows(rows.item + self._first_items[part], rows.word, rows.first, rows.last)

    def words(self, window: int) -> Sequence[str]:
        part, inside = self._windows[window]
        return self._sources[part].words(inside)


def shards_at(path: str) -> list[str]:
    """The shards in a folder, in order; empty if it has none."""
    try:
        names = backend_for(path).names()
    except OSError:
        return []
    shards = {name: (int(match[1]), int(match[2])) for name in names if (match := _SHARD.fullmatch(name))}
    counts = sorted({n for _, n in shards.values()})
    if not counts:
        return []
    if len(counts) > 1:
        raise InputError(
            f"{path} has shards of several collections ({' and '.join(map(str, counts))} shards). Load one: "
            "Activations.join([cutaway.load(part) for part in parts])."
        )
    missing = sorted(set(range(counts[0])) - {number for number, _ in shards.values()})
    if missing:
        missing_names = listed([shard_name(number, counts[0]) for number in missing], 3)
        raise NotFoundError(
            f"{path} has {len(shards)} of {counts[0]} shards. Missing: {missing_names}. Collect them, too."
        )
    return [f"{path.rstrip('/')}/{name}" for name in sorted(shards)]


def read_shards(path: str, paths: Sequence[str], *, cache_bytes: int = CACHE_BYTES) -> JoinedSource:
    """Open all shards as one source."""
    return JoinedSource([ArchiveSource(Archive(path_, cache_bytes=cache_bytes)) for path_ in paths], path)


def _check_alike(first: Source, other: Source, number: int) -> None:
    if not same_sites(first.sites, other.sites):
        raise InputError(
            f"part {number} has other sites than part 0: {_site_text(other)}, not {_site_text(first)}. "
            "Join parts of one collection."
        )
    for name, wanted, got in (
        ("dtype", first.dtype, other.dtype),
        ("aggregate", first.about.aggregate, other.about.aggregate),
    ):
        if wanted != got:
            raise InputError(
                f"part {number} has another {name} than part 0: {_short_repr(got)}, not {_short_repr(wanted)}."
            )
    expected, actual = _comparable(first.about.provenance), _comparable(other.about.provenance)
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            raise InputError(
                f"part {number} was collected with another {name} than part 0 "
                f"({_short_repr(actual.get(name))}, not {_short_repr(expected.get(name))}): not one collection."
            )


def _site_text(source: Source) -> str:
    return listed((f"{site.site!r} ({plural(site.width, 'unit')})" for site in source.sites), 3)


def _comparable(provenance: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in provenance.items() if name not in _PER_SHARD}


def _short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:80]}…"
