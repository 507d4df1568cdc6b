"""From sentences to units, as a user goes: what was collected is labeled, ranked, evaluated and ablated."""

from __future__ import annotations

import numpy as np
import pytest
from tests.collecting import tiny

import cutaway
from cutaway import neurons
from cutaway.core.errors import InputError

SENTENCES = [
    "the singer was singing in a large house",
    "cats and dogs  are playing near the river",
    "he walked home and started reading a book",
    "trains stopped ; people waited , talking",
    "they wanted good \u00ad looking hats",
    "working hands lifted the boxes",
    "she listened to birds calling",
    "a painted wall keeps falling",
] * 5
AT = "encoder.layer.*"


@pytest.fixture(scope="module")
def acts() -> cutaway.Activations:
    with pytest.warns(UserWarning, match="5 problems"):
        found: cutaway.Activations = cutaway.collect(tiny.bert(), SENTENCES, tokenizer=tiny.minilm()[1], at=AT)
    return found


def test_words_are_labeled_by_rule_and_units_ranked_for_them(acts: cutaway.Activations) -> None:
    labels = neurons.annotate(acts, {"ing": r"\w{3,}ing$", "ed": r"\w{2,}ed$"}, other="other")
    assert [word for word, label in zip(acts.words, labels, strict=True) if label == "ing"][:3] == [
        *("singing", "playing", "reading"),
    ]
    assert len(labels) == len(acts) == sum(len(each.replace("\u00ad", "").split()) for each in SENTENCES)
    balanced = neurons.balance(acts, labels)
    kept, chosen = balanced.acts, balanced.labels
    assert len(set(np.unique(chosen, return_counts=True)[1].tolist())) == 1
    ranking = neurons.rank(kept, chosen)
    with cutaway.edit(tiny.bert(), at=ranking.top(3), to=0):
        again = cutaway.collect(tiny.bert(), SENTENCES[:2], tokenizer=tiny.minilm()[1], at=AT)
    assert not again.columns([acts.names.index(name) for name in ranking.top(3)]).any()


def test_numbers_are_regressed_from_collected_units(acts: cutaway.Activations) -> None:
    length = [float(len(word)) for word in acts.words]
    for metric in ("pearson", "spearman"):
        found = neurons.evaluate("linear", acts, length, metric=metric, n=[5], n_permutations=0, information=False)
        assert found.score.high > 0.2, "the same sentences are on both sides"
    assert neurons.rank(acts, length, "linear").top(1)[0].startswith("encoder.layer.")
    assert cutaway.probes.Linear(task="regression").fit(acts, length).score(acts, length) > 0.5


def test_two_models_at_once_do_not_disturb_each_other(acts: cutaway.Activations) -> None:
    other = cutaway.collect(tiny.minilm()[0], SENTENCES[:2], tokenizer=tiny.minilm()[1], at="embeddings")
    gpt = cutaway.collect(tiny.bert(), ["a house", "a mat"], tokenizer=tiny.minilm()[1], at=AT)
    again = cutaway.collect(tiny.bert(), SENTENCES[:2], tokenizer=tiny.minilm()[1], at=AT)
    assert (other.n_units, gpt.sentences) == (384, [["a", "house"], ["a", "mat"]])
    np.testing.assert_allclose(again.array(), acts.rows(acts.items < 2).array(), atol=1e-5)


def test_what_is_cut_off_goes_with_its_words_and_labels() -> None:
    words = [["one", "two", "three", "four"], ["five", "six"], ["seven", "", "eight"]]
    tags = [["A", "B", "C", "D"], ["E", "F"], ["G", "H", "I"]]
    given = ([list(each) for each in words], [list(each) for each in tags])
    with pytest.warns(UserWarning, match="2 problems"):
        acts = cutaway.collect(tiny.bert(), words, tokenizer=tiny.minilm()[1], at=AT, max_length=5)
    labels = neurons.token_labels(acts, tags)
    assert acts.sentences == [["one", "two", "three"], ["five", "six"], ["seven", "eight"]]
    assert labels == ["A", "B", "C", "E", "F", "G", "I"]
    assert [problem.item for problem in acts.problems] == [0, 2]
    assert (words, tags) == given, "the caller's lists are not edited"
    with pytest.raises(InputError, match=r"labels of 1 of 3 items do not fit the words: item 1 \(3 labels, 2 words\)"):
        neurons.token_labels(acts, [tags[0], ["E", "F", "F"], tags[2]])


def test_labels_of_sentences_and_spans_reach_the_rows(acts: cutaway.Activations) -> None:
    by_sentence = neurons.sentence_labels(acts, [f"s{i % 8}" for i in range(len(SENTENCES))])
    assert by_sentence[-1] == "s7"
    spans = neurons.span_labels(acts, {0: [neurons.Span(0, 2, "NP")], 8: [(0, 2, "NP")]}, outside="O")
    assert [word for word, label in zip(acts.words, spans, strict=True) if label == "NP"] == ["the", "singer"] * 2
    assert neurons.rank(acts, spans, "selectivity").labels == ("NP", "O")


def test_rows_of_whole_sentences_have_a_label_each() -> None:
    acts = cutaway.collect(tiny.bert(), SENTENCES[:4], tokenizer=tiny.minilm()[1], at=AT, rows="items", aggregate="max")
    found = neurons.rank(acts, ["a", "b", "a", "b"])
    plain = neurons.rank(acts.array(), [0, 1, 0, 1])
    assert found.top(2) == [acts.names[unit] for unit in plain.top(2)]
