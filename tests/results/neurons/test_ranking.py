"""Rankings are ordered, named and printed as a reader takes them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.core.errors import InputError
from cutaway.results.neurons.ranking import ranked

NAMES = ["h.0#0", "h.0#1", "h.1#0", "h.1#1"]


def test_the_best_stand_first_equals_by_index_dead_ones_last() -> None:
    found = ranked("mine", [0.5, 2.0, 0.5, 9.0, np.nan], dead=[3])
    assert found.order.tolist() == [1, 0, 2, 4, 3]
    assert found.dead.tolist() == [3]
    assert len(found) == found.n_units == 5


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_the_order_is_a_permutation_by_score_then_index(scores: list[int]) -> None:
    found = ranked("mine", scores)
    assert found.order.tolist() == sorted(range(len(scores)), key=lambda unit: (-scores[unit], unit))


def test_top_gives_sites_where_names_are_known_and_indices_elsewhere() -> None:
    plain = ranked("mine", [0.1, 0.9, 0.5, 0.2])
    named = ranked("mine", [0.1, 0.9, 0.5, 0.2], names=NAMES)
    assert plain.top(2).tolist() == [1, 2]
    assert plain.bottom(2).tolist() == [0, 3]
    assert named.top(2) == ["h.0#1", "h.1#0"]
    assert named.bottom(1) == ["h.0#0"]
    assert named.top(0) == []
    with pytest.warns(UserWarning, match=r"top\(99\) returns 4 units"):
        assert named.top(99) == ["h.0#1", "h.1#0", "h.1#1", "h.0#0"]
    with pytest.raises(InputError, match="n=-1: must be 0 or more"):
        named.top(-1)


def test_units_that_were_not_ranked_have_no_score_and_no_place() -> None:
    found = ranked("mine", [4.0, 3.0, 2.0, 1.0], units=[3, 1], dead=[0])
    assert found.order.tolist() == [1, 3]
    assert np.isnan(found.scores).tolist() == [True, False, True, False]
    assert found.dead.tolist() == []
    assert len(found) == 2
    assert found.n_units == 4


def test_a_ranking_cannot_be_changed_and_shares_nothing() -> None:
    scores = np.array([1.0, 2.0])
    found = ranked("mine", scores)
    scores[0] = 9.0
    assert found.scores.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        found.scores[0] = 3.0
    with pytest.raises(FrozenInstanceError):
        found.method = "yours"  # type: ignore[misc]
    top = found.top(2)
    top[0] = 5
    assert found.order.tolist() == [1, 0]


def test_it_prints_the_best_units_with_their_direction() -> None:
    inner = ranked("mine", [1, 2, 3, 4], names=NAMES)
    found = ranked("mine", [0.5, 1.5, 0, 1], signs=[1, -1, 0, 1], dead=[2], names=NAMES, per_label={"noun": inner})
    assert repr(found).splitlines() == [
        "Ranking by mine: 4 units, 1 labels, 1 dead",
        "  h.0#1  - 1.5",
        "  h.1#1  + 1",
        "  h.0#0  + 0.5",
        "  h.1#0    0",
    ]
    assert repr(ranked("mine", np.arange(12.0), units=range(11))).splitlines()[0] == "Ranking by mine: 11 of 12 units"
    assert repr(ranked("mine", np.arange(12.0))).endswith("and 2 more")


def test_the_table_has_a_row_for_each_unit_and_a_column_for_each_label() -> None:
    inner = ranked("mine", [1, 2, 3, 4])
    rows = ranked("mine", [0.5, 1.5, 0, 1], dead=[2], per_label={"noun": inner}).table(2)
    rows = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    assert rows[0] == {
        "rank": 1,
        "unit": 1,
        "name": "#1",
        "score": 1.5,
        "sign": 0,
        "dead": False,
        "score.noun": 2.0,
    }
    assert len(rows) == 2


def test_scores_of_a_wrong_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"shape \[1, 2\]"):
        ranked("mine", [[1.0, 2.0]])
