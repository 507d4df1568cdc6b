"""`cutaway.generate`: runs a language model and stores exactly what it read and chose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.capture import sessions
from cutaway.capture.interventions.token_positions import generation_window
from cutaway.capture.model.eval_mode import device_of, eval_mode
from cutaway.capture.model.rng_state import seed_rng
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint
from cutaway.lm.arguments import option_names, whole_number
from cutaway.lm.generation.beams import BeamRecorder
from cutaway.lm.generation.build import build_generation
from cutaway.lm.generation.classify import classify, fill
from cutaway.lm.generation.model_kind import kind_of
from cutaway.lm.generation.prompts import (
    Prompt,
    PromptList,
    check_tokenizer,
    encode_continuation,
    encode_prompt,
    is_prompt_list,
)
from cutaway.lm.generation.tokens import TokenReader
from cutaway.lm.model.language_model import accepted_by, check_ids, check_length, eager_module
from cutaway.results.lm.generation import Generation

OnToken = Callable[[str, int], object]
"""Called with each new token: its text and its id."""
_RESERVED = {
    "return_dict_in_generate": "for several texts, call it with several seeds",
    "output_scores": "the scores of every step are in gen.steps",
    "num_return_sequences": "for several texts, call it with several seeds",
    "input_ids": "give them as the prompt",
    "attention_mask": "all tokens of a prompt are attended to",
    "streamer": "on_token= is called with each token",
    "max_length": "give max_new_tokens=",
}
"""Options of transformers' `generate` that Cutaway sets itself, and what to use instead."""
_HARMLESS = frozenset({"use_cache", "eos_token_id", "pad_token_id", "stop_strings", "stopping_criteria", "do_sample"})
"""Options that do not change the logits if do_sample is False."""
_INHERITED = {
    "repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "min_length": 0,
    "encoder_no_repeat_ngram_size": 0, "min_new_tokens": None, "bad_words_ids": None, "sequence_bias": None,
    "suppress_tokens": None, "begin_suppress_tokens": None, "forced_bos_token_id": None, "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None, "guidance_scale": None, "watermarking_config": None,
}  # fmt: skip
"""Options that apply from the model's generation config, with the values that have no effect."""
_COMMON = ("max_new_tokens", "do_sample", "temperature", "top_k", "top_p", "num_beams", "on_token", "stop_strings")
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: PromptList,
    *,
    max_new_tokens: int = 20,
    text: Any = None,
    do_sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    num_beams: int | None = None,
    repetition_penalty: float | None = None,
    stop_strings: str | list[str] | None = None,
    seed: int = 0,
    on_token: OnToken | None = None,
    **decoding: Any,
) -> list[Generation]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    *,
    max_new_tokens: int = 20,
    text: Any = None,
    do_sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    num_beams: int | None = None,
    repetition_penalty: float | None = None,
    stop_strings: str | list[str] | None = None,
    seed: int = 0,
    on_token: OnToken | None = None,
    **decoding: Any,
) -> Generation: ...


def generate(
    model: Any,
    tokenizer: Any,
    prompt: Any = None,  # required; a default, so that a forgotten tokenizer gets a message of its own
    *,
    max_new_tokens: int = 20,
    text: Any = None,
    do_sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    num_beams: int | None = None,
    repetition_penalty: float | None = None,
    stop_strings: str | list[str] | None = None,
    seed: int = 0,
    on_token: OnToken | None = None,
    **decoding: Any,
) -> Generation | list[Generation]:
    """Generate text, fill masks or label a text; the `Generation` explains the result.

        gen = cutaway.generate(model, tokenizer, "1, 2, 3,", max_new_tokens=10)
        gen.text, gen.steps.probs

    Decoding is greedy unless you give `do_sample=True` or an option of sampling.

    Args:
        model: a loaded language model of transformers, or a module whose forward takes `input_ids`.
        tokenizer: its tokenizer; None if the prompt is token ids.
        prompt: a text, a list of chat messages, a `cutaway.lm.Template`, or ids; a list of prompts gives a list.
        max_new_tokens: how many tokens to generate at most.
        text: a continuation to explain as if the model had generated it; nothing is generated.
        do_sample: whether to sample; by default only if an option of sampling is given.
        temperature: for sampling: divides the logits; below 1 prefers likely tokens.
        top_k: for sampling: how many of the most likely tokens can be sampled; 0 for all.
        top_p: for sampling: the most likely tokens that together have this probability can be sampled.
        num_beams: number of beams of beam search; 1 by default. `gen.beams` has all of them.
        repetition_penalty: divides the logits of tokens that occurred already; 1 for none.
        stop_strings: stop after one of these texts.
        seed: seed for sampling.
        on_token: callback for each new token: its text and its id.
        decoding: further options of the model's `generate`: `min_p`, `no_repeat_ngram_size`, `generation_config` …
    """
    check_tokenizer(model, tokenizer, prompt, "cutaway.generate")
    common = {
        "do_sample": do_sample,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "num_beams": num_beams,
        "repetition_penalty": repetition_penalty,
        "stop_strings": stop_strings,
    }
    options = {**{name: value for name, value in common.items() if value is not None}, **decoding}
    if num_beams is not None:
        whole_number(num_beams, "num_beams")
    if on_token is not None and not callable(on_token):
        raise InputTypeError(f"on_token={on_token!r}: give a function of the text and the id of a token.")
    core = eager_module(model)
    if is_prompt_list(prompt):
        return _generate_all(core, tokenizer, prompt, text, max_new_tokens, seed, on_token, options)
    return _generate_one(core, tokenizer, prompt, text, max_new_tokens, seed, on_token, options)


def _generate_all(
    model: nn.Module,
    tokenizer: Any,
    prompts: list[Any],
    text: Any,
    n: int,
    seed: int,
    on_token: OnToken | None,
    options: dict[str, Any],
) -> list[Generation]:
    if not prompts:
        raise InputError("the list of prompts is empty: give at least one.")
    texts = text if isinstance(text, list) else [text] * len(prompts)
    if len(texts) != len(prompts):
        raise InputError(f"{len(texts)} texts were given for {len(prompts)} prompts: give one per prompt.")
    # Edits count token positions from the end of one prompt, which a padded batch does not have.
    is_plain = text is None and on_token is None and _is_greedy(model, options) and not sessions.edits
    if kind_of(model) == "causal" and is_plain and len(prompts) > 1:
        return _generate_batch(model, tokenizer, prompts, whole_number(n, "max_new_tokens"), seed, options)
    return [
        _generate_one(model, tokenizer, prompt, continuation, n, seed, on_token, options)
        for prompt, continuation in zip(prompts, texts, strict=True)
    ]


def _generate_one(
    model: nn.Module,
    tokenizer: Any,
    prompt: Any,
    text: Any,
    n: int,
    seed: int,
    on_token: OnToken | None,
    options: dict[str, Any],
) -> Generation:
    kind = kind_of(model)
    if kind in ("masked", "classifier"):
        ignored = [*options, *([] if on_token is None else ["on_token"])]
        if ignored:
            name = type(model).__name__
            raise InputError(f"{name} does not generate step by step: leave out {option_names(ignored)}.")
        labeled: Generation = (
            fill(model, tokenizer, prompt, text=text) if kind == "masked" else classify(model, tokenizer, prompt)
        )
        return labeled
    generator = _PromptGenerator(model, tokenizer, encode_prompt(tokenizer, prompt), kind == "encoder-decoder")
    if text is not None and options:
        raise InputError(f"text= is given, so nothing is generated: leave out {option_names(options)}.")
    if text is not None:
        return generator.force(encode_continuation(tokenizer, text), seed)
    return generator.generate(whole_number(n, "max_new_tokens"), seed, on_token, options)


@dataclass(frozen=True, slots=True)
class _PromptGenerator:
    """Continues one prompt."""

    model: nn.Module
    tokenizer: Any
    prompt: Prompt
    is_encoder_decoder: bool
    """Whether the model is an encoder–decoder; its encoder reads the prompt."""

    def __post_init__(self) -> None:
        check_ids(self.model, self.tokenizer, self.prompt.ids)

    def _check_length(self, n: int) -> None:
        check_length(self.model, len(self.prompt.ids), 0 if self.is_encoder_decoder else n)
        if self.is_encoder_decoder:
            check_length(self.model, 1, n)

    def generate(self, n: int, seed: int, on_token: OnToken | None, decoding: dict[str, Any]) -> Generation:
        """The generation that the model produces."""
        self._check_length(n)
        ids = torch.tensor([self.prompt.ids], device=device_of(self.model))
        options = decoding_options(self.model, decoding)
        beam_recorder = BeamRecorder(eos_ids(self.model, options)) if _option(options, "num_beams", 1) > 1 else None
        if beam_recorder is not None and on_token is not None:
            raise InputError("beam search generates several beams at once: use on_token= with num_beams=1 only.")
        if beam_recorder is not None:
            # A processor runs before each choice, so the last tokens of the beams are in the returned sequences only.
            processors = [*(options.get("logits_processor") or ()), beam_recorder]
            options |= {"logits_processor": processors, "num_return_sequences": _option(options, "num_beams", 1)}
        # transformers needs the tokenizer to match stop strings.
        if "stop_strings" in options:
            options["tokenizer"] = self.tokenizer
        if on_token is not None:
            options["streamer"] = _Streamer(on_token, TokenReader(self.tokenizer), skip=1)
        output = call_generate(self.model, seed, ids, torch.ones_like(ids), n, options)
        prefix = 1 if self.is_encoder_decoder else len(self.prompt.ids)
        row = output.sequences[0].tolist()
        new = trim_after_eos(row[prefix:], self.model, options)
        start = row[:prefix] if self.is_encoder_decoder else []
        scores = _processed_scores(output, len(new), beam_recorder is None and _changes_logits(options, self.model))
        beams = (
            None
            if beam_recorder is None
            else beam_recorder.tree(output.sequences, prefix, new, TokenReader(self.tokenizer))
        )
        return self._build(start, new, seed, {**inherited_options(self.model, decoding), **decoding}, scores, beams)

    def force(self, new: list[int], seed: int) -> Generation:
        """The generation for a given continuation."""
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
    """Continues several prompts as one batch, padded on the left.

    With padding, some models round differently and a few do not mask it fully. A text that is not the greedy
    continuation of its prompt alone is generated again without the batch.
    """
    generators = [_PromptGenerator(model, tokenizer, encode_prompt(tokenizer, prompt), False) for prompt in prompts]
    width = max(len(generator.prompt.ids) for generator in generators)
    check_length(model, width, n)
    pad = pad_id(model, tokenizer)
    device = device_of(model)
    # On the left, so that all prompts end at the same position.
    rows = [[pad] * (width - len(generator.prompt.ids)) + generator.prompt.ids for generator in generators]
    mask = [[0] * (width - len(generator.prompt.ids)) + [1] * len(generator.prompt.ids) for generator in generators]
    options = decoding_options(model, decoding)
    ids, attention_mask = torch.tensor(rows, device=device), torch.tensor(mask, device=device)
    output = call_generate(model, seed, ids, attention_mask, n, options)
    generations = []
    for generator, row in zip(generators, output.sequences.tolist(), strict=True):
        new = trim_after_eos(row[width:], model, options)
        gen = generator._build([], new, seed, decoding, None, None)  # a greedy batch has no inherited options
        is_same = len(gen) > 0 and bool((gen.steps.ranks == 1).all())
        generations.append(gen if is_same else generator.generate(n, seed, None, decoding))
    return generations


def call_generate(model: Any, seed: int, ids: Tensor, mask: Tensor, n: int, options: dict[str, Any]) -> Any:
    """Calls the model's own `generate` in eval mode with a fixed seed."""
    if not hasattr(model, "generate"):
        raise InputError(f"{type(model).__name__} has no generate(): give the continuation yourself, text='…'.")
    # Without a padding token, transformers warns at every call.
    pad = {} if getattr(model.generation_config, "pad_token_id", None) is not None else {"pad_token_id": pad_id(model)}
    # Edits count negative positions from the end of the prompt; in a decoder, the prompt is not among the positions.
    is_encoder_decoder = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    with eval_mode(model), seed_rng(seed), generation_window(model, None if is_encoder_decoder else ids.shape[1]):
        return model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=n,
            return_dict_in_generate=True,
            # Scores (step, vocabulary) are large; unprocessed ones follow from the forward pass that explains the text.
            output_scores=_changes_logits(options, model),
            **pad,
            **options,
        )


def decoding_options(model: Any, decoding: dict[str, Any]) -> dict[str, Any]:
    """Options for the model's `generate`: greedy, unless an option of sampling is given."""
    for name, instead in _RESERVED.items():
        if name in decoding:
            raise InputError(f"{name}= is set by cutaway.generate: {instead}.")
    _check_names(model, decoding)
    if decoding.get("generation_config") is not None:
        return dict(decoding)
    # transformers ignores temperature= and the like without do_sample, with a warning only.
    samples = any(decoding.get(name) is not None for name in _SAMPLING)
    # Explicit, because the generation config of a model may sample or use beams.
    return {"do_sample": samples, "num_beams": 1, **decoding}


def _check_names(model: Any, decoding: dict[str, Any]) -> None:
    """Raises for an option that is a misspelling of one; other unknown ones are for the model to accept or refuse."""
    config = getattr(model, "generation_config", None)
    if config is None:
        return
    known = {*vars(config), *accepted_by(model), *signature(model.generate).parameters}
    for name in decoding:
        if name not in known and (meant := hint(name, [*known, *_COMMON])):
            raise InputError(f"cutaway.generate has no option {name!r}.{meant}")


def inherited_options(model: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options of the given generation config, or the model's, that change logits even if you do not set them."""
    config = options.get("generation_config") or getattr(model, "generation_config", None)
    values = {name: getattr(config, name, None) for name in _INHERITED}
    return {name: value for name, value in values.items() if value not in (None, _INHERITED[name], [])}


def _option(options: dict[str, Any], name: str, otherwise: Any) -> Any:
    """The value in effect: the given option, or that of a given generation config."""
    value = options.get(name, getattr(options.get("generation_config"), name, None))
    return otherwise if value is None else value


def trim_after_eos(ids: list[int], model: Any, options: dict[str, Any]) -> list[int]:
    """Generated ids up to and including the first end-of-sequence token; padding may follow it."""
    known = eos_ids(model, options)
    for i, number in enumerate(ids):
        if number in known:
            return ids[: i + 1]
    return ids


def eos_ids(model: Any, options: dict[str, Any]) -> frozenset[int]:
    """Ids of the end-of-sequence tokens."""
    ends = _option(options, "eos_token_id", getattr(getattr(model, "generation_config", None), "eos_token_id", None))
    return frozenset({ends} if isinstance(ends, int) else ends or ())


def pad_id(model: Any, tokenizer: Any = None) -> int:
    """A token id for padding; padding is masked, so any will do."""
    config = getattr(model, "generation_config", None)
    ends = getattr(config, "eos_token_id", None)
    # Llama 3 has several end-of-sequence tokens.
    ends = ends[0] if isinstance(ends, (list, tuple)) and ends else ends
    known = (getattr(config, "pad_token_id", None), getattr(tokenizer, "pad_token_id", None), ends)
    return next((number for number in known if isinstance(number, int) and number >= 0), 0)


def start_token(model: Any) -> int:
    """The token that a decoder starts with."""
    for config in (getattr(model, "generation_config", None), getattr(model, "config", None)):
        # The order in which transformers looks for it.
        for name in ("decoder_start_token_id", "bos_token_id"):
            token = getattr(config, name, None)
            if isinstance(token, int):
                return token
    raise InputError(f"{type(model).__name__} has no start token for its decoder: set config.decoder_start_token_id.")


def _is_greedy(model: Any, decoding: dict[str, Any]) -> bool:
    """Whether decoding is greedy on unchanged logits; only then a batch gives the same texts as single prompts."""
    options = decoding_options(model, decoding)
    return not _changes_logits(options, model) and options.get("num_beams") == 1 and "stop_strings" not in options


def _changes_logits(options: dict[str, Any], model: Any) -> bool:
    """Whether the logits may change before a token is chosen."""
    is_drawn = bool(_option(options, "do_sample", False))
    return is_drawn or bool(options.keys() - _HARMLESS - {"num_beams"}) or bool(inherited_options(model, options))


def _processed_scores(output: Any, n: int, is_wanted: bool) -> Tensor | None:
    """(step, class): the scores that tokens were sampled from."""
    if not is_wanted or not output.scores:
        return None
    return torch.stack([scores[0] for scores in output.scores[:n]])


class _Streamer:
    """Passes each token of the model's `generate` to the callback."""

    def __init__(self, on_token: OnToken, pieces: TokenReader, skip: int) -> None:
        self._on_token, self._pieces, self._skip = on_token, pieces, skip

    def put(self, value: Any) -> None:
        if self._skip:  # generate() sends the prompt first
            self._skip -= 1
            return
        for number in np.asarray(value.cpu()).reshape(-1).tolist():
            self._on_token(self._pieces.pieces([number])[0], number)

    def end(self) -> None:
        pass
