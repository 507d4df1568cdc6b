"""Scores of each step: probability, entropy and rank of the choice, and the most likely alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from cutaway.lm.generation.tokens import TokenReader
from cutaway.results.lm.tokens import Steps

N_CANDIDATES = 20
"""How many of the most likely tokens are stored per step."""


OutputForm = Literal["one", "many", "number"]
"""What the logits mean: "one" class is chosen, "many" labels are independent, or a "number" is predicted."""


def output_form(model: Any, kind: str) -> OutputForm:
    """From the config of a classifier; all other models choose one token."""
    config = getattr(model, "config", None)
    if kind != "classifier":
        return "one"
    if getattr(config, "problem_type", None) == "multi_label_classification":
        return "many"
    # One label means regression: the rule of transformers.
    is_number = getattr(config, "problem_type", None) == "regression" or getattr(config, "num_labels", 2) == 1
    return "number" if is_number else "one"


def log_probs(logits: Tensor, form: OutputForm) -> Tensor:
    """Log-probabilities over the last dimension; NaN for a regression output."""
    if form == "number":
        return torch.full_like(logits, torch.nan)
    return torch.nn.functional.logsigmoid(logits) if form == "many" else logits.log_softmax(-1)


def step_scores(
    logits: Tensor,
    chosen: Tensor,
    pieces: TokenReader | Sequence[str],
    processed: Tensor | None = None,
    *,
    form: OutputForm = "one",
) -> Steps:
    """The scores of each step.

    Args:
        logits: (step, class), as the model returns them.
        chosen: (step,): the chosen class.
        pieces: gives the texts of classes: a token reader, or the names of labels.
        processed: (step, class): the logits that tokens were sampled from; -inf for excluded tokens.
    """
    wide = logits.double()
    logprobs = log_probs(wide, form)
    chosen_logits = wide.gather(-1, chosen[:, None])
    k = min(N_CANDIDATES, logits.shape[-1])
    candidates = wide.topk(k, dim=-1).indices
    top = logprobs.gather(-1, candidates)
    kept = n_kept = drawn = None
    if processed is not None:
        probs = processed.double().softmax(-1)
        kept = probs.gather(-1, candidates).cpu().numpy()
        n_kept = (probs > 0).sum(-1).cpu().numpy()
        drawn = probs.gather(-1, chosen[:, None])[:, 0].cpu().numpy()
    return Steps(
        logits=chosen_logits[:, 0].cpu().numpy(),
        logprobs=logprobs.gather(-1, chosen[:, None])[:, 0].cpu().numpy(),
        entropies=(entropy(logprobs) if form == "one" else _entropy_of_each(logprobs)).cpu().numpy(),
        # Strictly greater: equal logits share the better rank, whatever order topk gives them.
        ranks=((wide > chosen_logits).sum(-1) + 1).cpu().numpy().astype(np.int64),
        candidates=candidates.cpu().numpy().astype(np.int64),
        candidate_pieces=tuple(_class_names(pieces, row) for row in candidates.tolist()),
        candidate_logprobs=top.cpu().numpy(),
        kept=kept,
        n_kept=n_kept,
        drawn=drawn,
    )


def entropy(logprobs: Tensor) -> Tensor:
    """Entropy in nats over the last dimension; classes with probability 0 add nothing."""
    return -(logprobs.exp() * logprobs.masked_fill(logprobs == -torch.inf, 0.0)).sum(-1)


def _entropy_of_each(logprobs: Tensor) -> Tensor:
    """Sum of the entropies of independent labels."""
    others = torch.log1p(-logprobs.exp())
    return entropy(torch.stack([logprobs, others], -1)).sum(-1)


def _class_names(pieces: TokenReader | Sequence[str], ids: list[int]) -> tuple[str, ...]:
    return pieces.pieces(ids) if isinstance(pieces, TokenReader) else tuple(pieces[number] for number in ids)
