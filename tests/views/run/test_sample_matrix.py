"""The statistics of one sample are those of its own values."""

from __future__ import annotations

import numpy as np
import pytest
from tests.views.recordings import KEPT, trained

from cutaway.core.errors import InputError
from cutaway.views.run.rows import RunRows
from cutaway.views.run.sample_matrix import sample_matrix


@pytest.fixture(scope="module")
def rows() -> RunRows:
    return RunRows(trained())


def test_the_numbers_of_a_sample_are_those_of_its_kept_values(rows: RunRows) -> None:
    number = rows.number("h.1.norm")
    assert number is not None
    value = rows.run.at(3)["h.1.norm"].value[2].astype(np.float64)  # type: ignore[index]
    own = dict(zip(rows.statistics, sample_matrix(rows, 3, 2)[number], strict=True))
    assert own["abs_mean"] == pytest.approx(np.abs(value).mean(), rel=1e-5)
    assert own["norm"] == pytest.approx(np.linalg.norm(value), rel=1e-5)
    assert (own["min"], own["max"]) == pytest.approx((value.min(), value.max()), rel=1e-5)
    assert (own["count"], own["nonfinite"]) == (value.size, 0)


def test_samples_differ_and_parameters_do_not(rows: RunRows) -> None:
    one, other = (sample_matrix(rows, 3, sample) for sample in (0, 1))
    weight, value = rows.number("h.1.mlp.0.weight"), rows.number("h.1.norm")
    assert weight is not None
    assert value is not None
    mean = rows.column_number("abs_mean")
    assert one[value, mean] != other[value, mean]
    np.testing.assert_array_equal(one[weight], rows.matrix(3)[weight])
    np.testing.assert_array_equal(one[weight], other[weight])


def test_a_sample_that_was_not_kept_is_refused(rows: RunRows) -> None:
    with pytest.raises(InputError, match=f"has {KEPT} samples"):
        sample_matrix(rows, 3, KEPT)
