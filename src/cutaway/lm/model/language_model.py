"""What a language model takes: `input_ids`, how many tokens it knows, and how many it reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import listed, type_text


def eager_module(model: Any) -> nn.Module:
    """The module behind a compiled model; raises if it is not a language model."""
    # torch.compile wraps the module and keeps it as _orig_mod.
    core = getattr(model, "_orig_mod", model)
    if not isinstance(core, nn.Module):
        given = f"the text {model!r}" if isinstance(model, str) else f"{type_text(model)}"
        loaded = repr(model) if isinstance(model, str) else "…"
        raise InputTypeError(
            f"the model is {given}, but must be a loaded torch.nn.Module: "
            f"AutoModelForCausalLM.from_pretrained({loaded}) loads one."
        )
    # Wrappers such as PEFT take **kwargs and pass them on.
    if not {"input_ids", "kwargs"} & accepted_by(core):
        takes = listed(sorted(accepted_by(core))) or "no arguments"
        raise InputError(
            f"{type(core).__name__} is not a language model: its forward takes {takes}, not input_ids. Give a model of "
            "transformers, or use cutaway.trace(model, x), which takes any model."
        )
    return core


def accepted_by(model: nn.Module) -> frozenset[str]:
    """The parameter names of a model's forward."""
    forward: Callable[..., Any] = model.forward
    try:
        return frozenset(inspect.signature(forward).parameters)
    except (TypeError, ValueError):
        # A forward that is implemented in C has no signature.
        return frozenset()


def vocab_size(model: Any) -> int | None:
    """Number of tokens in the input embedding; None if unknown."""
    embedding = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    n_tokens = getattr(embedding, "num_embeddings", None)
    if isinstance(n_tokens, int):
        return n_tokens
    weight = getattr(embedding, "weight", None)
    return None if weight is None else int(weight.shape[0])


def context_length(model: Any) -> int | None:
    """Number of positions that the config allows; None if it does not say."""
    n_positions = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    return n_positions if isinstance(n_positions, int) and n_positions > 0 else None


def check_ids(model: Any, tokenizer: Any, ids: Sequence[int], what: str = "the prompt") -> None:
    """Raises if an id is outside the model's vocabulary.

    Args:
        what: whose tokens they are, for the message.
    """
    n = vocab_size(model)
    if n is not None and ids and max(ids) >= n:
        reason = "" if tokenizer is None else f", so {type(tokenizer).__name__} belongs to another model"
        raise InputError(
            f"{what} has token {max(ids)}, but {type(model).__name__} has {n:,} tokens{reason}: "
            f"load {'the model that generated it' if what == 'the generation' else 'the tokenizer of this model'}."
        )
    if ids and min(ids) < 0:
        raise InputError(f"{what} has token {min(ids)}: ids count from 0.")


def check_length(model: Any, n_prompt: int, n_new: int = 0, what: str = "the prompt") -> None:
    """Raises if a text does not fit the context of the model."""
    most = context_length(model)
    if most is None or n_prompt + n_new <= most:
        return
    if n_prompt >= most:
        raise InputError(
            f"{what} has {n_prompt:,} tokens, but {type(model).__name__} reads at most {most:,}: shorten it."
        )
    raise InputError(
        f"{n_prompt:,} prompt tokens and {n_new:,} new ones exceed the context of {most:,} of {type(model).__name__}"
        f": give max_new_tokens={most - n_prompt} or less."
    )
