"""Answers promise no more than the numbers do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cutaway.results.neurons.evaluation import Estimate, Evaluation, Setting
from cutaway.results.neurons.verdicts import answer_of, verdict_of

SETTING = Setting("probeless", "accuracy", "classes", 100, 8, 10, "sentences", 5, (0,), 0.95, 1.5, True)
GOOD = Evaluation(
    SETTING,
    counts=(1, 4),
    kept=(Estimate(0.7, 0.65, 0.75), Estimate(0.9, 0.85, 0.95)),
    all_units=Estimate(0.95, 0.9, 1.0),
    delta=(Estimate(-0.25, -0.3, -0.2), Estimate(-0.05, -0.1, 0.0)),
    random=(Estimate(0.5, 0.4, 0.6), Estimate(0.6, 0.5, 0.7)),
    majority=0.5,
    selectivity=(Estimate(0.1, 0.0, 0.2), Estimate(0.3, 0.2, 0.4)),
    null=np.full(20, 0.5),
    p_value=1 / 21,
)

HEARD = replace(GOOD, selectivity=(Estimate(0.0, -0.1, 0.1), Estimate(0.01, -0.1, 0.1)))
"""Words are known by heart."""
SPREAD = replace(
    HEARD,
    setting=replace(SETTING, method="gaussian"),
    p_value=0.5,
    information=(Estimate(0.4, 0.3, 0.5), Estimate(0.3, 0.2, 0.4)),
    entropy=1.0,
)
"""A unit whose values spread farther in one class."""


def scored(value: float, low: float, high: float) -> Evaluation:
    return replace(GOOD, kept=(GOOD.kept[0], Estimate(value, low, high)))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (HEARD, "memory"),
        (replace(HEARD, setting=replace(SETTING, groups="word types")), "found"),  # no type is on both sides
        (replace(HEARD, p_value=0.2), "nothing"),
        (SPREAD, "found"),
        (replace(SPREAD, setting=SETTING), "nothing"),
        (replace(SPREAD, information=(Estimate(0.2, 0.1, 0.3), Estimate(0.1, -0.1, 0.3))), "nothing"),
        (GOOD, "found"),
        (replace(GOOD, p_value=0.2), "nothing"),
        (scored(0.52, 0.45, 0.6), "weak"),
        (scored(0.65, 0.6, 0.7), "spread"),
        (replace(scored(0.52, 0.45, 0.6), null=np.empty(0), p_value=None), "nothing"),
        (replace(GOOD, null=np.empty(0), p_value=None), "found"),
        (replace(GOOD, null=np.full(5, 0.5), p_value=1 / 6), "found"),  # five permutations can reject nothing
        (replace(scored(0.2, -0.1, 0.4), majority=None, random=()), "nothing"),
    ],
)
def test_a_verdict_weighs_chance_the_most_frequent_class_and_random_units(found: Evaluation, verdict: str) -> None:
    assert verdict_of(found) == verdict


def test_the_numbers_stand_in_the_sentence() -> None:
    text = str(answer_of({"probeless": GOOD, "linear": scored(0.91, 0.9, 0.92)}))
    for part in ("4 of 8 units by probeless reach an accuracy of 0.900 [0.850, 0.950]", "all units 0.950"):
        assert part in text
    assert "4 random units 0.600, always predicting the most frequent class 0.500" in text
    assert "p = 0.0476 with 20 permutations (the minimum)" in text
    assert "Selectivity is 0.300 [0.200, 0.400]: the score exceeds the control task." in text
    assert "The same number of units reaches 0.910 by linear." in text
    assert "From 4 units on, the score is indistinguishable from that of all units." in text


def test_memory_is_not_passed_over() -> None:
    answer = answer_of({"probeless": HEARD})
    assert "memorized words would score as well" in str(answer)
    assert answer.sentences[0].startswith(
        "These units predict the labels, but they predict random labels of words as well"
    )
    assert answer_of({}, {"verb": HEARD, "noun": replace(HEARD, p_value=0.5)}).verdict == "memory"


def test_bits_of_gaussians_are_told_also_where_another_method_leads() -> None:
    said = (
        "Gaussians on 4 units by gaussian estimate 0.300 [0.200, 0.400] bits of mutual information (at most 1.000) on "
        "held-out rows. The score does not show this"
    )
    assert said in str(answer_of({"gaussian": SPREAD}))
    other = answer_of({"probeless": replace(GOOD, p_value=0.5), "gaussian": SPREAD})
    assert other.verdict == "nothing"
    assert said in str(other)


def test_what_is_missing_is_said() -> None:
    found = replace(GOOD, delta=(Estimate(-0.25, -0.3, -0.2), Estimate(-0.05, -0.1, -0.01)))
    assert "All units together score 0.050 higher." in str(answer_of({"probeless": found}))


def test_nothing_by_one_method_is_not_nothing_at_all() -> None:
    text = str(answer_of({"probeless": replace(GOOD, p_value=0.5)}))
    assert text.startswith("No evidence that these units predict the labels better than chance.")
    assert "All units together do predict them: 0.950 [0.900, 1.000]." in text
    none = replace(GOOD, p_value=0.5, all_units=Estimate(0.5, 0.4, 0.6))
    assert "do predict" not in str(answer_of({"probeless": none}))


def test_labels_are_counted_one_by_one() -> None:
    answer = answer_of({}, {"noun": GOOD, "verb": replace(GOOD, p_value=0.5)})
    assert answer.verdict == "found"
    assert str(answer) == "Each label against the rest: units predict 1 of 2 labels: noun."
    assert answer_of({}, {"verb": replace(GOOD, p_value=0.5)}).verdict == "nothing"
