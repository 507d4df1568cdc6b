"""What stands for "nothing there": zeros, a token, or a vector, as the embedding would give it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cutaway.capture.interventions.targets import ModelIndex
from cutaway.core.errors import InputError
from cutaway.core.sites import Site
from cutaway.lm.generation.model_kind import n_tokens
from cutaway.lm.model.forward_run import Reading
from cutaway.lm.model.parts import Role

ZERO, UNSEEN = "zero", "unseen"
_HOW = "give 'zero', 'pad', 'mask', the id of a token, or a vector as long as an embedding"


def baselines(reading: Reading, tokenizer: Any, baseline: Any) -> dict[Role, Tensor]:
    """Role → (d,): the embedding of what stands in the place of a token."""
    own = reading.embeddings()
    return {role: _vector(reading, role, tokenizer, baseline, value[0]) for role, value in own.items()}


def _vector(reading: Reading, role: Role, tokenizer: Any, baseline: Any, like: Tensor) -> Tensor:
    if isinstance(baseline, str):
        if baseline == ZERO:
            return torch.zeros_like(like)
        if baseline not in ("pad", "mask"):
            raise InputError(f"baseline={baseline!r}: {_HOW}.")
        number = getattr(tokenizer, f"{baseline}_token_id", None)
        if number is None:
            raise InputError(f"baseline={baseline!r}: {type(tokenizer).__name__} has no {baseline} token; {_HOW}.")
        return _embedded(reading, role, int(number), like)
    if hasattr(baseline, "__index__") and not getattr(baseline, "shape", ()):
        return _embedded(reading, role, int(baseline), like)
    try:
        given = torch.as_tensor(baseline, dtype=like.dtype, device=like.device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"baseline is a {type(baseline).__name__}: {_HOW}.") from None
    if given.shape != like.shape:
        raise InputError(f"baseline has the shape {tuple(given.shape)}, and an embedding {tuple(like.shape)}: {_HOW}.")
    return given


def _embedded(reading: Reading, role: Role, number: int, like: Tensor) -> Tensor:
    """What the model's own embedding makes of a token, scales included."""
    most = n_tokens(reading.model)
    if number < 0 or (most is not None and number >= most):
        raise InputError(f"baseline={number}: {type(reading.model).__name__} knows {most:,} tokens, counted from 0.")
    site = Site.parse(reading.anatomy.part(role).embedding)
    module = ModelIndex.of(reading.model).modules[site.address]
    with reading.still():
        found: Tensor = module(torch.tensor([[number]], device=like.device))
    return found.reshape(like.shape)
