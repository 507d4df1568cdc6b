"""Where in a live model an edit is made: which modules, inputs, outputs, ops and parameters a site names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from cutaway.capture.interventions.new_values import Change
from cutaway.capture.interventions.regions import Part, Region
from cutaway.capture.model.tree import module_addresses, tensor_addresses
from cutaway.core.errors import InputError, SiteError
from cutaway.core.formatting import nearest
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.core.units.unit_sites import layouts_of
from cutaway.graph.op import Op
from cutaway.graph.selection import Selection


@dataclass(slots=True, eq=False)
class Place:
    """One site of a model, as it is met while the model runs."""

    site: Site
    """Without unit."""
    change: Change | None
    """None where the value is only looked at, for the sake of another place."""
    region: Region
    layout: UnitLayout | None = None
    """What the dimensions count, where a trace or activations know it."""
    n_met: int = 0
    """How often a value was changed here."""


@dataclass(frozen=True, slots=True)
class Named:
    """The modules and tensors of a model by address."""

    modules: dict[str, nn.Module]
    tensors: dict[str, Tensor]

    @staticmethod
    def of(model: nn.Module) -> Named:
        addresses = module_addresses(model)
        modules = {name: module for module in model.modules() for name in addresses.get(id(module), ())}
        of_tensor = tensor_addresses(model, addresses)
        tensors = {
            name: tensor for tensor in (*model.parameters(), *model.buffers()) for name in of_tensor.get(id(tensor), ())
        }
        return Named(modules, tensors)

    def modules_at(self, site: Site) -> list[str]:
        """Addresses that a site covers; a module with several answers once."""
        found: dict[int, str] = {}
        for address, module in self.modules.items():
            if site.covers_address(address):
                found.setdefault(id(module), address)
        return list(found.values())

    def tensors_at(self, site: Site) -> list[str]:
        found: dict[int, str] = {}
        for address, tensor in self.tensors.items():
            if site.op is None and site.side is None and site.pass_ is None and site.covers_address(address):
                found.setdefault(id(tensor), address)
        return list(found.values())

    def check(self, site: Site, given: str, keyword: str = "at") -> None:
        """Raise where a site names nothing in this model."""
        if site.name is not None:
            raise InputError(f"{given!r}: a tensor that a trace named cannot be edited; edit the op that makes it.")
        if self.modules_at(site) or self.tensors_at(site):
            return
        near = nearest(str(site.address), [*self.modules, *self.tensors])
        hint = f" Nearest: {', '.join(map(repr, near))}." if near else ""
        raise SiteError(
            f"{keyword}={given!r} names no module, parameter or buffer of this model.{hint}"
            + ("" if site.is_pattern else f" A label belongs to a trace: give the op itself, trace[{given!r}].")
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """One site that was asked for."""

    site: Site
    """Without unit."""
    units: tuple[int, ...] | None
    """The units that were named of it; None for all."""
    layout: UnitLayout | None = None
    """What the dimensions count, where a trace or activations know it."""


def places_of(at: object, change: Change, part: Part, named: Named) -> list[Place]:
    """The places that were meant by one `at=`; units of one tensor are one place."""
    return [Place(each.site, change, Region.of(part, each.units), each.layout) for each in asked_of(at, named)]


def asked_of(at: object, named: Named) -> list[Asked]:
    """The sites that were meant by one `at=`, each once, with the units that were named of it."""
    units: dict[Site, list[int] | None] = {}
    layouts: dict[Site, UnitLayout] = {}
    for site, given, layout in _sites(at):
        named.check(site, given)
        bare = site.without_unit()
        if layout is not None:
            layouts[bare] = layout
        if site.unit is None or units.get(bare, ()) is None:
            units[bare] = None
        else:
            known = units.setdefault(bare, [])
            if known is not None and site.unit not in known:
                known.append(site.unit)
    if not units:
        raise InputError(f"at={at!r} names nothing: give a site, an op, or several of them.")
    return [Asked(site, None if chosen is None else tuple(chosen), layouts.get(site)) for site, chosen in units.items()]


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


def only_by_pattern(at: Any, site: str) -> bool:
    """Whether a site was asked for by patterns alone: what cannot be done with it is left out, with a note."""
    given = [at] if isinstance(at, (str, Site)) else at
    here = Site.parse(site)
    sites = [Site.parse(each) if isinstance(each, str) else each for each in given]
    return not any(each.matches(here) and not each.is_pattern for each in sites)


def _sites(at: object) -> Iterable[tuple[Site, str, UnitLayout | None]]:
    """Every site in what was given (a site, an op, something that has `sites`, or several of these).

    With it its name there, and its layout where that is known.
    """
    if isinstance(at, str):
        yield Site.parse(at), at, None
    elif isinstance(at, Site):
        yield at, str(at), None
    elif isinstance(at, Op):
        yield Site(**{**_fields(at.full_site), "unit": at.unit}), at.label, at.unit_layout
    elif isinstance(at, Selection):
        for op in at:
            yield from _sites(op)
    elif isinstance(at, Iterable) or isinstance(getattr(at, "sites", None), Iterable):
        several: Iterable[object] = at.sites if hasattr(at, "sites") else at  # type: ignore[assignment]
        layouts = layouts_of(at)
        for each in several:
            for site, given, layout in _sites(each):
                yield site, given, layout or layouts.get(str(site.without_unit()))
    else:
        raise InputError(f"at={at!r}: give a site, an op, a selection, a ranking's top, or several of these.")


def _fields(site: Site) -> dict[str, Any]:
    return {name: getattr(site, name) for name in site.__dataclass_fields__}
