"""Baselines for integrated gradients and occlusion: zeros, a token, or a vector in place of an embedding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cutaway.capture.interventions.targets import ModelIndex
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.core.sites import Site
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.language_model import vocab_size
from cutaway.results.lm.tokens import Role

ZERO, UNSEEN = "zero", "unseen"
_CHOICES = "give 'zero', 'pad', 'mask', a token id, or a vector of the size of an embedding"


def baseline_embeddings(run: PromptRun, tokenizer: Any, baseline: Any) -> dict[Role, Tensor]:
    """Role → (d,): the embedding that replaces a token."""
    embeddings = run.embeddings()
    return {role: _vector(run, role, tokenizer, baseline, value[0]) for role, value in embeddings.items()}


def _vector(run: PromptRun, role: Role, tokenizer: Any, baseline: Any, like: Tensor) -> Tensor:
    if isinstance(baseline, str):
        if baseline == ZERO:
            return torch.zeros_like(like)
        if baseline not in ("pad", "mask"):
            raise InputError(f"baseline={baseline!r}: {_CHOICES}.")
        number = getattr(tokenizer, f"{baseline}_token_id", None)
        if number is None:
            raise InputError(f"baseline={baseline!r}: {type(tokenizer).__name__} has no {baseline} token; {_CHOICES}.")
        return _token_embedding(run, role, int(number), like)
    if hasattr(baseline, "__index__") and not getattr(baseline, "shape", ()):
        return _token_embedding(run, role, int(baseline), like)
    try:
        given = torch.as_tensor(baseline, dtype=like.dtype, device=like.device)
    except (TypeError, ValueError, RuntimeError):
        raise InputTypeError(f"baseline is {type_text(baseline)}: {_CHOICES}.") from None
    if given.shape != like.shape:
        raise InputError(
            f"baseline has the shape {tuple(given.shape)}, but an embedding has {tuple(like.shape)}: {_CHOICES}."
        )
    return given


def _token_embedding(run: PromptRun, role: Role, number: int, like: Tensor) -> Tensor:
    """The output of the model's embedding module for a token, scaling included."""
    n = vocab_size(run.model)
    if number < 0 or (n is not None and number >= n):
        raise InputError(f"baseline={number}: {type(run.model).__name__} has {n:,} tokens, counted from 0.")
    site = Site.parse(run.anatomy.part(role).embedding)
    module = ModelIndex.of(run.model).modules[site.address]
    with run.eval_mode():
        embedding: Tensor = module(torch.tensor([[number]], device=like.device))
    return embedding.reshape(like.shape)
