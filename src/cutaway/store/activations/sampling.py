"""Reads one unit of a collection at a time; a large collection is sampled evenly by windows."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import NotFoundError
from cutaway.core.formatting import nearest_hint
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.sources import CollectionInfo, MemorySource
from cutaway.store.activations.unit_selection import Units
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import Rows

MOST_BYTES: Final = 192 << 20
"""Per site. The values of a unit are interleaved with those of all others, so a whole site is read for it."""
MOST_ROWS: Final = 300_000
_MAX_PARTS: Final = 2
_BYTES_A_ROW: Final = 90
"""Approximate memory per cached row: its word and its position."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows that are read for the units of one site."""

    acts: Activations
    rows: Rows
    words: list[str]


class UnitReader:
    """Reads single units as activations of their own; caches the words of the rows.

    >>> acts = Activations.of({"h": np.array([[0.0, 5], [2, 6], [4, 7]])}, words=["a", "b", "c"])
    >>> unit = UnitReader(acts)(1)
    >>> unit.names[0], unit.array()[:, 0], list(unit.words)
    ('h#1', array([5., 6., 7.], dtype=float32), ['a', 'b', 'c'])

    Args:
        acts: a complete collection.
        most_bytes: approximate limit of what is read per unit; at least one window is read.
        most_rows: the same limit, in rows.
    """

    def __init__(self, acts: Activations, *, most_bytes: int = MOST_BYTES, most_rows: int = MOST_ROWS) -> None:
        self.acts = acts
        self._most_bytes = most_bytes
        self._most_rows = most_rows
        self._widths = dict(zip(acts.sites, acts.widths, strict=True))
        self._parts: OrderedDict[tuple[int, ...] | None, _Part] = OrderedDict()

    @property
    def n_bytes(self) -> int:
        """Approximate memory use."""
        return sum(_BYTES_A_ROW * len(part.rows) for part in self._parts.values())

    def windows(self, site: str) -> tuple[int, ...] | None:
        """The windows that are read for the units of a site; None for all of them."""
        starts = self.acts.starts
        n_windows, n_rows = len(starts) - 1, int(starts[-1])
        max_rows = min(self._most_rows, self._most_bytes // (self._widths[site] * self.acts.dtype.itemsize))
        if n_rows <= max_rows or n_windows < 2:
            return None
        n_read = max(1, n_windows * max_rows // n_rows)
        if n_read == 1:
            return (n_windows // 2,)
        # Spread over the corpus, so that the sample is not its beginning alone.
        return tuple(np.unique(np.linspace(0, n_windows - 1, n_read).round().astype(int)).tolist())

    def unit_number(self, name: str) -> int:
        """The index of a unit, given its name (`encoder.layer.3#17`) or the index as text."""
        if name.isdecimal() and int(name) < self.acts.n_units:
            return int(name)
        site, _, number = name.rpartition("#")
        if site not in self._widths:
            raise NotFoundError(
                f"no unit {name!r}. Write the site, # and a number, as in {self.acts.names[0]!r}."
                f"{nearest_hint(site or name, self.acts.sites)}"
            )
        known = self.acts.numbers(site)
        is_number = number.isdecimal() and len(number) < 18
        matches = np.flatnonzero(known == (int(number) if is_number else -1))
        if not len(matches):
            raise NotFoundError(
                f"{site!r} has no unit {number!r}. It has {len(known):,} units, from {known.min()} to {known.max()}."
            )
        before = self.acts.sites.index(site)
        return sum(self.acts.widths[:before]) + int(matches[0])

    def __call__(self, unit: int) -> Activations:
        """One unit, by index, for all rows or a sample of them."""
        site, number = self.acts.site_of(unit)
        part = self._part(self.windows(site))
        sites = (CollectedSite(site, 1, units=(number,)),)
        source = MemorySource(
            sites, (part.acts.columns([unit]),), part.rows, part.words, CollectionInfo(self.acts.n_items)
        )
        return Activations(source, Units.all(sites))

    def _part(self, windows: tuple[int, ...] | None) -> _Part:
        part = self._parts.get(windows)
        if part is None:
            acts = self.acts if windows is None else self.acts.rows(_rows(self.acts.starts, windows))
            part = _Part(acts, Rows.of(acts.items, word=acts.word_index), list(acts.words))
            self._parts[windows] = part
            while len(self._parts) > _MAX_PARTS:
                self._parts.popitem(last=False)
        return part


def _rows(starts: NDArray[np.int64], windows: tuple[int, ...]) -> NDArray[np.int64]:
    return np.concatenate([np.arange(starts[window], starts[window + 1]) for window in windows])
