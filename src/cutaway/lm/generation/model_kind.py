"""The kind of a language model, found by running it: causal, encoder–decoder, masked or classifier."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from cutaway.capture import sessions
from cutaway.capture.interventions.token_positions import PROBE_PROMPT_LENGTH, token_window
from cutaway.capture.model.eval_mode import device_of, eval_mode
from cutaway.lm.model.forward_run import logits_of
from cutaway.lm.model.language_model import accepted_by, vocab_size
from cutaway.results.lm.generation import GenerationKind

_cache: WeakKeyDictionary[nn.Module, GenerationKind] = WeakKeyDictionary()


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


def _has_output_embeddings(model: Any) -> bool:
    return hasattr(model, "get_output_embeddings") and model.get_output_embeddings() is not None
