"""Sites of units that carry the layouts by which they were counted, so that whoever reads them counts alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex, overload

from cutaway.core.units.layout import UnitLayout


class UnitSites(list[str]):
    """A list of sites, with what is known of their dimensions.

    >>> layout = UnitLayout(((2,), (3,)), units=(1,), samples=(0,))
    >>> some = UnitSites(["h.0#2", "h.0#1"], {"h.0": layout})
    >>> some, some[:1].layouts["h.0"].n_units
    (['h.0#2', 'h.0#1'], 3)

    Args:
        layouts: by site without unit; sites that are missing are found out again where a model runs.
    """

    def __init__(self, sites: Iterable[str], layouts: Mapping[str, UnitLayout]) -> None:
        super().__init__(sites)
        self.layouts = layouts

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> UnitSites: ...

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return UnitSites(found, self.layouts) if isinstance(index, slice) else found


def layouts_of(sites: object) -> Mapping[str, UnitLayout]:
    """The layouts that sites carry, by site without unit; none where they carry none."""
    found = getattr(sites, "layouts", None)
    return found if isinstance(found, Mapping) else {}
