"""Sees the values at some sites while a model runs: plain hooks for modules, a function mode for single ops."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture.calls import tensors_in
from cutaway.capture.changes import Change
from cutaway.capture.eagerness import forced_eager
from cutaway.capture.layouts import Layouts
from cutaway.capture.opediting import OpEdits
from cutaway.capture.places import Named, Place, places_of
from cutaway.core.errors import InputError, SiteError
from cutaway.core.sites import Site

_AS_IT_IS = Change(lambda value: value)


@dataclass(frozen=True, slots=True)
class Value:
    """What was met at one site in one run."""

    site: Site
    """In full: with the path among several tensors, ordinal and pass."""
    tensor: Tensor
    unit_dim: int
    """The dimension along which its units are counted, as far as its module tells."""
    n_beside: int
    """How many tensors the module took or returned there."""


Tell = Callable[[Value], None]


class Sights:
    """The sites of a model that are to be seen; `with` it, whatever the model computes there is told.

    Of several tensors that a module takes or returns, the first one of real numbers is meant, unless the site names
    another.
    """

    def __init__(self, model: nn.Module, at: Any) -> None:
        self.model: nn.Module = getattr(model, "_orig_mod", model)
        self.layouts = Layouts(self.model)
        self.named = Named.of(self.model)
        self.places = places_of(at, _AS_IT_IS, {}, self.named)
        for place in self.places:
            self._check(place)
        self.tell: Tell = lambda value: None
        self._stack = ExitStack()
        self._passes: dict[tuple[str, str], int] = {}

    def addresses(self) -> dict[str, None]:
        """The modules that are looked at, each once."""
        return {address: None for place in self.places for address in self.named.modules_at(place.site)}

    def __enter__(self) -> Sights:
        with ExitStack() as stack:
            sides: dict[tuple[str, str], list[Site]] = {}
            for place in self.places:
                for address in self.named.modules_at(place.site) if place.site.op is None else ():
                    sides.setdefault((address, place.site.side or "out"), []).append(place.site)
            for (address, side), sites in sides.items():
                self._hook(address, side, sites, stack)
            if "torch._dynamo" in sys.modules:
                stack.enter_context(forced_eager())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, call: Callable[[], Any], tell: Tell) -> Any:
        """Run the model once, and tell each value as it is met."""
        self._passes.clear()
        self.tell = tell
        ops = [place for place in self.places if place.site.op is not None]
        if not ops:
            return call()
        for place in ops:
            place.change = None  # only looked at
        with ExitStack() as stack:  # one for each run: passes are counted from its beginning
            OpEdits(self, ops, self.named).switch_on(stack)
            return call()

    def changed(
        self, place: Place, here: Site, value: Tensor, module: nn.Module | None, unit: int | None = None
    ) -> Tensor:
        """An op has run; its value stays as it is."""
        self.tell(Value(here, value, value.dim() - 1 if unit is None else unit, 1))
        return value

    def _hook(self, address: str, side: str, sites: list[Site], stack: ExitStack) -> None:
        module = self.named.modules[address]
        if isinstance(module, torch.jit.ScriptModule):
            if all(site.is_pattern for site in sites):
                return
            raise InputError(f"{address!r} is scripted and takes no hooks: collect what is given to it, or made of it.")

        def met(called: nn.Module, tree: Any) -> None:
            if called is not module:
                return
            pass_ = self._passes[address, side] = self._passes.get((address, side), 0) + 1
            asked = [site for site in sites if site.pass_ in (None, pass_)]
            if not asked:
                return
            tensors = tensors_in(tree, module is self.model)
            paths: dict[str, Tensor] = {}
            for site in asked:
                if site.path:
                    paths.update((path, tensor) for path, tensor in tensors if site.covers_path(path))
                else:
                    numbers = [(path, tensor) for path, tensor in tensors if tensor.is_floating_point()]
                    paths.update(numbers[:1])
            for path, tensor in paths.items():
                here = Site(address, side=side, path=path, pass_=pass_)
                if tensor.is_nested:  # how torch's own encoder leaves out padding
                    tensor = tensor.to_padded_tensor(0.0)
                self.tell(Value(here, tensor, self.layouts.of_module(tensor, module), len(tensors)))

        if side == "in":

            def before(called: nn.Module, args: Any, kwargs: Any) -> None:
                met(called, {**{str(i): value for i, value in enumerate(args)}, **kwargs})

            handle = module.register_forward_pre_hook(before, with_kwargs=True)
        else:

            def after(called: nn.Module, args: Any, result: Any) -> None:
                met(called, result)

            handle = module.register_forward_hook(after)
        stack.callback(handle.remove)

    def _check(self, place: Place) -> None:
        if place.region.units is not None:
            raise InputError(
                f"{str(replace(place.site, unit=place.region.units[0]))!r} names a unit: collect the whole site "
                f"{str(place.site)!r}, then acts.units(…) or acts.columns(…) chooses."
            )
        if place.site.op is None and not self.named.modules_at(place.site):
            raise InputError(f"{str(place.site)!r} is a parameter or buffer: it is the same for every row.")

    def name_of(self, seen: Value, others: list[Value]) -> str:
        """The shortest site by which this value, and no other of the same run, is known."""
        site = seen.site
        passes = {v.site.pass_ for v in others if replace(v.site, pass_=None) == replace(site, pass_=None)}
        asked = [place.site for place in self.places if place.site.matches(site)]
        if len(passes) == 1 and not any(place.pass_ for place in asked):
            site = replace(site, pass_=None)
        if site.op is not None:
            here = replace(seen.site, ordinal=None, pass_=None)
            ordinals = {v.site.ordinal for v in others if replace(v.site, ordinal=None, pass_=None) == here}
            if len(ordinals) == 1 and not any(place.ordinal for place in asked):
                site = replace(site, ordinal=None)
        elif site.side == "out" and (not site.path or (seen.n_beside == 1 and not any(p.path for p in asked))):
            site = replace(site, side=None, path="")
        return str(site)

    def nothing_at(self, place: Place) -> SiteError:
        """What to raise where a site was not met."""
        return SiteError(
            f"nothing ran at {str(place.site)!r}, or it took and returned no tensor of real numbers; "
            "cutaway.sites(model, example) lists what runs."
        )
