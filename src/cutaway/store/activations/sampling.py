"""One unit of a collection at a time, in memory: of a large collection, as an even sample of its windows tells."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import NotFoundError
from cutaway.core.formatting import nearest
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.sources import About, MemorySource
from cutaway.store.activations.unit_selection import Units
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import Rows

MOST_BYTES: Final = 192 << 20
"""Of one site. The values of a unit lie among those of all others, so that all of them are read for it."""
MOST_ROWS: Final = 300_000
_MOST_KEPT: Final = 2
_BYTES_A_ROW: Final = 90
"""What is kept of a row takes about so much: its word, and where it is from."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows that are read for the units of some width."""

    acts: Activations
    rows: Rows
    words: list[str]


class UnitReader:
    """Reads units, each as activations of its own; the words are read once for all of them.

    >>> acts = Activations.of({"h": np.array([[0.0, 5], [2, 6], [4, 7]])}, words=["a", "b", "c"])
    >>> unit = UnitReader(acts)(1)
    >>> unit.names[0], unit.array()[:, 0], list(unit.words)
    ('h#1', array([5., 6., 7.], dtype=float32), ['a', 'b', 'c'])

    Args:
        acts: a whole collection.
        most_bytes: what may be read for one unit, about: at least one window is.
        most_rows: the same, in rows.
    """

    def __init__(self, acts: Activations, *, most_bytes: int = MOST_BYTES, most_rows: int = MOST_ROWS) -> None:
        self.acts = acts
        self._most_bytes = most_bytes
        self._most_rows = most_rows
        self._widths = dict(zip(acts.sites, acts.widths, strict=True))
        self._parts: OrderedDict[tuple[int, ...] | None, _Part] = OrderedDict()

    @property
    def n_bytes(self) -> int:
        """About what it keeps in memory."""
        return sum(_BYTES_A_ROW * len(part.rows) for part in self._parts.values())

    def windows(self, site: str) -> tuple[int, ...] | None:
        """The windows of which units of a site are read; None for all of them."""
        starts = self.acts.starts
        n_windows, n_rows = len(starts) - 1, int(starts[-1])
        most = min(self._most_rows, self._most_bytes // (self._widths[site] * self.acts.dtype.itemsize))
        if n_rows <= most or n_windows < 2:
            return None
        n_read = max(1, n_windows * most // n_rows)
        if n_read == 1:
            return (n_windows // 2,)
        return tuple(np.unique(np.linspace(0, n_windows - 1, n_read).round().astype(int)).tolist())

    def numbered(self, name: str) -> int:
        """The number of a unit by its name, `encoder.layer.3#17`, or by that number itself."""
        if name.isdecimal() and int(name) < self.acts.n_units:
            return int(name)
        site, _, number = name.rpartition("#")
        if site not in self._widths:
            near = ", ".join(map(repr, nearest(site or name, self.acts.sites)))
            raise NotFoundError(
                f"there is no unit {name!r} here: a site, # and a number are wanted, {self.acts.names[0]!r}."
                f"{f' Nearest sites: {near}.' if near else ''}"
            )
        known = self.acts.numbers(site)
        is_number = number.isdecimal() and len(number) < 18
        places = np.flatnonzero(known == (int(number) if is_number else -1))
        if not len(places):
            raise NotFoundError(
                f"{site!r} has no unit {number!r}: there are {len(known):,}, from {known.min()} to {known.max()}."
            )
        before = self.acts.sites.index(site)
        return sum(self.acts.widths[:before]) + int(places[0])

    def __call__(self, unit: int) -> Activations:
        """One unit, by its number, for all rows or a sample of them."""
        site, number = self.acts.site_of(unit)
        part = self._part(self.windows(site))
        sites = (CollectedSite(site, 1, units=(number,)),)
        source = MemorySource(sites, (part.acts.columns([unit]),), part.rows, part.words, About(self.acts.n_items))
        return Activations(source, Units.all(sites))

    def _part(self, windows: tuple[int, ...] | None) -> _Part:
        part = self._parts.get(windows)
        if part is None:
            acts = self.acts if windows is None else self.acts.rows(_rows(self.acts.starts, windows))
            part = _Part(acts, Rows.of(acts.items, word=acts.word_index), list(acts.words))
            self._parts[windows] = part
            while len(self._parts) > _MOST_KEPT:
                self._parts.popitem(last=False)
        return part


def _rows(starts: NDArray[np.int64], windows: tuple[int, ...]) -> NDArray[np.int64]:
    return np.concatenate([np.arange(starts[window], starts[window + 1]) for window in windows])
