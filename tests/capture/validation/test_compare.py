"""Bitwise equality and relative difference; NumPy and raw bits are the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cutaway.capture.validation.compare import bit_equal, deviation, is_close

NAN = float("nan")
DIFFERENT: list[tuple[Any, Any]] = [
    (torch.ones(3), torch.ones(4)),
    (torch.ones(3), torch.ones(3, dtype=torch.float64)),
    (torch.ones(3), torch.tensor([1.0, 1.0, 1.0 + 1e-7])),
    (torch.tensor([NAN, 1.0]), torch.tensor([1.0, NAN])),
    (torch.tensor([float("inf")]), torch.tensor([3.4028234663852886e38])),
    (torch.ones(2, 2).to_sparse(), torch.ones(2, 2)),
    (torch.eye(2).to_sparse(), torch.ones(2, 2).to_sparse()),
    (torch.tensor([1 + 1j]), torch.tensor([1 - 1j])),
    (torch.tensor([True]), torch.tensor([False])),
    (torch.ones(2, device="meta"), torch.ones(3, device="meta")),
    (1.0, 1),
    (True, 1),
    ([1.0, 2.0], [1.0, 3.0]),
    (np.ones(2), np.ones(2, dtype=np.float32)),
    (1.0, torch.tensor(1.0)),
]
ALIKE: list[Any] = [
    torch.tensor([NAN, float("inf"), -0.0]),
    torch.eye(3).to_sparse(),
    torch.eye(3).to_sparse_csr(),
    torch.ones(2, device="meta"),
    torch.randn(3).to(torch.bfloat16),
    torch.randn(3, dtype=torch.complex64).conj(),
    torch.zeros(0),
    torch.tensor(3),
    torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    torch.randn(4).to(torch.float8_e4m3fn),
    NAN,
    [1.0, [NAN]],
    np.array([1.0, np.nan]),
    True,
]


@pytest.mark.parametrize("pair", DIFFERENT, ids=range(len(DIFFERENT)))
def test_what_differs_in_anything_is_not_the_same(pair: tuple[Any, Any]) -> None:
    assert not bit_equal(*pair)
    assert not bit_equal(*reversed(pair))


@pytest.mark.parametrize("value", ALIKE, ids=range(len(ALIKE)))
def test_a_value_is_the_same_as_its_copy(value: Any) -> None:
    copy = value.clone() if isinstance(value, torch.Tensor) else value.copy() if hasattr(value, "copy") else value
    assert bit_equal(value, copy)


def test_strides_do_not_matter() -> None:
    x = torch.randn(3, 4)
    assert bit_equal(x, x.t().contiguous().t())


def test_the_deviation_is_relative_to_the_largest_element() -> None:
    b = torch.tensor([0.0, -200.0])
    a = b + torch.tensor([1.0, 0.0])
    assert deviation(a, b) == pytest.approx(1 / 200)
    assert deviation(torch.tensor([1.0, NAN]), torch.tensor([1.0, 2.0])) is None
    assert deviation(torch.tensor([NAN, 2.0]), torch.tensor([NAN, 2.0])) == 0.0
    assert deviation(torch.ones(2), torch.ones(3)) is None
    assert deviation(torch.tensor([1]), torch.tensor([2])) is None


def test_close_is_a_matter_of_precision() -> None:
    x = torch.randn(100)
    assert is_close(x * (1 + 1e-6), x)
    assert not is_close(x * (1 + 1e-4), x)
    assert is_close((x * (1 + 1e-3)).bfloat16(), x.bfloat16())
    assert not is_close(x.double() * (1 + 1e-6), x.double())
