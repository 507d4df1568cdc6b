"""The value that is explained: one number per target, computed from the logits of its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint, plural, type_text
from cutaway.lm.arguments import as_list
from cutaway.lm.generation.classes import Classes
from cutaway.lm.generation.scores import OutputForm, log_probs, output_form
from cutaway.results.lm.generation import Generation

TargetName = Literal["logprob", "logit", "probability"]
TargetFunction = Callable[[Tensor, Tensor], Tensor]
"""From logits (sample, target, class) and the class of each target to values (sample, target). Each value may depend on
the logits of its own target only."""
Target = TargetName | TargetFunction
TARGET_NAMES: tuple[str, ...] = get_args(TargetName)


@dataclass(frozen=True, slots=True)
class Objective:
    """The function of the logits that saliency explains."""

    target: Target
    classes: Tensor
    """(target,): the chosen token or label."""
    others: Tensor | None = None
    """(target,): the token or label it is contrasted with."""
    form: OutputForm = "one"

    @property
    def name(self) -> str:
        return self.target if isinstance(self.target, str) else getattr(self.target, "__name__", "function")

    def select(self, chosen: Sequence[int]) -> Objective:
        """The objective for some of the targets."""
        at = torch.tensor(list(chosen), device=self.classes.device)
        others = None if self.others is None else self.others[at]
        return Objective(self.target, self.classes[at], others, self.form)

    def __call__(self, logits: Tensor) -> Tensor:
        """The values (sample, target) of logits (sample, target, class)."""
        if logits.device.type != "mps":  # in float32, 1 − p of a confident model is rounding noise; MPS has no float64
            logits = logits.double()
        if not isinstance(self.target, str):
            values = self.target(logits, self.classes)
            if not isinstance(values, Tensor) or values.shape != logits.shape[:2]:
                shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
                raise InputError(
                    f"the function {self.name} returned {shape} for logits (sample, target, class) of shape "
                    f"{tuple(logits.shape)}: return a tensor {tuple(logits.shape[:2])}, one value per target."
                )
            return values
        if self.target != "logit":
            logits = log_probs(logits, self.form)
        if self.target == "probability":
            logits = logits.exp()
        chosen = _gather(logits, self.classes)
        return chosen if self.others is None else chosen - _gather(logits, self.others)


def make_objective(
    gen: Generation, target: Any, contrast: Any, chosen: Sequence[int], device: torch.device
) -> Objective:
    """The objective for some targets, with checked arguments.

    Args:
        contrast: the token or label each target is compared with: one for all, or one per target.
        chosen: which targets.
    """
    _check_target(gen, target)
    classes = torch.tensor(gen.target_ids[list(chosen)], device=device)
    form = output_form(gen.model, gen.kind)
    if form == "number" and target == "logprob":  # the default; a regression output has no probability
        target = "logit"
    if form == "number" and target == "probability":
        raise InputError(f"{type(gen.model).__name__} is a regression model without probabilities: use target='logit'.")
    if contrast is None:
        return Objective(cast(Target, target), classes, form=form)
    if callable(target):
        raise InputError("a function as target= takes no contrast=: leave it out, or give target='logit'.")
    tokens = as_list(contrast)
    given = tokens if isinstance(contrast, (list, tuple)) or len(tokens) > 1 else tokens * len(chosen)
    if len(given) != len(chosen):
        raise InputError(
            f"contrast has {len(given)} tokens for {len(chosen)} targets: give one for all, or one per target."
        )
    known = Classes.of(gen)
    others = torch.tensor([known.id_of(token, "contrast") for token in given], device=device)
    return Objective(cast(Target, target), classes, others, form)


def target_indices(gen: Generation, only: int | slice | Sequence[int] | None) -> list[int]:
    """The indices of the chosen targets, counted from 0; all targets by default."""
    n = len(gen)
    if n == 0:
        raise InputError("no token was generated, so there is nothing to explain: use max_new_tokens=1 or more.")
    if only is None or isinstance(only, slice):
        indices = list(range(n))[slice(None) if only is None else only]
    else:
        asked = as_list(only)
        for index in asked:
            if isinstance(index, bool) or not hasattr(index, "__index__"):
                raise InputTypeError(
                    f"only={only!r} has {type_text(index)}: give the number of a target, counted from 0, a list "
                    "of numbers, or a slice."
                )
            if not -n <= int(index) < n:
                raise InputError(f"only has {index}: the generation has {plural(n, 'target')}, counted from 0.")
        indices = [int(index) for index in asked]
    if not indices:
        raise InputError(f"only={only!r} selects no target: give at least one, or leave it out for all.")
    return [index % n for index in indices]


def _check_target(gen: Generation, target: Any) -> None:
    if callable(target) or (isinstance(target, str) and target in TARGET_NAMES):
        return
    choices = f"{', '.join(map(repr, TARGET_NAMES))}, or a function of the logits"
    if not isinstance(target, str):
        raise InputTypeError(
            f"target={target!r} is not the name of a value to explain: give {choices}. "
            f"only={target!r} chooses the token to explain, of {len(gen):,}."
        )
    raise InputError(
        f"target={target!r} is not a value to explain: give {choices}.{hint(target, TARGET_NAMES)} "
        "contrast= compares with another token."
    )


def class_texts(gen: Generation, ids: Tensor) -> tuple[str, ...]:
    """The texts of tokens, or the names of labels."""
    return Classes.of(gen).texts(ids.tolist())


def _gather(values: Tensor, ids: Tensor) -> Tensor:
    return values.gather(-1, ids.expand(len(values), -1)[..., None])[..., 0]
