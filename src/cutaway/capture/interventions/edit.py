"""The verb `edit`: changes a model's values or parameters inside a block."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from sys import _getframe
from threading import get_ident
from time import perf_counter_ns
from types import TracebackType
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from cutaway.capture import sessions
from cutaway.capture.arguments import tensors_in
from cutaway.capture.interventions import new_values, parameter_edits
from cutaway.capture.interventions.new_values import Change, name_site_in_errors, value_from
from cutaway.capture.interventions.op_edit import Editor, OpEdits
from cutaway.capture.interventions.rebuild import with_tensors
from cutaway.capture.interventions.regions import Region
from cutaway.capture.interventions.targets import ModelIndex, Target, edit_targets
from cutaway.capture.misuse import EntryReminder, check_model, refuse_attribute
from cutaway.capture.model.forward import replace_forward
from cutaway.capture.model.rng_state import current_autocast, generators_used
from cutaway.capture.patches import monkeypatch
from cutaway.capture.patches.install import apply_patches
from cutaway.capture.patches.own_call import after_call, before_call, bypasses_hooks, is_call_visible
from cutaway.capture.tensors.aliasing import version_of
from cutaway.capture.torch_functions import EditFunction
from cutaway.capture.units.live_units import LiveUnits
from cutaway.capture.units.module_units import named_parameter_layout
from cutaway.core.errors import EditError, InputError, SiteError
from cutaway.core.events import Context
from cutaway.core.formatting import listed, nearest
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.selection import What

_MISSING: Any = object()


class edit:
    """Changes values or parameters of a model inside a block.

    >>> import torch, cutaway
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    >>> with cutaway.edit(model, at="0", to=-1):
    ...     model(torch.ones(1, 4))
    tensor([[0., 0., 0.]])

    Args:
        model: the model that runs inside the block.
        at: a site (module, `@in`, op, parameter, optionally with pass and unit), a pattern, an op or selection of a
            trace, the top of a ranking, or several of these; or a mapping from these to new values, without `to`.
        to: a number, a tensor, a function of the value, another site to copy from, an op or trace to take the value
            from, or one of `edit.scale`, `edit.clamp`, `edit.noise`, `edit.swap`.
        units: only these units, by flat index `#k`; the graph of the model decides which dimensions count units.
        unit_dim: the dimensions that count units, in the order of the flat index, if the graph does not tell.
        heads: only these attention heads: consecutive, equal parts of the units.
        n_heads: the number of heads, if the model does not have it as an attribute.
        positions: only these token positions (queries of attention scores); of the whole text during generation.
        samples: only these indices along the sample dimension.
        index: only `value[index]`, for example `np.s_[:, 3]`. Excludes the other keywords.
    """

    scale = staticmethod(new_values.scale)
    clamp = staticmethod(new_values.clamp)
    noise = staticmethod(new_values.noise)
    swap = staticmethod(new_values.swap)

    def __init__(
        self,
        model: nn.Module,
        at: What | Mapping[Any, Any],
        to: object = None,
        *,
        units: int | Sequence[int] | None = None,
        unit_dim: int | Sequence[int] | None = None,
        heads: int | Sequence[int] | None = None,
        n_heads: int | None = None,
        positions: int | slice | Sequence[int] | None = None,
        samples: int | slice | Sequence[int] | None = None,
        index: Any = None,
    ) -> None:
        check_model(model, "edit")
        region = Region.of(
            units=units,
            unit_dim=unit_dim,
            heads=heads,
            n_heads=n_heads,
            positions=positions,
            samples=samples,
            index=index,
        )
        self._model: nn.Module = getattr(model, "_orig_mod", model)
        self._index = ModelIndex.of(self._model)
        self._targets = [
            target
            for where, change in new_values.parse_changes(at, to, "cutaway.edit(model, {at}, 0)")
            for target in edit_targets(where, change, region, self._index)
        ]
        live = [target for target in self._targets if self._needs_layout(target)]
        self._units = LiveUnits(
            self._model,
            [target.site for target in live if not self._is_tensor(target)],
            given={target.site: target.layout for target in live if target.layout is not None},
            unit_dim=live[0].region.unit_dim if live else None,
            needs_samples=any(target.region.needs_samples for target in live if target.layout is None),
        )
        self._thread = 0
        self._source_values: dict[Site, Any] = {}
        self._stack = ExitStack()
        self._op_edits: OpEdits | None = None
        self._reminder = EntryReminder("edit", "changed nothing")

    def __getattr__(self, name: str) -> NoReturn:
        refuse_attribute("edit", name, "run the model inside `with cutaway.edit(model, …):`, or use trace.replay.")

    def __enter__(self) -> None:
        self._reminder.is_entered = True
        if self._thread:
            raise InputError("this edit was already used: create a new one for each block.")
        self._thread = get_ident()
        # If one target cannot be installed, those before it are removed again.
        with ExitStack() as stack:
            stack.enter_context(self._units)
            ops: list[Target] = []
            for target in self._targets:
                if target.site.op is not None:
                    ops.append(target)
                    continue
                addresses = self._index.modules_at(target.site)
                for address in addresses:
                    self._at_module(target, address, stack)
                for address in self._index.tensors_at(target.site) if not addresses else ():
                    self._at_tensor(target, self._index.tensors[address], stack)
            ops += self._capture_source_values(stack)
            if ops:
                self._op_edits = OpEdits(self._at_op, ops, self._index, is_observer=False)
                self._op_edits.install(stack)
            # Compiled code bypasses hooks; without the compiler, which takes seconds to import, nothing is compiled.
            if "torch._dynamo" in sys.modules:
                apply_patches()
                stack.callback(monkeypatch.restore)
            # A trace made inside notes that it was edited: `validate` then does not compare it with an unedited run.
            running = sessions.RunningEdit(self._thread, self._model, self._describe())
            sessions.edits[id(self)] = running
            stack.callback(sessions.edits.pop, id(self), None)
            for listener in tuple(sessions.edit_listeners):
                listener(running)
            self._stack = stack.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        self._source_values.clear()
        missed = [target for target in self._targets if not target.n_applied]
        if error is None and missed:
            site = missed[0].site
            raise SiteError(
                f"nothing was changed at {str(site)!r}: {self._miss_reason(site)}. An edit applies where the model "
                "runs inside the block, in the thread that entered it."
            )

    def _describe(self) -> str:
        """What is changed to what, for those who record it: `'blocks.2' (heads 0, 1) → 0`."""
        parts: dict[tuple[str, str], list[str]] = {}
        for target in self._targets:
            if target.change is not None:
                parts.setdefault((target.region.text, target.change.label), []).append(repr(str(target.site)))
        return "; ".join(
            f"{listed(sites)}{f' ({region})' if region else ''} → {label}" for (region, label), sites in parts.items()
        )

    def _miss_reason(self, site: Site) -> str:
        if site.op is not None and site.ordinal is None and site.pass_ is not None:
            return (
                f"':' counts the runs of the module; write /{site.op}.{site.pass_} for op {site.pass_} within one run"
            )
        if site.op is not None:
            ran = self._op_edits.kinds_at(site) if self._op_edits is not None else []
            if not ran:
                return "no op ran there; cutaway.sites(model, example) lists those that do"
            # Close names first: a large module runs more kinds of ops than the message lists.
            kinds = dict.fromkeys([*nearest(site.op, ran), *ran])
            return f"the ops that ran there are {listed(map(repr, kinds), 8)}"
        modules = [self._index.modules[address] for address in self._index.modules_at(site)]
        if modules and not any(map(is_call_visible, modules)):
            return f"{type(modules[0]).__name__} has a __call__ of its own, which bypasses hooks; edit a module in it"
        swaps = any(each.site is site and each.change is not None and each.change.swaps for each in self._targets)
        if swaps and any(bypasses_hooks(type(module)) for module in modules):
            return f"{type(modules[0]).__name__} has a __call__ of its own, which runs no forward"
        if site.pass_ is not None:
            return f"it did not run {site.pass_} times" if site.pass_ > 1 else "it did not run"
        return "it did not run, ran only inside compiled code (torch.cond, scan, map), or has no such tensor"

    # modules

    def _at_module(self, target: Target, address: str, stack: ExitStack) -> None:
        module = self._index.modules[address]
        if isinstance(module, torch.jit.ScriptModule):
            if target.site.is_pattern:
                return
            raise InputError(f"{address!r} is a ScriptModule and takes no hooks: edit the modules before or after it.")
        if target.change is not None and target.change.swaps is not None:
            self._swap(target, module, stack)
            return
        passes = 0

        def edit_value(tree: Any) -> Any:
            nonlocal passes
            if get_ident() != self._thread or sessions.in_hidden_run():
                return tree
            # Runs by which Cutaway itself learns about the model do not count as passes.
            passes += 1
            if target.site.pass_ not in (None, passes):
                return tree
            return self._edit_tree(target, address, module, tree, passes)

        if target.site.side == "in":
            handle = before_call(
                module, lambda called, *given: edit_inputs(*given) if called is module else None, with_kwargs=True
            )
        else:  # a copy of the module made inside the block has the hook, too
            handle = after_call(module, lambda called, _, result: edit_value(result) if called is module else None)
        stack.callback(handle.remove)

        def edit_inputs(args: Any, kwargs: Any) -> Any:
            given = {**{str(i): value for i, value in enumerate(args)}, **kwargs}
            new = edit_value(given)
            return tuple(new[str(i)] for i in range(len(args))), {name: new[name] for name in kwargs}

    def _edit_tree(self, target: Target, address: str, module: nn.Module, tree: Any, passes: int) -> Any:
        site = target.site
        tensors = [(path, tensor) for path, tensor in tensors_in(tree, module is self._model) if site.covers_path(path)]
        if len(tensors) > 1 and not site.path:
            side = site.side or "out"
            sites = ", ".join(repr(f"{address}@{side}.{path}") for path, _ in tensors[:6])
            raise EditError(f"{address!r} has {len(tensors)} tensors there: choose one of {sites}.")
        new = {
            path: self._apply_change(target, Site(address, None, None, site.side, path, passes), tensor, module)
            for path, tensor in tensors
        }
        return with_tensors(tree, new) if target.change is not None else tree

    def _swap(self, target: Target, module: nn.Module, stack: ExitStack) -> None:
        """Runs another function instead of a module's forward."""
        # The forward is replaced, not the result: hooks would still run the original.
        original, function = module.forward, target.change.swaps if target.change else None

        def forward(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != self._thread or sessions.in_hidden_run():
                return original(*args, **kwargs)
            target.n_applied += 1
            return function(*args, **kwargs)  # type: ignore[misc]

        stack.enter_context(replace_forward(module, forward))

    # parameters and buffers

    def _at_tensor(self, target: Target, tensor: Tensor, stack: ExitStack) -> None:
        """Changes a parameter now, and restores the changed part afterwards."""
        if target.change is None or target.change.swaps is not None:
            raise InputError(f"{str(target.site)!r} is a parameter: no function computes it, so it cannot be swapped.")
        present, make = tensor.detach(), target.change
        layout = self._parameter_layout(target, present)
        others = (layout,) if make.takes_layout else self._others(make, target.site)
        with name_site_in_errors("edit", target.site):
            mask = target.region.mask(present, None, layout)
            undo = parameter_edits.change(tensor, lambda value: make(value, *others), mask)
        target.n_applied += 1
        stack.callback(undo)

    def _parameter_layout(self, target: Target, tensor: Tensor) -> UnitLayout | None:
        region, layout = target.region, target.layout
        if not region.needs_units and not (target.change is not None and target.change.takes_layout):
            return None if region.is_whole or region.index is not None else UnitLayout.refused(tensor.shape, "")
        if region.unit_dim is not None:
            return UnitLayout.of_dims(tensor.shape, region.unit_dim)
        address = str(target.site.address)
        layout = layout or named_parameter_layout(self._index.modules, address, tensor.shape)
        return layout.check(address)

    def _is_tensor(self, target: Target) -> bool:
        return target.site.op is None and not self._index.modules_at(target.site)

    @staticmethod
    def _needs_layout(target: Target) -> bool:
        region = target.region
        takes = target.change is not None and target.change.takes_layout
        return takes or region.needs_units or region.needs_samples

    # values

    def _at_op(self, targets: list[Target], here: Site, value: Tensor, module: nn.Module, result: Any) -> Tensor | None:
        """The value that replaces the result of an op; None if it is only observed."""
        new: Tensor | None = None
        for target in targets:
            changed = self._apply_change(target, here, value if new is None else new, module)
            new = changed if target.change is not None else new
        return new

    def _apply_change(self, target: Target, here: Site, value: Tensor, module: nn.Module | None) -> Tensor:
        """Computes the new value of one tensor and reports the edit to traces."""
        change = target.change
        if change is None:
            self._source_values[target.site] = value
            return value
        target.n_applied += 1
        layout: UnitLayout | None = None
        if self._needs_layout(target):
            layout = self._units.at(here, value, module)
            if target.region.needs_units or change.takes_layout:
                layout.check(str(target.site))
        others = (layout,) if change.takes_layout else self._others(change, here)

        def apply(value: Tensor, *others: Any) -> Tensor:
            return target.region.put(change(value, *others), value, module, layout)

        generators = generators_used("edit", (), None) if change.is_random else ()
        started = perf_counter_ns()
        # Traces record the edit as one op, not the functions that compute the new value.
        with torch._C.DisableTorchFunction(), name_site_in_errors("edit", target.site):
            try:
                new = apply(value, *others)
            except NotImplementedError as error:
                raise EditError(
                    f"the value at {str(here)!r} ({value.layout}) does not support this edit: {error}"
                ) from error
            self._record_edit(apply, (value, *others), new, started, generators)
        return new

    def _others(self, change: Change, here: Site) -> tuple[Any, ...]:
        """The values that a change needs besides the one it replaces."""
        if change.source is not None:
            return (value_from(change.source, here),)
        for site in change.needs:
            if site not in self._source_values:
                raise EditError(f"{str(site)!r} runs after {str(here)!r}, so its value cannot be used there.")
        return tuple(self._source_values[site] for site in change.needs)

    def _capture_source_values(self, stack: ExitStack) -> list[Target]:
        """Captures the values that other edits copy from, as edited in this block; returns the op targets."""
        needed = {site for target in self._targets if target.change is not None for site in target.change.needs}
        ops: list[Target] = []
        for site in needed:
            self._index.check(site, str(site), "to")
            target = Target(site, None, Region())
            if site.op is not None:
                ops.append(target)
            else:
                for address in self._index.modules_at(site):
                    self._at_module(target, address, stack)
                for address in self._index.tensors_at(site) if not self._index.modules_at(site) else ():
                    self._source_values[site] = self._index.tensors[address]
        return ops

    def _record_edit(
        self, apply: Callable[..., Any], args: tuple[Any, ...], new: Tensor, started: int, generators: Any
    ) -> None:
        """Records the edit as an operation in all active traces."""
        watchers = [watcher for watcher in sessions.thread_watchers() if not isinstance(watcher, Editor)]
        if not watchers:
            return
        frame = _getframe(1)
        while frame.f_back is not None and "/cutaway/capture/" in frame.f_code.co_filename.replace("\\", "/"):
            frame = frame.f_back
        context = Context(torch.is_grad_enabled(), current_autocast(), generators)
        location = (frame.f_code, frame.f_lasti, started, perf_counter_ns(), version_of(new), context)
        for watcher in watchers:
            watcher.append((EditFunction(apply), args, None, new, watcher.call, watcher.group, *location))
