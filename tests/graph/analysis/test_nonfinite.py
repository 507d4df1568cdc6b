"""`trace.first_nonfinite`: where NaN and Inf come from, compared with torch's own `isfinite` on a plain run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway


class Fn(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


def first_of(function: Callable[..., Tensor], *inputs: Tensor) -> cutaway.Op | None:
    first = cutaway.trace(Fn(function), *inputs).first_nonfinite
    return None if first is None else first.op


def test_it_names_op_line_counts_place_and_inputs() -> None:
    def compute(x: Tensor) -> Tensor:
        shifted = x - 1
        return torch.log(shifted).mul(2).sum()

    torch.manual_seed(0)
    x = torch.rand(3, 5) * 2
    first = cutaway.trace(Fn(compute), x).first_nonfinite
    assert first is not None
    expected = torch.log(x - 1)
    assert first.op.function == "log"
    assert (first.n_nan, first.n_inf, first.size) == (int(expected.isnan().sum()), 0, 15)
    assert first.index == tuple(expected.isnan().nonzero()[0].tolist())
    (given,) = first.inputs
    assert given.op.function == "sub"
    assert (given.low, given.high) == (float((x - 1).min()), float((x - 1).max()))
    assert given.here == float((x - 1)[first.index])
    assert first.source is not None
    assert first.source.text == "return torch.log(shifted).mul(2).sum()"
    assert re.search(r"log_1.*sub_1.*test_nonfinite.py", str(first))


def test_an_overflow_is_reported_where_inf_appears_and_not_where_it_becomes_nan() -> None:
    op = first_of(lambda x: (x.exp() - x.exp()).sum(), torch.tensor([1.0, 1000.0]))
    assert op is not None
    assert op.function == "exp"


def test_a_causal_mask_is_no_fault() -> None:
    def attend(scores: Tensor) -> Tensor:
        mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
        additive = torch.zeros(4, 4).masked_fill(mask, float("-inf"))
        return (scores + additive).softmax(-1).sum()

    def full(scores: Tensor) -> Tensor:
        return (scores + torch.full((4, 4), -torch.inf).triu(1)).softmax(-1).sum()

    assert first_of(attend, torch.randn(4, 4)) is None
    assert first_of(full, torch.randn(4, 4)) is None
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    layer = nn.TransformerEncoderLayer(8, 2, dropout=0.0)
    assert cutaway.trace(layer, torch.randn(3, 1, 8), mask).first_nonfinite is None


def test_a_row_that_is_masked_completely_is_a_fault_of_the_softmax() -> None:
    op = first_of(lambda scores, mask: (scores + mask).softmax(-1), torch.ones(2, 3), torch.full((2, 3), -torch.inf))
    assert op is not None
    assert op.function == "softmax"


def test_a_parameter_or_input_with_nan_is_the_origin() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    with torch.no_grad():
        model[2].weight[0, 1] = torch.nan
    first = cutaway.trace(model, torch.ones(1, 3)).first_nonfinite
    assert first is not None
    assert (first.op.kind, str(first.op.site), first.index) == ("parameter", "2.weight", (0, 1))
    op = first_of(lambda x: x * 2, torch.tensor([1.0, torch.nan]))
    assert op is not None
    assert op.kind == "input"


def test_uninitialized_memory_is_no_fault() -> None:
    # With deterministic algorithms, torch fills new memory with NaN.
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        assert first_of(lambda x: torch.empty(3).copy_(x), torch.ones(3)) is None
    finally:
        torch.use_deterministic_algorithms(False)


def test_an_inf_that_disappears_is_no_fault() -> None:
    """T5 takes the logarithm of distance 0, and chooses another value there with `torch.where`."""
    x = torch.tensor([0.0, 1.0, 2.0])
    assert first_of(lambda x: torch.where(x > 0, x.log(), 0.0), x) is None
    op = first_of(lambda x: torch.where(x > 0, x.log() * 0, 0.0), x)  # -inf times 0 is NaN, which `where` discards
    assert op is not None
    assert op.function == "log"
    model, args, kwargs = ZOO["t5"]()
    assert cutaway.trace(model, *args, **kwargs).first_nonfinite is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_large_finite_values_are_finite(dtype: str) -> None:
    kind = getattr(torch, dtype)
    largest = torch.full((64,), torch.finfo(kind).max, dtype=kind)  # their sum overflows
    assert first_of(lambda x: x * 1, largest) is None
    op = first_of(lambda x: x * 4, largest)
    assert op is not None
    assert op.function == "mul"


def test_of_a_subset_it_is_the_first_saved_value() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    x = torch.full((1, 2), 1e38)
    with torch.no_grad():
        model[0].weight.fill_(100.0)
    with cutaway.watch(model, save=["2"]) as trace:
        model(x)
    assert trace.first_nonfinite is not None
    assert str(trace.first_nonfinite.op.site) == "2/linear"


def test_it_is_saved_with_the_trace_and_mentioned_when_printed(tmp_path: Path) -> None:
    trace = cutaway.trace(Fn(lambda x: (x / 0).sum()), torch.ones(2, 3))
    assert re.search(r"NONFINITE +\w*div_1_1 has 6 Inf, test_nonfinite.py:\d+", repr(trace))
    trace.save(tmp_path / "trace")
    loaded = cutaway.load(tmp_path / "trace")
    assert repr(loaded) == repr(trace)
    assert str(loaded.first_nonfinite) == str(trace.first_nonfinite)
    np.testing.assert_array_equal(loaded.first_nonfinite.op.value, np.full((2, 3), np.inf, np.float32))


def test_printing_adds_no_ops_to_a_trace_that_is_being_made() -> None:
    older = cutaway.trace(Fn(lambda x: x.log()), torch.tensor([-1.0, 2.0]))
    with cutaway.watch() as trace:
        torch.ones(2) * 3
        repr(older)
    assert all(op.function in ("ones", "mul") for op in trace.ops), [op.function for op in trace.ops]
