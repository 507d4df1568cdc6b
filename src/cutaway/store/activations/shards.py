"""Activations in several parts, read as one: what the processes of a job collected, each its share of the corpus."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Array
from cutaway.core.errors import InputError, NotFoundError
from cutaway.store.activations.sources import About, ArchiveSource, Problem, Source
from cutaway.store.activations.windows import are_alike
from cutaway.store.activations.writer import Rows
from cutaway.store.backends.backend import backend_for
from cutaway.store.reading.archive import CACHE_BYTES, Archive

_SHARD = re.compile(r"shard-(\d{5})-of-(\d{5})")
_OF_ONE: Final = ("corpus", "left_out", "shard", "time", "versions")
"""What differs between the parts of one collection."""


def shard_name(number: int, n_shards: int) -> str:
    """The folder of one part.

    >>> shard_name(2, 8)
    'shard-00002-of-00008'
    """
    return f"shard-{number:05d}-of-{n_shards:05d}"


class JoinedSource:
    """Parts one after the other: their rows in turn, items counted through."""

    def __init__(self, sources: Sequence[Source], path: str | None = None) -> None:
        if not sources:
            raise InputError("no activations were given: there is nothing to join.")
        for number, source in enumerate(sources[1:], 1):
            _check_alike(sources[0], source, number)
        self._sources = tuple(sources)
        self._windows = [(part, window) for part, one in enumerate(sources) for window in range(len(one.starts) - 1)]
        items = np.cumsum([0, *(source.about.n_items for source in sources)])
        rows = np.cumsum([0, *(int(source.starts[-1]) for source in sources)])
        self._first_items: list[int] = items[:-1].tolist()
        self.sites = sources[0].sites
        self.dtype: np.dtype[Any] = sources[0].dtype
        self.starts: NDArray[np.int64] = np.concatenate(
            [[0], *(source.starts[1:] + first for source, first in zip(sources, rows, strict=False))]
        ).astype(np.int64)
        first = sources[0].about
        about = {name: value for name, value in first.provenance.items() if name != "shard"}
        is_whole = all(source.about.is_whole for source in sources)
        self.about = About(int(items[-1]), first.aggregate, about, is_whole, path)

    @property
    def problems(self) -> list[Problem]:
        parts = zip(self._sources, self._first_items, strict=True)
        return [Problem(one.item + first, one.what) for source, first in parts for one in source.problems]

    def values(self, window: int, site: int) -> Array:
        part, inside = self._windows[window]
        return self._sources[part].values(inside, site)

    def rows(self, window: int) -> Rows:
        part, inside = self._windows[window]
        found = self._sources[part].rows(inside)
        return Rows(found.item + self._first_items[part], found.word, found.first, found.last)

    def words(self, window: int) -> Sequence[str]:
        part, inside = self._windows[window]
        return self._sources[part].words(inside)


def shards_at(path: str) -> list[str]:
    """The parts of a collection that lie in a folder, in their order; none where it is no such folder."""
    try:
        names = backend_for(path).names()
    except OSError:
        return []
    found = {name: (int(match[1]), int(match[2])) for name in names if (match := _SHARD.fullmatch(name))}
    counts = sorted({n for _, n in found.values()})
    if not counts:
        return []
    if len(counts) > 1:
        raise InputError(
            f"{path} holds shards of collections in {' and in '.join(map(str, counts))} parts: load those of one, "
            "Activations.join([cutaway.load(part) for part in parts])."
        )
    missing = sorted(set(range(counts[0])) - {number for number, _ in found.values()})
    if missing:
        listed = ", ".join(shard_name(number, counts[0]) for number in missing[:3])
        raise NotFoundError(f"{path} holds {len(found)} of {counts[0]} shards; not there: {listed}. Collect these too.")
    return [f"{path.rstrip('/')}/{name}" for name in sorted(found)]


def read_shards(path: str, places: Sequence[str], *, cache_bytes: int = CACHE_BYTES) -> JoinedSource:
    """All parts as one."""
    return JoinedSource([ArchiveSource(Archive(place, cache_bytes=cache_bytes)) for place in places], path)


def _check_alike(first: Source, other: Source, number: int) -> None:
    if not are_alike(first.sites, other.sites):
        raise InputError(
            f"part {number} has another sites than part 0: {_said(other.sites)}, not {_said(first.sites)}."
        )
    for name, wanted, found in (
        ("dtype", first.dtype, other.dtype),
        ("aggregate", first.about.aggregate, other.about.aggregate),
    ):
        if wanted != found:
            raise InputError(f"part {number} has another {name} than part 0: {_said(found)}, not {_said(wanted)}.")
    one, two = _settled(first.about.provenance), _settled(other.about.provenance)
    for name in sorted(one.keys() | two.keys()):
        if one.get(name) != two.get(name):
            raise InputError(
                f"part {number} was collected with another {name} than part 0 "
                f"({_said(two.get(name))}, not {_said(one.get(name))}): these are not parts of one set."
            )


def _settled(provenance: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in provenance.items() if name not in _OF_ONE}


def _said(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:80]}…"
