"""A layout applied to values of other sizes."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.core.errors import UnitError
from cutaway.core.units.layout import UnitLayout

FOLDED = UnitLayout(((2, 3), (4,)), units=(2,), samples=(0,))
"""Samples and tokens in one dimension, units in the other."""
HEADS = UnitLayout(((2, 3), (5,), (4,)), units=(1, 3), samples=(0,))
"""Heads folded into the samples."""


@pytest.mark.parametrize("n_rows", [6, 12, 7])
def test_units_are_found_whatever_the_number_of_samples_and_tokens(n_rows: int) -> None:
    value = np.arange(n_rows * 4).reshape(n_rows, 4)
    np.testing.assert_array_equal(FOLDED.unit(value, 3), value[:, 3])
    assert FOLDED.unit_shape(value.shape) == (n_rows,)
    np.testing.assert_array_equal(FOLDED.rows(value).reshape(-1, 4), value)
    np.testing.assert_array_equal(FOLDED.from_rows(FOLDED.rows(value), value.shape), value)
    np.testing.assert_array_equal(FOLDED.spread(np.arange(4), value.shape), np.broadcast_to(np.arange(4), (n_rows, 4)))


@pytest.mark.parametrize("n_samples", [1, 2, 5])
def test_heads_that_are_folded_into_samples_stay_heads(n_samples: int) -> None:
    value = np.arange(n_samples * 3 * 5 * 4).reshape(n_samples * 3, 5, 4)
    plain = value.reshape(n_samples, 3, 5, 4)
    np.testing.assert_array_equal(HEADS.unit(value, 9).reshape(n_samples, 5), plain[:, 2, :, 1])
    np.testing.assert_array_equal(HEADS.rows(value), np.moveaxis(plain, 1, 2).reshape(n_samples, 5, 12))


def test_the_number_of_samples_tells_merged_samples_and_tokens_apart() -> None:
    assert FOLDED.for_shape((12, 4), 4).split == ((4, 3), (4,))
    assert FOLDED.for_shape((12, 4)).samples == ()  # 4 · 3 or 2 · 6: nobody knows
    # As many rows as before may be other samples of other lengths.
    assert FOLDED.for_shape((6, 4), 3).split == ((3, 2), (4,))
    assert FOLDED.pattern().for_shape((6, 4), 3).split == ((3, 2), (4,))


def test_a_number_of_samples_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(UnitError, match="they cannot be separated"):
        FOLDED.for_shape((7, 4), 2)
