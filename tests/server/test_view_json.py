"""Views as compressed JSON."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cutaway.layout.graph_view import Fold, Measure
from cutaway.server.view_json import to_compressed_json, to_json

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
DATA = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


def without_oddities(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, dict):
        return {key: without_oddities(item) for key, item in data.items()}
    return [without_oddities(item) for item in data] if isinstance(data, list) else data


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@given(DATA)
def test_what_is_packed_is_json_that_any_reader_takes(data: Any) -> None:
    read = json.loads(zlib.decompress(to_compressed_json(data)), parse_constant=refuse)
    assert read == without_oddities(data)


def test_a_dataclass_is_packed_under_the_names_of_its_fields() -> None:
    assert json.loads(to_json(Fold(frozenset([2, 1])))) == {"open": [1, 2], "rolled": False, "apart": []}


def test_a_number_that_json_has_no_word_for_is_null() -> None:
    measure = Measure("std", "std", "", "max", "log", (1.0, float("nan"), None, float("inf")))
    assert json.loads(to_json(measure), parse_constant=refuse)["values"] == [1.0, None, None, None]


def test_half_a_surrogate_pair_is_a_question_mark() -> None:
    assert json.loads(zlib.decompress(to_compressed_json(["é \udc80.py"]))) == ["é ?.py"]
