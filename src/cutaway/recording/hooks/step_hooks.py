"""Hooks of one recorded step: module outputs, gradients, optimizer reads and parameter updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cutaway.capture.arguments import tensors_in
from cutaway.core.units.layout import UnitLayout
from cutaway.recording import optimizers
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.facts.collector import StepFacts
from cutaway.recording.facts.losses import LossNode, loss_node
from cutaway.recording.hooks.autograd_graph import AutogradGraph
from cutaway.recording.hooks.gradients import Gradients, coalesce_sparse
from cutaway.recording.hooks.module_calls import CallWrappers
from cutaway.recording.hooks.site_filter import SiteFilter
from cutaway.recording.hooks.unoptimized import UnoptimizedTensors, flags, local_part
from cutaway.recording.hooks.updates import PLAIN, change_of, changes_of, copies_of
from cutaway.recording.models import NamedParameter, RecordedModels
from cutaway.recording.recorded_units import RecordedUnits
from cutaway.recording.tensors import RecordedTensor, StepTensors, TensorKey
from cutaway.store.format.records import GRAD, UPDATE, VALUE

_NO_UPDATES = "updates were not recorded: the copy they need is larger than most_update_bytes"


def nothing() -> None:
    """A callback that does nothing."""


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
        self.on_return: Callable[[], None] = nothing
        """Callback: a model has returned."""
        self._models = models
        self._filter = site_filter
        self._guard = guard
        self._most_update_bytes = most_update_bytes
        self._thread = get_ident()
        self._calls = CallWrappers(self._on_call, self._on_result, guard.report)
        self._named = models.parameter_of
        self._parameters: dict[int, RecordedTensor] = {}
        """Parameter id → its record, to which gradients and updates are added."""
        self._unhooked = [parameter for parameter in models.parameters if not parameter.is_buffer]
        """Parameters without a gradient hook so far."""
        self.gradients = Gradients(tensors, guard, most_bytes=most_update_bytes)
        self.facts = StepFacts(models, guard)
        self.gradients.calls.on_backward = self.facts.backward_began
        self.gradients.on_first = self.facts.gradient_arrives
        covered = self._covered()
        most = most_update_bytes if site_filter.updates else 0
        self._unoptimized = UnoptimizedTensors(models, covered, most_bytes=most)
        self._optimized: set[int] = set()
        """Ids of the parameters that an optimizer steps in this step."""
        self.changed: set[int] = set()
        """Ids of the parameters and buffers that were changed without an optimizer, known at the end."""
        self._early: set[RecordedTensor] = set()
        """Records of parameters and buffers that were read before the model ran."""
        self._unentered = set(models.roots.values())
        """Addresses of the models of which no module was called so far."""
        self.first_called: dict[str, str] = {}
        """Address of a model that was not called itself → its first module that was."""
        self.replaced = ""
        """Name of the first parameter that was found replaced while its module ran."""
        self.is_transformed = False
        """Whether a module ran inside torch.func.grad, vmap or another function transform."""
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
        note = self._unoptimized.note
        return (*self._notes, *self.gradients.notes, *self.tensors.notes, *([note] if note else []))

    # start and stop

    def start(self) -> None:
        """Install all hooks."""
        self._calls.start(module for module, _ in self._models.modules.values())
        optimizers.subscribe(self)
        self._guard(self._unoptimized.start)
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
        self._unoptimized.stop()

    # modules

    def _is_in_step(self) -> bool:
        """Whether the current call belongs to the step: yes in its own thread and in threads of the backward pass."""
        # torch.jit.trace calls the modules as well, which is no forward pass of the step.
        return (get_ident() == self._thread or in_backward()) and torch._C._get_tracing_state() is None

    def _on_call(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        is_root = id(module) in self._models.roots
        if (is_root or self._filter.inputs or self._unentered) and self._is_in_step() and not in_backward():
            root = self._models.root_of.get(id(module), "")
            is_first = root in self._unentered
            if is_first:
                self._unentered.discard(root)
                self._guard(self._read_unoptimized, root)
                if not is_root:
                    self.first_called[root] = self._models.modules[id(module)][1][0]
            if is_root or is_first or self._filter.inputs:
                # A model that is not called itself, but by its methods, has the inputs of its first module.
                self._guard(self._record_inputs, module, args, kwargs, is_root or is_first)
            if is_root:
                self.first_called.pop(root, None)

    def _record_inputs(self, module: nn.Module, args: Any, kwargs: Any, is_root: bool) -> None:
        if is_root:
            self._model_called()
        self._record_given(module, [*tensors_in(args, is_root), *tensors_in(kwargs, is_root)], is_root)

    def _model_called(self) -> None:
        self.facts.model_called()
        self.hook_parameters()

    def _record_given(self, module: nn.Module, given: list[tuple[str, Tensor]], is_root: bool) -> None:
        if is_root:
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
        addresses = self._models.modules[id(module)][1]
        is_root = id(module) in self._models.roots
        if is_recomputed:
            self._record_recomputed(addresses[0], results)
            return
        tensors = self.tensors
        pass_, step_pass = tensors.next_pass(addresses[0])
        for path, tensor in results:
            key, *others = output_keys(addresses, path, pass_, tensors.iteration, step_pass)
            layout = self._layout(key, tensor, module, path)
            record = self._record(tensor, key, others, is_result=is_root, layout=layout)
            if record is not None and is_root and tensor.dim() == 0 and tensor.requires_grad:
                self.may_be_loss(loss_node(tensor), record)
        if is_root:
            self.on_return()
            self.tensors.summary.flush()

    def layout_of(self, key: TensorKey, tensor: Tensor) -> UnitLayout | None:
        """Unit and sample dimensions of a recorded tensor, as far as they are known now."""
        address, _, path = key.base.partition("@out.")
        return self._layout(key, tensor, self._models.named.get(address), path)

    def _layout(self, key: TensorKey, tensor: Tensor, module: nn.Module | None, path: str) -> UnitLayout | None:
        """Unit and sample dimensions of a tensor, as far as they are known now."""
        units, selection = self._units, self.tensors.selection
        batch_size = selection.batch_size
        layout = units.find(key.base, key.step_pass, tensor, batch_size if units.is_traced else None)
        if layout is None and self.tensors.pending is None and not units.is_traced:
            if module is not None:
                layout = units.from_module(module, path, tensor, selection)
            else:
                layout = units.with_samples(None, tensor, selection.batch_dim, batch_size)
        return layout if self.tensors.pending is not None else units.with_stated_units(key.base, layout, tensor)

    def _record(
        self,
        tensor: Tensor,
        key: TensorKey,
        others: Sequence[TensorKey] = (),
        *,
        is_result: bool = False,
        layout: UnitLayout | None = None,
    ) -> RecordedTensor | None:
        if is_transformed(tensor):
            self.is_transformed = True
            return None
        if not self._filter.covers(key.base, key.pass_):
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
                self.tensors.rekey(record.key, record.key._replace(role="loss"))

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
                    self._hook_leaf(parameter)

    def _covered(self) -> list[NamedParameter]:
        """The parameters and buffers to record."""
        parameters, site_filter = self._models.parameters, self._filter
        if site_filter.covers_all_parameters:
            return parameters
        return [each for each in parameters if site_filter.covers_parameter(each.names[0])]

    def _hook_leaf(self, parameter: NamedParameter) -> None:
        if self._filter.gradients and self._filter.covers_parameter(parameter.names[0]):
            is_summed = self._unoptimized.is_summed(parameter)
            self.gradients.hook_parameter(parameter.tensor, self._parameter_record(parameter), is_summed=is_summed)
        else:
            self.gradients.watch_parameter(parameter.tensor)

    def _parameter_record(self, parameter: NamedParameter) -> RecordedTensor:
        record = self._parameters.get(id(parameter.tensor))
        if record is None:
            key, *aliases = parameter_keys(parameter.names, parameter.is_buffer)
            layout = self._models.layout_of(parameter) or self._units.find(key.base, 1, parameter.tensor)
            record = RecordedTensor(key, VALUE, -1, aliases=tuple(aliases), keeps_value=False, layout=layout)
            self._parameters[id(parameter.tensor)] = record
        return record

    def _read_unoptimized(self, root: str) -> None:
        """At the first call of a model, read the tensors that no optimizer may read later."""
        n_before = len(self.tensors.records)
        with self.tensors.deferred():
            for parameter in self._unoptimized.entered(root):
                self._read_value(parameter)
        self._early.update(self.tensors.records[n_before:])
        self.replaced = self.replaced or self._replaced_parameter()

    def _replaced_parameter(self) -> str:
        """The name of a parameter in whose place its module holds another tensor now; "" if there is none."""
        named = self._named
        for module, addresses in self._models.modules.values():
            for name, tensor in module._parameters.items():
                if tensor is not None and id(tensor) not in named:
                    full = name if addresses[0] == "." else f"{addresses[0]}.{name}"
                    if any(full in parameter.names for parameter in self._models.parameters):
                        return full
        return ""

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Optimizer pre-step hook."""
        self._guard(self._read_parameters, optimizer, args, kwargs)

    def _read_parameters(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if get_ident() != self._thread:
            return
        self.facts.before_step(optimizer)
        has_closure = optimizers.has_closure_in(args, kwargs)
        parameters = self._parameters_of(optimizer)
        scale = getattr(optimizer, "grad_scale", None)
        with self.tensors.deferred():
            for parameter in parameters:
                self._read_value(parameter)
                if not has_closure:
                    self._read_gradient(parameter, scale)
        given_up = [(parameter, self._unoptimized.give_up(parameter)) for parameter in parameters]
        if self._filter.updates:
            memory = {id(parameter.tensor): copy for parameter, copy in given_up if copy is not None}
            self._copy_before(parameters, memory)

    def _parameters_of(self, optimizer: Optimizer) -> list[NamedParameter]:
        named = self._named
        ids = [id(tensor) for group in optimizer.param_groups for tensor in group["params"] if id(tensor) in named]
        self._optimized.update(ids)
        parameters = [named[id_] for id_ in ids]
        if self._filter.covers_all_parameters:
            return parameters
        return [parameter for parameter in parameters if self._filter.covers_parameter(parameter.names[0])]

    def _copy_before(self, parameters: list[NamedParameter], memory: Mapping[int, Tensor]) -> None:
        trainable = [parameter for parameter in parameters if parameter.tensor.requires_grad]
        if sum([parameter.tensor.nbytes for parameter in trainable]) > self._most_update_bytes:
            self._notes[_NO_UPDATES] = None
        else:
            self._before.update(copies_of(trainable, memory))

    def after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Optimizer post-step hook."""
        self._guard(self._read_updates, optimizer, args, kwargs)

    def _read_updates(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if get_ident() != self._thread:
            return
        has_closure = optimizers.has_closure_in(args, kwargs)
        parameters = self._parameters_of(optimizer)
        changes = changes_of(parameters, self._before)
        with self.tensors.deferred():
            for parameter in parameters:
                if has_closure:  # the optimizer has called the closure, so the gradients exist only now
                    self._read_gradient(parameter, None)
                before = self._before.pop(id(parameter.tensor), None)
                if before is not None:
                    change = changes.get(id(parameter.tensor))
                    change = change_of(parameter, before) if change is None else change
                    self.tensors.add_derived(change, self._parameter_record(parameter), UPDATE)
        self.facts.after_step()

    def _read_value(self, parameter: NamedParameter, value: Tensor | None = None) -> None:
        if id(parameter.tensor) not in self._read_ids:
            self._read_ids.add(id(parameter.tensor))
            if value is None:
                value = parameter.tensor if type(parameter.tensor) in PLAIN else parameter.tensor.detach()
            self.tensors.add_derived(value, self._parameter_record(parameter), VALUE)

    def _gradient_of(self, parameter: NamedParameter) -> Tensor | None:
        is_recorded = self._filter.gradients and not parameter.is_buffer and parameter.tensor.is_leaf
        return parameter.tensor.grad if is_recorded else None

    def _read_gradient(self, parameter: NamedParameter, scale: Any) -> None:
        grad = self._gradient_of(parameter)
        if grad is not None:
            self._add_gradient(parameter, grad, scale)

    def _add_gradient(self, parameter: NamedParameter, grad: Tensor, scale: Any) -> None:
        grad = coalesce_sparse(grad.detach() if grad.requires_grad else grad)
        # A fused optimizer under GradScaler unscales inside its kernel; `.grad` is still scaled here.
        if isinstance(scale, Tensor):
            grad = grad.to(torch.promote_types(grad.dtype, torch.float32)) / scale
        record = self._parameter_record(parameter)
        self.gradients.take_sum(record, is_needed=False)
        self.facts.gradient_read(self.tensors.add_derived(grad, record, GRAD))

    def read_remaining(self) -> None:
        """At the end of the step, read the parameters and gradients that no optimizer has read."""
        covered = self._covered()
        with self.tensors.deferred():
            for parameter in covered:
                if id(parameter.tensor) not in self._read_ids:
                    self._guard(self._read_value, parameter, self._unoptimized.value(parameter))
        self.tensors.move_last(self._early)
        changed = self._unoptimized.changed() if self._filter.updates else []
        self.changed = {id(parameter.tensor) for parameter in changed}
        self._read_remaining_gradients(covered)
        with self.tensors.deferred():
            for parameter in changed:
                self._guard(self._read_change, parameter)

    def _read_remaining_gradients(self, parameters: list[NamedParameter]) -> None:
        known = self._parameters
        unread = [
            each for each in parameters if id(each.tensor) not in known or GRAD not in known[id(each.tensor)].n_derived
        ]
        # `p.grad = None` or `p.grad.zero_()` after a manual update: the sum of what arrived is the gradient.
        updated = [each for each in unread if id(each.tensor) in self.changed & self.gradients.reached]
        filled = [each for each in updated if each.tensor.grad is not None and not each.tensor.grad.is_sparse]
        is_filled = flags([_any(each.tensor.grad) for each in filled])
        emptied = {id(each.tensor) for each in updated} - {
            id(each.tensor) for each, is_on in zip(filled, is_filled, strict=True) if is_on
        }
        with self.tensors.deferred():
            for parameter in unread:
                is_needed, record = id(parameter.tensor) in emptied, self._parameter_record(parameter)
                total = self.gradients.take_sum(record, is_needed=is_needed)
                if not is_needed:
                    self._guard(self._read_gradient, parameter, None)
                elif total is not None:
                    self.tensors.add_derived(coalesce_sparse(total), record, GRAD)

    def _read_change(self, parameter: NamedParameter) -> None:
        change = self._unoptimized.update(parameter)
        if change is not None:
            self.tensors.add_derived(change, self._parameter_record(parameter), UPDATE)

    @property
    def has_seen_call(self) -> bool:
        """Whether a module of any model was called in the step."""
        return len(self._unentered) < len(self._models.roots)

    @property
    def has_optimizer_step(self) -> bool:
        """Whether an optimizer stepped parameters of the models."""
        return bool(self._optimized)

    def note_optimized(self) -> None:
        """After a complete step, remember which parameters optimizers step: later steps need no copies of them."""
        self._models.optimized = (self._models.optimized or set()) | self._optimized


@lru_cache(1 << 15)
def output_keys(
    addresses: tuple[str, ...], path: str, pass_: int, iteration: int, step_pass: int
) -> tuple[TensorKey, ...]:
    """The keys of a module output, one for each address of the module. Cached: they are the same at every step.

    Args:
        path: where in the module's result the tensor is; "" if it is the result.
        pass_: the pass within the iteration.
        step_pass: the pass within the step.
    """
    end = f"@out.{path}" if path else ""
    first = addresses[0]
    return tuple(
        TensorKey(address + end, first, pass_, iteration, "value", step_pass=step_pass) for address in addresses
    )


@lru_cache(1 << 15)
def parameter_keys(names: tuple[str, ...], is_buffer: bool) -> tuple[TensorKey, ...]:
    """The keys of a parameter or buffer, one for each of its names. Cached: they are the same at every step."""
    first = TensorKey(names[0], role="buffer" if is_buffer else "parameter")
    return (first, *map(TensorKey, names[1:]))


def _any(grad: Any) -> Tensor:
    """Whether a gradient has an element that is not 0, as a tensor."""
    return local_part(grad).any()


def is_transformed(tensor: Tensor) -> bool:
    """Whether this is a wrapper inside vmap, grad or another function transform."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1
