"""Verbs that share options write each of them out, with the same type and default."""

from __future__ import annotations

from dataclasses import fields
from inspect import Parameter, getdoc, signature
from typing import Any

import pytest

import cutaway
from cutaway import neurons, studies
from cutaway.neurons.causal.attribute import gradient
from cutaway.neurons.causal.attribution import Plan
from cutaway.neurons.evaluation.evaluator import EvaluationSettings
from cutaway.neurons.ranking.method_options import MethodOptions
from cutaway.neurons.ranking.rank import METHODS, _method_parameters

VERBS = [
    cutaway.collect,
    neurons.rank,
    neurons.stability,
    neurons.compare,
    neurons.vote,
    neurons.average_overlap,
    neurons.neuron_vote,
    neurons.evaluate,
    neurons.layers,
    neurons.report,
    neurons.attribute,
    neurons.ablate,
    neurons.clusters,
    neurons.page,
    neurons.colored,
    neurons.top_words,
    neurons.top_contexts,
    neurons.histograms,
    neurons.annotate,
    neurons.balance,
    neurons.filter,
    neurons.control_labels,
    neurons.sentence_labels,
    neurons.span_labels,
    neurons.token_labels,
    neurons.read_conll,
    neurons.read_conllu,
    neurons.read_dataset,
    neurons.read_lines,
    neurons.read_tsv,
    studies.lesion,
    studies.patch,
]


def keywords(verb: Any) -> dict[str, tuple[Any, Any]]:
    """Keyword-only parameters with their annotations and defaults."""
    parameters = signature(verb).parameters.values()
    return {each.name: (each.annotation, each.default) for each in parameters if each.kind is Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_every_keyword_is_in_the_signature_and_described(verb: Any) -> None:
    parameters = signature(verb).parameters.values()
    assert not [each.name for each in parameters if each.kind in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)]
    described = getdoc(verb)
    assert described is not None
    assert not [each.name for each in parameters if f"    {each.name}: " not in described]


@pytest.mark.parametrize(
    ("verb", "other_defaults", "missing"),
    [
        (neurons.evaluate, set(), set()),
        (neurons.layers, {"n_permutations"}, {"ablations"}),
        (neurons.report, {"seeds"}, set()),
    ],
    ids=["evaluate", "layers", "report"],
)
def test_options_of_an_evaluation_agree(verb: Any, other_defaults: set[str], missing: set[str]) -> None:
    offered = keywords(verb)
    for each in fields(EvaluationSettings):
        if each.name in missing:
            assert each.name not in offered
        elif each.name not in other_defaults:
            assert offered[each.name] == (each.type, each.default)


@pytest.mark.parametrize("verb", [neurons.rank, neurons.stability], ids=["rank", "stability"])
def test_options_of_ranking_methods_agree(verb: Any) -> None:
    offered = keywords(verb)
    for each in fields(MethodOptions):
        if (verb, each.name) != (neurons.stability, "share"):  # its own share is the fraction of rows
            assert offered[each.name] == (each.type, each.default)


def test_the_union_of_options_is_that_of_the_methods() -> None:
    union = {option for method in METHODS for option in _method_parameters(method)} - {"seed", "compat"}
    assert union == {each.name for each in fields(MethodOptions)}


def test_options_of_an_attribution_agree() -> None:
    offered, as_method = keywords(neurons.attribute), keywords(gradient)
    for name in set(offered) - {"at", "method"}:
        assert offered[name] == as_method[name]
    defaults = {each.name: each.default for each in fields(Plan)}
    assert all(offered[name][1] == defaults[name] for name in ("steps", "baseline", "along", "batch_size"))
