"""Step scores: how sure a model was of what it chose, and of what else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from cutaway.lm.generation.tokens import TokenReader
from cutaway.results.generation import Steps

N_CANDIDATES = 20
"""How many of the likeliest are kept at each step."""


OutputForm = Literal["one", "many", "number"]
"""How logits are meant: one of the classes is chosen; each by itself may be; they are numbers."""


def output_form(model: Any, kind: str) -> OutputForm:
    """As the configuration of a classifier has it; all else chooses one token."""
    config = getattr(model, "config", None)
    if kind != "classifier":
        return "one"
    if getattr(config, "problem_type", None) == "multi_label_classification":
        return "many"
    is_number = getattr(config, "problem_type", None) == "regression" or getattr(config, "num_labels", 2) == 1
    return "number" if is_number else "one"


def log_probs(logits: Tensor, form: OutputForm) -> Tensor:
    """Log-probabilities over the last dimension; numbers have none."""
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
        logits: (step, class), as the model gave them.
        chosen: (step,).
        pieces: reads classes: a tokenizer's pieces, or the names of labels.
        processed: (step, class): the logits from which tokens were drawn; -inf where one was cut.
    """
    wide = logits.double()
    logprobs = log_probs(wide, form)
    own = wide.gather(-1, chosen[:, None])
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
        logits=own[:, 0].cpu().numpy(),
        logprobs=logprobs.gather(-1, chosen[:, None])[:, 0].cpu().numpy(),
        entropies=(entropy(logprobs) if form == "one" else _entropy_of_each(logprobs)).cpu().numpy(),
        ranks=((wide > own).sum(-1) + 1).cpu().numpy().astype(np.int64),
        candidates=candidates.cpu().numpy().astype(np.int64),
        candidate_pieces=tuple(_class_names(pieces, row) for row in candidates.tolist()),
        candidate_logprobs=top.cpu().numpy(),
        kept=kept,
        n_kept=n_kept,
        drawn=drawn,
    )


def entropy(logprobs: Tensor) -> Tensor:
    """In nats, over the last dimension; what cannot happen adds nothing."""
    return -(logprobs.exp() * logprobs.masked_fill(logprobs == -torch.inf, 0.0)).sum(-1)


def _entropy_of_each(logprobs: Tensor) -> Tensor:
    """The sum over classes that are chosen or not, each by itself."""
    others = torch.log1p(-logprobs.exp())
    return entropy(torch.stack([logprobs, others], -1)).sum(-1)


def _class_names(pieces: TokenReader | Sequence[str], ids: list[int]) -> tuple[str, ...]:
    return pieces.pieces(ids) if isinstance(pieces, TokenReader) else tuple(pieces[number] for number in ids)
