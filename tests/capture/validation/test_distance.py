"""Distances between values of every dtype; NumPy in float64 is the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cutaway.capture.validation import distance as apart
from cutaway.capture.validation.compare import bit_equal, deviation
from cutaway.capture.validation.distance import distance
from cutaway.results.diff import Distance

NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128]
WHOLE = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def measured(a: Any, b: Any) -> Distance:
    found = distance(a, b)
    assert found is not None
    return found


def wide(tensor: Tensor) -> Any:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64).numpy().reshape(-1)


def check(a: Tensor, b: Tensor) -> None:
    """All numbers as NumPy has them; for finite values that differ."""
    found, p, q = measured(a, b), wide(a), wide(b)
    assert not found.is_equal
    assert found.absolute == pytest.approx(np.abs(p - q).max())
    assert found.relative == pytest.approx(np.abs(p - q).max() / np.abs(p).max())
    assert found.norm == pytest.approx(np.linalg.norm(p - q) / np.linalg.norm(p))
    assert found.cosine == pytest.approx(np.vdot(q, p).real / np.linalg.norm(p) / np.linalg.norm(q))
    assert (found.n_elements, found.n_different) == (p.size, int((p != q).sum()))
    assert (found.n_nan, found.n_inf) == (0, 0)
    assert found.share == pytest.approx((p != q).mean())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers_of_floats_are_those_of_numpy(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    a = torch.randn(5, 7, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    b = a.clone()
    b[2:4] += 0.25
    check(a, b)
    check(a.mT, b.mT)
    assert measured(a, b).relative == pytest.approx(deviation(b, a))


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_numbers_of_whole_numbers_are_those_of_numpy(dtype: torch.dtype) -> None:
    a = torch.arange(1, 21).to(dtype)
    b = a.clone()
    b[3] = 100
    check(a, b)


def test_truth_values_differ_by_one() -> None:
    found = measured(torch.tensor([True, False, True, True]), torch.tensor([True, True, True, False]))
    assert (found.absolute, found.n_different, found.share) == (1.0, 2, 0.5)


def test_large_whole_numbers_are_told_apart_where_doubles_are_not() -> None:
    a = torch.tensor([2**60])
    assert measured(a, a + 1).n_different == 1


def test_another_dtype_with_the_same_numbers_is_equal() -> None:
    a = torch.tensor([1.0, 0.5, NAN])
    assert measured(a, a.to(torch.bfloat16)).is_equal
    assert measured(a.to(torch.float16), a).is_equal
    check(torch.tensor([0.1, 0.2]), torch.tensor([0.1, 0.2]).to(torch.bfloat16))
    check(torch.tensor([1, 2]), torch.tensor([1.5, 2.0]))


def test_pieces_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_CHUNK", 7)
    torch.manual_seed(0)
    a = torch.randn(40)
    check(a, a + torch.randn(40))


def test_nan_and_inf_are_counted_and_left_out_of_the_rest() -> None:
    a = torch.tensor([1.0, NAN, NAN, INF, INF, -INF, 2.0, INF])
    b = torch.tensor([1.5, NAN, 3.0, INF, -INF, 4.0, NAN, NAN])
    found = measured(a, b)
    assert (found.n_nan, found.n_inf, found.n_different) == (3, 2, 6)
    assert found.absolute == 0.5
    assert found.norm == pytest.approx(0.5)
    assert measured(a, a.clone()).is_equal
    assert measured(a.double(), a).is_equal


def test_a_difference_from_nothing_has_no_relative_size() -> None:
    found = measured(torch.zeros(3), torch.ones(3))
    assert (found.absolute, found.relative, found.norm, found.cosine) == (1.0, None, None, None)


def test_values_beyond_all_numbers_give_none_instead_of_inf() -> None:
    found = measured(torch.tensor([1e200, 1.0], dtype=torch.float64), torch.tensor([-1e200, 1.0], dtype=torch.float64))
    assert found.norm is None
    assert found.absolute == 2e200


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        lambda: torch.ones(3, dtype=torch.complex64).conj(),
        lambda: torch.ones(3).to(torch.float8_e4m3fn),
        lambda: torch.zeros(0),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_value_of_any_layout_is_equal_to_itself(make: Any) -> None:
    assert measured(make(), make()).is_equal


@pytest.mark.filterwarnings("ignore")
def test_values_of_other_layouts_are_compared_by_their_numbers() -> None:
    assert measured(torch.eye(3).to_sparse(), torch.eye(3)).is_equal
    assert measured(torch.eye(3).to_sparse(), (2 * torch.eye(3)).to_sparse()).n_different == 3
    one, two = (torch.nested.nested_tensor([torch.ones(2), n * torch.ones(3)]) for n in (1, 2))
    assert measured(one, two).n_different == 3
    assert measured(torch.ones(3).to(torch.float8_e4m3fn), 2 * torch.ones(3)).absolute == 1


def test_what_has_no_elements_in_common_has_no_distance() -> None:
    assert distance(torch.ones(2), torch.ones(3)) is None
    assert distance(torch.ones(2, device="meta"), torch.ones(2, device="meta")) is None
    assert distance(torch.ones(2), "text") is None


def test_numbers_that_left_torch_are_compared() -> None:
    assert measured(2.0, 2.5).absolute == 0.5
    assert measured(3, 3).is_equal
    assert not measured(True, False).is_equal
    assert measured([1.0, 2.0], [1.0, 4.0]).n_different == 1
    assert measured(np.ones(3), np.ones(3)).is_equal
    assert not measured("a", "b").is_equal
    assert measured("a", "a").is_equal


@pytest.mark.parametrize("seed", range(20))
def test_equal_is_what_same_calls_the_same(seed: int) -> None:
    torch.manual_seed(seed)
    a = torch.randn(6).round().where(torch.rand(6) < 0.8, torch.tensor(NAN))
    b = torch.where(torch.rand(6) < 0.9, a, torch.tensor(INF))
    assert measured(a, b).is_equal == bit_equal(a, b)
