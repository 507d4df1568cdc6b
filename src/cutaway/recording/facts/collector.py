"""Collects the facts of one recorded step: optimizer groups, modes, backward calls, skipped steps, clipping.

Everything is read when it counts: learning rates when the optimizer steps, modes when the model is called. Numbers that
may be on a GPU stay there until the step is written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from cutaway.recording.environment import to_plain
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.facts import training_calls
from cutaway.recording.facts.tables import FactTables
from cutaway.recording.models import RecordedModels
from cutaway.recording.tensors import RecordedTensor
from cutaway.store.format.frames import Plain

GROUPS = "optimizer"
MODES = "modes"
"""Kinds of documents: `optimizer/<hash>`, `modes/<hash>`."""


@dataclass(slots=True)
class OptimizerStepFacts:
    """One step of an optimizer, or one that the scaler skipped."""

    optimizer: Optimizer
    options: list[dict[str, Any]]
    """The options of each group at the time of the step."""
    gradients: list[RecordedTensor] = field(default_factory=list)
    n_gradients: int = 0
    """How many of its parameters had a gradient, recorded or not."""
    is_skipped: bool | Tensor = False


class StepFacts:
    """The facts of one step.

    Args:
        models: the recorded model or models.
        guard: runs everything that may fail.
    """

    def __init__(self, models: RecordedModels, guard: ErrorGuard) -> None:
        self._models = models
        self._guard = guard
        self._thread = get_ident()
        self._modes: tuple[tuple[bool, ...], tuple[bool, ...]] | None = None
        self._has_other_modes = False
        self._steps: list[OptimizerStepFacts] = []
        self.reads: OptimizerStepFacts | None = None
        """The optimizer step whose gradients are being read."""
        self._n_stepped: dict[int, int] = {}
        self._n_before_scaler = 0
        self._clippings: list[list[Any]] = []
        self._earlier: Tensor | bool | None = None
        self._is_pending = False

    def start(self) -> None:
        """Subscribe to the calls of the training."""
        training_calls.subscribe(self)

    def stop(self) -> None:
        """Unsubscribe. Idempotent."""
        training_calls.unsubscribe(self)

    # the model

    def model_called(self) -> None:
        """Read the modes of all modules and the `requires_grad` of all parameters."""
        modes = (
            tuple([module.training for module, _ in self._models.modules.values()]),
            tuple([parameter.tensor.requires_grad for parameter in self._models.parameters]),
        )
        if self._modes is None:
            self._modes = modes
        elif modes != self._modes:
            self._has_other_modes = True

    # the backward pass

    def backward_began(self) -> None:
        """A `backward()` call has computed its first gradient."""
        self._is_pending = True

    def gradient_arrives(self, parameter: Tensor) -> None:
        """The first gradient of the step arrives at a parameter: note whether it is added to an earlier one."""
        grad = parameter.grad
        if grad is None or grad.layout is not torch.strided:
            self._earlier = False
        else:
            self._earlier = grad.detach().ne(0).any()

    # optimizers

    def before_step(self, optimizer: Optimizer) -> None:
        """An optimizer is about to step: read its options."""
        step = self._add_step(optimizer)
        step.n_gradients = sum(p.grad is not None for group in optimizer.param_groups for p in group["params"])
        found_inf = getattr(optimizer, "found_inf", None)  # a fused optimizer decides in its kernel whether to skip
        if isinstance(found_inf, Tensor):
            step.is_skipped = found_inf.detach().clone()
        self.reads = step
        self._n_stepped[id(optimizer)] = self._n_stepped.get(id(optimizer), 0) + 1

    def gradient_read(self, gradient: RecordedTensor) -> None:
        """The gradient of a parameter was recorded as the optimizer reads it."""
        if self.reads is not None:
            self.reads.gradients.append(gradient)

    def after_step(self) -> None:
        """The optimizer has stepped."""
        self.reads = None
        self._is_pending = False

    def _add_step(self, optimizer: Optimizer) -> OptimizerStepFacts:
        options = [
            {name: _copied(value) for name, value in group.items() if name != "params"}
            for group in optimizer.param_groups
        ]
        self._steps.append(OptimizerStepFacts(optimizer, options))
        return self._steps[-1]

    def scaler_begins(self, optimizer: Any) -> None:
        """Callback of `training_calls`."""
        if get_ident() == self._thread:
            self._n_before_scaler = self._n_stepped.get(id(optimizer), 0)

    def scaler_ends(self, optimizer: Any) -> None:
        """Callback of `training_calls`."""
        if get_ident() == self._thread and self._n_stepped.get(id(optimizer), 0) == self._n_before_scaler:
            self._guard(self._skip, optimizer)

    def _skip(self, optimizer: Optimizer) -> None:
        self._is_pending = False
        if isinstance(optimizer, Optimizer):
            self._add_step(optimizer).is_skipped = True

    # clipping

    def clipped_norm(self, norm: Any, limit: Any, norm_type: Any) -> None:
        """Callback of `training_calls`."""
        if get_ident() == self._thread:
            self._guard(self._clip, "norm", norm, limit, norm_type)

    def clips_value(self, parameters: list[Any], limit: Any) -> None:
        """Callback of `training_calls`."""
        if get_ident() == self._thread:
            self._guard(self._clip_value, parameters, limit)

    def _clip_value(self, parameters: list[Any], limit: Any) -> None:
        grads = [parameter.grad.detach() for parameter in parameters if parameter.grad is not None]
        # Unlike clip_grad_norm_, it computes no norm.
        norm = torch.nn.utils.get_total_norm(grads) if grads else torch.tensor(0.0, device="cpu")
        self._clip("value", norm, limit, 2.0)

    def _clip(self, method: str, norm: Any, limit: Any, norm_type: Any) -> None:
        # The norm of distributed gradients is a DTensor: reading it would communicate with the other ranks.
        known = None if hasattr(norm, "to_local") else _copied(norm)
        self._clippings.append([method, _copied(limit), float(norm_type), known])

    # writing

    def plain(
        self, tables: FactTables, matrix: NDArray[np.floating[Any]], names: Sequence[str], n_backward: int | None
    ) -> dict[str, Plain]:
        """The facts as plain data for the record of the step; tables that are new are written.

        Args:
            n_backward: the number of `backward()` calls; None if unknown.
            matrix: the statistics of the step, by the numbers of recorded tensors.
            names: the columns of the matrix.
        """
        if self._modes is None:
            self.model_called()
        facts: dict[str, Plain] = {"modes": self._modes_table(tables), "n_backward": n_backward}
        if self._has_other_modes:
            facts["has_other_modes"] = True
        if self._earlier is not None and bool(self._earlier):
            facts["is_continued"] = True
        if self._is_pending:
            facts["is_partial"] = True
        norms = matrix[:, names.index("norm")] if "norm" in names else None
        if self._steps:
            facts["optimizer_steps"] = [self._step_facts(step, tables, norms) for step in self._steps]
        if self._clippings:
            facts["clippings"] = [
                [method, float(limit), norm_type, None if norm is None else float(norm)]
                for method, limit, norm_type, norm in self._clippings
            ]
        return facts

    def _modes_table(self, tables: FactTables) -> str:
        assert self._modes is not None
        modes = self._modes
        return tables.remember((self._models.n_changes, modes), lambda: self._write_modes(tables, *modes))

    def _write_modes(self, tables: FactTables, training: tuple[bool, ...], requires_grad: tuple[bool, ...]) -> str:
        modules = [addresses[0] for _, addresses in self._models.modules.values()]
        parameters = zip(self._models.parameters, requires_grad, strict=True)
        content: dict[str, Plain] = {
            "eval": [name for name, is_on in zip(modules, training, strict=True) if not is_on],
            "frozen": [each.names[0] for each, is_on in parameters if not is_on and not each.is_buffer],
        }
        return tables.write(MODES, content)

    def _step_facts(
        self, step: OptimizerStepFacts, tables: FactTables, norms: NDArray[np.floating[Any]] | None
    ) -> dict[str, Plain]:
        options = [{name: to_plain(value) for name, value in group.items()} for group in step.options]
        ids = tuple([tuple(map(id, group["params"])) for group in step.optimizer.param_groups])
        state = (self._models.n_changes, type(step.optimizer), ids)
        digest, first = tables.remember(state, lambda: self._write_groups(tables, step.optimizer, options))
        facts: dict[str, Plain] = {"groups": digest}
        changed: list[Plain] = [
            {name: value for name, value in now.items() if name not in old or old[name] != value}
            for now, old in zip(options, first, strict=True)
        ]
        if any(changed):
            facts["changed"] = changed
        if bool(step.is_skipped):
            facts["is_skipped"] = True
        # A norm over some of the gradients would be mistaken for the norm that clipping sees.
        if norms is not None and step.gradients and len(step.gradients) == step.n_gradients:
            squares = [float(norms[gradient.number]) ** 2 for gradient in step.gradients]
            facts["grad_norm"] = math.sqrt(sum(squares))
        return facts

    def _write_groups(
        self, tables: FactTables, optimizer: Optimizer, options: list[dict[str, Plain]]
    ) -> tuple[str, list[dict[str, Plain]]]:
        """Write the parameters of each group. Returns the hash of the table, and the options that stand in it."""
        known = {id(parameter.tensor): parameter.names[0] for parameter in self._models.parameters}
        names = [[known.get(id(tensor), "") for tensor in group["params"]] for group in optimizer.param_groups]
        name = type(optimizer).__name__
        # The options of the first step stand in the table; a step repeats those that differ, such as a learning rate.
        first = tables.first_options.setdefault((name, tuple(map(tuple, names))), options)
        groups: list[Plain] = [
            {"parameters": [*filter(None, own)], "n_others": own.count(""), "options": dict(values)}
            for own, values in zip(names, first, strict=True)
        ]
        return tables.write(GROUPS, {"optimizer": name, "groups": groups}), first


def _copied(value: Any) -> Any:
    """An option, norm or limit that the program may change later; a number on a GPU stays there."""
    return value.detach().clone() if isinstance(value, Tensor) else value
