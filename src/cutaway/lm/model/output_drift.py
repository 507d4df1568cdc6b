"""Detects that a model no longer gives the outputs it gave when a text was generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutaway.results.lm.generation import Generation

_SLACK = {"float32": 0.01, "float64": 0.01}
_COARSE = 0.2
"""Largest difference of log-probabilities by rounding: in float32 and float64, and in half precision."""


def drift_notes(gen: Generation, what: str, now: Any, chosen: Sequence[int] | None = None) -> list[str]:
    """A note if the outputs differ: the weights changed, an edit is active, or it is another model.

    Args:
        what: which numbers are given: "logprob", "logit" or "probability"; others are not compared.
        now: (target,): the current numbers.
    """
    then = {"logprob": gen.steps.logprobs, "logit": gen.steps.logits, "probability": gen.steps.probs}.get(what)
    if then is None:
        return []
    apart = np.abs(then[list(range(len(gen)) if chosen is None else chosen)] - np.asarray(now, np.float64))
    apart = apart[np.isfinite(apart)]
    worst = float(apart.max(initial=0.0))
    if worst <= _SLACK.get(str(gen.about.get("dtype")), _COARSE):
        return []
    name = {"logprob": "log-probabilities", "logit": "logits", "probability": "probabilities"}[what]
    return [
        f"The model has changed since this was generated: its {name} differ by up to {worst:.2g}. The current outputs "
        "are explained."
    ]
