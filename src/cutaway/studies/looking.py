"""Which sites a run reaches, and what their values are like: seen by the very code that edits them later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture.changes import Change
from cutaway.capture.editing import edit
from cutaway.capture.parts import Region
from cutaway.capture.places import Named, Place, places_of
from cutaway.core.errors import InputError, SiteError
from cutaway.core.sites import Site

Note = Callable[[Tensor, int], None]
"""Told a value and the dimension of its units."""


@dataclass(slots=True)
class Seen:
    """One site that a run reached, with what its values were like in all passes together."""

    site: Site
    """As it is edited: without unit, with a pass only where one was asked for."""
    module: nn.Module | None
    """The one it belongs to; None for parameters."""
    chosen: list[int] | None
    """The units that were named; None for all."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By the full site, pass included."""
    values: dict[str, Tensor] = field(default_factory=dict)
    """Copies, by the full site, where they were asked for."""
    dimension: int = 0
    """That of the units, counted from the end: -1 is the last."""
    total: Tensor | None = None
    n_summed: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its first value."""
        return next(iter(self.shapes.values()))

    def size(self, dimension: int, what: str) -> int:
        """The size of a dimension, which must be the same in all passes."""
        if len(self.shape) < -dimension or not dimension:
            raise InputError(f"{str(self.site)!r} has no {what}s: its value has shape {list(self.shape)}.")
        found = sorted({shape[dimension] if len(shape) >= -dimension else 0 for shape in self.shapes.values()})
        if len(found) > 1:
            raise InputError(
                f"the number of {what}s of {str(self.site)!r} changes while the model runs: "
                f"{', '.join(map(str, found[:6]))}. Name one pass, {str(replace(self.site, pass_=1))!r}, "
                "or use inputs of one size."
            )
        return found[0]

    def mean(self) -> Tensor:
        """The mean of each unit over samples, positions and passes, in a shape that broadcasts to the value."""
        if self.total is None:
            raise InputError(f"{str(self.site)!r} has no units, and so no mean of each.")
        self.size(self.dimension, "unit")
        return (self.total / max(self.n_summed, 1)).reshape(-1, *(1,) * (-self.dimension - 1))

    def note(self, full: str, value: Tensor, dimension: int, keep: str) -> None:
        """See one value."""
        self.shapes[full] = tuple(value.shape)
        if value.dim():
            self.dimension = dimension - value.dim()
        if keep == "values":
            self.values[full] = value.detach().clone()
        elif keep == "means" and value.dim():
            others = [d for d in range(value.dim()) if d != dimension]
            wide = torch.complex128 if value.is_complex() else torch.float64
            total = value.detach().to(wide)
            total = total.sum(others) if others else total
            if self.total is None or self.total.shape == total.shape:
                self.total = total if self.total is None else self.total + total
                self.n_summed += value.numel() // max(total.numel(), 1)


def look(model: nn.Module, at: Any, run: Callable[[], Any], *, keep: str = "shapes") -> tuple[Any, list[Seen]]:
    """Run once, and say what the run returned and which sites it reached, in order; parameters stand first.

    Args:
        keep: "shapes" only, also "means" of each unit, or copies of all "values".
    """
    named = Named.of(getattr(model, "_orig_mod", model))
    places = places_of(at, _AS_IT_IS, {}, named)
    found: dict[str, Seen] = {}
    live = []
    for place in places:
        if place.site.op is not None or named.modules_at(place.site):
            live.append(place)
            continue
        for address in named.tensors_at(place.site):
            tensor = named.tensors[address]
            seen = _add(found, Site(address), None, place)
            with torch.no_grad():
                seen.note(address, tensor, max(tensor.dim() - 1, 0), keep)

    def note(place: Place, here: Site, value: Tensor, dimension: int) -> None:
        path = here.path if place.site.path else ""
        site = Site(here.address, here.op, here.ordinal, place.site.side, path, place.site.pass_)
        seen = _add(found, site, named.modules[here.address], place)
        seen.note(str(here), value, dimension, keep)

    if not live:
        return run(), list(found.values())
    with _Look(model, live, note) as looking:
        result = run()
        missed = [place for place in looking.places if not place.n_met]
        if missed:
            raise SiteError(
                f"nothing ran at {str(missed[0].site)!r} when the study called its function: it has to run the model "
                "itself, in the thread that it is called in; cutaway.sites(model, example) lists what runs."
            )
    return result, list(found.values())


def _add(found: dict[str, Seen], site: Site, module: nn.Module | None, place: Place) -> Seen:
    """The entry of a site, with the units that any of the places that cover it names."""
    units = place.region.units
    seen = found.get(str(site))
    if seen is None:
        seen = found[str(site)] = Seen(site, module, None if units is None else [*units])
    elif seen.chosen is not None:
        seen.chosen = None if units is None else [*dict.fromkeys((*seen.chosen, *units))]
    return seen


class _Look(edit):
    """An edit that leaves everything as it is, and tells what it passes."""

    def __init__(self, model: nn.Module, places: list[Place], note: Callable[[Place, Site, Tensor, int], None]) -> None:
        units = {place.site: place.region.units for place in places}
        super().__init__(model, [place.site for place in places], _AS_IT_IS)
        self.places = self._places
        self._note = note
        self._here: tuple[Place, Site] | None = None
        for place in self.places:
            place.region = _Noting(units=units[place.site], note=self._noted)

    def __enter__(self) -> _Look:  # type: ignore[override]
        super().__enter__()
        return self

    def changed(self, place: Place, here: Site, value: Tensor, *more: Any, **named: Any) -> Tensor:
        self._here = place, here
        return super().changed(place, here, value, *more, **named)

    def _noted(self, value: Tensor, dimension: int) -> None:
        if self._here is not None:
            self._note(*self._here, value, dimension)


_AS_IT_IS = Change(lambda value: value)


@dataclass(frozen=True, slots=True)
class _Noting(Region):
    """All of a value, told with the dimension of its units, and left as it is."""

    note: Note = lambda value, dimension: None

    def put(self, new: Tensor, value: Tensor, module: nn.Module | None, unit_dimension: int) -> Tensor:
        self.note(value, unit_dimension)
        return value
