"""Whether a model still says what it said when a text was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutaway.results.generation import Generation

_SLACK = {"float32": 0.01, "float64": 0.01}
_COARSE = 0.2
"""How far log-probabilities may be apart by rounding: in full precision, and in half."""


def drift_notes(gen: Generation, what: str, now: Any, chosen: Sequence[int] | None = None) -> list[str]:
    """A note where it does not: weights were changed, an edit came or went, or it is another model.

    Args:
        what: which numbers are given: "logprob", "logit" or "probability"; of others nothing can be said.
        now: (target,).
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
        f"The model is not as it was when this was written: its {name} differ by up to {worst:.2g}. Explained is what "
        "it says now."
    ]
