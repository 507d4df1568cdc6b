"""Rules label words, and rows are chosen by labels: the same ones for the same seed, and nothing is changed."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import warm_python

from cutaway.core.errors import InputError
from cutaway.neurons.labels.annotate import annotate, balance, filter
from cutaway.store.activations.activations import Activations

WORDS = ["2004", "this", "is", "A", "running", "x2004", "is"]


@pytest.mark.parametrize(
    ("rule", "options", "wanted"),
    [
        ({"is", "A"}, {}, [2, 3, 6]),
        (["is"], {}, [2, 6]),
        (frozenset({"running"}), {}, [4]),
        (r"[0-9]{4}", {}, [0]),  # from the start of the word, as NeuroX has it
        (r"[0-9]{4}", {"search": True}, [0, 5]),
        (re.compile(r"^\w\w$"), {}, [2, 6]),
        (re.compile("IS", re.IGNORECASE), {}, [2, 6]),
        (str.isupper, {}, [3]),
        (lambda word: re.search("ing$", word), {}, [4]),
        (lambda words, place: place > 0 and words[place - 1] == "is", {"context": True}, [3]),
    ],
)
def test_a_rule_labels_the_words_it_fits(rule: Any, options: dict[str, Any], wanted: list[int]) -> None:
    labels = annotate(WORDS, rule, **options)
    assert np.flatnonzero(labels == "positive").tolist() == wanted
    assert Counter(labels.tolist())["negative"] == len(WORDS) - len(wanted)


def test_several_classes_by_several_rules_or_a_function() -> None:
    rules = {"year": r"[0-9]+$", "ing": ".*ing$", "short": {"is", "A"}}
    assert annotate(WORDS, rules, other="none").tolist() == ["year", "none", "short", "short", "ing", "none", "short"]
    assert annotate(WORDS, lambda word: word[-1]).tolist() == ["4", "s", "s", "A", "g", "4", "s"]
    assert annotate(WORDS, len).tolist() == [4, 4, 2, 1, 7, 5, 2]


def test_activations_are_labeled_row_by_row_with_the_sentence_as_context() -> None:
    acts = Activations.of(np.zeros((4, 1)), words=[["a", "b"], ["b", "c"]])
    assert annotate(acts, {"b"}).tolist() == ["negative", "positive", "positive", "negative"]
    first = annotate(acts, lambda words, place: place == 0, context=True)
    assert first.tolist() == ["positive", "negative", "positive", "negative"]
    assert annotate(acts.rows([2, 1, 0]), {"b"}).tolist() == ["positive", "positive", "negative"]


@pytest.mark.parametrize(
    ("words", "rule", "options", "said"),
    [
        (WORDS, {"nothing"}, {}, "matches none of 7 words"),
        (WORDS, ".", {}, "matches all 7 words"),
        (WORDS, str.isdecimal, {"other": "positive"}, "'positive' is both a label of rule= and other="),
        (WORDS, {"a": ".*s$", "b": "zzz"}, {}, "the rule for 'b' matches none"),
        (WORDS, lambda word: "x", {}, "labels all 7 words 'x'"),
        (WORDS, lambda word: False, {}, "matches none"),
        (WORDS, "(", {}, "invalid regular expression"),
        (WORDS, 7, {}, "a vocabulary, a regular expression or a function, got 7"),
        (WORDS, {1, 2}, {}, "a vocabulary must contain strings"),
        (WORDS, {}, {}, "rule= is empty"),
        ([], {"a"}, {}, "no words"),
        ([["a"], ["b"]], {"a"}, {}, "a flat list of strings"),
    ],
)
def test_rules_that_label_nothing_are_refused(words: Any, rule: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        annotate(words, rule, **options)


@given(st.lists(st.sampled_from("aaabbc"), min_size=3, max_size=60), st.integers(0, 5))
def test_balanced_classes_have_as_many_rows_as_the_smallest(labels: list[str], seed: int) -> None:
    labels = [*labels, "a", "b", "c"]
    x = np.arange(len(labels) * 2).reshape(-1, 2)
    found = balance(x, labels, seed=seed)
    counts = Counter(labels)
    assert Counter(found.labels) == dict.fromkeys("abc", min(counts.values()))
    assert found.rows.tolist() == sorted(set(found.rows.tolist()))  # none twice, in their order
    assert found.labels == [labels[row] for row in found.rows]
    assert np.array_equal(found.acts, x[found.rows])
    again = balance(x, labels, seed=seed)
    assert np.array_equal(found.rows, again.rows)


@given(st.lists(st.sampled_from("aaabbc"), min_size=10, max_size=60), st.floats(0.2, 1.0))
def test_a_total_keeps_the_shares_rounded_up(labels: list[str], share: float) -> None:
    labels = [*labels, "a", "b", "c"]
    total = max(3, int(share * len(labels)))
    found = balance(None, labels, total=total)
    counts = Counter(labels)
    assert Counter(found.labels) == {label: -(-n * total // len(labels)) for label, n in counts.items()}
    assert found.acts is None


def test_other_seeds_choose_other_rows() -> None:
    labels = np.array(["a"] * 10 + ["b"] * 1000)
    chosen = {tuple(balance(None, labels, seed=seed).rows.tolist()) for seed in range(5)}
    assert len(chosen) == 5
    assert all(rows[:10] == tuple(range(10)) for rows in chosen)  # the smaller class is left as it is


@pytest.mark.parametrize("container", [list, tuple, np.array, torch.tensor, pd.Series])
def test_labels_keep_their_type_and_are_not_changed(container: Any) -> None:
    labels = container([0, 1, 1, 1])
    found = balance(torch.eye(4), labels)
    assert type(found.labels) is type(labels)
    assert sorted(np.asarray(found.labels).tolist()) == [0, 1]
    assert np.asarray(labels).tolist() == [0, 1, 1, 1]
    assert isinstance(found.acts, torch.Tensor)
    assert found.acts.shape == (2, 4)


def test_activations_stay_lazy_when_rows_are_chosen() -> None:
    acts = Activations.of({"a": np.arange(8.0).reshape(4, 2)}, words=["w", "x", "y", "z"])
    found = balance(acts, annotate(acts, {"w"}))
    assert isinstance(found.acts, Activations)
    assert len(found.acts) == 2
    assert found.acts.words[0] == "w"
    assert found.labels.tolist() == ["positive", "negative"]


def test_what_cannot_be_balanced_is_refused() -> None:
    with pytest.raises(InputError, match="3 labels for 4 rows"):
        balance(np.zeros((4, 1)), ["a", "b", "a"])
    with pytest.raises(InputError, match="all 2 labels are 'a'"):
        balance(None, ["a", "a"])
    with pytest.raises(InputError, match="row 1 has no label"):
        balance(None, ["a", None, "b"])
    with pytest.raises(InputError, match="row 0 has several labels"):
        balance(None, [{"a"}, {"b"}])
    with pytest.raises(InputError, match="total=99"):
        balance(None, ["a", "b"], total=99)
    with pytest.raises(InputError, match="no labels"):
        balance(None, [])


def test_filtering_drops_every_label_that_ranking_calls_missing() -> None:
    labels = [0.5, float("nan"), float("inf"), 1.5, None, 2.5]
    assert filter(np.arange(12.0).reshape(6, 2), labels).rows.tolist() == [0, 3, 5]


def test_filtering_leaves_out_what_was_named_and_nothing_else() -> None:
    acts = Activations.of(np.arange(6.0)[:, None], words=["the", "cat", "sat", "on", "a", "mat"])
    labels = ["D", "N", "V", None, "D", "N"]
    assert filter(acts, labels).rows.tolist() == [0, 1, 2, 4, 5]
    assert filter(acts, labels, at_least=2).labels == ["D", "N", "D", "N"]
    assert filter(acts, labels, keep=".at").acts.words == ["cat", "sat", "mat"]
    assert filter(acts, labels, classes={"V"}).rows.tolist() == [2]
    assert filter(acts, labels, keep=".at", at_least=2).labels == ["N", "N"]  # counted among those that are left
    assert filter(np.zeros((3, 1)), [1.5, float("nan"), 2.5]).labels == [1.5, 2.5]
    assert labels == ["D", "N", "V", None, "D", "N"]
    with pytest.raises(InputError, match="no rows left of 6"):
        filter(acts, labels, at_least=9)
    with pytest.raises(InputError, match="an array has none"):
        filter(np.zeros((6, 1)), labels, keep="x")


def test_special_tokens_are_left_out_unless_they_are_wanted(tmp_path: Any) -> None:
    from cutaway.store.activations.in_memory import memory_source
    from cutaway.store.activations.sources import MemorySource
    from cutaway.store.activations.unit_selection import Units
    from cutaway.store.activations.writer import Rows

    base = memory_source(np.zeros((3, 1)), ["[CLS]", "a", "b"], [0, 0, 0])
    rows = Rows.of([0, 0, 0], word=[-1, 0, 1])
    source = MemorySource(base.sites, base.arrays, rows, base.all_words, base.about)
    acts = Activations(source, Units.all(source.sites))
    assert filter(acts, ["x", "y", "z"]).acts.words == ["a", "b"]
    assert filter(acts, ["x", "y", "z"], special="keep").acts.words == ["[CLS]", "a", "b"]
    whole = Activations(
        MemorySource(base.sites, base.arrays, Rows.of([0, 1, 2]), base.all_words, base.about), Units.all(base.sites)
    )
    assert len(filter(whole, ["x", "y", "z"]).rows) == 3  # a row for each item is no special token


def test_the_rows_that_are_chosen_do_not_depend_on_the_salt_of_hashes() -> None:
    code = (
        "from cutaway.neurons.labels.annotate import annotate, balance;"
        "words = [f'w{i * 7 % 31}' for i in range(300)];"
        "labels = annotate(words, {f'c{k}': {f'w{k}', f'w{k + 9}'} for k in range(9)}, other='o');"
        "print(labels.tolist(), balance(None, labels, seed=3).rows.tolist())"
    )
    # This process and another, each with its own salt of hashes.
    with redirect_stdout(StringIO()) as printed:
        exec(code, {})
    assert printed.getvalue() == warm_python.run(["-c", code], skips_teardown=True, check=True).stdout != ""
