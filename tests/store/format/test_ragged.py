"""Lists of unequal length go into flat arrays and come back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.core.errors import DamagedError, InputError
from cutaway.store.format.ragged import (
    join_ints,
    join_string_lists,
    join_strings,
    split_ints,
    split_string_lists,
    split_strings,
)

texts = st.text(st.characters(exclude_categories=()), max_size=8)  # lone surrogates, too


@given(st.lists(texts))
def test_texts_come_back(rows: list[str]) -> None:
    data, offsets = join_strings(rows)
    assert (data.dtype, offsets.dtype, len(offsets)) == (np.uint8, np.int64, len(rows) + 1)
    assert split_strings(data, offsets) == rows


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)))
def test_numbers_come_back(rows: list[list[int]]) -> None:
    flat, offsets = join_ints(rows)
    assert (flat.dtype, offsets.dtype, len(flat)) == (np.int64, np.int64, sum(map(len, rows)))
    assert split_ints(flat, offsets) == rows


@given(st.lists(st.lists(texts, max_size=4)))
def test_lists_of_texts_come_back(rows: list[list[str]]) -> None:
    assert split_string_lists(*join_string_lists(rows)) == rows


@pytest.mark.parametrize("rows", [["\ud83d", "\ude00"], ["\ud83d\ude00"], ["\U0001f600"], ["\udcff\x00"]])
def test_halves_of_a_pair_stay_halves(rows: list[str]) -> None:
    assert split_strings(*join_strings(rows)) == rows


def test_plain_text_is_stored_as_utf_8() -> None:
    data, offsets = join_strings(["né", "e"])
    assert (bytes(data), offsets.tolist()) == ("née".encode(), [0, 3, 4])


def test_numbers_beyond_64_bits_are_refused() -> None:
    with pytest.raises(InputError, match="beyond 64 bits"):
        join_ints([[2**63]])


HOSTILE: list[Any] = [
    np.array([], np.int64),
    np.array([0, 1], np.int64),
    np.array([0, 4], np.int64),
    np.array([1, 3], np.int64),
    np.array([0, -1, 3], np.int64),
    np.array([0, 2, 1, 3], np.int64),
    np.array([0, 2**62, 3], np.int64),
    np.array([0, 2**64 - 1, 3], np.uint64),
    np.array([0.0, 3.0]),
    np.array([[0, 3]]),
    np.array(3),
]


@pytest.mark.parametrize("offsets", HOSTILE, ids=range(len(HOSTILE)))
def test_offsets_that_do_not_cut_the_row_are_damage(offsets: Any) -> None:
    with pytest.raises(DamagedError, match="offsets"):
        split_strings(np.frombuffer(b"abc", np.uint8), offsets)
    with pytest.raises(DamagedError, match="offsets"):
        split_ints(np.arange(3), offsets)
    with pytest.raises(DamagedError, match="offsets"):
        split_string_lists(np.frombuffer(b"abc", np.uint8), np.array([0, 1, 2, 3]), offsets)


@pytest.mark.parametrize("offsets", [[0, 1, 2], [0, 2]])
def test_bytes_that_are_no_text_are_damage(offsets: list[int]) -> None:
    with pytest.raises(DamagedError, match="not UTF-8"):
        split_strings(np.frombuffer(b"\xc3\x28", np.uint8), np.array(offsets))


def test_rows_of_another_kind_are_damage() -> None:
    with pytest.raises(DamagedError, match="texts must be 1-D uint8, found float64"):
        split_strings(np.zeros(3), np.array([0, 3]))
    with pytest.raises(DamagedError, match="numbers must be 1-D integers, found float64"):
        split_ints(np.zeros(3), np.array([0, 3]))


@given(st.binary(max_size=8), st.lists(st.integers(-3, 10), max_size=6))
def test_any_bytes_and_offsets_are_read_or_refused(data: bytes, offsets: list[int]) -> None:
    try:
        rows = split_strings(np.frombuffer(data, np.uint8), np.array(offsets, np.int64))
    except DamagedError:
        return
    assert len(rows) == len(offsets) - 1
    assert "".join(rows) == "".join(data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offsets))
