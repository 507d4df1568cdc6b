"""Slices of arguments show what the whole call shows, and hide no edge that carries nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.zoo import Fn
from torch import nn

import cutaway
from cutaway.capture.replay.call import replay_call

X, W, B = torch.randn(2, 50, 64), torch.randn(96, 64), torch.randn(96)
IMAGE, KERNEL = torch.randn(2, 8, 24, 24), torch.randn(16, 8, 3, 3)
CALLS: dict[str, Any] = {
    "linear": lambda self, x: F.linear(x, W, B),
    "linear without bias": lambda self, x: F.linear(x, W),
    "conv2d": lambda self, x: F.conv2d(IMAGE * 1, KERNEL, B[:16], padding=1) + x.sum(),
    "matmul": lambda self, x: x @ x.exp().transpose(1, 2),
    "addmm": lambda self, x: torch.addmm(B, x[0], W.T),
    "broadcast add": lambda self, x: x + W[0],
    "mul_": lambda self, x: (x * 2).mul_(x),
    "layer_norm": lambda self, x: F.layer_norm(x, (64,), W[0], W[1]),
    "gelu": lambda self, x: F.gelu(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_report_is_the_same_as_with_whole_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = cutaway.trace(Fn(CALLS[name]), X)
    sizes: list[int] = []

    def counted(trace: Any, call: Any, values: Any) -> Any:
        sizes.append(sum(value.numel() for value in values.values()))
        return replay_call(trace, call, values)

    monkeypatch.setattr("cutaway.capture.validation.op_check.replay_call", counted)
    report = trace.validate()
    assert any(size < 2000 for size in sizes), sizes
    monkeypatch.setattr("cutaway.capture.validation.op_check.smaller", lambda *_: None)
    whole = trace.validate()
    assert report
    assert str(report) == str(whole)


def test_an_edge_that_carries_nothing_is_found_in_a_large_call() -> None:
    trace = cutaway.trace(nn.Linear(64, 96), X)
    node = trace["linear_1"].node
    event = list(trace.tables.nodes.event[node] or ())
    held = trace.parameters["weight"].value.detach().clone()
    event[0] = lambda x, weight, bias: F.linear(x, held[: len(weight)], bias)
    event[0].__name__ = "linear"
    trace.tables.nodes.event[node] = tuple(event)
    report = trace.validate()
    assert [failure.what for failure in report.failures] == ["edge"], report
    assert "weight" in report.failures[0].reason
