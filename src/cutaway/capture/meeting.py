"""Values at sites of a running model, each with the dimension of its units: `edit` with a function of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from cutaway.capture.changes import Change
from cutaway.capture.editing import edit
from cutaway.capture.parts import Region
from cutaway.capture.places import Named
from cutaway.core.errors import InputError, SiteError
from cutaway.core.sites import Site, nearest

Met = Callable[[Tensor, int], Tensor]
"""From a value and the dimension of its units to the value that takes its place."""
_AS_IT_IS = Change(lambda value: value)


class meeting(edit):
    """Inside the block the value at each site becomes what its function makes of it.

    >>> import torch
    >>> model = nn.Conv1d(1, 2, 1)
    >>> met = []
    >>> with meeting(model, {".": lambda value, dimension: met.append(dimension) or value}):
    ...     _ = model(torch.ones(5, 1, 3))
    >>> met
    [1]
    """

    def __init__(self, model: nn.Module, at: Mapping[str, Met]) -> None:
        super().__init__(model, dict.fromkeys(at, _AS_IT_IS))
        for place in self._places:
            place.region = _Handed(met=at[str(place.site)])


@dataclass(frozen=True, slots=True)
class _Handed(Region):
    met: Met = lambda value, dimension: value

    def put(self, new: Tensor, value: Tensor, module: nn.Module | None, unit_dimension: int) -> Tensor:
        return self.met(value, unit_dimension)


def units_by_site(model: nn.Module, at: Any) -> dict[str, list[int] | None]:
    """The sites that are meant, patterns written out, and the units that are named of each; None for all."""
    given = [at] if isinstance(at, (str, Site)) else at
    if not isinstance(given, Sequence) or not given or any(not isinstance(each, (str, Site)) for each in given):
        raise InputError(f"at={at!r}: give a site, or several: 'encoder.layer.3', 'h.*.mlp', 'h.3.mlp#17'.")
    named = Named.of(getattr(model, "_orig_mod", model))
    found: dict[str, list[int] | None] = {}
    for each in given:
        site = Site.parse(each) if isinstance(each, str) else each
        addresses = named.modules_at(site)
        if not addresses:
            near = nearest(site.address, list(named.modules))
            hint = f" Nearest: {', '.join(map(repr, near))}." if near else ""
            raise SiteError(f"{str(each)!r} names no module of this model.{hint}")
        if site.op is not None and "*" in site.op:
            raise InputError(f"{str(each)!r}: name the op, as cutaway.sites(model, example) does.")
        for address in addresses if site.is_pattern else [site.address]:
            bare = str(replace(site, address=address, unit=None))
            known = found.setdefault(bare, [] if site.unit is not None else None)
            if site.unit is None:
                found[bare] = None
            elif known is not None and site.unit not in known:
                known.append(site.unit)
    return found
