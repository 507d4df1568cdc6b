"""Splits keep groups whole and classes even."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.core.errors import InputError
from cutaway.neurons.evaluation.splits import groups_of, splits_of, words_of
from cutaway.neurons.labels.labels import encode
from cutaway.store.activations.activations import Activations


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), n_folds=st.integers(2, 5), n_groups=st.integers(5, 20))
def test_each_row_is_tested_once_and_no_group_is_on_both_sides(seed: int, n_folds: int, n_groups: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, 60)])
    labels = np.concatenate([[0, 0, 1, 1], rng.integers(0, 2, len(groups) - 4)])
    found = splits_of(encode(labels), groups, n_folds, seed)
    assert sorted(np.concatenate([split.test for split in found]).tolist()) == list(range(len(groups)))
    for split in found:
        assert not set(groups[split.train]) & set(groups[split.test])
        assert len(split.train) + len(split.test) == len(groups)


def test_each_fold_has_its_share_of_each_class() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice(3, 600, p=[0.7, 0.2, 0.1])
    for groups in (np.arange(600), np.arange(600) // 6):
        for split in splits_of(encode(labels), groups, 5, seed=0):
            shares = np.bincount(labels[split.test], minlength=3) / np.bincount(labels)
            assert np.abs(shares - 0.2).max() < 0.04


def test_seeds_give_other_splits_and_the_same_seed_the_same() -> None:
    encoded = encode(np.arange(40) % 2)
    first, again, other = (splits_of(encoded, np.arange(40), 4, seed)[0].test.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_numbers_are_spread_over_the_folds() -> None:
    values = np.random.default_rng(0).normal(size=400)
    for split in splits_of(encode(values), np.arange(400), 4, seed=0):
        assert abs(np.median(values[split.test]) - np.median(values)) < 0.25


def test_a_share_is_one_split_and_a_mask_is_taken_as_it_is() -> None:
    encoded, groups = encode(np.arange(40) % 2), np.arange(40) // 2
    assert [len(split.test) for split in splits_of(encoded, groups, 5, 0, test=0.25)] == [10]
    mask = np.arange(40) >= 30
    (split,) = splits_of(encoded, groups, 5, 0, test=mask)
    assert split.test.tolist() == list(range(30, 40))
    with pytest.raises(InputError, match="puts 1 group on both sides, the first that of row 30"):
        splits_of(encoded, groups, 5, 0, test=np.arange(40) >= 31)
    with pytest.raises(InputError, match=r"a fraction of the rows in \(0, 0\.5\]"):
        splits_of(encoded, groups, 5, 0, test=0.9)
    with pytest.raises(InputError, match="pass bools, one for each of 40 rows"):
        splits_of(encoded, groups, 5, 0, test=np.arange(3))


def test_too_few_groups_are_an_error() -> None:
    with pytest.raises(InputError, match="5 folds need at least 5 groups, but there are 2"):
        splits_of(encode([0, 1, 0, 1]), np.array([0, 0, 1, 1]), 5, 0)


def test_groups_are_sentences_types_rows_or_those_given() -> None:
    acts = Activations.of(np.zeros((4, 2)), words=[["a", "b"], ["b", "a"]])
    assert [groups_of(acts, 4, by)[0].tolist() for by in ("item", "word", "row")] == [
        [0, 0, 1, 1],
        [0, 1, 1, 0],
        [0, 1, 2, 3],
    ]
    assert groups_of(np.zeros((4, 2)), 4, "item")[1] == "rows"
    assert groups_of(acts, 4, "item", given=["x", "y", "x", "y"])[0].tolist() == [0, 1, 0, 1]
    assert words_of(np.zeros((4, 2)), 4) is None
    with pytest.raises(InputError, match="by='word' needs the words"):
        groups_of(np.zeros((4, 2)), 4, "word")
    with pytest.raises(InputError, match="groups= has shape \\[3\\] for 4 rows"):
        groups_of(acts, 4, "item", given=[1, 2, 3])
    with pytest.raises(InputError, match="by='page'"):
        groups_of(acts, 4, "page")  # type: ignore[arg-type]


def test_sentences_with_the_same_words_are_one_group_also_where_only_some_rows_are_chosen() -> None:
    acts = Activations.of(np.zeros((7, 2)), words=[["a", "b"], ["a", "c"], ["a", "b"], ["d"]])
    assert groups_of(acts, 7, "item")[0].tolist() == [0, 0, 1, 1, 0, 0, 2]
    firsts = acts.rows([0, 2, 4, 6])  # a, a, a, d: the sentences tell them apart
    assert groups_of(firsts, 4, "item")[0].tolist() == [0, 1, 0, 2]
    assert groups_of(acts, 7, "row")[0].tolist() == list(range(7))


def test_whole_texts_that_repeat_are_one_group_and_words_without_a_sentence_are_not() -> None:
    texts = Activations.of(np.zeros((3, 2)), words=["a dog barks", "it rains", "a dog barks"])
    assert groups_of(texts, 3, "item")[0].tolist() == [0, 1, 0]
    words = Activations.of(np.zeros((3, 2)), words=["dog", "rain", "dog"])
    assert groups_of(words, 3, "item")[0].tolist() == [0, 1, 2]
    blank = Activations.of(np.zeros((4, 2)), items=[0, 0, 1, 1])
    assert groups_of(blank, 4, "item")[0].tolist() == [0, 0, 1, 1]
    assert groups_of(blank, 4, "item", words=list("abab"))[0].tolist() == [0, 0, 0, 0]
