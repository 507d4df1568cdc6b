"""The kind of a language model, found by running it: causal, encoder–decoder, masked or classifier."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from cutaway.capture import sessions
from cutaway.capture.interventions.token_positions import PROBE_PROMPT_LENGTH, token_window
from cutaway.capture.model.eval_mode import device_of, eval_mode
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import listed
from cutaway.lm.model.forward_run import accepted_by, logits_of
from cutaway.results.generation import GenerationKind

_cache: WeakKeyDictionary[nn.Module, GenerationKind] = WeakKeyDictionary()


def eager_module(model: Any) -> nn.Module:
    """The module behind a compiled model; raises if it is not a language model."""
    core = getattr(model, "_orig_mod", model)
    if not isinstance(core, nn.Module):
        given = f"the text {model!r}" if isinstance(model, str) else f"a {type(model).__name__}"
        loaded = repr(model) if isinstance(model, str) else "…"
        raise InputTypeError(
            f"the model is {given}, but must be a loaded torch.nn.Module: "
            f"AutoModelForCausalLM.from_pretrained({loaded}) loads one."
        )
    if not {"input_ids", "kwargs"} & accepted_by(core):
        takes = listed(sorted(accepted_by(core))) or "no arguments"
        raise InputError(
            f"{type(core).__name__} is not a language model: its forward takes {takes}, not input_ids. Give a model of "
            "transformers, or use cutaway.trace(model, x), which takes any model."
        )
    return core


def kind_of(model: nn.Module) -> GenerationKind:
    """The kind of a model: "causal", "encoder-decoder", "masked" or "classifier".

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> kind_of(GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=1)))
    'causal'
    """
    if model in _cache:
        return _cache[model]
    kind = _kind_of(model)
    if not sessions.edits:  # an edited model may look like another kind, so it is not cached
        _cache[model] = kind
    return kind


def _kind_of(model: Any) -> GenerationKind:
    config = getattr(model, "config", None)
    can_generate = model.can_generate() if hasattr(model, "can_generate") else hasattr(model, "generate")
    if getattr(config, "is_encoder_decoder", False) and can_generate:
        return "encoder-decoder"
    n = vocab_size(model) or 4
    # Causal means: the logits of the first token do not change when the last token does.
    ids = torch.arange(1, 5, device=device_of(model))[None] % n
    other = ids.clone()
    other[0, -1] = 0
    accepted = accepted_by(model)
    fixed = {name: value for name, value in (("use_cache", False), ("return_dict", True)) if name in accepted}
    if getattr(config, "is_encoder_decoder", False) and "labels" not in accepted and "decoder_input_ids" in accepted:
        logits_of(None, model)  # raises: a bare encoder–decoder has no head, and would fail on these inputs
    with eval_mode(model), token_window(PROBE_PROMPT_LENGTH):
        logits = logits_of(model(input_ids=ids, **fixed), model)
        if logits.dim() == 2 or not (logits.shape[-1] in _sizes(model) or _has_output_embeddings(model)):
            return "classifier"
        if sessions.edits:  # the edits may change what each position sees
            return "causal" if can_generate else "masked"
        changed = logits_of(model(input_ids=other, **fixed), model)
    # some heads rule out tokens with -inf
    first, first_changed = (each[0, 0].double().masked_fill(each[0, 0].isinf(), 0.0) for each in (logits, changed))
    # mixture-of-experts layers process rows in another order, and round differently
    slack = 4 * torch.finfo(logits.dtype).eps * float(first.abs().max())
    return "causal" if float((first - first_changed).abs().max()) <= slack else "masked"


def _sizes(model: nn.Module) -> set[int]:
    """Possible vocabulary sizes: that of the input embedding, or of any embedding if it is unknown."""
    known = vocab_size(model)
    sizes = [each.num_embeddings for each in model.modules() if isinstance(each, nn.Embedding)]
    return set(sizes) if known is None else {known}


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


def check_ids(model: Any, tokenizer: Any, ids: list[int]) -> None:
    """Raises if an id is outside the model's vocabulary."""
    n = vocab_size(model)
    if n is not None and ids and max(ids) >= n:
        what = "" if tokenizer is None else f", so {type(tokenizer).__name__} belongs to another model"
        raise InputError(
            f"the prompt has token {max(ids)}, but {type(model).__name__} has {n:,} tokens{what}: "
            "load the tokenizer of this model."
        )
    if ids and min(ids) < 0:
        raise InputError(f"the prompt has token {min(ids)}: ids count from 0.")


def check_length(model: Any, n_prompt: int, n_new: int = 0) -> None:
    """Raises if a text does not fit the context of the model."""
    most = context_length(model)
    if most is None or n_prompt + n_new <= most:
        return
    if n_prompt >= most:
        raise InputError(
            f"the prompt has {n_prompt:,} tokens, but {type(model).__name__} reads at most {most:,}: shorten it."
        )
    raise InputError(
        f"{n_prompt:,} prompt tokens and {n_new:,} new ones exceed the context of {most:,} of {type(model).__name__}"
        f": give max_new_tokens={most - n_prompt} or less."
    )


def _has_output_embeddings(model: Any) -> bool:
    return hasattr(model, "get_output_embeddings") and model.get_output_embeddings() is not None
