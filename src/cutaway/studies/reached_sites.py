"""Which sites a run reaches, and what their values are like."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from cutaway.capture.interventions.new_values import Change
from cutaway.capture.interventions.targets import ModelIndex, RequestedSite, requested_sites
from cutaway.capture.observe import Observation, check_single, observe
from cutaway.capture.units.live_units import LiveUnits, UnitDim, dims_of
from cutaway.capture.units.module_units import named_parameter_layout
from cutaway.core.errors import InputError, SiteError
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.core.units.unit_sites import UnitSites

Keep = Literal["shapes", "means", "values"]


@dataclass(slots=True)
class Seen:
    """One site that a run reached, with what its values were like in all passes together."""

    site: Site
    """As it is edited: without unit, with a pass only where one was asked for."""
    module: nn.Module | None
    """The one it belongs to; None for parameters."""
    chosen: list[int] | None
    """The units that were named; None for all."""
    is_named: bool = True
    """Whether it was asked for by itself, not by a pattern alone."""
    layouts: dict[str, UnitLayout] = field(default_factory=dict)
    """What the dimensions count, by the full site, pass included."""
    values: dict[str, Tensor] = field(default_factory=dict)
    """Copies, by the full site, where they were asked for."""
    total: Tensor | None = None
    """(unit,): the sum of each unit, where means were asked for."""
    n_summed: int = 0

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """By the full site, pass included."""
        return {full: layout.shape for full, layout in self.layouts.items()}

    @property
    def layout(self) -> UnitLayout:
        """The layout of its first value."""
        return next(iter(self.layouts.values()))

    @property
    def n_units(self) -> int:
        """How many units it has, which must be the same in all passes; raises `UnitError` where that is not known."""
        name = str(self.site)
        return self._same("unit", {layout.check(name).n_units for layout in self.layouts.values()})

    @property
    def n_positions(self) -> int:
        """How many positions it has, which must be the same in all passes."""
        counts = set()
        for layout in self.layouts.values():
            axis = layout.position if layout.is_known else next(iter(layout.tokens), None)
            if axis is None:
                raise InputError(f"{str(self.site)!r} has no positions: its value has shape {list(layout.shape)}.")
            counts.add(layout.sizes[axis])
        return self._same("position", counts)

    def _same(self, what: str, counts: set[int]) -> int:
        if len(counts) > 1:
            raise InputError(
                f"the number of {what}s of {str(self.site)!r} changes while the model runs: "
                f"{', '.join(map(str, sorted(counts)[:6]))}. Name one pass, {str(replace(self.site, pass_=1))!r}, "
                "or use inputs of one size."
            )
        return next(iter(counts))

    def named(self, unit: int | None = None) -> UnitSites:
        """The site, or one unit of it, as `edit` takes it, with the layout by which it counts.

        A layout without samples was decided by a module alone or learned from too little: `edit` finds it out again.
        """
        first = self.layout
        is_one = all(first.is_like(layout) for layout in self.layouts.values())
        is_stated = first.source == "stated"
        known = {str(self.site): first} if is_one and (first.samples or is_stated) else {}
        return UnitSites([str(replace(self.site, unit=unit))], known)

    def mean(self) -> Change:
        """A change to the mean of each unit over samples, positions and passes."""
        if not self.n_units or self.total is None:
            raise InputError(f"{str(self.site)!r} has no units, and so no mean of each.")
        means = self.total / max(self.n_summed, 1)
        return Change(lambda value, layout: layout.spread(means, value.shape), takes_layout=True)

    def note(self, full: str, value: Tensor, layout: UnitLayout, keep: Keep) -> None:
        """See one value."""
        self.layouts[full] = layout
        if keep == "values":
            self.values[full] = value.detach().clone()
        elif keep == "means" and layout.is_known:
            wide = torch.complex128 if value.is_complex() else torch.float64
            rows = layout.rows(value.detach().to(wide))
            total = rows.sum((0, 1))
            if self.total is None or self.total.shape == total.shape:
                self.total = total if self.total is None else self.total + total
                self.n_summed += rows.shape[0] * rows.shape[1]


def look(
    model: nn.Module,
    at: Any,
    run: Callable[[], Any],
    *,
    keep: Keep = "shapes",
    counts: bool = True,
    unit_dim: UnitDim | None = None,
) -> tuple[Any, list[Seen]]:
    """Run once, and say what the run returned and which sites it reached, in order; parameters stand first.

    Args:
        keep: "shapes" only, also "means" of each unit, or copies of all "values".
        counts: whether units, samples or positions will be asked for; it costs one traced run.
        unit_dim: what the caller states of the units, for all sites.
    """
    core: nn.Module = getattr(model, "_orig_mod", model)
    named = ModelIndex.of(core)
    found: dict[str, Seen] = {}
    live: dict[Site, RequestedSite] = {}
    for asked in requested_sites(at, named):
        if asked.site.op is not None or named.modules_at(asked.site):
            live[asked.site] = asked
            continue
        for address in named.tensors_at(asked.site):
            tensor = named.tensors[address]
            layout = asked.layout or named_parameter_layout(named.modules, address, tensor.shape)
            layout = layout if unit_dim is None else layout.with_units(dims_of(unit_dim))
            seen = _add(found, Site(address), None, asked)
            with torch.no_grad():
                seen.note(address, tensor, layout, keep)
    if not live:
        return run(), list(found.values())
    given = {site: asked.layout for site, asked in live.items() if asked.layout is not None}
    units = LiveUnits(core, live if counts else (), given=given, unit_dim=unit_dim, needs_samples=counts)

    def note(here: Observation) -> None:
        check_single(here)
        full, value = here.site, here.tensor
        for each in here.requested:
            path = full.path if each.path else ""
            site = Site(full.address, full.op, full.ordinal, each.side, path, each.pass_)
            seen = _add(found, site, here.module, live[each])
            key = str(full if full.op is not None else replace(full, side=each.side))  # as `edit` names it
            if key not in seen.layouts:
                seen.note(key, value, units.at(full, value, here.module), keep)

    with ExitStack() as stack:
        observer = stack.enter_context(observe(model, list(live), note))
        stack.enter_context(units)
        result = run()
    if observer.missing_sites:
        raise SiteError(
            f"nothing ran at {str(observer.missing_sites[0])!r} when the study called its function: it has to run the "
            "model itself, in the thread that it is called in; cutaway.sites(model, example) lists what runs."
        )
    return result, list(found.values())


def _add(found: dict[str, Seen], site: Site, module: nn.Module | None, asked: RequestedSite) -> Seen:
    """The entry of a site, with the units that any of the sites that cover it names."""
    units, is_named = asked.units, not asked.site.is_pattern
    seen = found.get(str(site))
    if seen is None:
        seen = found[str(site)] = Seen(site, module, None if units is None else [*units], is_named)
        return seen
    if seen.chosen is not None:
        seen.chosen = None if units is None else [*dict.fromkeys((*seen.chosen, *units))]
    seen.is_named |= is_named
    return seen
