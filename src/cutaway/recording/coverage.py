"""What a run should have shown and did not: models that run unseen, steps that were forgotten, unregistered layers.

Each finding is reported once. A mistake in the program is reported as such, with a warning; what cannot be recorded in
this way of training gets a note in the run.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from cutaway.capture.tensors.aliasing import version_of
from cutaway.core.formatting import listed, plural
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.hooks.module_calls import CallWrappers
from cutaway.recording.hooks.step_hooks import StepHooks
from cutaway.recording.models import RecordedModels
from cutaway.recording.usage import NOT_SEEN, OPTIMIZER_OUTSIDE, step_forgotten, unregistered_layers

_N_CHECKED = 3
"""Number of training steps that are checked: modules that run unseen do so from the first step on."""
_N_FORGOTTEN = 300
"""Number of forward passes outside all steps after which a forgotten `run.step()` is reported."""


class Coverage:
    """Checks recorded steps for what they do not show.

    Args:
        models: the recorded models.
        guard: reports mistakes.
    """

    def __init__(self, models: RecordedModels, guard: ErrorGuard) -> None:
        self._models = models
        self._guard = guard
        self._n_checked = 0
        self._inspected: Any = None
        self.versions: dict[int, int | None] = {}
        """Parameter id → its version counter at the end of a step that has not updated it, until the next begins."""
        self.is_unseen = False
        """Whether it was reported that a model trains unseen."""

    def check(self, hooks: StepHooks) -> Iterator[str]:
        """After a complete step, report the mistakes in it. Yields notes about what it does not show."""
        if self._inspected is not self._models.parameters:
            self._inspected = self._models.parameters
            hidden = layers_in_containers(self._models.named.values())
            if hidden:
                self._guard.report(unregistered_layers(hidden))
        for root, address in hooks.first_called.items():
            model = "the model" if root == "." else f"the model {root!r}"
            yield (
                f"{model} was not called itself, but through its methods (forward, encode, …), so it has no inputs and "
                f"outputs of its own: the inputs of {address!r}, its first module that ran, are recorded instead"
            )
        if hooks.is_transformed:
            yield (
                "modules ran inside a transform of torch.func (grad, vmap, jvp…), where their outputs cannot be "
                "recorded: use loss.backward() or torch.autograd.grad to see them"
            )
        if hooks.replaced:
            yield (
                f"the model ran with another tensor in place of {hooks.replaced!r} (torch.func.functional_call): the "
                "parameters of the model itself are recorded, without gradients and updates of what replaced them; "
                "record those with run.tensor(name, tensor, role='parameter')"
            )
        trained = hooks.gradients.reached | hooks.changed
        if trained and self._n_checked < _N_CHECKED:
            self._n_checked += 1
            yield from self._unseen(hooks, trained)
        self._watch_versions(hooks)

    def _unseen(self, hooks: StepHooks, trained: set[int]) -> Iterator[str]:
        """Models and modules whose parameters are trained, but whose calls were not seen."""
        models = self._models
        owners = [each.names[0].rpartition(".")[0] or "." for each in models.parameters if id(each.tensor) in trained]
        if not hooks.has_seen_call:
            self.is_unseen = True
            self._guard.report(NOT_SEEN)
            return
        unseen = [
            address
            for address in dict.fromkeys(owners)
            if address in models.named
            and id(models.named[address]) not in models.roots
            and not hooks.tensors.step_pass(models.first_address(address))
            and not _is_read_by_parent(models, address)
        ]
        if unseen:
            reason = (
                "torch.compile runs them as one program, which shows its inputs and outputs alone: train without it, "
                "at least for some steps, to see them"
                if models.may_run_compiled
                else "they were not called as modules, but through forward(), or only their parameters were used"
            )
            modules, have = plural(len(unseen), "module"), "has" if len(unseen) == 1 else "have"
            names = listed(map(repr, unseen))
            yield f"{modules} got gradients but {have} no recorded outputs ({names}): {reason}"

    # between steps

    def _watch_versions(self, hooks: StepHooks) -> None:
        """If gradients came but no update, the update may come between this step and the next."""
        reached = hooks.gradients.reached
        is_updated = hooks.has_optimizer_step or not hooks.changed.isdisjoint(reached)
        tensors = [each.tensor for each in self._models.parameters if id(each.tensor) in reached]
        self.versions = {} if is_updated else {id(tensor): version_of(tensor) for tensor in tensors}

    def check_between(self) -> None:
        """At the start of a step, report parameters that were updated since the last one ended."""
        versions, self.versions = self.versions, {}
        tensors = [each.tensor for each in self._models.parameters if id(each.tensor) in versions]
        if any(version_of(tensor) != versions[id(tensor)] for tensor in tensors):
            self._guard.report(OPTIMIZER_OUTSIDE)


class ForwardCounter:
    """Counts forward passes until the first step begins, and reports a forgotten `run.step()` after some hundreds.

    Args:
        modules: the recorded models.
        guard: reports the mistake.
    """

    def __init__(self, modules: Iterable[nn.Module], guard: ErrorGuard) -> None:
        self._n = 0
        self.has_reported = False
        # Weak: the model must not keep alive a recorder that the program has dropped.
        self._guard = weakref.ref(guard)
        self._calls = CallWrappers(self._on_call, lambda module, result: None, guard.report)
        self._calls.start(modules)

    def _on_call(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        # Without gradients it is an evaluation, which a program may well run before the training begins.
        if torch.is_grad_enabled():
            self._n += 1
            if self._n >= _N_FORGOTTEN:
                self.stop()
                self.has_reported = True
                guard = self._guard()
                if guard is not None:
                    guard.report(step_forgotten(self._n))

    def stop(self) -> None:
        """Stop counting. Idempotent."""
        self._calls.stop()


def layers_in_containers(modules: Iterable[nn.Module]) -> list[str]:
    """Attributes that hold trainable layers in a plain list, tuple or dict, where torch does not register them.

    >>> model = nn.Module()
    >>> model.layers = [nn.Linear(2, 2)]
    >>> layers_in_containers([model])
    ['Module.layers']
    """
    registered = {id(module): module for module in modules}
    return [
        f"{type(module).__name__}.{name}"
        for module in registered.values()
        for name, value in module.__dict__.items()
        if name != "_modules"
        and any(id(inner) not in registered and _is_trainable(inner) for inner in _modules_in(value))
    ]


def _modules_in(value: Any) -> list[nn.Module]:
    """The modules directly in a plain container."""
    if type(value) in (list, tuple):
        entries = value
    elif type(value) is dict:
        entries = value.values()
    else:
        return []
    return [entry for entry in entries if isinstance(entry, nn.Module)]


def _is_trainable(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def _is_read_by_parent(models: RecordedModels, address: str) -> bool:
    """Whether torch itself reads the parameters of a layer without calling it: the output projection of attention."""
    parent = models.named.get(address.rpartition(".")[0])
    return isinstance(parent, nn.MultiheadAttention)
