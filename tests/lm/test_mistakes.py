"""Likely mistakes with the language verbs are answered with what was found and what to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.lm.tiny_lms import CONTEXT, tiny, tokenizer

import cutaway
from cutaway.core.errors import InputError, InputTypeError
from cutaway.results.lm.generation import Generation

ROWS = np.random.default_rng(0).normal(size=(12, 4))


@cache
def gen() -> Generation:
    return cutaway.generate(tiny("gpt2"), tokenizer(), "the cat sat", max_new_tokens=3)


@cache
def label() -> Generation:
    return cutaway.lm.classify(tiny("bert_classifier"), tokenizer(), "the cat")


VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "an empty prompt": (lambda: cutaway.generate(tiny("gpt2"), tokenizer(), ""), r"prompt is empty.*bos_token_id"),
    "a long prompt": (
        lambda: cutaway.generate(tiny("gpt2"), tokenizer(), "the cat " * CONTEXT),
        rf"prompt has \d+ tokens, but GPT2LMHeadModel reads at most {CONTEXT}: shorten it",
    ),
    "a batch of ids": (
        lambda: cutaway.generate(tiny("gpt2"), tokenizer(), torch.ones(2, 3, dtype=torch.long)),
        "batch of 2 rows of token ids: give a list of prompts",
    ),
    "another kind of model": (
        lambda: cutaway.generate(torch.nn.Sequential(torch.nn.Linear(2, 2)), tokenizer(), "hi"),
        r"Sequential is not a language model: its forward takes input, not input_ids.*cutaway\.trace",
    ),
    "no tokens": (
        lambda: cutaway.generate(tiny("gpt2"), tokenizer(), "hi", max_new_tokens=0),
        "max_new_tokens=0: give a whole number, 1 or more",
    ),
    "a misspelled option": (
        lambda: cutaway.generate(tiny("gpt2"), tokenizer(), "hi", temprature=0.5),
        r"no option 'temprature'\. Did you mean 'temperature'\?",
    ),
    "a misspelled method": (lambda: gen().saliency("gradxinput"), r"Did you mean 'grad_x_input'\?"),
    "a misspelled target": (lambda: gen().saliency(target="logits"), "Did you mean 'logit'"),
    "a token as target": (lambda: gen().saliency(target=" cat"), "contrast= compares with another token"),
    "an option that is not read": (
        lambda: gen().saliency(steps=9),
        "method='grad_x_input' does not use steps=, which is for integrated_gradients",
    ),
    "a value for attention": (
        lambda: gen().saliency("rollout", contrast=0),
        "method='rollout' uses attention alone: leave out contrast=",
    ),
    "a target that is not there": (lambda: gen().saliency(only=99), "only has 99: the generation has 3 targets"),
    "no target": (lambda: gen().saliency(only=[]), r"only=\[\] selects no target"),
    "several tokens as one": (
        lambda: gen().saliency(contrast="the cat sat"),
        r"is \d+ tokens: 'the'.*begin with a space",
    ),
    "a long text as one token": (
        lambda: gen().lens(watch="notatoken" * 9),
        r"is \d+ tokens: .* and \d+ more\. Give one",
    ),
    "a token that is not there": (lambda: gen().lens(watch=9999), r"token 9999 is unknown: .* counted from 0"),
    "a layer that is not there": (
        lambda: gen().attention(layers=99),
        "layers has 99: there are 3 layers, counted",
    ),
    "a head that is not there": (
        lambda: gen().attention().pick(head=40),
        "no head 40 among 3 heads: give 0, 1, 2",
    ),
    "a layer of a lens": (
        lambda: gen().lens().layer("7"),
        r"no layer '7' in this lens.* There are 4: 'embedding', '0'",
    ),
    "parts that do not exist": (lambda: gen().logit_attribution("heads"), "Did you mean 'head'"),  # type: ignore[arg-type]
    "an option of another factorization": (
        lambda: gen().factors(2, method="pca", start="random"),
        "method='pca' does not use start=: for method='nmf' only",
    ),
    "a factorization that does not exist": (
        lambda: cutaway.lm.factorize(ROWS, 2, "nnmf"),  # type: ignore[arg-type]
        r"method='nnmf': give 'nmf', 'pca', 'kmeans'\. Did you mean 'nmf'",
    ),
    "a target of a saliency": (lambda: gen().saliency().top(99), "no target 99: there are 3, counted from 0"),
    "another vocabulary": (
        lambda: gen().with_model(other_model(vocab_size=20)).saliency(),
        r"the generation has token \d+, but GPT2LMHeadModel has 20 tokens: load the model that generated it",
    ),
    "a shorter context": (
        lambda: gen().with_model(other_model(n_positions=4)).lens(),
        "the generation has 6 tokens, but GPT2LMHeadModel reads at most 4",
    ),
    "the anatomy of another kind of model": (
        lambda: cutaway.lm.anatomy(torch.nn.Sequential(torch.nn.Linear(2, 2))),
        "Sequential is not a language model",
    ),
    "no beams": (lambda: cutaway.generate(tiny("gpt2"), tokenizer(), "hi", num_beams=0), "num_beams=0: give a whole"),
    "a place that a lens does not know": (lambda: gen().lens(after=3), "after=3: give 'attention', 'mlp', 'block'"),  # type: ignore[arg-type]
    "a misspelled field": (
        lambda: cutaway.lm.Template("Q: {question}", question="a", queston="b"),
        r"no field 'queston'; it has 'question'\. Did you mean 'question'",
    ),
    "no factors": (lambda: gen().factors(0), "n=0: give a whole number, 1 or more"),
    "no generations": (lambda: cutaway.lm.factors([]), "list of generations is empty"),
    "an option of another similarity": (
        lambda: cutaway.lm.similarity(ROWS, ROWS, n=2),
        "method='cka' does not use n=, which is for 'svcca': leave it out",
    ),
    "a misspelled similarity": (lambda: cutaway.lm.similarity(ROWS, ROWS, "ckaa"), "Did you mean 'cka'"),  # type: ignore[arg-type]
    "a label that does not exist": (
        lambda: label().saliency(contrast="LABEL_9"),
        r"contrast='LABEL_9' is not a label of this model.* It has 3, counted from 0: 'LABEL_0'",
    ),
    "no mask": (
        lambda: cutaway.lm.fill(tiny("bert"), tokenizer(), "the cat"),
        "prompt 'the cat' has no mask: write <mask>",
    ),
    "prompts of different lengths": (
        lambda: cutaway.lm.patch(tiny("gpt2"), tokenizer(), clean="the cat", corrupted="the cat sat"),
        "choose words with the same number of tokens",
    ),
}


@cache
def other_model(**sizes: int) -> Any:
    config = {"vocab_size": 320, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 64, **sizes}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**config, bos_token_id=0, eos_token_id=0))


TYPES: dict[str, tuple[Callable[[], Any], str]] = {
    "the tokenizer forgotten": (
        lambda: cutaway.generate(tiny("gpt2"), "hi"),  # type: ignore[call-overload]
        r"tokenizer is missing: 'hi' is in its place\. Call cutaway\.generate\(model, tokenizer, 'hi'\)",
    ),
    "the prompt forgotten": (
        lambda: cutaway.lm.classify(tiny("bert_classifier"), tokenizer()),  # type: ignore[call-overload]
        r"prompt is missing: call cutaway\.lm\.classify\(model, tokenizer, prompt\)",
    ),
    "model and tokenizer swapped": (
        lambda: cutaway.generate(tokenizer(), tiny("gpt2"), "hi"),
        "tokenizer is a model, GPT2LMHeadModel, and the model a",
    ),
    "the name of a tokenizer": (
        lambda: cutaway.generate(tiny("gpt2"), "gpt2", "hi"),
        r"AutoTokenizer\.from_pretrained\('gpt2'\)",
    ),
    "the name of a model": (
        lambda: cutaway.generate("gpt2", tokenizer(), "hi"),
        r"model is the text 'gpt2'.*AutoModelForCausalLM\.from_pretrained\('gpt2'\)",
    ),
    "the name of a model, attached": (lambda: gen().with_model("gpt2"), "model is the text 'gpt2'"),
    "half a token": (
        lambda: cutaway.generate(tiny("gpt2"), tokenizer(), "hi", max_new_tokens=2.5),  # type: ignore[call-overload]
        "max_new_tokens=2.5 is a float",
    ),
    "a number as target": (
        lambda: gen().saliency(target=99),  # type: ignore[arg-type]
        "target=99 is not the name of a value to explain.* only=99 chooses the token",
    ),
    "a size as text": (lambda: gen().attention(limit="1GB"), "limit='1GB' is a str: give bytes"),  # type: ignore[arg-type]
    "all layers": (lambda: gen().factors(2, layers="all"), "leave it out for all 3"),  # type: ignore[arg-type]
    "something else than a matrix": (lambda: cutaway.lm.similarity(gen(), gen()), "a is of type Generation: give rows"),
    "a callback that is none": (
        lambda: cutaway.generate(tiny("gpt2"), tokenizer(), "hi", on_token=3),  # type: ignore[call-overload]
        "on_token=3: give a function",
    ),
    "a text as number": (lambda: gen().saliency(only="last"), "only='last' has a str"),  # type: ignore[arg-type]
    "a token as norm": (lambda: gen().lens(" cat"), "norm=' cat' is a str.* watch=' cat' follows a token"),  # type: ignore[arg-type]
    "a method as number": (lambda: gen().factors("pca"), "n='pca' is a str: give a whole number"),  # type: ignore[arg-type]
    "a text to factorize": (lambda: cutaway.lm.factors("the cat"), r"gen is a str.*cutaway\.lm\.factorize"),  # type: ignore[arg-type]
    "a fraction as token": (lambda: gen().saliency(contrast=1.5), "contrast=1.5 is a float: give a token"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("mistake", VALUES)
def test_a_wrong_value_is_answered_with_what_to_do(mistake: str) -> None:
    call, message = VALUES[mistake]
    with pytest.raises(InputError, match=message) as raised:
        call()
    assert not isinstance(raised.value, TypeError)


@pytest.mark.parametrize("mistake", TYPES)
def test_a_wrong_type_is_answered_with_what_to_do(mistake: str) -> None:
    call, message = TYPES[mistake]
    with pytest.raises(InputTypeError, match=message):
        call()


@pytest.mark.parametrize("analysis", ["saliency", "lens", "factors", "attention", "logit_attribution"])
def test_a_loaded_generation_asks_for_its_model(analysis: str, tmp_path: Path) -> None:
    gen().save(tmp_path / "gen")
    with pytest.raises(InputError, match=r"no model: it was read from disk\. Attach one: gen = gen\.with_model"):
        getattr(cutaway.load(tmp_path / "gen"), analysis)()


def test_more_factors_than_positions_are_noted() -> None:
    factors = gen().factors(1000)
    assert len(factors) < 1000
    assert "factors instead of 1000: there are only" in factors.notes[0]
