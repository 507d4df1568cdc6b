"""Resolves `at=` to modules, inputs, outputs, ops and parameters of a live model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from cutaway.capture.interventions.new_values import Change
from cutaway.capture.interventions.regions import Region
from cutaway.capture.model.tree import module_addresses, tensor_addresses
from cutaway.core.errors import InputError, InputTypeError, SiteError
from cutaway.core.formatting import listed, nearest_hint, plural
from cutaway.core.sites import ROOT, Site
from cutaway.core.units.layout import UnitLayout
from cutaway.core.units.unit_sites import layouts_of
from cutaway.graph.labels import split_label
from cutaway.graph.op import Op
from cutaway.graph.selection import Selection


@dataclass(slots=True, eq=False)
class Target:
    """One site of a model with the change to make there."""

    site: Site
    """Without unit."""
    change: Change | None
    """None if the value is only read, for another target."""
    region: Region
    layout: UnitLayout | None = None
    """The unit layout, if a trace or activations provide it."""
    n_applied: int = 0
    """How often the change was applied."""


@dataclass(frozen=True, slots=True)
class ModelIndex:
    """The modules and tensors of a model by address."""

    modules: dict[str, nn.Module]
    tensors: dict[str, Tensor]

    @staticmethod
    def of(model: nn.Module) -> ModelIndex:
        addresses = module_addresses(model)
        modules = {name: module for module in model.modules() for name in addresses.get(id(module), ())}
        of_tensor = tensor_addresses(model, addresses)
        tensors = {
            name: tensor for tensor in (*model.parameters(), *model.buffers()) for name in of_tensor.get(id(tensor), ())
        }
        return ModelIndex(modules, tensors)

    def modules_at(self, site: Site) -> list[str]:
        """Addresses that match a site; a module with several addresses occurs once."""
        addresses: dict[int, str] = {}
        for address, module in self.modules.items():
            if site.covers_address(address):
                addresses.setdefault(id(module), address)
        return list(addresses.values())

    def tensors_at(self, site: Site) -> list[str]:
        addresses: dict[int, str] = {}
        for address, tensor in self.tensors.items():
            if site.op is None and site.side is None and site.pass_ is None and site.covers_address(address):
                addresses.setdefault(id(tensor), address)
        return list(addresses.values())

    def check(self, site: Site, given: str, keyword: str = "at") -> None:
        """Raises if a site matches nothing in this model."""
        if site.name is not None:
            raise InputError(f"{given!r}: a tensor named in a trace cannot be edited; edit the op that computes it.")
        if self.modules_at(site) or self.tensors_at(site):
            return
        # How a trace names a module that is not part of the model.
        if site.address.startswith("<") and not site.is_pattern:
            name = site.address.partition(".")[0]
            raise SiteError(
                f"{keyword}={given!r} ran in {name}, a module that the forward creates: it does not exist outside the "
                f"run, so it cannot be edited. Replay the trace with the change, trace.replay({given!r}, 0), or create "
                "the module in __init__."
            )
        raise SiteError(
            f"{keyword}={given!r} matches no module, parameter or buffer of this model."
            f"{self._label_advice(site, given)}{self._near(site)}"
        )

    def _label_advice(self, site: Site, given: str) -> str:
        """Explains a label or a position of a trace that was given instead of a site; "" if it is neither."""
        if site.is_pattern:
            return ""
        if given.isdecimal():
            return f" {given!r} looks like the position of an op, which exists only in a trace: pass trace[{given}]."
        kind, _ = split_label(given)
        if not kind:
            return ""
        advice = f" {given!r} looks like a label, which exists only in a trace: pass the op itself, trace[{given!r}]"
        # A label counts ops in order of execution, modules stand in order of definition: so all are offered, not one.
        same = [name for name, module in self.modules.items() if type(module).__name__.lower() == kind.lower()]
        return f"{advice}, or the site of a {kind} module: {listed(map(repr, same))}." if same else f"{advice}."

    def _near(self, site: Site) -> str:
        hint = nearest_hint(site.address, [*self.modules, *self.tensors])
        if hint:
            return f"{hint} It has {plural(len(self.modules), 'module')}."
        names = [repr(name) for name in self.modules if name != ROOT]
        return f" Its {plural(len(names), 'module')}: {listed(names, 6)}." if names else " It has no submodules."


@dataclass(frozen=True, slots=True)
class RequestedSite:
    """One site from `at=`."""

    site: Site
    """Without unit."""
    units: tuple[int, ...] | None
    """The units named in `at=`; None for all."""
    layout: UnitLayout | None = None
    """The unit layout, if a trace or activations provide it."""


def edit_targets(at: object, change: Change, region: Region, named: ModelIndex) -> list[Target]:
    """The targets of one `at=`; several units of one tensor are one target."""
    return [
        Target(each.site, change, region.with_units(each.units), each.layout) for each in requested_sites(at, named)
    ]


def requested_sites(at: object, named: ModelIndex) -> list[RequestedSite]:
    """The sites of one `at=`, each once, with the units named for it."""
    units: dict[Site, list[int] | None] = {}
    layouts: dict[Site, UnitLayout] = {}
    for site, given, layout in _sites(at):
        named.check(site, given)
        bare = site.without_unit()
        if layout is not None:
            layouts[bare] = layout
        # The whole value includes each of its units.
        if site.unit is None or units.get(bare, ()) is None:
            units[bare] = None
        else:
            known = units.setdefault(bare, [])
            if known is not None and site.unit not in known:
                known.append(site.unit)
    if not units:
        raise InputError(f"at={at!r} is empty: pass a site, an op, or several of them.")
    return [
        RequestedSite(site, None if chosen is None else tuple(chosen), layouts.get(site))
        for site, chosen in units.items()
    ]


def units_by_site(model: nn.Module, at: Any) -> dict[str, list[int] | None]:
    """The sites of `at=` with patterns expanded, and the units named for each; None for all."""
    given = [at] if isinstance(at, (str, Site)) else at
    if not isinstance(given, Sequence) or not given or any(not isinstance(each, (str, Site)) for each in given):
        raise InputError(f"at={at!r}: pass a site or several, such as 'encoder.layer.3', 'h.*.mlp' or 'h.3.mlp#17'.")
    named = ModelIndex.of(getattr(model, "_orig_mod", model))
    units: dict[str, list[int] | None] = {}
    for each in given:
        site = Site.parse(each) if isinstance(each, str) else each
        addresses = named.modules_at(site)
        if not addresses:
            hint = nearest_hint(site.address, list(named.modules))
            raise SiteError(f"{str(each)!r} matches no module of this model.{hint}")
        if site.op is not None and "*" in site.op:
            raise InputError(
                f"{str(each)!r}: the name of an op cannot be a pattern; cutaway.sites(model, example) lists the names."
            )
        for address in addresses if site.is_pattern else [site.address]:
            bare = str(replace(site, address=address, unit=None))
            known = units.setdefault(bare, [] if site.unit is not None else None)
            if site.unit is None:
                units[bare] = None
            elif known is not None and site.unit not in known:
                known.append(site.unit)
    return units


def only_by_pattern(at: Any, site: str) -> bool:
    """Whether a site was requested only by patterns: then an unsupported site is skipped with a note."""
    given = [at] if isinstance(at, (str, Site)) else at
    here = Site.parse(site)
    sites = [Site.parse(each) if isinstance(each, str) else each for each in given]
    return not any(each.matches(here) and not each.is_pattern for each in sites)


def _sites(at: object) -> Iterable[tuple[Site, str, UnitLayout | None]]:
    """Yields every site of `at=` (a site, an op, something with `sites`, or several of these).

    Each comes with its name there, and with its unit layout if known.
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
        advice = f" A position exists only in a trace: pass trace[{at}]." if isinstance(at, int) else ""
        raise InputTypeError(
            f"at={at!r}: pass a site, an op, a selection, the top of a ranking, or several of these.{advice}"
        )


def _fields(site: Site) -> dict[str, Any]:
    return {name: getattr(site, name) for name in site.__dataclass_fields__}
