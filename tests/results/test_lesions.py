"""Lesions are ordered, named and printed as a reader takes them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from cutaway.results.lesions import Lesions


def lesions(scores: Any, baseline: Any = 1.0, **changes: Any) -> Lesions:
    array = np.array(scores, dtype=np.float64)
    n = len(array)
    fields: dict[str, Any] = {
        "model": "Net",
        "each": "unit",
        "to": "0",
        "sites": ("fc",) * n,
        "parts": np.arange(n),
        "widths": np.full(n, -1),
        "baseline": np.array(baseline, dtype=np.float64),
        "scores": array,
    }
    return Lesions(**{**fields, **changes})


def test_the_strongest_stand_first_whatever_their_sign() -> None:
    found = lesions([1.0, 0.5, 1.75, float("nan"), 1.0])
    assert found.order.tolist() == [2, 1, 0, 4, 3]
    assert found.top(2) == ["fc#2", "fc#1"]
    assert found.effect[1] == -0.5


def test_entries_of_a_metric_count_on_average_or_alone() -> None:
    found = lesions([[1, 5], [3, 2], [1, 2]], [1, 2])
    assert found.strength.tolist() == [1.5, 1.0, 0.0]
    assert found.top(1) == ["fc#0"]
    assert found.top(1, of=0) == ["fc#1"]


def test_a_head_is_all_its_units() -> None:
    found = lesions([1.0, 0.0], each="head", widths=np.array([3, 3]), sites=("a@in.0", "a@in.0"))
    assert found.names == ("a@in.0 head 0", "a@in.0 head 1")
    assert found.top(1) == ["a@in.0#3", "a@in.0#4", "a@in.0#5"]


def test_it_prints_the_strongest() -> None:
    text = repr(lesions(np.linspace(1, 0, 12)))
    lines = text.splitlines()
    assert lines[0] == "Lesions of Net: 12 units at 1 site, changed to 0"
    assert lines[1] == "  baseline 1"
    assert lines[2] == "  fc#11  0 (-1)"
    assert lines[-1] == "  and 2 more"
    several = repr(lesions([[1, 5], [np.nan, np.nan]], [1, 2], each="site", sites=("a", "b")))
    assert several.splitlines() == [
        "Lesions of Net: 2 sites, changed to 0",
        "  baseline of 2 numbers, mean 1.5",
        "  a  changes it by 1.5 on average, +3 at [1]",
        "  b  NaN",
    ]
    assert repr(lesions(np.zeros(0))).startswith("Lesions of Net: 0 units")


def test_the_table_has_a_column_for_each_number() -> None:
    table = lesions([[1, 5], [3, 2]], [1, 2]).table()
    assert list(table) == ["name", "site", "part", "score.0", "score.1", "effect.0", "effect.1"]
    assert table["effect.1"].tolist() == [3.0, 0.0]
    assert lesions([0.5]).table()["effect"].tolist() == [-0.5]


def test_it_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        lesions([1.0]).to = "1"  # type: ignore[misc]


def test_fewer_lesions_than_asked_for_are_returned_with_a_warning() -> None:
    found = lesions([1.0, 0.5])
    with pytest.warns(UserWarning, match=r"top\(99\) returns 2 units: there are no more\."):
        assert len(found.top(99)) == 2
    assert len(found.top()) == 2, "the default warns about nothing"
