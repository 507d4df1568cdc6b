"""`np.asarray(op)`: torch's own conversion is the oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway import Trace
from cutaway.errors import NotSavedError, ShapesDifferError


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = self.cell(x)
        return x.bfloat16().relu()


@pytest.fixture(scope="module")
def trace() -> Trace:
    return cutaway.trace(Loop(), torch.randn(2, 3))


def test_an_array_of_an_op_has_the_numbers_of_its_value(trace: Trace) -> None:
    for op in (*trace.inputs, *trace.parameters.values(), trace["linear_1"]):
        assert np.array_equal(np.asarray(op), op.value.numpy())
        assert np.asarray(op).dtype == np.float32
    assert np.array_equal(np.asarray(trace["linear_1#2"]), trace["linear_1"].value[:, 2].numpy())
    assert np.array_equal(np.asarray(trace["cell"]), trace["cell"].values.numpy())


def test_bfloat16_becomes_float32(trace: Trace) -> None:
    assert np.asarray(trace["relu_1"]).dtype == np.float32
    assert np.array_equal(np.asarray(trace["relu_1"]), trace["relu_1"].value.float().numpy())


def test_dtype_and_copy_are_those_of_numpy(trace: Trace) -> None:
    op = trace["linear_1"]
    assert np.asarray(op, dtype="float64").dtype == np.float64
    before = op.value.clone()
    changed = np.array(op)
    changed[:] = 0
    assert torch.equal(op.value, before)
    assert np.shares_memory(np.asarray(op, copy=False), op.value.numpy())
    for asked in ({"dtype": "float64"}, {}):
        with pytest.raises(ValueError, match="leave out copy=False"):
            np.asarray(op if asked else trace["relu_1"], copy=False, **asked)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(op)[0] = 0
    assert op.value.numpy().flags.writeable


def test_numbers_that_left_torch_are_arrays_too() -> None:
    with cutaway.watch() as trace:
        torch.ones(3).sum().item()
    assert np.asarray(trace["/item"]) == 3


def test_an_op_without_a_value_says_how_to_keep_it() -> None:
    model = Loop()
    with cutaway.watch(model, save=None) as trace:
        model(torch.randn(2, 3))
    with pytest.raises(NotSavedError, match=r"trace again with cutaway\.watch\(model, save="):
        np.asarray(trace["linear_1"])
    with pytest.raises(NotSavedError, match="2 of 2 passes were not saved"):
        np.asarray(trace["cell"])


def test_passes_of_several_shapes_are_no_array() -> None:
    layer = nn.Linear(2, 2)
    with cutaway.watch(layer) as trace:
        layer(torch.ones(1, 2))
        layer(torch.ones(3, 2))
    with pytest.raises(ShapesDifferError):
        np.asarray(trace["."])


def test_a_loaded_trace_gives_the_same_arrays(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "trace")
    loaded = cutaway.load(tmp_path / "trace")
    for label in ("linear_1", "relu_1", "cell.weight"):
        assert np.array_equal(np.asarray(loaded[label]), np.asarray(trace[label]))
