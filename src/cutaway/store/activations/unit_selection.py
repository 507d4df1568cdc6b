"""Which units of a collection are looked at, and how their names are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError, InputError, SiteError
from cutaway.core.formatting import nearest
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.core.units.unit_sites import UnitSites
from cutaway.store.activations.windows import CollectedSite

Ints = NDArray[np.int64]
Place = slice | Ints


@dataclass(frozen=True, slots=True)
class Piece:
    """The chosen units of one site: where they stand in it, and where among all that are chosen."""

    site: int
    source: Place
    target: Place


class Units:
    """A choice of units, in any order.

    >>> units = Units.all([CollectedSite("a", 3), CollectedSite("b", 2)])
    >>> len(units), units.names[3], units.chosen([4, 0]).site_of(0)
    (5, 'b#0', ('b', 1))
    """

    def __init__(self, known: Sequence[CollectedSite], sites: Ints, columns: Ints) -> None:
        self.known = tuple(known)
        self._sites = sites
        """For each unit, the number of its site."""
        self._columns = columns
        """For each unit, its column there."""

    @staticmethod
    def all(known: Sequence[CollectedSite]) -> Units:
        """Every unit, site by site."""
        widths = [site.width for site in known]
        sites = np.repeat(np.arange(len(known), dtype=np.int64), widths)
        return Units(known, sites, np.concatenate([np.arange(width, dtype=np.int64) for width in widths]))

    @staticmethod
    def read(known: Sequence[CollectedSite], sites: NDArray[Any], columns: NDArray[Any]) -> Units:
        """Units as `site_numbers` and `columns` gave them; `DamagedError` where they can be none."""
        for what, numbers in (("sites", sites), ("columns", columns)):
            if numbers.shape != (sites.size,) or numbers.dtype.kind not in "iu":
                raise DamagedError(f"the {what} of units are a {numbers.dtype} array of shape {list(numbers.shape)}")
        found = Units(known, sites.astype(np.int64), columns.astype(np.int64))
        if len(sites):
            widths = np.array([site.width for site in known] or [0], np.int64)
            is_site = (found._sites >= 0) & (found._sites < len(known))
            if not is_site.all() or not ((found._columns >= 0) & (found._columns < widths[found._sites])).all():
                raise DamagedError(f"there are units that none of the {len(known):,} sites has")
        return found

    def __len__(self) -> int:
        return len(self._sites)

    @property
    def site_numbers(self) -> Ints:
        """(unit,): the number of its site among `known`."""
        return self._sites

    @property
    def columns(self) -> Ints:
        """(unit,): its column in that site."""
        return self._columns

    @property
    def is_all(self) -> bool:
        """Whether these are all units of all sites, in order."""
        return len(self) == sum(site.width for site in self.known) and bool(
            (np.diff(self._sites) >= 0).all() and (np.diff(self._columns)[np.diff(self._sites) == 0] == 1).all()
        )

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """How to read them: site by site, whole stretches as slices."""
        found = []
        for site in self._used:
            target = np.flatnonzero(self._sites == site)
            found.append(Piece(site, _stretch(self._columns[target]), _stretch(target)))
        return tuple(found)

    @cached_property
    def _used(self) -> list[int]:
        """Numbers of the sites that occur, in the order in which they do."""
        sites, first = np.unique(self._sites, return_index=True)
        return [int(site) for site in sites[np.argsort(first)]]

    @property
    def sites(self) -> tuple[CollectedSite, ...]:
        """The sites that occur, with the units that are chosen of them."""
        found = []
        for site in self._used:
            known = self.known[site]
            units = known.indices[self._columns[self._sites == site]]
            is_all = len(units) == known.width and np.array_equal(units, known.indices)
            found.append(known if is_all else replace(known, width=len(units), units=tuple(units.tolist())))
        return tuple(found)

    @property
    def is_grouped(self) -> bool:
        """Whether the units of each site stand together."""
        return int((np.diff(self._sites) != 0).sum()) + 1 == len(self._used) if len(self) else True

    @property
    def names(self) -> Names:
        return Names(self)

    @property
    def layouts(self) -> dict[str, UnitLayout]:
        """By which the units were counted, site by site, where that is known."""
        return {known.site: known.layout for known in self.known if known.layout is not None}

    def site_of(self, unit: int) -> tuple[str, int]:
        """The site of a unit and its number there."""
        if not isinstance(unit, (int, np.integer)) or not -len(self) <= unit < len(self):
            raise InputError(f"unit {unit!r} is none of the {len(self):,} that are there: they count from 0.")
        known = self.known[self._sites[unit]]
        column = int(self._columns[unit])
        return known.site, known.units[column] if known.units else column

    def chosen(self, indices: Any) -> Units:
        """Some of these units, by their numbers or a mask."""
        picked = as_indices(indices, len(self), "unit")
        if not len(picked):
            raise InputError("no unit was chosen: an empty choice has nothing to show.")
        return Units(self.known, self._sites[picked], self._columns[picked])

    def at(self, patterns: Sequence[str]) -> Units:
        """The units of some sites, in the order in which the sites are named."""
        if not patterns:
            raise InputError("no site was named.")
        return self.chosen(np.concatenate([self._fitting(pattern) for pattern in patterns]))

    def _fitting(self, pattern: str) -> Ints:
        exact = [site for site in self._used if self.known[site].site == pattern]
        wanted = Site.parse(pattern)
        whole = wanted.without_unit()
        sites = exact or [site for site in self._used if whole.matches(Site.parse(self.known[site].site))]
        found = np.flatnonzero(np.isin(self._sites, sites))
        if wanted.unit is not None and not exact:
            found = np.array([unit for unit in found if self.site_of(int(unit))[1] == wanted.unit], np.int64)
        if not len(found):
            sites_here = [self.known[site].site for site in self._used]
            near = ", ".join(map(repr, nearest(str(whole), sites_here)))
            raise SiteError(
                f"no site matches {pattern!r} in these activations.{f' Nearest: {near}.' if near else ''} "
                f"acts.sites lists all {len(sites_here)}."
            )
        return found


class Names(Sequence[str]):
    """The names of units as sites, written when they are asked for."""

    def __init__(self, units: Units) -> None:
        self.units = units

    def __len__(self) -> int:
        return len(self.units)

    @property
    def layouts(self) -> dict[str, UnitLayout]:
        """By which the units were counted, site by site: `edit` counts alike."""
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
        if not isinstance(other, (Names, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"<{len(self):,} units: {shown}{', …' if len(self) > 3 else ''}>"


def as_indices(chosen: Any, n: int, what: str) -> Ints:
    """Numbers from 0 to `n`, out of numbers, a mask or a slice."""
    if isinstance(chosen, slice):
        return np.arange(*chosen.indices(n), dtype=np.int64)
    found = np.asarray(chosen)
    if found.dtype == np.bool_:
        if found.shape != (n,):
            raise InputError(
                f"a mask of shape {list(found.shape)} for {n:,} {what}s: it needs one truth value for each."
            )
        return np.flatnonzero(found)
    if found.size == 0:
        return np.empty(0, np.int64)
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise InputError(f"{what}s are chosen by numbers or a mask, not by {found.dtype} of shape {list(found.shape)}.")
    outside = np.flatnonzero((found < -n) | (found >= n))
    if len(outside):
        raise InputError(f"{what} {found[outside[0]]} was asked for, and there are {n:,}: they count from 0.")
    return np.where(found < 0, found + n, found).astype(np.int64)


def _stretch(numbers: Ints) -> Place:
    """The numbers as a slice, where they follow each other: that is a view, not a copy."""
    if len(numbers) and (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers
