"""What fires a unit is told with its sign, its count and its surroundings."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.core.errors import InputError
from cutaway.neurons.exploration.words import histograms, top_contexts, top_words
from cutaway.store.activations.activations import Activations

SENTENCES = [s.split() for s in ("the cat sat", "the dog ran fast", "a cat ran", "rare word the end cat")]
WORDS = [word for sentence in SENTENCES for word in sentence]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(len(WORDS), 3)) * 0.1
X[:, 1] += [5.0 if word == "cat" else -5.0 if word == "the" else 20.0 if word == "rare" else 0.0 for word in WORDS]
X[:, 2] = 7.0
ACTS = Activations.of({"h": X}, words=SENTENCES)
Z = (X[:, 1] - X[:, 1].mean()) / X[:, 1].std()


def means(values: np.ndarray) -> dict[str, float]:
    return {word: float(np.mean([v for v, w in zip(values, WORDS, strict=True) if w == word])) for word in set(WORDS)}


def test_top_words_have_signed_scores_and_a_least_count() -> None:
    found = top_words(ACTS, "h#1", 2)
    expected = means(Z)
    assert set(found.words) == {"cat", "the"}
    assert found.counts.tolist() == [3, 3]
    for word, score in zip(found.words, found.scores, strict=True):
        assert score == pytest.approx(expected[word], abs=1e-5)
    assert found.scores[list(found.words).index("the")] < 0
    assert found.n_left_out == len({word for word in WORDS if WORDS.count(word) == 1})
    every = top_words(ACTS, 1, 99, min_count=1)
    assert every.words[0] == "rare"
    assert len(every) == len(set(WORDS))
    assert "rare +3." in repr(every)


def test_neurox_has_magnitudes_beside_the_largest() -> None:
    found = top_words(ACTS, 1, 99, compat="neurox")
    expected = means(np.abs(Z))
    largest = max(expected.values())
    kept = {word: score / largest for word, score in expected.items() if score / largest > 0.1}
    assert dict(zip(found.words, found.scores, strict=True)) == pytest.approx(kept, abs=1e-5)
    assert list(found.words) == sorted(kept, key=lambda word: -kept[word])


def test_a_unit_that_never_moves_has_no_words_and_no_contexts() -> None:
    assert len(top_words(ACTS, 2, min_count=1)) == 0
    assert len(top_words(ACTS, 2, compat="neurox")) == 0
    assert len(top_contexts(ACTS, 2)) == 0
    assert repr(top_words(ACTS, 2)) == "Top words of h#2: none"


def test_contexts_stay_in_their_sentence() -> None:
    found = top_contexts(ACTS, "h#1", 3, width=2)
    first = found.contexts[0]
    assert (first.before, first.word, first.after) == ((), "rare", ("word", "the"))
    assert first.item == 3
    assert first.row == WORDS.index("rare")
    assert first.value == pytest.approx(X[first.row, 1], rel=1e-6)
    assert first.score == pytest.approx(Z[first.row], abs=1e-5)
    falls = top_contexts(ACTS, "h#1", 3, sign=-1)
    assert {each.word for each in falls.contexts} == {"the"}
    assert str(falls.contexts[0]).count("[the]") == 1
    assert "[rare] word the" in repr(found)
    rises = top_contexts(ACTS, "h#1", 99, sign=1)
    assert all(each.score > 0 for each in rises.contexts)
    assert len(found.table()) == 3


def test_histograms_count_every_row_of_each_label_in_the_same_bins() -> None:
    labels = np.array(["cat" if word == "cat" else "other" for word in WORDS])
    found = histograms(X, 1, labels, bins=8)
    assert found.labels == ("cat", "other")
    assert found.counts.sum(axis=1).tolist() == [3, len(WORDS) - 3]
    expected = np.histogram(X[labels == "cat", 1], found.edges)[0]
    assert np.array_equal(found.counts[0], expected)
    assert found.means[0] == pytest.approx(X[labels == "cat", 1].mean())
    assert "cat: 3 rows" in repr(found)


def test_what_has_no_words_or_units_says_so() -> None:
    with pytest.raises(InputError, match=r"a plain array has no words: pass cutaway.Activations.of"):
        top_words(X, 1)
    with pytest.raises(InputError, match="no unit 'h#9'"):
        top_words(ACTS, "h#9")
    with pytest.raises(InputError, match="sign=2"):
        top_contexts(ACTS, 1, sign=2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the labels are numbers"):
        histograms(X, 1, np.linspace(0, 1, len(WORDS)))


def test_a_sentence_that_repeats_is_told_once() -> None:
    values = np.array([[9.0], [0.0], [9.0], [0.0], [5.0], [0.0]])
    acts = Activations.of(values, words=[["hot", "day"], ["hot", "day"], ["hot", "night"]])
    found = top_contexts(acts, 0, 2, width=0, sign=1)
    assert [context.item for context in found.contexts] == [0, 2]
    alone = Activations.of(values, words=["hot", "day"] * 3)
    assert [context.item for context in top_contexts(alone, 0, 2, sign=1).contexts] == [0, 2]
