"""Choices of units, taken apart and put together again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.core.errors import DamagedError
from cutaway.store.activations.unit_selection import UnitNames, Units
from cutaway.store.activations.windows import CollectedSite

SITES = [CollectedSite("a", 3), CollectedSite("b", 2, units=(7, 4))]


@given(st.lists(st.integers(0, 4), min_size=1))
def test_a_choice_is_read_as_it_was_given_and_only_all_in_order_are_all(chosen: list[int]) -> None:
    units = Units.all(SITES).select(chosen)
    found = Units.read(SITES, units.site_numbers.astype(np.int32), units.columns.astype(np.int32))
    every = ["a#0", "a#1", "a#2", "b#7", "b#4"]
    assert list(UnitNames(found)) == [every[unit] for unit in chosen]
    assert found.is_all is (chosen == [0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    ("sites", "columns"),
    [
        ([0, 2], [0, 0]),
        ([0, -1], [0, 0]),
        ([0, 1], [0, 2]),
        ([0, 1], [0, -1]),
        ([0, 1], [0]),
        ([[0]], [[0]]),
        (0, 0),
        ([0.0], [0.0]),
    ],
)
def test_units_that_cannot_be_are_damage(sites: Any, columns: Any) -> None:
    with pytest.raises(DamagedError):
        Units.read(SITES, np.array(sites), np.array(columns))
