"""Labels of sentences, words and spans reach the rows they belong to, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.core.errors import InputError
from cutaway.neurons.labels.align import Span, sentence_labels, span_labels, token_labels
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Rows
from cutaway.store.reading.archive import Archive

WORDS = [["Ada", "Lovelace", "wrote"], [], ["to", "Charles"]]


@pytest.fixture
def acts() -> Activations:
    return Activations.of(np.arange(5.0)[:, None], words=WORDS)


@pytest.fixture
def with_special(tmp_path: Path) -> Activations:
    """Special tokens around each sentence; the second one was cut off after its first word."""
    with ActivationsWriter(tmp_path / "acts", [CollectedSite("a", 1)]) as writer:
        writer.window(
            {"a": np.zeros((7, 1))},
            Rows.of([0, 0, 0, 0, 1, 1, 1], word=[-1, 0, 1, -1, -1, 0, -1]),
            ["[CLS]", "a", "b", "[SEP]", "[CLS]", "c", "[SEP]"],
            n_items=2,
            problems=[(1, "cut off")],
        )
    return Activations.read(Archive(tmp_path / "acts"))


def test_labels_of_sentences_are_spread_over_their_rows(acts: Activations) -> None:
    assert sentence_labels(acts, ["x", "y", "z"]) == ["x", "x", "x", "z", "z"]
    assert sentence_labels(acts, torch.tensor([1.5, 2.5, 3.5])) == [1.5, 1.5, 1.5, 3.5, 3.5]
    assert sentence_labels(acts.rows([4, 0]), ["x", "y", "z"]) == ["z", "x"]
    with pytest.raises(InputError, match="2 labels for 3 items"):
        sentence_labels(acts, ["x", "y"])


def test_labels_of_words_follow_their_words(acts: Activations, with_special: Activations) -> None:
    assert token_labels(acts, [["P", "P", "V"], [], ["T", "P"]]) == ["P", "P", "V", "T", "P"]
    assert token_labels(acts.rows([4, 1]), [["P", "Q", "V"], [], ["T", "R"]]) == ["R", "Q"]
    found = token_labels(with_special, [["A", "B"], ["C", "D", "E"]])
    assert found == [None, "A", "B", None, None, "C", None]  # D and E were cut off with their words


def test_items_whose_labels_do_not_fit_are_named(acts: Activations) -> None:
    with pytest.raises(
        InputError, match=r"2 of 3 items do not fit.*item 0 \(2 labels, 3 words\), item 2 \(3 labels, 2 words\)"
    ):
        token_labels(acts, [["P", "V"], [], ["T", "P", "X"]])
    with pytest.raises(InputError, match=r"item 1 \(1 label, 0 words\)"):
        token_labels(acts, [["P", "P", "V"], ["X"], ["T", "P"]])
    with pytest.raises(InputError, match="labels of 2 items, but there are 3"):
        token_labels(acts, [["P"], []])
    with pytest.raises(InputError, match=r"labels\.split\(\)"):
        token_labels(acts, ["P P V", "", "T P"])


def test_labels_of_spans_reach_the_words_they_cover(acts: Activations, with_special: Activations) -> None:
    spans = [[Span(0, 2, "PERSON")], [], [(1, 2, "PERSON")]]
    assert span_labels(acts, spans, outside="O") == ["PERSON", "PERSON", "O", "O", "PERSON"]
    assert span_labels(acts, {0: [(2, 3, "V")]}) == [None, None, "V", None, None]
    assert span_labels(with_special, {0: [(0, 2, "X")]}) == [None, "X", "X", None, None, None, None]


def test_spans_that_overlap_give_sets_where_that_is_wanted(acts: Activations) -> None:
    spans = {0: [(0, 2, "PERSON"), (1, 3, "CLAUSE")]}
    with pytest.raises(InputError, match="1 word in several spans, first word 1 of item 0"):
        span_labels(acts, spans)
    assert span_labels(acts, spans, several=True) == [{"PERSON"}, {"PERSON", "CLAUSE"}, {"CLAUSE"}, set(), set()]


def test_spans_without_rows_are_counted_and_said_aloud(acts: Activations) -> None:
    with pytest.warns(UserWarning, match="2 words of spans without a row.*word 2 of item 2, word 3 of item 2"):
        assert span_labels(acts, {2: [(1, 4, "X")]}) == [None, None, None, None, "X"]


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        ([[], []], "spans of 2 items, but there are 3"),
        ({7: [(0, 1, "X")]}, "spans of item 7, but there are 3 items"),
        ({0: [(2, 2, "X")]}, "covers no word"),
        ({0: [(-1, 2, "X")]}, "covers no word"),
        ({0: [("X",)]}, "a span must be"),
    ],
)
def test_spans_that_cannot_be_are_refused(acts: Activations, spans: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        span_labels(acts, spans)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_spreading_agrees_with_counting_by_hand(lengths: list[int], seed: int) -> None:
    if not sum(lengths):
        return
    words = [[f"{item}.{word}" for word in range(n)] for item, n in enumerate(lengths)]
    acts = Activations.of(np.zeros((sum(lengths), 1)), words=words)
    rows = np.random.default_rng(seed).permutation(sum(lengths))[: max(1, sum(lengths) // 2)]
    part = acts.rows(rows)
    flat = [word for sentence in words for word in sentence]
    assert token_labels(part, words) == [flat[row] for row in rows]
    assert sentence_labels(part, list(range(len(lengths)))) == [int(flat[row].split(".")[0]) for row in rows]
    spans = {item: [(0, n, f"s{item}")] for item, n in enumerate(lengths) if n}
    assert span_labels(acts, spans) == [f"s{word.split('.')[0]}" for word in flat]
