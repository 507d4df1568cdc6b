"""Distances, against the shortest paths of networkx."""

from __future__ import annotations

from typing import Any

import networkx
import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway import Trace


class Skips(nn.Module):
    """Two inputs, skip connections, a branch that leads nowhere, a part without input, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.bias = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.relu(self.a(x))
        h.sum()
        g = self.b(h) + x
        prior = torch.softmax(self.bias * 2, 0)
        return g * prior, torch.tanh(y + h)


class Chain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(30):
            x = x.sin() + x
        return x


MODELS: dict[str, tuple[nn.Module, tuple[Any, ...]]] = {
    "skips": (Skips(), (torch.ones(2, 3), torch.ones(2, 3))),
    "chain": (Chain(), (torch.ones(1),)),
    "lstm": (nn.LSTM(3, 3, 2), (torch.ones(4, 3),)),
    "encoder": (nn.TransformerEncoderLayer(4, 2, 8), (torch.ones(3, 1, 4),)),
    "identity": (nn.Identity(), (torch.ones(1),)),
}


@pytest.fixture(params=MODELS)
def trace(request: pytest.FixtureRequest) -> Trace:
    model, args = MODELS[request.param]
    return cutaway.trace(model, *args)


def graph_of(trace: Trace) -> Any:
    graph = networkx.DiGraph()
    everything = [*trace.ops, *trace.inputs, *trace.parameters.values(), *trace.constants]
    graph.add_nodes_from(op.node for op in everything)
    graph.add_edges_from((parent.node, op.node) for op in trace.ops for parent in op.parents)
    return graph


def test_distance_from_input_is_the_shortest_path_from_any_input(trace: Trace) -> None:
    lengths = networkx.multi_source_dijkstra_path_length(graph_of(trace), {op.node for op in trace.inputs})
    assert {op.node: op.distance_from_input for op in trace.ops} == {op.node: lengths.get(op.node) for op in trace.ops}


def test_distance_to_output_is_the_shortest_path_to_any_output(trace: Trace) -> None:
    upwards = graph_of(trace).reverse()
    lengths = networkx.multi_source_dijkstra_path_length(upwards, {op.node for op in trace.outputs})
    assert {op.node: op.distance_to_output for op in trace.ops} == {op.node: lengths.get(op.node) for op in trace.ops}


def test_inputs_are_at_distance_zero_and_ops_without_input_at_none() -> None:
    model, args = MODELS["skips"]
    trace = cutaway.trace(model, *args)
    assert [op.distance_from_input for op in trace.inputs] == [0, 0]
    assert [op.distance_to_output for op in trace.outputs] == [0, 0]
    assert trace["softmax_1"].distance_from_input is None
    assert trace["softmax_1"].distance_to_output == 1
    assert trace["sum_1"].distance_to_output is None


def test_ops_that_neither_come_from_an_input_nor_lead_to_an_output_are_left_out_unless_asked_for() -> None:
    class Orphan(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            torch.ones(2).cos()
            return x.sin()

    model = Orphan()
    assert [op.function for op in cutaway.trace(model, torch.ones(2)).ops] == ["sin"]
    with cutaway.watch(model, orphans=True) as trace:
        model(torch.ones(2))
    assert {op.function for op in trace.ops} >= {"cos", "sin"}
