"""The windows (blocks of items) of a collection on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError
from cutaway.core.units.layout import UnitLayout
from cutaway.store.format.fields import count, counts, text
from cutaway.store.reading.archive import Archive, ArrayBlock

DOCUMENT: Final = "collection"
SITE: Final = "site/"
"""Prefix of arrays that hold values of a site, so that no site collides with a column."""


@dataclass(frozen=True, slots=True)
class CollectedSite:
    """One site of a collection.

    >>> CollectedSite("encoder.layer.3", 384)
    CollectedSite(site='encoder.layer.3', width=384, unit_dim=-1, units=(), layout=None)
    """

    site: str
    width: int
    """The number of units."""
    unit_dim: int = -1
    """The dimension that counts units, for readers without layouts: 1 for a convolution."""
    units: tuple[int, ...] = ()
    """The indices of the units, if only some were kept; empty for all."""
    layout: UnitLayout | None = None
    """What each dimension of the tensor counts, from the model's graph; None if not known."""

    def to_record(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"site": self.site, "width": self.width, "unit_dim": self.unit_dim}
        if self.units:
            fields["units"] = list(self.units)
        if self.layout is not None:
            fields["layout"] = self.layout.to_list()
        return fields

    @staticmethod
    def read(fields: Any) -> CollectedSite:
        if not isinstance(fields, dict) or type(fields.get("unit_dim", -1)) is not int:
            raise DamagedError("a site of the collection has wrong fields")
        width, units = count(fields.get("width"), "width of a site"), counts(fields.get("units", []), "units of a site")
        if units and len(units) != width:
            raise DamagedError(f"a site has {width} units, but lists the indices of {len(units)}")
        site, layout = text(fields.get("site"), "site"), read_layout(fields.get("layout"))
        return CollectedSite(site, width, fields.get("unit_dim", -1), units, layout)

    def is_like(self, other: CollectedSite) -> bool:
        """Whether it has the same site and units, ignoring the sizes of the first batch."""
        if self.layout is None or other.layout is None:
            return self == other
        return replace(self, layout=None) == replace(other, layout=None) and self.layout.is_like(other.layout)

    @property
    def indices(self) -> NDArray[np.int64]:
        """The index of each unit within the site."""
        return np.array(self.units, np.int64) if self.units else np.arange(self.width, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive items of the corpus that were written together, and their rows."""

    block: ArrayBlock
    first_row: int
    n_rows: int
    first_item: int
    n_items: int
    n_problems: int

    @property
    def stop_row(self) -> int:
        return self.first_row + self.n_rows

    @property
    def stop_item(self) -> int:
        return self.first_item + self.n_items


def read_layout(given: Any) -> UnitLayout | None:
    """Decode a unit layout; None if it is missing."""
    if given is None:
        return None
    try:
        return UnitLayout.from_list(given)
    except (TypeError, ValueError) as error:
        raise DamagedError("the unit layout of a site has wrong fields") from error


def same_sites(some: Sequence[CollectedSite], others: Sequence[CollectedSite]) -> bool:
    """Whether two collections have the same sites and units."""
    return len(some) == len(others) and all(site.is_like(other) for site, other in zip(some, others, strict=True))


def window_name(first_item: int) -> str:
    """The name of the block that starts with this item; items, not rows, because some items have no rows.

    >>> window_name(512)
    'window/00000512'
    """
    return f"window/{first_item:08d}"


def windows_of(archive: Archive) -> list[Window]:
    """The consecutive windows from item 0; windows after a gap were never acknowledged."""
    blocks = archive.blocks
    windows: list[Window] = []
    row = item = 0
    while (block := blocks.get(window_name(item))) is not None:
        window = _window(block)
        if (window.first_row, window.first_item) != (row, item) or not window.n_items:
            break
        windows.append(window)
        row, item = window.stop_row, window.stop_item
    return windows


def _window(block: ArrayBlock) -> Window:
    names = ("first_row", "n_rows", "first_item", "n_items", "n_problems")
    return Window(block, *(count(block.about.get(name), f"{name} of window {block.name!r}") for name in names))
