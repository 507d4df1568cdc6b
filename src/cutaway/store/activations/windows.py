"""The windows of a collection: which blocks of an archive follow each other from the first item on."""

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
"""Before the site in the name of an array: no site can be taken for a column."""


@dataclass(frozen=True, slots=True)
class CollectedSite:
    """One site of a collection.

    >>> CollectedSite("encoder.layer.3", 384)
    CollectedSite(site='encoder.layer.3', width=384, unit_dim=-1, units=(), layout=None)
    """

    site: str
    width: int
    """How many units it has."""
    unit_dim: int = -1
    """The dimension of the tensor that counts units, for readers that know no layouts: 1 for a convolution."""
    units: tuple[int, ...] = ()
    """Which units these are, where only some were kept; empty where all were."""
    layout: UnitLayout | None = None
    """What the dimensions of the tensor count, as the graph of the model tells; None where that was not known."""

    def packed(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"site": self.site, "width": self.width, "unit_dim": self.unit_dim}
        if self.units:
            fields["units"] = list(self.units)
        if self.layout is not None:
            fields["layout"] = self.layout.to_list()
        return fields

    @staticmethod
    def read(fields: Any) -> CollectedSite:
        if not isinstance(fields, dict) or type(fields.get("unit_dim", -1)) is not int:
            raise DamagedError("a site of the collection is not as it should be")
        width, units = count(fields.get("width"), "width of a site"), counts(fields.get("units", []), "units of a site")
        if units and len(units) != width:
            raise DamagedError(f"a site has {width} units, and says of {len(units)} which they are")
        site, layout = text(fields.get("site"), "site"), read_layout(fields.get("layout"))
        return CollectedSite(site, width, fields.get("unit_dim", -1), units, layout)

    def is_like(self, other: CollectedSite) -> bool:
        """Whether it is the same site with the same units, whatever the sizes of the first batches were."""
        if self.layout is None or other.layout is None:
            return self == other
        return replace(self, layout=None) == replace(other, layout=None) and self.layout.is_like(other.layout)

    @property
    def indices(self) -> NDArray[np.int64]:
        """The number of each unit within the site."""
        return np.array(self.units, np.int64) if self.units else np.arange(self.width, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Window:
    """Some items of the corpus that were written together, and the rows that came of them."""

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
    """What the dimensions of a site count, from plain data; None where that is missing."""
    if given is None:
        return None
    try:
        return UnitLayout.from_list(given)
    except (TypeError, ValueError) as error:
        raise DamagedError("what the dimensions of a site count is not as it should be") from error


def are_alike(some: Sequence[CollectedSite], others: Sequence[CollectedSite]) -> bool:
    """Whether two collections have the same sites and units."""
    return len(some) == len(others) and all(one.is_like(other) for one, other in zip(some, others, strict=True))


def window_name(first_item: int) -> str:
    """The name of the block that begins with this item; rows would not do, as some items give none.

    >>> window_name(512)
    'window/00000512'
    """
    return f"window/{first_item:08d}"


def windows_of(archive: Archive) -> list[Window]:
    """The windows that follow each other without a gap; what lies behind a gap was never acknowledged."""
    blocks = archive.blocks
    found: list[Window] = []
    row = item = 0
    while (block := blocks.get(window_name(item))) is not None:
        window = _window(block)
        if (window.first_row, window.first_item) != (row, item) or not window.n_items:
            break
        found.append(window)
        row, item = window.stop_row, window.stop_item
    return found


def _window(block: ArrayBlock) -> Window:
    names = ("first_row", "n_rows", "first_item", "n_items", "n_problems")
    return Window(block, *(count(block.about.get(name), f"{name} of window {block.name!r}") for name in names))
