"""The values at the collected sites: one tensor per site and pass, and its shortest name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from cutaway.capture.interventions.targets import ModelIndex, RequestedSite, requested_sites
from cutaway.capture.observe import Observation, observe
from cutaway.core.errors import InputError, SiteError
from cutaway.core.sites import Site


@dataclass(frozen=True, slots=True)
class Value:
    """The value of one site in one run."""

    site: Site
    """The full site: with path, ordinal and pass."""
    tensor: Tensor
    n_tensors: int
    """Number of tensors that the module takes or returns there."""
    was_nested: bool = False
    """Whether the model's own tensor was nested; `tensor` is its padded form."""


OnValue = Callable[[Value], None]
_MOST_NAMED = 8
"""Sites to name in an error message."""


class SiteValues:
    """Observes the collected sites of a model; `run` passes their values to a callback.

    If a module takes or returns several tensors, the first floating-point one is collected unless the site names
    another.
    """

    def __init__(self, model: nn.Module, at: Any) -> None:
        # torch.compile wraps a model; sites and hooks are those of the original.
        self.model: nn.Module = getattr(model, "_orig_mod", model)
        self.named = ModelIndex.of(self.model)
        asked = requested_sites(at, self.named)
        for each in asked:
            self._check(each)
        self.sites = tuple(each.site for each in asked)
        self._observer = observe(self.model, self.sites, self._on_observation)
        self._on_value: OnValue = lambda value: None
        self._first: set[tuple[str, str | None, int | None]] = set()
        """(address, side, pass) of modules in this run whose first floating-point tensor was seen."""

    def addresses(self) -> dict[str, None]:
        """The addresses of the observed modules, each once."""
        return {address: None for site in self.sites for address in self.named.modules_at(site)}

    def attached(self) -> AbstractContextManager[None]:
        """Context manager: keeps the hooks installed over many runs."""
        return self._observer.attached()

    def run(self, call: Callable[[], Any], on_value: OnValue) -> Any:
        """Run the model once; call `on_value` with each value as it is computed."""
        self._first.clear()
        self._on_value = on_value
        with self._observer:
            return call()

    def _on_observation(self, observation: Observation) -> None:
        tensor = observation.tensor
        if observation.site.op is None and not self._is_requested(observation):
            return
        was_nested = tensor.is_nested
        if was_nested:  # nn.TransformerEncoder drops padding this way
            tensor = tensor.to_padded_tensor(0.0)
        self._on_value(Value(observation.site, tensor, observation.n_tensors, was_nested))

    def _is_requested(self, observation: Observation) -> bool:
        """Whether this is the first floating-point tensor of a module, or one that a site names."""
        key = observation.site.address, observation.site.side, observation.site.pass_
        is_first = observation.tensor.is_floating_point() and key not in self._first
        if is_first:
            self._first.add(key)
        return any(site.path or is_first for site in observation.requested)

    def _check(self, asked: RequestedSite) -> None:
        if asked.units is not None:
            raise InputError(
                f"{str(replace(asked.site, unit=asked.units[0]))!r} names a unit: collect the whole site "
                f"{str(asked.site)!r}, then select with acts.units(…) or acts.columns(…)."
            )
        if asked.site.op is None and not self.named.modules_at(asked.site):
            raise InputError(f"{str(asked.site)!r} is a parameter or buffer: it is the same for every row.")

    def is_named(self, site: Site) -> bool:
        """Whether a site was requested by name, not only by a pattern."""
        return any(each.matches(site) and not each.is_pattern for each in self.sites)

    def name_of(self, value: Value, others: list[Value]) -> str:
        """The shortest site that identifies this value among all values of the run."""
        site = value.site
        passes = {v.site.pass_ for v in others if replace(v.site, pass_=None) == replace(site, pass_=None)}
        asked = [each for each in self.sites if each.matches(site)]
        if len(passes) == 1 and not any(each.pass_ for each in asked):
            site = replace(site, pass_=None)
        if site.op is not None:
            here = replace(value.site, ordinal=None, pass_=None)
            ordinals = {v.site.ordinal for v in others if replace(v.site, ordinal=None, pass_=None) == here}
            if len(ordinals) == 1 and not any(each.ordinal for each in asked):
                site = replace(site, ordinal=None)
        elif site.side == "out" and (not site.path or (value.n_tensors == 1 and not any(each.path for each in asked))):
            site = replace(site, side=None, path="")
        return str(site)

    def no_value_error(self, site: Site) -> SiteError:
        """The error to raise if a site had no value."""
        return SiteError(
            f"nothing ran at {str(site)!r}, or it has no floating-point tensor; "
            "cutaway.sites(model, example) lists what runs."
        )


def some_sites(model: nn.Module) -> str:
    """The sites nearest to the top of a model, as sentences for an error message.

    >>> some_sites(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    "Sequential has '0', '1'. cutaway.sites(model, example) lists every site with its shape."
    """
    modules = dict(model.named_modules())
    # A ModuleList is never called, so it has no value; its items are usually alike, so one pattern stands for them.
    names = {_pattern(address, modules) for address, module in modules.items() if not isinstance(module, nn.ModuleList)}
    # Layers come right after the top level: they are what most people collect.
    nearest = sorted(names - {""}, key=lambda name: (name.count(".") if not name.endswith("*") else 0.5, name))
    listing = "cutaway.sites(model, example) lists every site with its shape."
    if not nearest:
        return f"{type(model).__name__} has no submodules; its own output is '.'. {listing}"
    n = f" … ({len(nearest):,} in all)" if len(nearest) > _MOST_NAMED else ""
    return f"{type(model).__name__} has {', '.join(map(repr, nearest[:_MOST_NAMED]))}{n}. {listing}"


def _pattern(address: str, modules: Mapping[str, nn.Module]) -> str:
    """An address with `*` in place of the numbers of list items."""
    parts = address.split(".")
    parents = (modules.get(".".join(parts[:depth])) for depth in range(len(parts)))
    return ".".join("*" if isinstance(each, nn.ModuleList) else part for part, each in zip(parts, parents, strict=True))
