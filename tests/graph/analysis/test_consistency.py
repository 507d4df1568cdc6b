"""A graph agrees with itself, and each kind of contradiction is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.zoo import ZOO
from torch import nn

import cutaway
from cutaway import Trace
from cutaway.graph.analysis.consistency import problems


def small() -> Trace:
    return cutaway.trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), torch.randn(2, 4))


@pytest.mark.parametrize("name", ZOO)
def test_every_trace_of_the_zoo_agrees_with_itself(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    assert list(problems(cutaway.trace(model, *args, **kwargs))) == []


def parent_after_child(trace: Trace) -> None:
    trace.tables.nodes.parents[trace["relu_1"].node] = (trace["linear_2"].node,)


def lost_child(trace: Trace) -> None:
    trace.children_of(trace["linear_1"].node).clear()


def strange_child(trace: Trace) -> None:
    trace.children_of(trace["linear_1"].node).append(trace["linear_2"].node)


def wrong_distance(trace: Trace) -> None:
    trace.distances.from_input[trace["relu_1"].node] = 5


def wrong_pass(trace: Trace) -> None:
    trace.tables.calls[2].pass_ = 3


def wrong_stack(trace: Trace) -> None:
    trace.tables.calls[1].parent = 3


def two_of_one_name(trace: Trace) -> None:
    trace.names.labels[trace["relu_1"].node] = "linear_1_1"


def op_without_call(trace: Trace) -> None:
    trace.tables.nodes.event[trace.inputs[0].node] = trace.tables.nodes.event[trace["relu_1"].node]


@pytest.mark.parametrize(
    "break_",
    [
        parent_after_child, lost_child, strange_child, wrong_distance, wrong_pass, wrong_stack, two_of_one_name,
        op_without_call,
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_a_contradiction_is_found(break_: Callable[[Trace], None]) -> None:
    trace = small()
    assert list(problems(trace)) == []
    break_(trace)
    assert list(problems(trace))
