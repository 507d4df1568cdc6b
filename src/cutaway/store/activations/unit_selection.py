"""Selects units of a collection and formats their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError, InputError, InputTypeError, SiteError
from cutaway.core.formatting import nearest_hint
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.core.units.unit_sites import UnitSites
from cutaway.store.activations.windows import CollectedSite

Ints = NDArray[np.int64]
Index = slice | Ints


@dataclass(frozen=True, slots=True)
class Piece:
    """The selected units of one site: their columns there, and their positions in the selection."""

    site: int
    source: Index
    target: Index


class Units:
    """A selection of units, in any order.

    >>> units = Units.all([CollectedSite("a", 3), CollectedSite("b", 2)])
    >>> len(units), units.names[3], units.select([4, 0]).site_of(0)
    (5, 'b#0', ('b', 1))
    """

    def __init__(self, known: Sequence[CollectedSite], sites: Ints, columns: Ints) -> None:
        self.known = tuple(known)
        self._sites = sites
        """For each unit, the index of its site."""
        self._columns = columns
        """For each unit, its column in that site."""

    @staticmethod
    def all(known: Sequence[CollectedSite]) -> Units:
        """All units, site by site."""
        widths = [site.width for site in known]
        sites = np.repeat(np.arange(len(known), dtype=np.int64), widths)
        return Units(known, sites, np.concatenate([np.arange(width, dtype=np.int64) for width in widths]))

    @staticmethod
    def read(known: Sequence[CollectedSite], sites: NDArray[Any], columns: NDArray[Any]) -> Units:
        """Restore units from stored `site_numbers` and `columns`; DamagedError if they are impossible."""
        for what, numbers in (("sites", sites), ("columns", columns)):
            if numbers.shape != (sites.size,) or numbers.dtype.kind not in "iu":
                raise DamagedError(f"the {what} of units are {numbers.dtype} {list(numbers.shape)}, not 1-D integers")
        units = Units(known, sites.astype(np.int64), columns.astype(np.int64))
        if len(sites):
            widths = np.array([site.width for site in known] or [0], np.int64)
            is_site = (units._sites >= 0) & (units._sites < len(known))
            if not is_site.all() or not ((units._columns >= 0) & (units._columns < widths[units._sites])).all():
                raise DamagedError(f"some units are outside the {len(known):,} sites")
        return units

    def __len__(self) -> int:
        return len(self._sites)

    @property
    def site_numbers(self) -> Ints:
        """(unit,): the index of its site in `known`."""
        return self._sites

    @property
    def columns(self) -> Ints:
        """(unit,): its column in that site."""
        return self._columns

    @property
    def is_all(self) -> bool:
        """Whether this is every unit of every site, in order."""
        return len(self) == sum(site.width for site in self.known) and bool(
            (np.diff(self._sites) >= 0).all() and (np.diff(self._columns)[np.diff(self._sites) == 0] == 1).all()
        )

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """How to read them: per site, with consecutive units as slices."""
        pieces = []
        for site in self._used:
            target = np.flatnonzero(self._sites == site)
            pieces.append(Piece(site, _as_slice(self._columns[target]), _as_slice(target)))
        return tuple(pieces)

    @cached_property
    def _used(self) -> list[int]:
        """Indices of the sites that occur, in order of first occurrence."""
        # np.unique sorts by value; the order of first occurrence is the order that the user chose.
        sites, first = np.unique(self._sites, return_index=True)
        return [int(site) for site in sites[np.argsort(first)]]

    @property
    def sites(self) -> tuple[CollectedSite, ...]:
        """The sites that occur, each with its selected units."""
        sites = []
        for site in self._used:
            known = self.known[site]
            units = known.indices[self._columns[self._sites == site]]
            is_all = len(units) == known.width and np.array_equal(units, known.indices)
            sites.append(known if is_all else replace(known, width=len(units), units=tuple(units.tolist())))
        return tuple(sites)

    @property
    def is_grouped(self) -> bool:
        """Whether the units of each site are consecutive."""
        return int((np.diff(self._sites) != 0).sum()) + 1 == len(self._used) if len(self) else True

    @property
    def names(self) -> UnitNames:
        return UnitNames(self)

    @property
    def layouts(self) -> dict[str, UnitLayout]:
        """The unit layout of each site, if known."""
        return {known.site: known.layout for known in self.known if known.layout is not None}

    def site_of(self, unit: int) -> tuple[str, int]:
        """The site of a unit and its index there."""
        if not isinstance(unit, (int, np.integer)) or not -len(self) <= unit < len(self):
            raise InputError(f"no unit {unit!r}: there are {len(self):,}, counted from 0.")
        known = self.known[self._sites[unit]]
        column = int(self._columns[unit])
        return known.site, known.units[column] if known.units else column

    def select(self, indices: Any) -> Units:
        """Select units by index or mask."""
        picked = as_indices(indices, len(self), "unit")
        if not len(picked):
            raise InputError("the selection has no units. Select at least one.")
        return Units(self.known, self._sites[picked], self._columns[picked])

    def at(self, patterns: Sequence[str]) -> Units:
        """Select the units of some sites, in the given order of sites."""
        if not patterns:
            raise InputError("got no site. Name at least one.")
        return self.select(np.concatenate([self._match(pattern) for pattern in patterns]))

    def _match(self, pattern: str) -> Ints:
        # A collected site may itself contain characters of a pattern; its exact name wins.
        exact = [site for site in self._used if self.known[site].site == pattern]
        wanted = Site.parse(pattern)
        whole = wanted.without_unit()
        sites = exact or [site for site in self._used if whole.matches(Site.parse(self.known[site].site))]
        units = np.flatnonzero(np.isin(self._sites, sites))
        if wanted.unit is not None and not exact:
            units = np.array([unit for unit in units if self.site_of(int(unit))[1] == wanted.unit], np.int64)
        if not len(units):
            sites_here = [self.known[site].site for site in self._used]
            near = nearest_hint(str(whole), sites_here)
            raise SiteError(
                f"no site matches {pattern!r} in these activations.{near} acts.sites lists all {len(sites_here)}."
            )
        return units


class UnitNames(Sequence[str]):
    """Names of units as sites, formatted on access."""

    def __init__(self, units: Units) -> None:
        self.units = units

    def __len__(self) -> int:
        return len(self.units)

    @property
    def layouts(self) -> dict[str, UnitLayout]:
        """The unit layout of each site; `edit` counts units in the same way."""
        return self.units.layouts

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return UnitSites([self[unit] for unit in range(*index.indices(len(self)))], self.layouts)
        if not -len(self) <= index < len(self):
            raise IndexError(f"unit {index} of {len(self):,}.")  # this ends an iteration
        site, unit = self.units.site_of(index)
        return f"{site}#{unit}"

    def __iter__(self) -> Iterator[str]:
        return (self[unit] for unit in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (UnitNames, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"<{len(self):,} units: {shown}{', …' if len(self) > 3 else ''}>"


def as_indices(selected: Any, n: int, what: str) -> Ints:
    """Convert indices, a mask or a slice to indices from 0 to `n`."""
    if isinstance(selected, slice):
        return np.arange(*selected.indices(n), dtype=np.int64)
    indices = np.asarray(selected)
    if indices.dtype == np.bool_:
        if indices.shape != (n,):
            raise InputError(f"a mask for {n:,} {what}s must have shape [{n}], got {list(indices.shape)}.")
        return np.flatnonzero(indices)
    if indices.size == 0:
        return np.empty(0, np.int64)
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise InputTypeError(f"select {what}s by integers or a mask, not by {indices.dtype} {list(indices.shape)}.")
    outside = np.flatnonzero((indices < -n) | (indices >= n))
    if len(outside):
        raise InputError(f"no {what} {indices[outside[0]]}: there are {n:,}, counted from 0.")
    return np.where(indices < 0, indices + n, indices).astype(np.int64)


def _as_slice(numbers: Ints) -> Index:
    """Consecutive numbers as a slice: indexing with it gives a view, not a copy."""
    if len(numbers) and (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers
