"""Columns come back as they were, and what cannot be is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError
from cutaway.store.traces.columns import ColumnReader, ColumnWriter

numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=()), max_size=6)


@settings(deadline=None)
@given(st.lists(numbers), st.lists(st.lists(numbers)), st.lists(texts | st.none()), st.lists(st.lists(texts)))
def test_columns_come_back(
    flat: list[int], rows: list[list[int]], words: list[str | None], lists: list[list[str]]
) -> None:
    columns = ColumnWriter()
    columns.numbers("flat", flat)
    columns.rows("rows", rows)
    columns.texts("words", words)
    columns.text_rows("lists", lists)
    found = ColumnReader(columns.arrays())
    assert found.numbers("flat", len(flat), low=-(2**63)) == flat
    assert found.rows("rows", len(rows), low=-(2**63)) == rows
    assert found.optional_texts("words", len(words)) == words
    assert found.text_rows("lists", len(lists)) == lists


def test_every_text_is_written_once() -> None:
    columns = ColumnWriter()
    columns.texts("a", ["relu"] * 1000)
    columns.texts("b", ["relu", "add"])
    assert bytes(columns.arrays()["text"].data) == b"reluadd"


def test_what_cannot_be_is_refused() -> None:
    columns = ColumnWriter()
    columns.numbers("n", [0, 5])
    columns.floats("f", [0.5])
    columns.rows("r", [[1], [2, 3]])
    arrays = columns.arrays()
    found = ColumnReader(arrays)
    with pytest.raises(DamagedError, match="'n' has 2 rows, expected 3"):
        found.numbers("n", 3)
    with pytest.raises(DamagedError, match="numbers from 0 to 5; they must be at least 0 and below 5"):
        found.numbers("n", 2, high=5)
    with pytest.raises(DamagedError, match="'gone' is missing"):
        found.numbers("gone", 2)
    with pytest.raises(DamagedError, match="'f' is a float64 array"):
        found.numbers("f", 1)
    with pytest.raises(DamagedError, match="'n' is a int32 array"):
        found.floats("n", 2)
    with pytest.raises(DamagedError, match="numbers from 0 to 5"):
        found.truths("n", 2)
    cut = ColumnReader({**arrays, "r.offsets": Raw.of(np.array([0, 2], np.int32))})
    with pytest.raises(DamagedError, match="offsets"):
        cut.rows("r", 2)
