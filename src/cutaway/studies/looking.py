"""Which sites a run reaches, and what their values are like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture.layouts import Layouts
from cutaway.capture.observe import Observation, check_single, observe
from cutaway.capture.places import Asked, Named, asked_of
from cutaway.core.errors import InputError, SiteError
from cutaway.core.sites import Site


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
    core: nn.Module = getattr(model, "_orig_mod", model)
    named, layouts = Named.of(core), Layouts(core)
    found: dict[str, Seen] = {}
    live: dict[Site, Asked] = {}
    for asked in asked_of(at, named):
        if asked.site.op is not None or named.modules_at(asked.site):
            live[asked.site] = asked
            continue
        for address in named.tensors_at(asked.site):
            tensor = named.tensors[address]
            seen = _add(found, Site(address), None, asked)
            with torch.no_grad():
                seen.note(address, tensor, max(tensor.dim() - 1, 0), keep)

    def note(here: Observation) -> None:
        check_single(here)
        full, value = here.site, here.tensor
        for each in here.asked:
            asked = live[each]
            path = full.path if each.path else ""
            site = Site(full.address, full.op, full.ordinal, each.side, path, each.pass_)
            seen = _add(found, site, here.module, asked)
            dimension = asked.dimension if asked.dimension is not None else layouts.at(full, value, here.module)
            key = str(full if full.op is not None else replace(full, side=each.side))  # as `edit` names it
            if key not in seen.shapes:
                seen.note(key, value, dimension, keep)

    if not live:
        return run(), list(found.values())
    with observe(model, list(live), note) as observer:
        result = run()
    if observer.missed:
        raise SiteError(
            f"nothing ran at {str(observer.missed[0])!r} when the study called its function: it has to run the model "
            "itself, in the thread that it is called in; cutaway.sites(model, example) lists what runs."
        )
    return result, list(found.values())


def _add(found: dict[str, Seen], site: Site, module: nn.Module | None, asked: Asked) -> Seen:
    """The entry of a site, with the units that any of the sites that cover it names."""
    units = asked.units
    seen = found.get(str(site))
    if seen is None:
        seen = found[str(site)] = Seen(site, module, None if units is None else [*units])
    elif seen.chosen is not None:
        seen.chosen = None if units is None else [*dict.fromkeys((*seen.chosen, *units))]
    return seen
