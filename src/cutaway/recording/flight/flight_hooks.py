"""Hooks of a watched step: module outputs, gradients as the optimizer reads them, the loss."""

from __future__ import annotations

from collections.abc import Mapping
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cutaway.capture.arguments import tensors_in
from cutaway.recording import optimizers
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.flight.readings import Readings
from cutaway.recording.flight.settings import Flight
from cutaway.recording.hooks.backward_calls import backward_roots
from cutaway.recording.hooks.module_calls import CallWrappers
from cutaway.recording.hooks.site_filter import SiteFilter
from cutaway.recording.models import RecordedModels
from cutaway.recording.settings import parse_sites

_current_graph_task = torch._C._current_graph_task_id
_tracing_state = torch._C._get_tracing_state
_n_function_modes = torch._C._len_torch_function_stack
_n_dispatch_modes = torch._C._len_torch_dispatch_stack
_transform = torch._C._functorch.peek_interpreter_stack
BACKWARD = "backward"
"""The name of a loss that was backpropagated and not logged."""


class FlightHooks:
    """Reads one step after another: `start` installs all hooks, `stop` removes them."""

    def __init__(self, models: RecordedModels, flight: Flight, guard: ErrorGuard) -> None:
        self._models = models
        self._flight = flight
        self._guard = guard
        self._filter = SiteFilter(parse_sites(flight.at))
        self._calls: CallWrappers | None = None
        self._handles: list[Any] = []
        self._thread = 0
        self._readings = Readings()
        self._optimizer_reads = False
        """Whether an optimizer has ever read gradients: then gradients that none has read are partial sums."""
        self._names: Mapping[int, str] = {}
        self._named: Any = None
        self.has_seen = False
        """Whether a module of the models has returned in this step."""
        self.wants_roots = True
        """Whether to look for the tensors that are backpropagated: not if the program logs its loss."""

    def start(self, readings: Readings) -> None:
        """Install the hooks of one step."""
        self._thread, self._readings, self.has_seen = get_ident(), readings, False
        if self._flight.outputs or self.wants_roots:
            self._calls = CallWrappers(_ignore, self._on_result, self._guard.report)
            self._calls.start(module for module, _ in self._models.modules.values())
        if self._flight.gradients:
            if self._named is not self._models.parameters:
                self._named = self._models.parameters
                self._names = {id(each.tensor): each.names[0] for each in self._named if not each.is_buffer}
            optimizers.subscribe(self)

    def stop(self) -> None:
        """Remove all hooks. Idempotent."""
        optimizers.unsubscribe(self)
        if self._calls is not None:
            self._calls.stop()
            self._calls = None
        while self._handles:
            self._handles.pop().remove()

    def check_sites(self) -> None:
        """After a complete step, raise a `SiteError` for a pattern that has matched nothing. Raises once."""
        self._filter.check(tuple)

    # modules

    def _on_result(self, module: nn.Module, result: Any) -> None:
        # Not in other threads, nor where a checkpoint runs a module again, nor in torch.jit.trace.
        if get_ident() != self._thread or _current_graph_task() != -1 or _tracing_state() is not None:
            return
        self.has_seen = True
        # The guard costs more than the rest. It disables gradients and modes, which this tensor does not need.
        is_simple = type(result) is Tensor and result.is_cpu and id(module) not in self._models.roots
        if not is_simple or _n_function_modes() or _n_dispatch_modes() or _transform() is not None:
            self._guard(self._read_result, module, result)
        elif self._flight.outputs:
            address, *others = self._models.modules[id(module)][1]
            if self._filter.covers(address):
                self._readings.add_output(address, result, others)

    def _read_result(self, module: nn.Module, result: Any) -> None:
        address, *others = self._models.modules[id(module)][1]
        is_root = id(module) in self._models.roots
        results = tensors_in(result, is_root)
        if self._flight.outputs:
            for path, tensor in results:
                end = f"@out.{path}" if path else ""
                site = address + end
                if self._filter.covers(site) and not torch._C._functorch.is_functorch_wrapped_tensor(tensor):
                    self._readings.add_output(site, tensor, [f"{other}{end}" for other in others])
        if is_root:
            self._readings.read_gathered()
            if self.wants_roots:
                self._hook_root(results)

    def _hook_root(self, results: list[tuple[str, Tensor]]) -> None:
        """Find out what is backpropagated through the result of the model."""
        for _, tensor in results:
            if tensor.requires_grad and not torch._C._functorch.is_functorch_wrapped_tensor(tensor):
                self._handles.append(tensor.register_hook(self._on_backward))  # type: ignore[no-untyped-call]
                return

    def _on_backward(self, gradient: Tensor) -> None:
        self._guard(self._read_roots)

    def _read_roots(self) -> None:
        roots = [root for root in backward_roots(self._thread) if isinstance(root, Tensor) and root.numel() == 1]
        for root in roots[:1]:
            self._readings.add_loss(BACKWARD, root)

    # optimizers

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Optimizer pre-step hook."""
        self._guard(self._on_step, optimizer, args, kwargs, False)

    def after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Optimizer post-step hook."""
        self._guard(self._on_step, optimizer, args, kwargs, True)

    def _on_step(self, optimizer: Optimizer, args: Any, kwargs: Any, is_after: bool) -> None:
        # A closure computes the gradients inside the step.
        if get_ident() == self._thread and optimizers.has_closure_in(args, kwargs) == is_after:
            self._read_gradients(optimizer)

    def _read_gradients(self, optimizer: Optimizer) -> None:
        tensors = (tensor for group in optimizer.param_groups for tensor in group["params"])
        names = self._names
        pairs = [(names[id(each)], each.grad) for each in tensors if id(each) in names and each.grad is not None]
        if pairs:
            self._optimizer_reads = True
            amp = (getattr(optimizer, name, None) for name in ("grad_scale", "found_inf"))
            scale, found_inf = (value if isinstance(value, Tensor) else None for value in amp)
            names_, gradients = [name for name, _ in pairs], [gradient for _, gradient in pairs]
            self._readings.add_gradients(names_, gradients, scale, found_inf)

    def read_remaining(self) -> None:
        """At the end of the step, read the gradients if the program uses no optimizer of torch."""
        if self._flight.gradients and not self._optimizer_reads:
            pairs = [
                (each.names[0], each.tensor.grad)
                for each in self._models.parameters
                if not each.is_buffer and each.tensor.is_leaf and each.tensor.grad is not None
            ]
            if pairs:
                self._readings.add_gradients([name for name, _ in pairs], [gradient for _, gradient in pairs])


def _ignore(module: nn.Module, args: Any, kwargs: Any) -> None:
    """The call of a module, of which only the result counts."""
