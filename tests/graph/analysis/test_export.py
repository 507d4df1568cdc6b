"""A trace as a table and as a graph of networkx."""

from __future__ import annotations

import builtins
from typing import Any

import networkx
import pandas
import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway import Trace
from cutaway.core.errors import MissingExtraError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.relu(self.fc(x))
        return torch.cat([h, h + x.sum()], dim=-1), h.max(-1).values


@pytest.fixture(scope="module")
def trace() -> Trace:
    return cutaway.trace(Net(), torch.randn(2, 3))


def without(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """As if a package were not installed."""
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == missing:
            raise ImportError(f"No module named {missing!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_a_table_has_a_row_for_each_op_and_the_attributes_as_columns(trace: Trace) -> None:
    table = trace.table()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.index) == [op.label for op in trace.ops]
    for column in ("site", "function", "shape", "dtype", "bytes", "seconds", "flops", "output_path", "is_saved"):
        assert list(table[column]) == [getattr(op, column) for op in trace.ops]
    assert list(table["parents"]) == [[parent.label for parent in op.parents] for op in trace.ops]
    assert table["flops"].sum() == trace.flops
    assert list(table["module"]) == [op.module.address for op in trace.ops if op.module]


def test_without_pandas_a_table_is_a_list_of_the_same_rows(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    table = trace.table().reset_index().astype({"distance_to_output": object, "distance_from_input": object})
    rows = table.replace({pandas.NA: None}).to_dict("records")
    without(monkeypatch, "pandas")
    assert trace.table() == rows


def test_distances_stay_whole_numbers_where_some_are_missing(trace: Trace) -> None:
    distances = trace.table()["distance_to_output"]
    assert str(distances.dtype) == "Int64"
    assert [None if pandas.isna(d) else d for d in distances] == [op.distance_to_output for op in trace.ops]
    assert distances.isna().any()


def test_a_trace_without_ops_is_an_empty_table() -> None:
    assert len(cutaway.trace(nn.Identity(), torch.ones(1)).table()) == 0


def test_the_graph_has_an_edge_for_each_tensor_argument(trace: Trace) -> None:
    graph = trace.to_networkx()
    edges = sorted((a, b, data["argument"]) for a, b, data in graph.edges(data=True))
    assert edges == sorted((edge.parent.label, op.label, edge.argument) for op in trace.ops for edge in op.edges)


def test_the_graph_is_acyclic_and_its_predecessors_are_the_parents(trace: Trace) -> None:
    graph = trace.to_networkx()
    assert networkx.is_directed_acyclic_graph(graph)
    for op in trace.ops:
        assert set(graph.predecessors(op.label)) == {parent.label for parent in op.parents}
        assert set(graph.successors(op.label)) == {child.label for child in op.children}


def test_the_nodes_of_the_graph_are_the_ops_and_what_they_were_made_from(trace: Trace) -> None:
    graph = trace.to_networkx()
    sources = {label for label, data in graph.nodes(data=True) if data["function"] in ("input", "parameter")}
    assert sources == {"input_1", "fc.weight", "fc.bias"}
    assert set(graph) - sources == {op.label for op in trace.ops}
    assert graph.nodes["fc.weight"]["shape"] == (4, 3)
    assert graph.nodes["relu_1_2"]["site"] == "./relu"


def test_without_networkx_the_error_names_what_to_install(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "networkx")
    with pytest.raises(MissingExtraError, match="pip install networkx"):
        trace.to_networkx()
