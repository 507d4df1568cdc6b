"""What is explained: one number for each target, made of the logits of its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.core.formatting import nearest
from cutaway.lm.generation.classify import labels_of
from cutaway.lm.generation.model_kind import n_tokens
from cutaway.lm.generation.scores import Form, form_of, logprobs_of
from cutaway.lm.generation.tokens import Pieces
from cutaway.results.generation import Generation

TargetName = Literal["logprob", "logit", "probability"]
TargetFunction = Callable[[Tensor, Tensor], Tensor]
"""From logits (sample, target, class) and the class of each target to values (sample, target); each value may depend on
the logits of its own target alone."""
Target = TargetName | TargetFunction
NAMES: tuple[str, ...] = get_args(TargetName)


@dataclass(frozen=True, slots=True)
class Explained:
    """The function of the logits whose reasons are asked for."""

    target: Target
    classes: Tensor
    """(target,): what was chosen."""
    others: Tensor | None = None
    """(target,): what it is compared with."""
    form: Form = "one"

    @property
    def name(self) -> str:
        return self.target if isinstance(self.target, str) else getattr(self.target, "__name__", "function")

    def of_targets(self, chosen: Sequence[int]) -> Explained:
        kept = torch.tensor(list(chosen), device=self.classes.device)
        others = None if self.others is None else self.others[kept]
        return Explained(self.target, self.classes[kept], others, self.form)

    def __call__(self, logits: Tensor) -> Tensor:
        """(sample, target)."""
        if logits.device.type != "mps":  # a model that is sure has 1 − p in the last digits
            logits = logits.double()
        if not isinstance(self.target, str):
            found = self.target(logits, self.classes)
            if not isinstance(found, Tensor) or found.shape != logits.shape[:2]:
                shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
                raise InputError(
                    f"the function {self.name} gave {shape} for logits (sample, target, class) of "
                    f"{tuple(logits.shape)}: it has to give a tensor {tuple(logits.shape[:2])}, one value a target."
                )
            return found
        if self.target != "logit":
            logits = logprobs_of(logits, self.form)
        if self.target == "probability":
            logits = logits.exp()
        chosen = _picked(logits, self.classes)
        return chosen if self.others is None else chosen - _picked(logits, self.others)


def explained(gen: Generation, target: Any, contrast: Any, chosen: Sequence[int], device: torch.device) -> Explained:
    """What is asked for, checked.

    Args:
        contrast: the token, or label, each target is compared with: one for all, or one for each target.
        chosen: which targets.
    """
    if not callable(target) and target not in NAMES:
        near = nearest(str(target), NAMES)
        hint = f" Nearest: {near[0]!r}." if near else ""
        raise InputError(f"target={target!r}: give {', '.join(map(repr, NAMES))}, or a function of the logits.{hint}")
    classes = torch.tensor(gen.target_ids[list(chosen)], device=device)
    form = form_of(gen.model, gen.kind)
    if form == "number" and target == "logprob":  # what nobody has asked for: a number has no probability
        target = "logit"
    if form == "number" and target == "probability":
        raise InputError(f"{type(gen.model).__name__} gives numbers, which have no probability: target='logit'.")
    if contrast is None:
        return Explained(cast(Target, target), classes, form=form)
    if callable(target):
        raise InputError("a function is its own contrast: leave out contrast=, or give target='logit'.")
    given = list(contrast) if isinstance(contrast, (list, tuple)) else [contrast] * len(chosen)
    if len(given) != len(chosen):
        raise InputError(
            f"contrast has {len(given)} tokens for {len(chosen)} targets: give one for all, or one for each."
        )
    others = torch.tensor([_id_of(gen, each) for each in given], device=device)
    return Explained(cast(Target, target), classes, others, form)


def chosen_targets(gen: Generation, only: int | Sequence[int] | None) -> list[int]:
    """Which targets are meant, counted from 0; all of them if nothing is said."""
    n = len(gen)
    if n == 0:
        raise InputError("nothing was written, so there is nothing to explain: ask for max_new_tokens=1 or more.")
    if only is None or isinstance(only, slice):
        given = list(range(n))[slice(None) if only is None else only]
    else:
        given = [int(each) for each in ([only] if hasattr(only, "__index__") else only)]
    for each in given:
        if not -n <= each < n:
            raise InputError(f"only has {each}: there are {n} targets, counted from 0.")
    if not given:
        raise InputError("only=[] leaves nothing to explain: name a target, or leave it out for all.")
    return [each % n for each in given]


def named(gen: Generation, ids: Tensor) -> tuple[str, ...]:
    """The texts of tokens, or labels."""
    if gen.kind == "classifier":
        labels = _labels(gen)
        return tuple(labels[number] for number in ids.tolist())
    return Pieces(gen._tokenizer and gen.tokenizer).pieces(ids.tolist())


def _id_of(gen: Generation, asked: Any) -> int:
    if gen.kind != "classifier":
        return Pieces(gen._tokenizer and gen.tokenizer, n_tokens(gen.model)).id_of(asked)
    labels = _labels(gen)
    if isinstance(asked, str) and asked in labels:
        return labels.index(asked)
    if isinstance(asked, str) or not 0 <= int(asked) < len(labels):
        raise InputError(
            f"contrast={asked!r} is no label of this model; there are {', '.join(map(repr, labels[:12]))}."
        )
    return int(asked)


def _labels(gen: Generation) -> list[str]:
    n = int(getattr(getattr(gen.model, "config", None), "num_labels", 0))
    return labels_of(gen.model, n)


def _picked(values: Tensor, ids: Tensor) -> Tensor:
    return values.gather(-1, ids.expand(len(values), -1)[..., None])[..., 0]
