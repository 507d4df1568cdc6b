"""The structure of a long trace is written and read in about a second."""

from __future__ import annotations

from pathlib import Path

import torch
from tests.call_count import count_calls
from torch import nn

import cutaway
from cutaway import Trace


def test_five_thousand_ops_are_saved_and_read_with_little_work_each(tmp_path: Path) -> None:
    cell = nn.LSTMCell(4, 4)
    with torch.no_grad(), cutaway.watch(cell, save=None) as trace:
        x, state = torch.ones(2, 4), (torch.zeros(2, 4), torch.zeros(2, 4))
        for _ in range(500):
            state = cell(x, state)
            x = (torch.relu(state[0]) * 2 + x[..., :4]).tanh() - x.mean() / 3
    assert len(trace) >= 5_000
    assert count_calls(lambda: trace.save(tmp_path / "trace")) < 500 * len(trace)
    assert count_calls(lambda: cutaway.load(tmp_path / "trace")) < 100 * len(trace)
    found = cutaway.load(tmp_path / "trace")
    assert isinstance(found, Trace)
    assert [op.label for op in found.ops[-50:]] == [op.label for op in trace.ops[-50:]]
    assert [op.site for op in found.ops[-50:]] == [op.site for op in trace.ops[-50:]]
