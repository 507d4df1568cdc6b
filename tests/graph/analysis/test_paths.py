"""Paths between ops, and the critical path. networkx is the independent oracle."""

from __future__ import annotations

import random
from itertools import islice, pairwise

import networkx
import pytest
import torch
from tests.graph.random_models import tangle
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway import Op, Trace
from cutaway.core.errors import InputError, PathLimitError


def graph_of(trace: Trace) -> networkx.DiGraph:
    return networkx.DiGraph(trace.to_networkx())


def pairs(trace: Trace, n: int = 25) -> list[tuple[Op, Op]]:
    nodes = {parent for op in trace.ops for parent in op.parents} | set(trace.ops)
    ops = sorted((op for op in nodes if not op.is_identity), key=lambda op: op.node)
    draw = random.Random(1)
    return [(draw.choice(ops), draw.choice(ops)) for _ in range(n)] if ops else []


def check_paths(trace: Trace) -> int:
    """Compare everything there is to know about the paths of some pairs; returns how many had any."""
    graph, n_connected = graph_of(trace), 0
    for a, b in pairs(trace):
        if a == b:
            continue
        paths = trace.paths(a, b)
        above = graph.subgraph({a.label, b.label, *networkx.ancestors(graph, b.label)})  # else it tries dead ends
        expected = list(islice(networkx.all_simple_paths(above, a.label, b.label), 500))
        if len(expected) == 500:
            continue
        assert paths.count == len(expected)
        assert sorted(list(path.labels) for path in paths) == sorted(expected)
        assert set(paths.ops.labels) == {label for path in expected for label in path}
        assert set(trace.between(a, b).labels) == {label for path in expected for label in path[1:-1]}
        assert bool(paths) == bool(expected)
        shortest = paths.shortest
        assert (shortest is None) == (not expected)
        if shortest is not None:
            n_connected += 1
            assert list(shortest.labels) in expected
            assert len(shortest) == networkx.shortest_path_length(graph, a.label, b.label) + 1
            heaviest = paths.heaviest("bytes")
            sizes = {op.label: 0 if op.is_source else op.bytes for op in paths.ops}
            assert heaviest is not None
            assert list(heaviest.labels) in expected
            assert sum(map(sizes.__getitem__, heaviest.labels)) == max(
                sum(map(sizes.__getitem__, path)) for path in expected
            )
    return n_connected


@pytest.mark.parametrize("seed", range(10))
def test_paths_in_random_graphs_are_those_that_networkx_finds(seed: int) -> None:
    assert check_paths(tangle(seed, 25)) > 3


@pytest.mark.parametrize("name", ZOO)
def test_paths_in_the_zoo_are_those_that_networkx_finds(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    check_paths(cutaway.trace(model, *args, **kwargs))


def test_paths_between_several_ops_are_those_of_all_pairs() -> None:
    for seed in range(5):
        trace = tangle(seed, 20)
        graph = graph_of(trace)
        starts, ends = trace.ops[:6], trace.ops[4:]
        expected = [
            path
            for a in starts.labels
            for b in ends.labels
            if a != b
            for path in networkx.all_simple_paths(graph, a, b)
        ]
        paths = trace.paths(starts, ends)
        identities = [op.label for op in starts if op.is_identity]
        if not identities:
            assert paths.count == len(expected)
            assert sorted(list(path.labels) for path in paths) == sorted(expected)
            assert len(paths.shortest or ()) == min(map(len, expected))


class Diamonds(nn.Module):
    """Each step doubles the number of paths."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.n):
            x = torch.sin(x) + torch.cos(x)
        return x


def test_exponentially_many_paths_are_counted_exactly_and_given_lazily() -> None:
    trace = cutaway.trace(Diamonds(200), torch.ones(1))
    paths = trace.paths(trace.inputs, trace.outputs)
    assert paths.count == 2**200
    first = list(islice(paths, 3))
    assert all(len(path) == 401 for path in first)
    assert len({path.labels for path in first}) == 3
    assert len(paths.shortest or ()) == 401
    assert len(trace.between(trace.inputs, trace.outputs).where(function="sin")) == 200


def test_more_paths_than_the_limit_are_an_error_that_says_how_many_there_are() -> None:
    trace = cutaway.trace(Diamonds(5), torch.ones(1))
    paths = trace.paths(".@in.0", ".", most=10)
    assert len(list(islice(paths, 10))) == 10
    with pytest.raises(PathLimitError, match=r"found 32 paths, more than the limit of 10.*most=None"):
        list(paths)
    assert len(list(trace.paths(".@in.0", ".", most=32))) == len(list(trace.paths(".@in.0", ".", most=None))) == 32


def test_no_path_is_no_error() -> None:
    trace = cutaway.trace(Diamonds(2), torch.ones(1))
    backwards = trace.paths(".", ".@in.0")
    assert (backwards.count, list(backwards), backwards.shortest, backwards.heaviest()) == (0, [], None, None)
    assert not backwards
    assert len(backwards.ops) == len(trace.between(".", ".@in.0")) == 0
    assert repr(backwards) == "<no paths>"
    assert trace.paths("sin_1", "sin_1").count == 0
    assert len(trace.between("sin_1", "cos_1")) == 0
    assert repr(trace.paths("sin_1", ".")) == "<2 paths over 5 ops, the shortest of 4>"


def test_ops_of_a_type_between_two_sites_are_counted_without_the_ends() -> None:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(5)])
    trace = cutaway.trace(model, torch.ones(1, 2))
    assert len(trace.between("0", "4").where(function="relu")) == 3
    assert len(trace.between("0.0", "4.0").where(function="linear")) == 3
    assert trace.paths("0.0", "4.0").ops == trace.between("0.0", "4.0") | trace.select(["0.0", "4.0"])


# the critical path


def weight(op: Op, by: str) -> float:
    if by == "flops":
        return op.siblings[0].flops
    return op.bytes if by == "bytes" else op.seconds


def check_critical_path(trace: Trace, by: str) -> None:
    found = trace.critical_path(by)  # type: ignore[arg-type]
    outputs = [op for op in trace.outputs if not op.is_source]
    if not outputs:
        assert len(found) == 0
        return
    graph = networkx.DiGraph()
    for op in trace.select(outputs).ancestors | trace.select(outputs):
        graph.add_node(op.label)
        for child in op.children:
            if not op.is_source and not child.is_identity:
                # The weight of an op stands on the edges into it, that of the first on an edge from nowhere.
                graph.add_edge(op.label, child.label, weight=weight(child, by))
        if not op.is_source:
            graph.add_edge("", op.label, weight=weight(op, by))
    keep = {"", *(name for op in outputs for name in (*networkx.ancestors(graph, op.label), op.label))}
    expected = networkx.dag_longest_path_length(graph.subgraph(keep))
    assert sum(weight(op, by) for op in found) == pytest.approx(expected)
    assert found[-1] in outputs
    assert not [parent for parent in found[0].parents if not parent.is_source]
    for parent, child in pairwise(found):
        assert parent in child.parents


@pytest.mark.parametrize("name", ZOO)
def test_the_critical_path_in_the_zoo_is_the_longest_that_networkx_finds(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    trace = cutaway.trace(model, *args, **kwargs)
    for by in ("seconds", "flops"):
        check_critical_path(trace, by)


@pytest.mark.parametrize("seed", range(6))
def test_the_critical_path_in_random_graphs_is_the_longest_that_networkx_finds(seed: int) -> None:
    for by in ("seconds", "flops", "bytes"):
        check_critical_path(tangle(seed, 60), by)


def test_without_outputs_the_critical_path_may_end_anywhere() -> None:
    x = torch.ones(2)
    with cutaway.watch() as loose:
        _ = x.exp().exp().repeat(1000)
        x.sin()
    assert [op.function for op in loose.critical_path("bytes")] == ["exp", "exp", "repeat"]


def test_only_time_flops_and_bytes_are_counted() -> None:
    trace = cutaway.trace(Diamonds(1), torch.ones(1))
    with pytest.raises(InputError, match="unknown measure 'joules': give 'seconds', 'flops' or 'bytes'"):
        trace.critical_path("joules")  # type: ignore[arg-type]
    assert len(cutaway.trace(nn.Identity(), torch.ones(1)).critical_path()) == 0
