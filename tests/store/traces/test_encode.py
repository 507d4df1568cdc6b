"""The structure of a long trace is written and read in about a second."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import nn

import cutaway
from cutaway import Trace


def test_twenty_thousand_ops_are_saved_and_read_in_seconds(tmp_path: Path) -> None:
    cell = nn.LSTMCell(4, 4)
    with torch.no_grad(), cutaway.watch(cell, save=None) as trace:
        x, state = torch.ones(2, 4), (torch.zeros(2, 4), torch.zeros(2, 4))
        for _ in range(2_000):
            state = cell(x, state)
            x = (torch.relu(state[0]) * 2 + x[..., :4]).tanh() - x.mean() / 3
    assert len(trace) >= 20_000
    began = time.process_time()  # of the processor: other programs may be running
    trace.save(tmp_path / "trace")
    saved = time.process_time()
    found = cutaway.load(tmp_path / "trace")
    done = time.process_time()
    assert saved - began < 6
    assert done - saved < 3
    assert isinstance(found, Trace)
    assert [op.label for op in found.ops[-50:]] == [op.label for op in trace.ops[-50:]]
    assert [op.site for op in found.ops[-50:]] == [op.site for op in trace.ops[-50:]]
