"""Verbs and methods show every option: the same names, types and defaults wherever they are repeated."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any, get_overloads

import numpy as np
import pytest

import cutaway
from cutaway.core import late
from cutaway.lm.factorization.factorize import factorize
from cutaway.lm.factorization.factors import factors
from cutaway.results.lm.generation import Generation

ANALYSES = ["saliency", "lens", "factors", "attention", "logit_attribution"]


def options(function: Any) -> dict[str, tuple[str, Any]]:
    """Name → type and default, without what is analyzed."""
    parameters = list(signature(function).parameters.values())
    return {each.name: (str(each.annotation), each.default) for each in parameters[1:]}


@pytest.mark.parametrize("name", ANALYSES)
def test_a_method_has_the_options_of_its_function(name: str) -> None:
    module, _, function = late.bindings()[f"Generation.{name}"].partition(":")
    bound = getattr(late.load_module(module, name), function)
    method = getattr(Generation, name)
    assert options(method) == options(bound)
    assert signature(method).return_annotation == signature(bound).return_annotation
    text = method.__doc__
    assert all(f"            {option}: " in text for option in options(method)), "each has a line under Args"


def test_options_of_nmf_agree() -> None:
    shared = ("method", "seed", "start", "max_iter", "tolerance")
    assert {name: options(factors)[name] for name in shared} == {name: options(factorize)[name] for name in shared}


@pytest.mark.parametrize("verb", [cutaway.generate, cutaway.lm.fill, cutaway.lm.classify])
def test_overloads_repeat_all_options(verb: Any) -> None:
    whole = options(verb)
    whole.pop("prompt")
    overloads = get_overloads(verb)
    assert len(overloads) == 2
    for overload in overloads:
        its = options(overload)
        its.pop("prompt")
        assert its == whole


@pytest.mark.parametrize("name", ["factorize", "factors", "similarity", "rdm", "fill", "classify", "patch"])
def test_no_verb_hides_its_options(name: str) -> None:
    kinds = {each.kind for each in signature(getattr(cutaway.lm, name)).parameters.values()}
    assert Parameter.VAR_KEYWORD not in kinds


def test_the_former_name_of_factorize_works_and_warns() -> None:
    values = np.random.default_rng(0).random((6, 4))
    with pytest.warns(DeprecationWarning, match=r"cutaway\.lm\.factorize"):
        former = cutaway.lm.factored(values, 2, start="svd")
    assert np.array_equal(former.weights, factorize(values, 2).weights)


def test_a_result_is_an_array_of_its_main_matrix() -> None:
    from tests.lm.tiny_lms import tiny, tokenizer

    gen = cutaway.generate(tiny("gpt2"), tokenizer(), "the cat", max_new_tokens=2)
    saliency, lens, attention, attribution = gen.saliency(), gen.lens(), gen.attention(), gen.logit_attribution()
    assert np.array_equal(np.asarray(saliency), saliency.scores, equal_nan=True)
    assert np.array_equal(np.asarray(lens), lens.ranks)
    assert np.asarray(attention).shape == attention.weights.shape
    assert np.array_equal(np.asarray(attribution, dtype=np.float32), attribution.values.astype(np.float32))
    similarity = cutaway.lm.similarity([np.eye(5), np.eye(5)])
    matrix = np.asarray(similarity)
    matrix[0, 0] = 7.0
    assert similarity.values[0, 0] != 7.0
