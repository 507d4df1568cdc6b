"""What a saliency method receives and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.saliency.memory import MemoryCost, memory_cost
from cutaway.lm.saliency.targets import Objective


@dataclass(frozen=True, slots=True)
class SaliencyTask:
    """The model, its inputs, and the number per target that a method explains."""

    run: PromptRun
    objective: Objective
    tokenizer: Any
    """The tokenizer of the model; None if there is none."""
    limit: int
    """Bytes that the method may use in addition to the model."""

    def select(self, targets: Sequence[int]) -> SaliencyTask:
        """The same task for some of the targets."""
        return replace(self, run=self.run.select_targets(targets), objective=self.objective.select(targets))

    def memory_cost(self) -> MemoryCost:
        return memory_cost(self.run, self.limit)


@dataclass(frozen=True, slots=True)
class TargetScores:
    """Scores per target and position. Positions of the encoder come first."""

    norms: Tensor
    """(target, position): L2 norm over the embedding, not normalized."""
    sums: Tensor
    """(target, position): sum over the embedding."""
    values: Tensor
    """(target,): the value that is explained; NaN for methods that explain none."""
    baseline_values: Tensor | None = None
    """(target,): the value at the baseline, for integrated gradients."""
