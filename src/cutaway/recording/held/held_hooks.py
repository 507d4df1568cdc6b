"""The hooks of a step that may be dropped: they hold what they see, and record it when the step is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cutaway.capture.arguments import tensors_in
from cutaway.core.units.layout import UnitLayout
from cutaway.recording import optimizers
from cutaway.recording.held.held_step import HeldStep, HeldTensor
from cutaway.recording.hooks.step_hooks import StepHooks, in_backward, is_transformed
from cutaway.recording.hooks.unoptimized import local_part
from cutaway.recording.models import NamedParameter
from cutaway.recording.tensors import RecordedTensor, TensorKey
from cutaway.store.format.records import GRAD, UPDATE, VALUE


class HeldHooks(StepHooks):
    """Hooks that hold tensors until `keep` or `drop`."""

    held: HeldStep
    """What is held; set before `start`."""

    @property
    def _holds(self) -> bool:
        return not self.held.is_over

    # modules

    def _record_inputs(self, module: nn.Module, args: Any, kwargs: Any, is_root: bool) -> None:
        if not self._holds:
            super()._record_inputs(module, args, kwargs, is_root)
            return
        if is_root:
            self._model_called()
        address = self._models.modules[id(module)][1][0]
        given = [*tensors_in(args, is_root), *tensors_in(kwargs, is_root)]
        tensors = [
            (path, self._hold(tensor, f"{address}@in.{path}")) for path, tensor in given if self._is_plain(tensor)
        ]
        self._add(lambda: self._record_given(module, self._usable(tensors), is_root))

    def _record_results(self, module: nn.Module, result: Any) -> None:
        if not self._holds:
            super()._record_results(module, result)
            return
        address = self._models.modules[id(module)][1][0]
        is_recomputed = in_backward()
        results = tensors_in(result, id(module) in self._models.roots)
        sites = [(path, tensor, f"{address}@out.{path}" if path else address) for path, tensor in results]
        tensors = [
            (path, self._hold(tensor, site))
            for path, tensor, site in sites
            if self._is_plain(tensor) and self._filter.may_cover(site)
        ]
        self._add(lambda: self._record_outputs(module, self._usable(tensors), is_recomputed=is_recomputed))

    def hold_named(self, site: str, tensor: Tensor, event: Callable[[Tensor], None]) -> None:
        """Hold a tensor that the user named; the event records it."""
        held = self._hold(tensor, site)

        def record() -> None:
            for _, value in self._usable([("", held)]):
                event(value)
                self.held.name_original(self.tensors.pending)

        self._add(record)

    def _is_plain(self, tensor: Tensor) -> bool:
        """Whether a tensor can be recorded; one inside a function transform cannot."""
        self.is_transformed |= (is_inner := is_transformed(tensor))
        return not is_inner

    def _hold(self, tensor: Tensor, site: str) -> HeldTensor:
        has_gradient = self._filter.gradients and tensor.requires_grad and id(tensor) not in self._named
        return self.held.hold(tensor, site, has_gradient=has_gradient)

    def _usable(self, tensors: list[tuple[str, HeldTensor]]) -> list[tuple[str, Tensor]]:
        return [(path, held.value) for path, held in tensors if self.held.usable(held)]

    def _add(self, event: Callable[[], None]) -> None:
        self.held.add(event)
        if self.held.was_full:
            self.held.pass_on()

    def _record(
        self,
        tensor: Tensor,
        key: TensorKey,
        others: Sequence[TensorKey] = (),
        *,
        is_result: bool = False,
        layout: UnitLayout | None = None,
    ) -> RecordedTensor | None:
        record = super()._record(tensor, key, others, is_result=is_result, layout=layout)
        self.held.name_original(self.tensors.pending)
        return record

    def hook_gradient(self, tensor: Tensor, record: RecordedTensor) -> None:
        """Note where the gradients of a held tensor belong; hook a tensor that is not held."""
        if not self.held.take_record(tensor, record):
            super().hook_gradient(tensor, record)

    # parameters

    def _read_unoptimized(self, root: str) -> None:
        if not self._holds:
            super()._read_unoptimized(root)
            return
        for parameter in self._unoptimized.entered(root):
            self._guard(self._hold_unoptimized, parameter)
        self.replaced = self.replaced or self._replaced_parameter()

    def _hold_unoptimized(self, parameter: NamedParameter) -> None:
        """Copy the value that the forward pass reads: no hook tells when it is overwritten."""
        if id(parameter.tensor) in self._read_ids:
            return
        self._read_ids.add(id(parameter.tensor))
        held = self.held.hold_parameter(parameter, is_still=self._unoptimized.is_still(parameter))

        def record() -> None:
            if self.held.usable(held):
                value = self.tensors.add_derived(held.value, self._parameter_record(parameter), VALUE)
                self._early.add(value)

        self._add(record)

    def _read_parameters(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not self._holds or get_ident() != self._thread:
            super()._read_parameters(optimizer, args, kwargs)
            return
        self.facts.before_step(optimizer)
        has_closure = optimizers.has_closure_in(args, kwargs)
        scale = getattr(optimizer, "grad_scale", None)
        scale = scale.detach().clone() if isinstance(scale, Tensor) else None
        for parameter in self._parameters_of(optimizer):
            self._unoptimized.give_up(parameter)
            self._hold_value(parameter)
            if not has_closure:
                self._hold_parameter_gradient(parameter, scale)

    def _hold_value(self, parameter: NamedParameter) -> None:
        """Copy a value before the optimizer overwrites it: as the value, and to compute the update."""
        if parameter.tensor.requires_grad:
            before = self._before[id(parameter.tensor)] = local_part(parameter.tensor).clone()
            self.held.count_bytes(before)
        if id(parameter.tensor) not in self._read_ids:
            self._read_ids.add(id(parameter.tensor))
            value = self._before.get(id(parameter.tensor), parameter.tensor.detach())
            self._add(partial(self._add_derived, value, parameter, VALUE))

    def _hold_parameter_gradient(self, parameter: NamedParameter, scale: Any) -> None:
        grad = self._gradient_of(parameter)
        if grad is None:
            return
        held = self.held.hold(grad, f"{parameter.names[0]}/grad", has_gradient=False)
        reads = self.facts.reads

        def record() -> None:
            if not self.held.usable(held):
                # Counted all the same: the `.grad` that is there now is another one.
                known = self._parameter_record(parameter)
                known.n_derived = {**known.n_derived, GRAD: known.n_derived.get(GRAD, 0) + 1}
                self.gradients.take_sum(known, is_needed=False)
                return
            before, self.facts.reads = self.facts.reads, reads
            self._add_gradient(parameter, held.value, scale)
            self.facts.reads = before

        self._add(record)

    def _read_updates(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not self._holds or get_ident() != self._thread:
            super()._read_updates(optimizer, args, kwargs)
            return
        has_closure = optimizers.has_closure_in(args, kwargs)
        for parameter in self._parameters_of(optimizer):
            if has_closure:
                self._hold_parameter_gradient(parameter, None)
            before = self._before.pop(id(parameter.tensor), None)
            if before is not None and self._filter.updates:
                change = torch.sub(local_part(parameter.tensor), before)
                self.held.count_bytes(change)
                self._add(partial(self._add_derived, change, parameter, UPDATE))
        self.facts.after_step()

    def _add_derived(self, tensor: Tensor, parameter: NamedParameter, of: str) -> None:
        self.tensors.add_derived(tensor, self._parameter_record(parameter), of)

    # the end

    def keep(self) -> None:
        """Record everything that is held."""
        if self._holds:
            with self.tensors.deferred():
                self.held.pass_on()

    def stop(self) -> None:
        """Remove all hooks. Idempotent."""
        super().stop()
        self.held.drop()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not recorded, and why."""
        return (*super().notes, *self.held.notes)
