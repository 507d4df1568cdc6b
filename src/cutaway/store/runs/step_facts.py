"""How a recorded step was trained: optimizer groups, modes, backward calls, skipped steps, clipping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cutaway.core.errors import DamagedError
from cutaway.store.format.fields import count, mapping, number, text, texts


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """A parameter group of an optimizer at one step."""

    parameters: tuple[str, ...]
    """The names of its parameters in the recorded model."""
    n_others: int
    """How many of its parameters are not in the recorded model."""
    options: Mapping[str, Any]
    """Its options at that step: `lr`, `weight_decay`, `betas`…"""

    @property
    def lr(self) -> float | None:
        """Its learning rate; None if the optimizer has none."""
        lr = self.options.get("lr")
        return float(lr) if isinstance(lr, (int, float)) else None


@dataclass(frozen=True, slots=True)
class OptimizerStep:
    """One step of an optimizer, or one that a `GradScaler` skipped."""

    optimizer: str
    """The class of the optimizer."""
    groups: tuple[ParameterGroup, ...]
    is_skipped: bool
    """Whether a `GradScaler` skipped it because a gradient was not finite."""
    grad_norm: float | None
    """Norm of all gradients as the optimizer read them, unscaled and clipped; None if some were not recorded."""


@dataclass(frozen=True, slots=True)
class Clipping:
    """One call of `torch.nn.utils.clip_grad_norm_` or `clip_grad_value_`."""

    method: str
    """"norm" or "value"."""
    limit: float
    """`max_norm` or `clip_value`."""
    norm_type: float
    """The p of the norm."""
    norm: float | None
    """Norm of all gradients before clipping; None if they are distributed over ranks (DTensor)."""

    @property
    def is_active(self) -> bool:
        """Whether `clip_grad_norm_` made the gradients smaller; False for "value", where the norm does not tell."""
        return self.method == "norm" and self.norm is not None and not self.norm <= self.limit


@dataclass(frozen=True, slots=True)
class StepFacts:
    """How a step was trained: `run.at(400).facts`."""

    optimizer_steps: tuple[OptimizerStep, ...]
    """Every optimizer step, in order."""
    eval_modules: tuple[str, ...]
    """Modules in eval mode when the model was called."""
    frozen: tuple[str, ...]
    """Parameters that did not require gradients when the model was called."""
    has_other_modes: bool
    """Whether a later call of the model in the same step had other modes or frozen parameters."""
    clippings: tuple[Clipping, ...]
    """Every call that clipped gradients, in order."""
    n_backward: int | None
    """Number of `backward()` calls: micro-batches; None if some could not be told from `torch.autograd.grad`."""
    is_continued: bool
    """Whether its gradients were added to gradients of an earlier step."""
    is_partial: bool
    """Whether the last `backward()` call was not followed by an optimizer step: more micro-batches are to come."""

    @property
    def n_skipped(self) -> int:
        """Number of optimizer steps that a `GradScaler` skipped."""
        return sum(step.is_skipped for step in self.optimizer_steps)

    @property
    def groups(self) -> dict[str, ParameterGroup]:
        """Parameter → its group at its last optimizer step."""
        return {name: group for step in self.optimizer_steps for group in step.groups for name in group.parameters}

    @property
    def learning_rates(self) -> dict[str, float]:
        """Parameter → its learning rate at its last optimizer step."""
        return {name: group.lr for name, group in self.groups.items() if group.lr is not None}

    @staticmethod
    def read(record: Any, documents: Mapping[str, Any]) -> StepFacts:
        """Read the facts of a step from its record and the tables that it refers to."""
        facts = mapping(record, "facts of a step")
        modes = _table(documents, "modes", facts.get("modes"))
        steps = facts.get("optimizer_steps", [])
        clippings = facts.get("clippings", [])
        if not isinstance(steps, list) or not isinstance(clippings, list):
            raise DamagedError("the facts of a step have wrong fields")
        n_backward = facts.get("n_backward")
        return StepFacts(
            tuple(_optimizer_step(mapping(step, "an optimizer step"), documents) for step in steps),
            texts(modes.get("eval", []), "modules in eval mode"),
            texts(modes.get("frozen", []), "frozen parameters"),
            bool(facts.get("has_other_modes")),
            tuple(map(_clipping, clippings)),
            None if n_backward is None else count(n_backward, "number of backward calls"),
            bool(facts.get("is_continued")),
            bool(facts.get("is_partial")),
        )


def _optimizer_step(step: Mapping[str, Any], documents: Mapping[str, Any]) -> OptimizerStep:
    table = _table(documents, "optimizer", step.get("groups"))
    groups, changed = table.get("groups", []), step.get("changed", [])
    if not isinstance(groups, list) or not isinstance(changed, list):
        raise DamagedError("the parameter groups of a step have wrong fields")
    changed = [*changed, *[{}] * (len(groups) - len(changed))]
    norm = step.get("grad_norm")
    return OptimizerStep(
        text(table.get("optimizer"), "class of an optimizer"),
        tuple(_group(mapping(group, "a parameter group"), now) for group, now in zip(groups, changed, strict=False)),
        bool(step.get("is_skipped")),
        None if norm is None else number(norm, "a gradient norm"),
    )


def _group(group: Mapping[str, Any], changed: Any) -> ParameterGroup:
    options = {**mapping(group.get("options"), "options of a group"), **mapping(changed, "options of a group")}
    return ParameterGroup(
        texts(group.get("parameters"), "parameters of a group"),
        count(group.get("n_others", 0), "number of other parameters"),
        options,
    )


def _clipping(fields: Any) -> Clipping:
    if not isinstance(fields, list) or len(fields) < 4:
        raise DamagedError("a clipping has wrong fields")
    method, limit, norm_type, norm = fields[:4]
    return Clipping(
        text(method, "a clipping"),
        number(limit, "a limit"),
        number(norm_type, "the type of a norm"),
        None if norm is None else number(norm, "a norm"),
    )


def _table(documents: Mapping[str, Any], kind: str, name: Any) -> Mapping[str, Any]:
    key = f"{kind}/{text(name, 'name of a table')}"
    if key not in documents:
        raise DamagedError(f"the document {key!r}, which a step refers to, is missing")
    return mapping(documents[key], key)
