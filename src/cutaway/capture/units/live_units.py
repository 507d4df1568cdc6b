"""Unit layouts of values in a running model: from torch's own layers, else learned from one traced run.

While a model runs, it is not yet known which layer reads a value. So the first call of the model inside the block, or
of a submodule called directly, is run once more beforehand, under the tracing mode, on copies of its arguments; the
model is restored afterwards. A layout learned from a single sample is learned again when the number of samples
changes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture.api import watch
from cutaway.capture.interventions.targets import ModelIndex
from cutaway.capture.model.eval_mode import preserve_state
from cutaway.capture.patches.own_call import before_call
from cutaway.capture.sessions import hidden_run, in_hidden_run
from cutaway.capture.units.module_units import decides_output, output_layout
from cutaway.core.errors import UnitError
from cutaway.core.pytree import leaves
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout, layout_of_pass
from cutaway.graph.trace import Trace

UnitDim = int | Sequence[int]
"""The dimension that counts units, or several in the order of the flat index."""


def dims_of(unit_dim: UnitDim) -> tuple[int, ...]:
    """`unit_dim=` as a tuple of dimensions."""
    return (unit_dim,) if isinstance(unit_dim, int) else tuple(unit_dim)


class LiveUnits:
    """The unit layouts of the values at some sites of a model, inside a block.

    Args:
        sites: without units; nothing is traced if their modules decide alone.
        given: layouts known from a trace or activations, by site without unit.
        unit_dim: the unit dimensions that the caller states, for all sites.
        needs_samples: whether samples or positions are needed, which no module determines alone.
    """

    def __init__(
        self,
        model: nn.Module,
        sites: Iterable[Site],
        *,
        given: Mapping[Site, UnitLayout] | None = None,
        unit_dim: UnitDim | None = None,
        needs_samples: bool = False,
    ) -> None:
        self._model: nn.Module = getattr(model, "_orig_mod", model)
        self._sites = tuple(sites)
        self._known = dict(given or {})
        self._unit_dims = None if unit_dim is None else dims_of(unit_dim)
        self._needs_samples = needs_samples
        self._learned: dict[nn.Module, SiteLayouts] = {}
        """By the module whose call was traced: the model itself, or submodules that are called directly."""
        self._n_samples: int | None = None
        """Number of samples in the running call; None if unknown."""
        self._refusal_reason = "its module was not called inside the block"
        self._inside: set[nn.Module] = set()
        """All submodules of the modules that were called."""
        self._thread = 0
        self._hooks: list[Any] = []
        self._stack = ExitStack()

    def __enter__(self) -> LiveUnits:
        self._thread = get_ident()
        self._stack.callback(self._remove)
        if self._is_learning_needed():
            self._hook_next_call()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def at(self, site: Site, value: Tensor, module: nn.Module | None) -> UnitLayout:
        """The layout of one value for its shape; it may be refused."""
        layout = self._known_at(site) or self._learned_at(site)
        if self._unit_dims is not None:
            known = UnitLayout.refused(value.shape, "") if layout is None else self._fit(layout, value)
            return known.with_units(self._unit_dims)
        if layout is None and module is not None and site.op is None and site.side != "in":
            layout = output_layout(module, site.path, value.shape)
        if layout is None:
            return UnitLayout.refused(value.shape, self._refusal_reason)
        try:
            return self._fit(layout, value)
        except UnitError as error:
            return UnitLayout.refused(value.shape, str(error).rstrip("."))

    def _fit(self, layout: UnitLayout, value: Tensor) -> UnitLayout:
        """The layout for the present shape of a value; the number of samples disambiguates merged tokens."""
        try:
            return layout.for_shape(value.shape, self._n_samples)
        except UnitError:
            return layout.for_shape(value.shape)

    def _known_at(self, site: Site) -> UnitLayout | None:
        """A given layout; its site may omit side, path, ordinal and pass."""
        if not self._known:
            return None
        here = replace(site, unit=None)
        exact = self._known.get(here) or self._known.get(replace(here, pass_=None))
        return exact or next((layout for given, layout in self._known.items() if given.matches(here)), None)

    def _learned_at(self, site: Site) -> UnitLayout | None:
        layouts = (learned.find(site) for learned in self._learned.values())
        return next((layout for layout in layouts if layout is not None), None)

    # learning

    def _is_learning_needed(self) -> bool:
        if self._unit_dims is not None and not self._needs_samples:
            return False
        named = ModelIndex.of(self._model)
        for site in self._sites:
            if site in self._known:
                continue
            if self._needs_samples or site.op is not None or site.side == "in":
                return True
            if not all(decides_output(named.modules[address], site.path) for address in named.modules_at(site)):
                return True
        return False

    def _hook_next_call(self) -> None:
        """Hooks the next call of a module that is not inside one whose call was traced."""
        # Nobody knows yet which module the program calls: it may be a submodule.
        for module in self._model.modules():
            if module not in self._inside and not isinstance(module, torch.jit.ScriptModule):
                hook = before_call(module, self._on_first_call, with_kwargs=True, prepend=True)
                self._hooks.append(hook)

    def _on_first_call(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if get_ident() != self._thread or in_hidden_run():
            return
        if module in self._inside:
            # Restoring the state of a model, as `generate` does, brings back hooks that were removed inside.
            self._on_later_call(module, args, kwargs)
            return
        # Remove all hooks before the real call: some modules take another path if they have one.
        self._remove()
        self._inside.update(module.modules())
        self._learn(module, args, kwargs)
        learned = self._learned.get(module)
        if learned is not None:
            self._n_samples = learned.n_samples
            if learned.n_samples == 1 or self._needs_samples:
                self._hooks.append(before_call(module, self._on_later_call, with_kwargs=True, prepend=True))
        if self._model not in self._inside and not self._has_all():
            self._hook_next_call()

    def _has_all(self) -> bool:
        named = ModelIndex.of(self._model)
        wanted = (named.modules[address] for site in self._sites for address in named.modules_at(site))
        return all(module in self._inside for module in wanted)

    def _on_later_call(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        learned = self._learned.get(module)
        if learned is None or get_ident() != self._thread or in_hidden_run():
            return
        self._n_samples = learned.n_samples_of(args, kwargs)
        if learned.n_samples == 1 and self._n_samples not in (None, 1):
            self._learn(module, args, kwargs)

    def _learn(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        try:
            with hidden_run():
                given, named = _copy_arguments(args), _copy_arguments(kwargs)
        except Exception as error:
            self._refusal_reason = (
                f"the model could not be traced beforehand, because an argument cannot be copied ({error})"
            )
            return
        try:
            self._learned[module] = SiteLayouts(trace_hidden_run(self._model, lambda: module(*given, **named)))
        except Exception as error:  # if it is the model's error, the real call raises it as well
            self._refusal_reason = f"the model could not be traced beforehand ({type(error).__name__}: {error})"
        else:
            self._refusal_reason = "the traced run of the model has no such value"

    def _remove(self) -> None:
        for hook in self._hooks:  # not cleared: a restored hook is removed again when the block ends
            hook.remove()


class SiteLayouts:
    """The unit layouts of a trace by site: for module outputs and inputs, and for ops.

    Args:
        trace: needs no values.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._by_site: dict[Site, dict[int, UnitLayout]] = {}
        for call in trace.calls:
            for address in call.module.addresses:
                for side, tensors in (("out", call.outputs), ("in", call.inputs)):
                    for path, op in tensors.items():
                        site = Site(address, None, None, side, path, None)
                        self._by_site.setdefault(site, {})[call.pass_] = op.unit_layout
        self._has_ops = False
        counts = [_n_samples(op.unit_layout) for op in trace.inputs]
        self.n_samples = next((n for n in counts if n is not None), None)
        """Number of samples in the traced run; None if unknown."""

    def find(self, site: Site) -> UnitLayout | None:
        """The layout at a site with its pass; for passes that were not traced, what all traced ones share."""
        if site.op is not None and not self._has_ops:
            self._add_ops()
        side = site.side or ("out" if site.op is None else None)
        passes = self._by_site.get(replace(site, side=side, pass_=None, unit=None), {})
        return layout_of_pass(passes, site.pass_ or 1)

    def _add_ops(self) -> None:
        self._has_ops = True
        for op in self._trace.ops:
            full = op.full_site
            self._by_site.setdefault(replace(full, pass_=None), {})[full.pass_ or 1] = op.unit_layout

    def n_samples_of(self, args: Any, kwargs: Mapping[str, Any]) -> int | None:
        """Number of samples in other arguments, read from the sample dimensions of the traced ones."""
        given = {**{str(i): value for i, value in enumerate(args)}, **kwargs}
        for path, op in zip(self._trace.input_paths, self._trace.inputs, strict=True):
            layout, value = op.unit_layout, given.get(path)
            if isinstance(value, Tensor) and len(layout.samples) == 1 and value.dim() == len(layout.split):
                return int(value.shape[layout.dim_of(layout.samples[0])])
        return None


def _n_samples(layout: UnitLayout) -> int | None:
    return layout.sizes[layout.samples[0]] if len(layout.samples) == 1 else None


def trace_hidden_run(model: nn.Module, run: Callable[[], Any]) -> Trace:
    """Traces an additional run without values, hidden from edits and observers; the model is restored afterwards."""
    with hidden_run(), preserve_state(model):
        with watch(model, save=None) as trace:
            run()
    return trace


def _copy_arguments(tree: Any) -> Any:
    """Copies arguments, so that a run cannot modify the originals: clones tensors, deep-copies other objects."""
    memo: dict[int, Any] = {}
    for _, value in leaves(tree, lambda value: isinstance(value, (Tensor, nn.Module))):
        memo[id(value)] = _clone(value) if isinstance(value, Tensor) else value
    return copy.deepcopy(tree, memo)


def _clone(tensor: Tensor) -> Tensor:
    new = tensor.detach().clone()  # deepcopy raises for non-leaf tensors
    return new.requires_grad_(tensor.requires_grad) if tensor.is_floating_point() or tensor.is_complex() else new
