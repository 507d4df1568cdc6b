"""The verb `generate`: a model writes, and what it read and chose is kept as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.capture import sessions
from cutaway.capture.interventions.token_positions import writing
from cutaway.capture.model.eval_mode import device_of, eval_mode
from cutaway.capture.model.rng_state import seeded
from cutaway.core.errors import InputError
from cutaway.lm.generation.beams import BeamRecorder
from cutaway.lm.generation.build import build_generation
from cutaway.lm.generation.classify import classify, fill
from cutaway.lm.generation.model_kind import check_ids, check_length, eager_module, kind_of
from cutaway.lm.generation.prompts import Prompt, encode_continuation, encode_prompt, is_prompt_list
from cutaway.lm.generation.tokens import TokenReader
from cutaway.results.generation import Generation

OnToken = Callable[[str, int], object]
"""Called with each token as it is written: as it is read, and its id."""
_RESERVED = {
    "return_dict_in_generate": "for several texts, ask with several seeds",
    "output_scores": "the scores of every step are in gen.steps",
    "num_return_sequences": "for several texts, ask with several seeds",
    "input_ids": "give them as the prompt",
    "attention_mask": "every token of a prompt is read",
    "streamer": "on_token= is called with each token",
    "max_length": "give max_new_tokens=",
}
"""Options of transformers' `generate` that are not the user's, and what to do instead."""
_HARMLESS = frozenset({"use_cache", "eos_token_id", "pad_token_id", "stop_strings", "stopping_criteria", "do_sample"})
"""Options that change no logits, as far as do_sample is False."""
_INHERITED = {
    "repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "min_length": 0,
    "encoder_no_repeat_ngram_size": 0, "min_new_tokens": None, "bad_words_ids": None, "sequence_bias": None,
    "suppress_tokens": None, "begin_suppress_tokens": None, "forced_bos_token_id": None, "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None, "guidance_scale": None, "watermarking_config": None,
}  # fmt: skip
"""Options that a model brings along and that stay in force, and what they are where they do nothing."""
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")


def generate(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    *,
    max_new_tokens: int = 20,
    text: Any = None,
    seed: int = 0,
    on_token: OnToken | None = None,
    **decoding: Any,
) -> Any:
    """Let a model write, fill masks or label; the `Generation` can be asked why.

        gen = cutaway.generate(model, tokenizer, "1, 2, 3,", max_new_tokens=10)
        gen.text, gen.steps.probs

    Args:
        prompt: a text, a list of chat messages, a `cutaway.lm.Template`, ids; or a list of prompts, which gives a list.
        text: a continuation that the model is taken to have written: nothing is generated.
        seed: of the random numbers that sampling draws.
        on_token: is called with each token as it is written.
        decoding: goes to the model's own `generate`: `do_sample`, `temperature`, `top_k`, `top_p`, `num_beams`…
            Without any the likeliest token is written at each step.
    """
    core = eager_module(model)
    kind = kind_of(core)
    if is_prompt_list(prompt):
        if not prompt:
            raise InputError("the list of prompts is empty: give at least one.")
        texts = text if isinstance(text, list) else [text] * len(prompt)
        if len(texts) != len(prompt):
            raise InputError(f"{len(texts)} texts were given for {len(prompt)} prompts: give one for each.")
        options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "seed": seed, "on_token": on_token}
        is_plain = text is None and on_token is None and _is_greedy(core, decoding) and not sessions.edits
        if kind == "causal" and is_plain and len(prompt) > 1:
            return _generate_batch(core, tokenizer, prompt, max_new_tokens, seed, decoding)
        return [
            generate(model, tokenizer, each, text=its, **options, **decoding)
            for each, its in zip(prompt, texts, strict=True)
        ]
    if kind in ("masked", "classifier"):
        if decoding or on_token is not None:
            given = {**decoding, **({} if on_token is None else {"on_token": on_token})}
            raise InputError(f"{type(core).__name__} writes nothing step by step: {_names(given)} has no meaning.")
        return fill(model, tokenizer, prompt, text=text) if kind == "masked" else classify(model, tokenizer, prompt)
    writing = _PromptGenerator(core, tokenizer, encode_prompt(tokenizer, prompt), kind == "encoder-decoder")
    if text is not None and decoding:
        raise InputError(f"text= is given, so that nothing is generated: {_names(decoding)} has no meaning.")
    if text is not None:
        return writing.force(encode_continuation(tokenizer, text), seed)
    return writing.generate(max_new_tokens, seed, on_token, decoding)


@dataclass(frozen=True, slots=True)
class _PromptGenerator:
    """One prompt that is gone on from."""

    model: nn.Module
    tokenizer: Any
    prompt: Prompt
    is_encoder_decoder: bool
    """Whether the model is an encoder–decoder: then the prompt is what its encoder reads."""

    def __post_init__(self) -> None:
        check_ids(self.model, self.tokenizer, self.prompt.ids)

    def _check_length(self, n: int) -> None:
        check_length(self.model, len(self.prompt.ids), 0 if self.is_encoder_decoder else n)
        if self.is_encoder_decoder:
            check_length(self.model, 1, n)

    def generate(self, n: int, seed: int, on_token: OnToken | None, decoding: dict[str, Any]) -> Generation:
        """What the model writes by itself."""
        if isinstance(n, bool) or not hasattr(n, "__index__") or int(n) < 1:
            raise InputError(f"max_new_tokens={n!r}: give a whole number, 1 or more.")
        n = int(n)
        self._check_length(n)
        ids = torch.tensor([self.prompt.ids], device=device_of(self.model))
        options = decoding_options(self.model, decoding)
        beam_recorder = BeamRecorder(eos_ids(self.model, options)) if _option(options, "num_beams", 1) > 1 else None
        if beam_recorder is not None and on_token is not None:
            raise InputError("beams are written several at a time: on_token= is for num_beams=1.")
        if beam_recorder is not None:
            processors = [*(options.get("logits_processor") or ()), beam_recorder]
            options |= {"logits_processor": processors, "num_return_sequences": _option(options, "num_beams", 1)}
        if "stop_strings" in options:
            options["tokenizer"] = self.tokenizer
        if on_token is not None:
            options["streamer"] = _Streamer(on_token, TokenReader(self.tokenizer), skip=1)
        made = call_generate(self.model, seed, ids, torch.ones_like(ids), n, options)
        prefix = 1 if self.is_encoder_decoder else len(self.prompt.ids)
        row = made.sequences[0].tolist()
        new = trim_after_eos(row[prefix:], self.model, options)
        start = row[:prefix] if self.is_encoder_decoder else []
        scores = _processed_scores(made, len(new), beam_recorder is None and _changes_logits(options, self.model))
        beams = (
            None
            if beam_recorder is None
            else beam_recorder.tree(made.sequences, prefix, new, TokenReader(self.tokenizer))
        )
        return self._build(start, new, seed, {**inherited_options(self.model, decoding), **decoding}, scores, beams)

    def force(self, new: list[int], seed: int) -> Generation:
        """What the model is taken to have written."""
        check_ids(self.model, self.tokenizer, new)
        self._check_length(len(new))
        start = [start_token(self.model)] if self.is_encoder_decoder else []
        return self._build(start, new, seed, {"forced": True}, None, None)

    def _build(
        self, start: list[int], new: list[int], seed: int, options: dict[str, Any], scores: Tensor | None, beams: Any
    ) -> Generation:
        before = start if self.is_encoder_decoder else self.prompt.ids
        return build_generation(
            self.model,
            self.tokenizer,
            self.prompt,
            kind="encoder-decoder" if self.is_encoder_decoder else "causal",
            read=[*before, *new],
            n_prompt=len(before),
            rows=[len(before) - 1 + i for i in range(len(new))],
            chosen=new,
            processed=scores,
            beams=beams,
            decoding={**options, "seed": seed},
        )


def _generate_batch(
    model: nn.Module, tokenizer: Any, prompts: Sequence[Any], n: int, seed: int, decoding: dict[str, Any]
) -> list[Generation]:
    """Several prompts as one batch, padded on the left.

    With padding in front some models round otherwise, and a few do not leave it out wholly: whatever comes out
    otherwise than alone is written once more, alone.
    """
    each = [_PromptGenerator(model, tokenizer, encode_prompt(tokenizer, prompt), False) for prompt in prompts]
    width = max(len(generator.prompt.ids) for generator in each)
    check_length(model, width, n)
    pad = pad_id(model, tokenizer)
    device = device_of(model)
    rows = [[pad] * (width - len(generator.prompt.ids)) + generator.prompt.ids for generator in each]
    mask = [[0] * (width - len(generator.prompt.ids)) + [1] * len(generator.prompt.ids) for generator in each]
    options = decoding_options(model, decoding)
    made = call_generate(model, seed, torch.tensor(rows, device=device), torch.tensor(mask, device=device), n, options)
    found = []
    for generator, row in zip(each, made.sequences.tolist(), strict=True):
        new = trim_after_eos(row[width:], model, options)
        gen = generator._build([], new, seed, decoding, None, None)  # nothing was inherited
        is_same = len(gen) > 0 and bool((gen.steps.ranks == 1).all())
        found.append(gen if is_same else generator.generate(n, seed, None, decoding))
    return found


def call_generate(model: Any, seed: int, ids: Tensor, mask: Tensor, n: int, options: dict[str, Any]) -> Any:
    """What the model's own `generate` gives."""
    if not hasattr(model, "generate"):
        raise InputError(f"{type(model).__name__} has no generate(): give what it is to have written, text='…'.")
    pad = {} if getattr(model.generation_config, "pad_token_id", None) is not None else {"pad_token_id": pad_id(model)}
    is_encoder_decoder = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    with eval_mode(model), seeded(seed), writing(model, None if is_encoder_decoder else ids.shape[1]):
        return model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=n,
            return_dict_in_generate=True,
            output_scores=_changes_logits(options, model),
            **pad,
            **options,
        )


def decoding_options(model: Any, decoding: dict[str, Any]) -> dict[str, Any]:
    """How tokens are to be chosen: the likeliest one, unless something is said that only sampling knows."""
    for name, instead in _RESERVED.items():
        if name in decoding:
            raise InputError(f"{name}= is set by cutaway.generate: {instead}.")
    if decoding.get("generation_config") is not None:
        return dict(decoding)
    samples = any(decoding.get(name) is not None for name in _SAMPLING)
    return {"do_sample": samples, "num_beams": 1, **decoding}


def inherited_options(model: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What a configuration changes logits with, whatever else is asked for: the one that was given, or the model's."""
    config = options.get("generation_config") or getattr(model, "generation_config", None)
    found = {name: getattr(config, name, None) for name in _INHERITED}
    return {name: value for name, value in found.items() if value not in (None, _INHERITED[name], [])}


def _option(options: dict[str, Any], name: str, otherwise: Any) -> Any:
    """What holds: what was said, or what a configuration says that was given."""
    found = options.get(name, getattr(options.get("generation_config"), name, None))
    return otherwise if found is None else found


def trim_after_eos(ids: list[int], model: Any, options: dict[str, Any]) -> list[int]:
    """Generated ids up to the token that ended them, that one included; padding may follow it."""
    known = eos_ids(model, options)
    for i, number in enumerate(ids):
        if number in known:
            return ids[: i + 1]
    return ids


def eos_ids(model: Any, options: dict[str, Any]) -> frozenset[int]:
    """The tokens that end a text."""
    ends = _option(options, "eos_token_id", getattr(getattr(model, "generation_config", None), "eos_token_id", None))
    return frozenset({ends} if isinstance(ends, int) else ends or ())


def pad_id(model: Any, tokenizer: Any = None) -> int:
    """A token to fill rows up with: nothing looks at it."""
    config = getattr(model, "generation_config", None)
    ends = getattr(config, "eos_token_id", None)
    ends = ends[0] if isinstance(ends, (list, tuple)) and ends else ends
    known = (getattr(config, "pad_token_id", None), getattr(tokenizer, "pad_token_id", None), ends)
    return next((number for number in known if isinstance(number, int) and number >= 0), 0)


def start_token(model: Any) -> int:
    """With what a decoder begins."""
    for config in (getattr(model, "generation_config", None), getattr(model, "config", None)):
        for name in ("decoder_start_token_id", "bos_token_id"):
            found = getattr(config, name, None)
            if isinstance(found, int):
                return found
    raise InputError(f"{type(model).__name__} does not say with what its decoder begins: set decoder_start_token_id.")


def _is_greedy(model: Any, decoding: dict[str, Any]) -> bool:
    """Whether the likeliest is written, by the model's own logits: else a batch is not what its texts are alone."""
    options = decoding_options(model, decoding)
    return not _changes_logits(options, model) and options.get("num_beams") == 1 and "stop_strings" not in options


def _changes_logits(options: dict[str, Any], model: Any) -> bool:
    """Whether the logits may be changed before a token is chosen."""
    is_drawn = bool(_option(options, "do_sample", False))
    return is_drawn or bool(options.keys() - _HARMLESS - {"num_beams"}) or bool(inherited_options(model, options))


def _processed_scores(made: Any, n: int, is_wanted: bool) -> Tensor | None:
    """(step, class): the scores from which tokens were drawn."""
    if not is_wanted or not made.scores:
        return None
    return torch.stack([scores[0] for scores in made.scores[:n]])


def _names(decoding: dict[str, Any]) -> str:
    return ", ".join(f"{name}=" for name in decoding)


class _Streamer:
    """What the model's `generate` tells of each token."""

    def __init__(self, on_token: OnToken, pieces: TokenReader, skip: int) -> None:
        self._on_token, self._pieces, self._skip = on_token, pieces, skip

    def put(self, value: Any) -> None:
        if self._skip:  # the prompt comes first
            self._skip -= 1
            return
        for number in np.asarray(value.cpu()).reshape(-1).tolist():
            self._on_token(self._pieces.pieces([number])[0], number)

    def end(self) -> None:
        pass
