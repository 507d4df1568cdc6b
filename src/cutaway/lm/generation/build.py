"""Builds a `Generation` from token ids: one forward pass over the whole text computes the scores."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.core.errors import InputError
from cutaway.lm.generation.prompts import Prompt
from cutaway.lm.generation.scores import output_form, step_scores
from cutaway.lm.generation.tokens import TokenReader
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.language_model import check_length
from cutaway.results.lm.generation import Generation, GenerationKind
from cutaway.results.lm.tokens import Beams, Steps, Tokens

_MAX_REPR = 200


def build_generation(
    model: nn.Module,
    tokenizer: Any,
    prompt: Prompt,
    *,
    kind: GenerationKind,
    read: Sequence[int],
    n_prompt: int,
    rows: Sequence[int],
    chosen: Sequence[int] | None,
    processed: Tensor | None = None,
    beams: Beams | None = None,
    decoding: Mapping[str, object] | None = None,
    labels: Sequence[str] | None = None,
) -> Generation:
    """The `Generation` for the tokens a model read and chose, with scores for each choice.

    Args:
        read: what the model reads; for an encoder–decoder, what its decoder reads (the encoder reads the prompt).
        chosen: the token or label chosen at each row; None for the most likely.
        processed: (step, class): the scores that tokens were sampled from.
        labels: the names of the classes, if they are not tokens.
    """
    pieces = TokenReader(tokenizer)
    is_encoder_decoder = kind == "encoder-decoder"
    check_length(model, len(read))
    bare = Generation(
        kind=kind,
        read=pieces.tokens(read, () if is_encoder_decoder else prompt.segments),
        n_prompt=n_prompt,
        rows=np.array(rows, np.int64),
        targets=_target_tokens([0] * len(rows), None, pieces)
        if chosen is None
        else _target_tokens(chosen, labels, pieces),
        steps=_EMPTY_STEPS,
        text="",
        source=pieces.tokens(prompt.ids, prompt.segments) if is_encoder_decoder else None,
        more_inputs={name: np.array(values, np.int64) for name, values in prompt.extra_inputs.items()},
    )
    # Tokenizers return token_type_ids also for models that take none.
    run = PromptRun.of(bare, model=model)
    bare = _drop_unused_inputs(bare, run)
    with context_errors(model, len(read)):
        logits = PromptRun.of(bare, model=model).logits()
    picked = logits.argmax(-1) if chosen is None else torch.as_tensor(list(chosen), device=logits.device)
    targets = _target_tokens(picked.tolist(), labels, pieces)
    generation = Generation(
        kind=kind,
        read=bare.read,
        n_prompt=n_prompt,
        rows=bare.rows,
        targets=targets,
        steps=step_scores(
            logits, picked, pieces if labels is None else labels, processed, form=output_form(model, kind)
        ),
        text=_text(kind, read, rows, targets, pieces),
        prompt=prompt.text,
        source=bare.source,
        beams=beams,
        decoding={name: plain_option(value) for name, value in (decoding or {}).items()},
        more_inputs=bare.more_inputs,
        about=_about(model, tokenizer),
    )
    return generation.with_model(model, tokenizer)


@contextmanager
def context_errors(model: nn.Module, n: int) -> Iterator[None]:
    """Turns an index error of a text longer than the context into an `InputError`."""
    try:
        yield
    # The config is not reliable: the positions of RoBERTa begin at 2, so it reads two tokens fewer than it says.
    except (IndexError, RuntimeError) as error:
        if not isinstance(error, IndexError) and "out of bounds" not in str(error):
            raise
        raise InputError(
            f"{type(model).__name__} failed on {n:,} tokens, most likely because they exceed its context "
            f"({error}): shorten the text."
        ) from error


def _drop_unused_inputs(gen: Generation, run: PromptRun) -> Generation:
    """The generation without inputs that the model's forward does not accept."""
    accepted = {name: values for name, values in gen.more_inputs.items() if name in run.accepted}
    return replace(gen, more_inputs=accepted)


def _text(kind: str, read: Sequence[int], rows: Sequence[int], targets: Tokens, pieces: TokenReader) -> str:
    if kind == "classifier":
        return ", ".join(targets.tokens)
    if kind == "masked":
        filled = list(read)
        for row, number in zip(rows, targets.ids.tolist(), strict=True):
            filled[row] = number
        return pieces.text(filled)
    return pieces.text(targets.ids.tolist())


def _target_tokens(ids: Sequence[int], labels: Sequence[str] | None, pieces: TokenReader) -> Tokens:
    if labels is None:
        return pieces.tokens(ids)
    names = tuple(labels[number] for number in ids)
    n = len(names)
    return Tokens(np.array(ids, np.int64), names, names, np.arange(n), np.zeros(n, bool))


def plain_option(value: object) -> object:
    """A decoding option as it is stored: numbers and strings as they are, everything else as its repr.

    >>> plain_option([1, 2.0]), plain_option(slice(3))
    ((1, 2.0), 'slice(None, 3, None)')
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(plain_option(each) for each in value)
    # Functions and configs cannot be saved.
    return repr(value)[:_MAX_REPR]


def _about(model: Any, tokenizer: Any) -> dict[str, object]:
    config = getattr(model, "config", None)
    facts: dict[str, object] = {
        "model": type(model).__name__,
        "name": str(getattr(config, "_name_or_path", "") or getattr(config, "name_or_path", "") or ""),
        "dtype": str(next((p.dtype for p in model.parameters()), "")).removeprefix("torch."),
        "tokenizer": type(tokenizer).__name__ if tokenizer is not None else "",
        "torch": str(torch.__version__),
        "transformers": str(getattr(sys.modules.get("transformers"), "__version__", "")),
    }
    return {name: value for name, value in facts.items() if value}


def _empty(*shape: int) -> Any:
    return np.zeros(shape)


_EMPTY_STEPS = Steps(
    _empty(0), _empty(0), _empty(0), np.zeros(0, np.int64), np.zeros((0, 0), np.int64), (), np.zeros((0, 0))
)
