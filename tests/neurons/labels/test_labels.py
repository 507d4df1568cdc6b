"""Labels become numbers in one way, whatever they are made of, and what cannot be used is named."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import LabelEncoder, MultiLabelBinarizer
from tests import warm_python

from cutaway.core.errors import InputError
from cutaway.neurons.labels.labels import EncodedLabels, encode


@given(st.lists(st.sampled_from(["noun", "verb", "Ädj", "", "x y"]), min_size=4, max_size=40))
def test_classes_are_those_of_scikit_learn(labels: list[str]) -> None:
    labels = [*labels, "noun", "noun", "verb", "verb"]
    oracle = LabelEncoder().fit(labels)
    found = encode(labels, len(labels), rare="keep")
    assert found.kind == "classes"
    assert list(found.classes) == oracle.classes_.tolist()
    assert found.codes.tolist() == oracle.transform(labels).tolist()
    assert found.counts.tolist() == [labels.count(label) for label in found.classes]


@given(st.lists(st.sets(st.sampled_from("abcde")), min_size=1, max_size=30))
def test_several_labels_are_those_of_scikit_learn(labels: list[set[str]]) -> None:
    labels = [*labels, set("abcde"), set("abcde"), set()]
    oracle = MultiLabelBinarizer().fit(labels)
    found = encode(labels)
    assert found.kind == "multilabel"
    assert list(found.classes) == oracle.classes_.tolist()
    assert np.array_equal(found.codes, oracle.transform(labels).astype(bool))
    assert found.codes.dtype == np.bool_


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 2, 0, 2], np.int32),
        [0, 2, 0, 2],
        (0, 2, 0, 2),
        torch.tensor([0, 2, 0, 2]),
        pd.Series([0, 2, 0, 2], index=[5, 6, 7, 8]),
        np.array([[0], [2], [0], [2]], np.uint8),
        [np.int64(0), np.int64(2), np.int16(0), np.int16(2)],
        np.array([0, 2, 0, 2], object),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_labels_of_any_container_are_the_same(labels: Any) -> None:
    found = encode(labels, 4)
    assert (found.kind, found.classes, found.codes.tolist()) == ("classes", (0, 2), [0, 1, 0, 1])
    assert found.codes.dtype == np.int64
    assert all(type(label) is int for label in found.classes)


@pytest.mark.parametrize(
    "labels",
    [[0.5, 1, 2.5], np.array([0.5, 1, 2.5], np.float16), torch.tensor([0.5, 1, 2.5]), pd.Series([0.5, 1, 2.5])],
)
def test_real_numbers_are_numbers(labels: Any) -> None:
    found = encode(labels, 3)
    assert (found.kind, found.classes, found.codes.tolist()) == ("numbers", (), [0.5, 1.0, 2.5])
    assert found.codes.dtype == np.float64


def test_the_kind_can_be_said() -> None:
    assert encode([0.0, 1.0, 1.0, 0.0]).kind == "classes"
    assert encode([0.0, 1.0, 1.0, 0.0], kind="numbers").kind == "numbers"
    assert encode([1, 2, 3, 4], kind="numbers").codes.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert encode([1.5, 2.5, 1.5, 2.5], kind="classes").classes == (1.5, 2.5)
    table = encode(np.array([[0, 1], [1, 0], [1, 1], [0, 0]]))
    assert (table.kind, table.classes, table.counts.tolist()) == ("multilabel", (0, 1), [2, 2])


def test_labels_that_cannot_be_compared_have_an_order_all_the_same() -> None:
    found = encode([1, "a", 10, 2, "a", 1, 10, 2])
    assert found.classes == (1, 2, 10, "a")


def test_what_is_encoded_already_is_taken_as_it_is() -> None:
    found = encode(["a", "b", "a", "b"])
    assert encode(found, 4) is found
    with pytest.raises(InputError, match="4 labels for 5 rows"):
        encode(found, 5)


@pytest.mark.parametrize(
    ("labels", "n_rows", "said"),
    [
        (["a", "b"], 3, "2 labels for 3 rows"),
        ([], 0, "got no labels"),
        (["a", "a", "a"], 3, "all 3 labels are 'a'"),
        ([2.5, 2.5], 2, "all 2 labels are 2.5"),
        (["a", "a", "b"], 3, r"1 of 2 classes have a single row: 'b' \(row 2\)"),
        ([1, 1, 2, 3], 4, r"2 of 3 classes have a single row: 2 \(row 2\), 3 \(row 3\)"),
        (["a", None, "a", None], 4, "2 of 4 labels are missing.*rows 1, 3"),
        ([1.0, 2.0, float("nan")], 3, "1 of 3 labels are missing.*row 2"),
        (np.array([1.0, np.inf]), 2, "1 of 2 labels are missing.*row 1"),
        ([{"a"}, {None}, set()], 3, "row 1"),
        ([{"a"}, {"a"}], 2, "'a': every row has this label"),
        ([{"a"}, "b"], 2, "row 1 is 'b'"),
        ([{"a"}, set(), set()], 3, r"'a' \(row 0\)"),
        (np.array([[0, 2], [1, 0]]), 2, "contain only 0 and 1"),
        (np.zeros((2, 2, 2)), 2, r"shape \[2, 2, 2\]"),
        ("noun verb", 2, "single string"),
        (7, 1, "one label per row, got int"),
        ([{}, {}], 2, "hashable"),
        (pd.Series(["a", pd.NA, "b"], dtype="string"), 3, "row 1"),
        (pd.Series([1, None, 2], dtype="Int64"), 3, "row 1"),
    ],
)
def test_what_cannot_be_used_is_named_row_by_row(labels: Any, n_rows: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        encode(labels, n_rows)


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="must be numbers"):
        encode(["a", "b"], kind="numbers")
    with pytest.raises(InputError, match="1 of 2 labels are missing"):
        encode([None, 1.0], kind="numbers")


def test_labels_are_not_modified_and_results_cannot_be() -> None:
    labels = np.array([3, 1, 3, 1])
    before = labels.copy()
    found = encode(labels)
    assert np.array_equal(labels, before)
    assert labels.flags.writeable
    for array in (found.codes, found.counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    numbers = np.array([0.5, 1.5])
    assert not np.shares_memory(encode(numbers).codes, numbers)
    assert numbers.flags.writeable
    table = np.array([[True, False], [False, True], [True, False], [False, True]])
    assert not np.shares_memory(encode(table).codes, table)
    assert table.flags.writeable


def test_class_ids_do_not_depend_on_the_salt_of_hashes() -> None:
    code = (
        "from cutaway.neurons.labels.labels import encode;"
        "words = [f'tag{i % 37}' for i in range(200)] + [7, 7];"
        "e = encode(words); m = encode([{w, 'x'} if i % 2 else {w} for i, w in enumerate(words)], rare='keep');"
        "print(e.classes, e.codes.tolist(), m.classes, m.codes.tolist())"
    )
    # This process and another, each with its own salt of hashes.
    with redirect_stdout(StringIO()) as printed:
        exec(code, {})
    assert printed.getvalue() == warm_python.run(["-c", code], skips_teardown=True, check=True).stdout != ""


def test_encoded_has_a_length() -> None:
    assert len(encode(["a", "b", "a", "b"])) == 4
    assert isinstance(encode([1, 2, 1, 2]), EncodedLabels)
