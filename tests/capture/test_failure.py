"""The op that ended a trace is recorded with its inputs and its source line."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import DamagedError
from cutaway.graph.tables import FailedOp
from cutaway.store.traces.encode import structure_of
from cutaway.store.traces.trace_file import decode_trace
from cutaway.store.traces.values import ValueWriter


class Net(nn.Module):
    """Raises in `bad`, or where a mask made inside does not fit."""

    def __init__(self, width: int = 9) -> None:
        super().__init__()
        self.good = nn.Linear(4, 8)
        self.bad = nn.Linear(width, 2)

    def forward(self, x: Tensor, mask: bool = False) -> Tensor:
        made = torch.ones(3, 5).tril()
        y = self.good(x)
        y.mul_(2)
        if mask:
            return torch.where(y > 0, y, other=made)
        return self.bad(y)


def failed(mask: bool = False, save: str | None = "**") -> cutaway.Trace:
    net, x = Net(), torch.ones(2, 4)
    with pytest.raises(RuntimeError), cutaway.watch(net, save=save) as trace:
        net(x, mask)
    return trace


def watched(program: Callable[[], object]) -> cutaway.Trace:
    """The trace of code around no model that raises."""
    with pytest.raises((RuntimeError, KeyError)), cutaway.watch() as trace:
        program()
    return trace


def op_of(trace: cutaway.Trace) -> FailedOp:
    found = trace.tables.failed_op
    assert found is not None
    return found


@pytest.mark.parametrize("save", ["**", None, "good"])
def test_it_names_what_it_was_given_and_where_it_ran(save: str | None) -> None:
    trace = failed(save=save)
    found = op_of(trace)
    assert found.function == "linear"
    assert [cutaway.Op(trace, row).function for row in found.parents] == ["mul_"]
    assert cutaway.trace(nn.Identity(), torch.ones(1)).tables.failed_op is None
    module = trace.tables.modules[trace.tables.calls[found.call].module]
    assert module.addresses == ("bad",)
    assert found.text == "return self.bad(y)"
    assert found.source.endswith("in Net.forward")
    assert "test_failure.py:" in found.source


@pytest.mark.parametrize("save", ["**", None])
def test_what_was_made_for_it_alone_stays_in_the_trace(save: str | None) -> None:
    trace = failed(mask=True, save=save)
    found = op_of(trace)
    assert found.function == "where"
    assert [trace.names.label(row) for row in found.parents] == ["gt_1_5", "mul_1_4", "tril_1_2"]
    assert [op.function for op in trace] == ["ones", "tril", "linear", "mul_", "gt"]
    without = failed(mask=False, save=save)
    assert [op.function for op in without] == ["linear", "mul_"]


def test_memory_written_through_another_tensor_is_told() -> None:
    def program() -> None:
        x = torch.zeros(4)
        x[:2].fill_(1)
        x @ torch.ones(5)

    trace = watched(program)
    found = op_of(trace)
    assert [cutaway.Op(trace, row).function for row in found.parents] == ["zeros", "fill_", "ones"]
    assert len(trace.tables.nodes) == 4


def test_a_tensor_that_is_given_twice_is_one_parent_and_lists_are_looked_into() -> None:
    def program() -> None:
        x = torch.zeros(4, 2)
        torch.cat([x, x, torch.ones(3)], dim=1)

    assert op_of(watched(program)).parents == (0, 1)


def test_an_error_that_no_operation_raised_has_none() -> None:
    def program() -> None:
        torch.zeros(4) + 1
        raise KeyError

    trace = watched(program)
    assert len(trace) == 2
    assert trace.tables.failed_op is None


def test_it_keeps_no_tensor_alive() -> None:
    net, x = Net(), torch.ones(2, 4)
    with suppress(RuntimeError), cutaway.watch(net, save=None) as trace:
        net(x)
    seen = weakref.ref(net.bad.weight)
    trace.tables.error = None  # the frames of its traceback hold the model
    del net
    gc.collect()
    assert op_of(trace).function == "linear"
    assert seen() is None


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    trace = failed()
    trace.save(tmp_path / "trace")
    found = cutaway.load(tmp_path / "trace")
    assert isinstance(found, cutaway.Trace)
    assert found.tables.failed_op == trace.tables.failed_op
    assert [op.label for op in found] == [op.label for op in trace]


def written_and_read(change: dict[str, Any]) -> cutaway.Trace:
    trace = failed(save=None)
    structure = structure_of(trace)
    ValueWriter(lambda *_: None).write(trace, structure.columns)
    return decode_trace({**structure.document, **change}, structure.arrays(), {}, "")


@pytest.mark.parametrize(
    "change", [{"parents": [10_000]}, {"parents": None}, {"parents": [-1]}, {"call": 99}, {"call": "1"}, {"text": 3}]
)
def test_damage_to_it_is_told(change: dict[str, Any]) -> None:
    whole = {"function": "linear", "parents": [1, 2], "call": 1, "source": "", "text": ""}
    assert op_of(written_and_read({"failed_op": whole})) == FailedOp("linear", (1, 2), 1, "", "")
    with pytest.raises(DamagedError):
        written_and_read({"failed_op": {**whole, **change}})


def test_a_trace_that_was_saved_without_it_has_none() -> None:
    assert written_and_read({"failed_op": None}).tables.failed_op is None
