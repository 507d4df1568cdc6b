"""Lists of unit sites together with their unit layouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, overload

from cutaway.core.units.layout import UnitLayout


class UnitSites(list[str]):
    """A list of unit sites with their unit layouts, so that every reader counts units the same way.

    >>> layout = UnitLayout(((2,), (3,)), units=(1,), samples=(0,))
    >>> some = UnitSites(["h.0#2", "h.0#1"], {"h.0": layout})
    >>> some, some[:1].layouts["h.0"].n_units
    (['h.0#2', 'h.0#1'], 3)

    Args:
        layouts: by site without unit; a missing layout is determined again when a model runs.
    """

    def __init__(self, sites: Iterable[str], layouts: Mapping[str, UnitLayout]) -> None:
        super().__init__(sites)
        self.layouts = layouts

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> UnitSites: ...

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(index)
        return UnitSites(item, self.layouts) if isinstance(index, slice) else item


def layouts_of(sites: object) -> Mapping[str, UnitLayout]:
    """The layouts of a list of sites, by site without unit; empty if it has none."""
    layouts = getattr(sites, "layouts", None)
    return layouts if isinstance(layouts, Mapping) else {}


def unit_name(names: Sequence[str] | None, unit: int) -> str:
    """The site of a unit, or its index as `#17` if units have no names.

    >>> unit_name(["h#0", "h#1"], 1), unit_name(None, 17)
    ('h#1', '#17')
    """
    return f"#{unit}" if names is None else names[unit]
