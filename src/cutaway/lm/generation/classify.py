"""Masked language models and classifiers: fill masks, label texts or tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import torch

from cutaway.capture.interventions.token_positions import token_window
from cutaway.capture.model.eval_mode import device_of, eval_mode
from cutaway.core.errors import InputError
from cutaway.lm.arguments import as_list
from cutaway.lm.generation.build import build_generation, context_errors
from cutaway.lm.generation.classes import Classes, label_names
from cutaway.lm.generation.model_kind import kind_of
from cutaway.lm.generation.prompts import (
    PromptList,
    check_tokenizer,
    encode_continuation,
    encode_prompt,
    is_prompt_list,
)
from cutaway.lm.model.forward_run import logits_of
from cutaway.lm.model.language_model import accepted_by, check_ids, check_length, eager_module
from cutaway.results.lm.generation import Generation


@overload
def fill(model: Any, tokenizer: Any, prompt: PromptList, *, text: Any = None) -> list[Generation]: ...


@overload
def fill(model: Any, tokenizer: Any, prompt: Any, *, text: Any = None) -> Generation: ...


def fill(model: Any, tokenizer: Any, prompt: Any = None, *, text: Any = None) -> Generation | list[Generation]:
    """Fill each mask of a text with its most likely token.

        cutaway.lm.fill(model, tokenizer, "Paris is the [MASK] of France.").text

    Args:
        model: a loaded masked language model.
        tokenizer: its tokenizer.
        prompt: a text with one or more mask tokens; a list of such texts gives a list.
        text: tokens to explain in place of the most likely ones, one per mask.
    """
    check_tokenizer(model, tokenizer, prompt, "cutaway.lm.fill")
    if is_prompt_list(prompt):
        texts = list(text) if isinstance(text, list) else [text] * len(prompt)
        if len(texts) != len(prompt):
            raise InputError(f"{len(texts)} texts were given for {len(prompt)} prompts: give one per prompt.")
        return [
            fill(model, tokenizer, each, text=continuation) for each, continuation in zip(prompt, texts, strict=True)
        ]
    core = eager_module(model)
    if kind_of(core) != "masked":
        raise InputError(f"{type(core).__name__} is not a masked language model: use cutaway.generate.")
    mask = getattr(tokenizer, "mask_token_id", None)
    if mask is None:
        raise InputError(f"{type(tokenizer).__name__} has no mask token: use the tokenizer of a masked language model.")
    encoded = encode_prompt(tokenizer, prompt)
    check_ids(core, tokenizer, encoded.ids)
    rows = [i for i, number in enumerate(encoded.ids) if number == mask]
    if not rows:
        raise InputError(f"the prompt {prompt!r} has no mask: write {tokenizer.mask_token} in place of a word.")
    given = None if text is None else encode_continuation(tokenizer, text)
    if given is not None and len(given) != len(rows):
        raise InputError(f"text={text!r} has {len(given)} tokens for {len(rows)} masks: give one per mask.")
    return build_generation(
        core, tokenizer, encoded, kind="masked", read=encoded.ids, n_prompt=len(encoded.ids), rows=rows, chosen=given
    )


@overload
def classify(
    model: Any,
    tokenizer: Any,
    prompt: PromptList,
    *,
    target: str | int | Sequence[str | int] | None = None,
    positions: Sequence[int] | None = None,
) -> list[Generation]: ...


@overload
def classify(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    *,
    target: str | int | Sequence[str | int] | None = None,
    positions: Sequence[int] | None = None,
) -> Generation: ...


def classify(
    model: Any,
    tokenizer: Any,
    prompt: Any = None,
    *,
    target: str | int | Sequence[str | int] | None = None,
    positions: Sequence[int] | None = None,
) -> Generation | list[Generation]:
    """Label a text, or each of its tokens. You can choose the label to explain.

        cutaway.lm.classify(model, tokenizer, "What a film!", target="POSITIVE").steps.probs

    Args:
        model: a loaded model that labels texts or tokens.
        tokenizer: its tokenizer.
        prompt: a text, a pair of texts as a tuple, a `Template` or ids; a list of these gives a list.
        target: a label by name or number, or several; the most likely by default.
        positions: for a model that labels tokens, which tokens; all but special ones by default.
    """
    check_tokenizer(model, tokenizer, prompt, "cutaway.lm.classify")
    if is_prompt_list(prompt):
        return [classify(model, tokenizer, each, target=target, positions=positions) for each in prompt]
    core = eager_module(model)
    if kind_of(core) != "classifier":
        raise InputError(f"{type(core).__name__} is not a classifier: use cutaway.generate to generate or fill masks.")
    encoded = encode_prompt(tokenizer, prompt)
    check_ids(core, tokenizer, encoded.ids)
    check_length(core, len(encoded.ids))
    ids = torch.tensor([encoded.ids], device=device_of(core))
    with context_errors(core, ids.shape[1]), eval_mode(core), token_window(ids.shape[1]):
        # The rank of the logits tells text from token classifiers, also for models without transformers' class names.
        shape = logits_of(core(input_ids=ids, **_fixed_options(core)), core).shape
    labels = label_names(core, int(shape[-1]))
    classes = Classes(None, labels)
    chosen = None if target is None else [classes.id_of(label, "target") for label in as_list(target)]
    if len(shape) == 2:
        if positions is not None:
            raise InputError(f"positions= is for models that label tokens; {type(core).__name__} labels whole texts.")
        rows = [0] * len(chosen or [0])
    else:
        rows, chosen = _token_rows(tokenizer, encoded.ids, positions, chosen)
    return build_generation(
        core,
        tokenizer,
        encoded,
        kind="classifier",
        read=encoded.ids,
        n_prompt=len(encoded.ids),
        rows=rows,
        chosen=chosen,
        labels=labels,
    )


def _token_rows(
    tokenizer: Any, ids: list[int], positions: Sequence[int] | None, labels: list[int] | None
) -> tuple[list[int], list[int] | None]:
    special = set(getattr(tokenizer, "all_special_ids", None) or ())
    rows = [i for i, number in enumerate(ids) if number not in special] if positions is None else as_list(positions)
    for row in rows:
        if not hasattr(row, "__index__") or not -len(ids) <= int(row) < len(ids):
            raise InputError(f"positions has {row!r}: the text has {len(ids)} tokens, counted from 0.")
    rows = [row % len(ids) for row in rows]
    if labels is None:
        return rows, None
    return [row for row in rows for _ in labels], [label for _ in rows for label in labels]


def _fixed_options(model: Any) -> dict[str, Any]:
    accepted = accepted_by(model)
    return {name: value for name, value in (("use_cache", False), ("return_dict", True)) if name in accepted}
