"""Hooks of one recorded step: module outputs, gradients, optimizer reads and parameter updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cutaway.capture.module_hooks import tensors_in
from cutaway.core.errors import SiteError
from cutaway.core.formatting import listed, nearest_hint, plural
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.recording import optimizers
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.facts.collector import StepFacts
from cutaway.recording.facts.losses import LossNode, loss_node
from cutaway.recording.hooks.autograd_graph import AutogradGraph
from cutaway.recording.hooks.gradients import Gradients, coalesce_sparse
from cutaway.recording.hooks.module_calls import CallWrappers
from cutaway.recording.models import NamedParameter, RecordedModels
from cutaway.recording.recorded_units import RecordedUnits
from cutaway.recording.tensors import RecordedTensor, StepTensors, TensorKey
from cutaway.store.format.records import GRAD, UPDATE, VALUE

_NO_UPDATES = "updates were not recorded: the copy they need is larger than most_update_bytes"


class StepHooks:
    """Records one step. `start` installs all hooks, `stop` removes them, whatever happened in between."""

    def __init__(
        self,
        models: RecordedModels,
        tensors: StepTensors,
        site_filter: SiteFilter,
        guard: ErrorGuard,
        *,
        units: RecordedUnits,
        most_update_bytes: int,
    ) -> None:
        self.tensors = tensors
        self._units = units
        self.on_return: Callable[[], None] = lambda: None
        """Callback: a model has returned."""
        self._models = models
        self._filter = site_filter
        self._guard = guard
        self._most_update_bytes = most_update_bytes
        self._thread = get_ident()
        self._calls = CallWrappers(self._on_call, self._on_result, guard.report)
        self._named = {id(parameter.tensor): parameter for parameter in models.parameters}
        self._parameters: dict[int, RecordedTensor] = {}
        """Parameter id → its record, to which gradients and updates are added."""
        self._unhooked = [parameter for parameter in models.parameters if not parameter.is_buffer]
        """Parameters without a gradient hook so far."""
        self.gradients = Gradients(tensors, guard, most_bytes=most_update_bytes)
        self.facts = StepFacts(models, guard)
        self.facts.n_backward = lambda: self.gradients.calls.n_backward
        self.gradients.calls.on_backward = self.facts.backward_began
        self.gradients.on_first = self.facts.gradient_arrives
        self._read_ids: set[int] = set()
        self._before: dict[int, Tensor] = {}
        self.autograd: AutogradGraph | None = None
        """Builds the dependency graph from autograd, if the step is not traced."""
        self.n_inputs = 0
        """Number of tensors that the models were given."""
        self._may_be_losses: list[tuple[RecordedTensor, LossNode | None]] = []
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not recorded, and why."""
        return (*self._notes, *self.gradients.notes)

    # start and stop

    def start(self) -> None:
        """Install all hooks."""
        self._calls.start(module for module, _ in self._models.modules.values())
        optimizers.subscribe(self)
        self.facts.start()
        self.hook_parameters()

    def stop(self) -> None:
        """Remove all hooks. Idempotent."""
        optimizers.unsubscribe(self)
        self.facts.stop()
        self._calls.stop()
        self.gradients.remove_hooks()
        self.tensors.forget_identities()
        self._before.clear()

    # modules

    def _is_in_step(self) -> bool:
        """Whether the current call belongs to the step: yes in its own thread and in threads of the backward pass."""
        # torch.jit.trace calls the modules as well, which is no forward pass of the step.
        return (get_ident() == self._thread or in_backward()) and torch._C._get_tracing_state() is None

    def _on_call(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        is_root = id(module) in self._models.roots
        if (is_root or self._filter.inputs) and self._is_in_step() and not in_backward():
            self._guard(self._record_inputs, module, args, kwargs, is_root)

    def _record_inputs(self, module: nn.Module, args: Any, kwargs: Any, is_root: bool) -> None:
        self._record_given(module, [*tensors_in(args, is_root), *tensors_in(kwargs, is_root)], is_root)

    def _record_given(self, module: nn.Module, given: list[tuple[str, Tensor]], is_root: bool) -> None:
        if is_root:
            self.facts.model_called()
            self.hook_parameters()
            self.n_inputs += len(given)
            self.tensors.selection.infer_batch_size(tensor for _, tensor in given)
        address = self._models.modules[id(module)][1][0]
        # Inputs arrive before the call is counted, which happens when the module returns.
        pass_ = self.tensors.n_passes(address) + 1
        step_pass = self.tensors.step_pass(address) + 1
        role = "input" if is_root else "value"
        for path, tensor in given:
            key = TensorKey(f"{address}@in.{path}", address, pass_, self.tensors.iteration, role, step_pass=step_pass)
            layout = self._layout(key, tensor, None, path)
            if is_root:
                self.tensors.selection.use_layout(layout)
            self._record(tensor, key, layout=layout)

    def _on_result(self, module: nn.Module, result: Any) -> None:
        if self._is_in_step():
            self._models.has_run = True
            self._guard(self._record_results, module, result)

    def _record_results(self, module: nn.Module, result: Any) -> None:
        results = tensors_in(result, id(module) in self._models.roots)
        self._record_outputs(module, results, is_recomputed=in_backward())

    def _record_outputs(self, module: nn.Module, results: list[tuple[str, Tensor]], *, is_recomputed: bool) -> None:
        address, *others = self._models.modules[id(module)][1]
        is_root = id(module) in self._models.roots
        if is_recomputed:
            self._record_recomputed(address, results)
            return
        pass_ = self.tensors.next_pass(address)
        step_pass = self.tensors.step_pass(address)
        for path, tensor in results:
            end = f"@out.{path}" if path else ""
            key = TensorKey(address + end, address, pass_, self.tensors.iteration, "value", step_pass=step_pass)
            names = [f"{other}{end}" for other in others]
            layout = self._layout(key, tensor, module, path)
            record = self._record(tensor, key, names, is_result=is_root, layout=layout)
            if record is not None and is_root and tensor.dim() == 0 and tensor.requires_grad:
                self.may_be_loss(loss_node(tensor), record)
        if is_root:
            self.on_return()

    def _layout(self, key: TensorKey, tensor: Tensor, module: nn.Module | None, path: str) -> UnitLayout | None:
        """Unit and sample dimensions of a tensor, as far as they are known now."""
        units, batch_size = self._units, self.tensors.selection.batch_size
        layout = units.find(key.base, key.step_pass, tensor, batch_size if units.is_traced else None)
        if layout is None and self.tensors.pending is None and not units.is_traced:
            if module is not None:
                layout = units.from_module(module, path, tensor, batch_size)
            else:
                layout = units.with_samples(None, tensor, units.batch_dim or 0, batch_size)
        return layout if self.tensors.pending is not None else units.with_stated_units(key.base, layout, tensor)

    def _record(
        self,
        tensor: Tensor,
        key: TensorKey,
        others: Iterable[str] = (),
        *,
        is_result: bool = False,
        layout: UnitLayout | None = None,
    ) -> RecordedTensor | None:
        if not self._filter.covers(key.base, key.pass_) or is_transformed(tensor):
            return None
        record, is_new = self.tensors.add(tensor, key, others, layout=layout)
        if is_new:
            self.hook_gradient(tensor, record)
        if self.autograd is not None:
            self.autograd.note(record, tensor, is_result=is_result)
        return record

    def may_be_loss(self, node: LossNode | None, record: RecordedTensor) -> None:
        """Note a tensor that is a loss if the step calls `backward()` on it, before or after this call."""
        self._may_be_losses.append((record, node))

    def mark_losses(self) -> None:
        """Give the losses their role, at the end of the step."""
        losses = self.gradients.calls.losses
        for record, node in self._may_be_losses:
            if node in losses and record.key.role == "value":
                self.tensors.rekey(record.key, replace(record.key, role="loss"))

    def parameter_and_buffer_names(self) -> dict[int, str]:
        """Names of parameters and buffers by tensor id."""
        return {id_: parameter.names[0] for id_, parameter in self._named.items()}

    def parameter_names(self) -> dict[int, str]:
        """Names of parameters by tensor id."""
        return {id_: parameter.names[0] for id_, parameter in self._named.items() if not parameter.is_buffer}

    def hook_gradient(self, tensor: Tensor, record: RecordedTensor) -> None:
        """Register a hook for the gradient of a tensor, if it can have one."""
        if self._filter.gradients and tensor.requires_grad and id(tensor) not in self._named:
            self.gradients.hook_gradient(tensor, record)

    def _record_recomputed(self, address: str, results: list[tuple[str, Tensor]]) -> None:
        """Handle a forward pass that a checkpoint runs again: only gradients that the first pass lacked are new."""
        for path, tensor in results:
            base = f"{address}@out.{path}" if path else address
            if self._filter.gradients and tensor.requires_grad and not is_transformed(tensor):
                recomputed = self.tensors.add_recomputed(tensor, base)
                if recomputed is not None:
                    self.hook_gradient(tensor, recomputed)

    # parameters

    def hook_parameters(self) -> None:
        """Register gradient hooks on parameters. Call it again for parameters that require gradients only now."""
        if self._unhooked:
            candidates, self._unhooked = self._unhooked, []
            for parameter in candidates:
                if not parameter.tensor.requires_grad:
                    self._unhooked.append(parameter)
                elif parameter.tensor.is_leaf:
                    if self._filter.gradients and self._filter.covers_parameter(parameter.names[0]):
                        self.gradients.hook_parameter(parameter.tensor, self._parameter_record(parameter))
                    else:
                        self.gradients.watch_parameter(parameter.tensor)

    def _parameter_record(self, parameter: NamedParameter) -> RecordedTensor:
        record = self._parameters.get(id(parameter.tensor))
        if record is None:
            key = TensorKey(parameter.names[0], role="buffer" if parameter.is_buffer else "parameter")
            layout = self._models.layout_of(parameter) or self._units.find(key.base, 1, parameter.tensor)
            aliases = [TensorKey(name) for name in parameter.names[1:]]
            record = RecordedTensor(key, VALUE, -1, aliases=aliases, keeps_value=False, layout=layout)
            self._parameters[id(parameter.tensor)] = record
        return record

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Optimizer pre-step hook."""
        self._guard(self._read_parameters, optimizer, args, kwargs)

    def _read_parameters(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if get_ident() != self._thread:
            return
        self.facts.before_step(optimizer)
        has_closure = has_closure_in(args, kwargs)
        parameters = self._parameters_of(optimizer)
        scale = getattr(optimizer, "grad_scale", None)
        with self.tensors.deferred():
            for parameter in parameters:
                self._read_value(parameter)
                if not has_closure:
                    self._read_gradient(parameter, scale)
        if self._filter.updates:
            self._copy_before(parameters)

    def _parameters_of(self, optimizer: Optimizer) -> list[NamedParameter]:
        tensors = (tensor for group in optimizer.param_groups for tensor in group["params"])
        parameters = [self._named[id(tensor)] for tensor in tensors if id(tensor) in self._named]
        return [parameter for parameter in parameters if self._filter.covers_parameter(parameter.names[0])]

    def _copy_before(self, parameters: list[NamedParameter]) -> None:
        trainable = [parameter for parameter in parameters if parameter.tensor.requires_grad]
        if sum(parameter.tensor.nbytes for parameter in trainable) > self._most_update_bytes:
            self._notes[_NO_UPDATES] = None
            return
        for parameter in trainable:
            self._before[id(parameter.tensor)] = local_part(parameter.tensor).clone()

    def after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Optimizer post-step hook."""
        self._guard(self._read_updates, optimizer, args, kwargs)

    def _read_updates(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if get_ident() != self._thread:
            return
        has_closure = has_closure_in(args, kwargs)
        with self.tensors.deferred():
            for parameter in self._parameters_of(optimizer):
                if has_closure:  # the optimizer has called the closure, so the gradients exist only now
                    self._read_gradient(parameter, None)
                before = self._before.pop(id(parameter.tensor), None)
                if before is not None:
                    # Into the copy: another tensor of the size of each parameter would raise the peak memory.
                    change = torch.sub(local_part(parameter.tensor), before, out=before)
                    self.tensors.add_derived(change, self._parameter_record(parameter), UPDATE)
        self.facts.after_step()

    def _read_value(self, parameter: NamedParameter) -> None:
        if id(parameter.tensor) not in self._read_ids:
            self._read_ids.add(id(parameter.tensor))
            self.tensors.add_derived(parameter.tensor.detach(), self._parameter_record(parameter), VALUE)

    def _gradient_of(self, parameter: NamedParameter) -> Tensor | None:
        is_recorded = self._filter.gradients and not parameter.is_buffer and parameter.tensor.is_leaf
        return parameter.tensor.grad if is_recorded else None

    def _read_gradient(self, parameter: NamedParameter, scale: Any) -> None:
        grad = self._gradient_of(parameter)
        if grad is not None:
            self._add_gradient(parameter, grad, scale)

    def _add_gradient(self, parameter: NamedParameter, grad: Tensor, scale: Any) -> None:
        grad = coalesce_sparse(grad.detach())
        # A fused optimizer under GradScaler unscales inside its kernel; `.grad` is still scaled here.
        if isinstance(scale, Tensor):
            grad = grad.to(torch.promote_types(grad.dtype, torch.float32)) / scale
        self.facts.gradient_read(self.tensors.add_derived(grad, self._parameter_record(parameter), GRAD))

    def read_remaining(self) -> None:
        """At the end of the step, read the parameters and gradients that no optimizer has read."""
        with self.tensors.deferred():
            for parameter in self._models.parameters:
                if self._filter.covers_parameter(parameter.names[0]):
                    if id(parameter.tensor) not in self._read_ids:
                        self._guard(self._read_value, parameter)
                    if GRAD not in self._parameter_record(parameter).n_derived:
                        self._guard(self._read_gradient, parameter, None)


class SiteFilter:
    """Decides which sites are recorded, and whether with gradients and updates."""

    def __init__(
        self, at: Iterable[Site], *, gradients: bool = True, updates: bool = True, parameters: bool = True
    ) -> None:
        self._patterns = list(at)
        self.parameters = parameters
        self.gradients = gradients
        self.updates = updates
        self.inputs = any(pattern.side == "in" for pattern in self._patterns)
        self._has_passes = any(pattern.pass_ is not None for pattern in self._patterns)
        self._decisions: dict[str, bool] = {}
        # Named tensors are recorded in any case, and may come at a later step.
        self._unmatched = [pattern for pattern in self._patterns if pattern.name is None]

    def covers_parameter(self, name: str) -> bool:
        """Whether to record a parameter or buffer."""
        return self.parameters and self.covers(name)

    def covers(self, site: str, pass_: int = 1) -> bool:
        """Whether to record a site; True for all if there are no patterns."""
        if not self._patterns:
            return True
        key = f"{site}:{pass_}" if self._has_passes and pass_ > 1 else site
        is_covered = self._decisions.get(key)
        if is_covered is None:
            parsed = Site.parse(key)
            is_covered = self._decisions[key] = any(pattern.matches(parsed) for pattern in self._patterns)
            self._unmatched = [pattern for pattern in self._unmatched if not pattern.matches(parsed)]
        return is_covered

    def may_cover(self, site: str) -> bool:
        """Whether to record any pass of a site."""
        return self._has_passes or self.covers(site)

    def check(self, op_sites: Callable[[], Iterable[str]]) -> None:
        """After a complete step, raise a `SiteError` for a pattern that has matched nothing. Raises once.

        Args:
            op_sites: returns the sites of all ops of the step; empty if it was not traced.
        """
        unmatched, self._unmatched = self._unmatched, []
        sites = list(self._decisions)
        if any(pattern.op is not None for pattern in unmatched):
            ops = list(op_sites())
            parsed = list(map(Site.parse, ops))
            unmatched = [
                pattern
                for pattern in unmatched
                if pattern.op is None or (ops and not any(pattern.matches(site) for site in parsed))
            ]
            sites = ops if unmatched and unmatched[0].op is not None else sites
        if unmatched:
            asked = str(unmatched[0])
            near = nearest_hint(asked, sites) or f" It has {plural(len(sites), 'site')}: {listed(map(repr, sites))}."
            raise SiteError(f"at={asked!r} matches no site of the first recorded step.{near}")


def has_closure_in(args: Any, kwargs: Any) -> bool:
    """Whether `optimizer.step` got a closure; `args[0]` is the optimizer itself."""
    return any(closure is not None for closure in (*args[1:], kwargs.get("closure")))


def local_part(tensor: Tensor) -> Tensor:
    """The parameter as a plain tensor; the local shard of a DTensor."""
    local: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor  # type: ignore[operator]
    return local.detach()


def is_transformed(tensor: Tensor) -> bool:
    """Whether this is a wrapper inside vmap, grad or another function transform."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1
