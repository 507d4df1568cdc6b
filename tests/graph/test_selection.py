"""Selections: choosing, combining, and going on from there. networkx is the independent oracle."""

from __future__ import annotations

import random
from typing import Any

import networkx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.random_models import tangle
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway import Op, Trace
from cutaway.core.errors import InputError, SiteError
from cutaway.graph.selection import Selection


class Net(nn.Module):
    """Poolings directly behind a relu, behind a dropout behind a relu, and far behind one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.block = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(inplace=True), nn.Dropout())
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(x, 2)
        x = nn.functional.max_pool2d(torch.relu(self.first(x)), 2)
        x = nn.functional.avg_pool2d(self.block(x), 2)
        return self.head(nn.functional.adaptive_avg_pool2d(torch.tanh(x), 1).flatten(1))


@pytest.fixture(scope="module")
def trace() -> Trace:
    return cutaway.trace(Net().eval(), torch.randn(2, 3, 16, 16))


def zoo(name: str) -> Trace:
    model, args, kwargs = ZOO[name]()
    return cutaway.trace(model, *args, **kwargs)


def sample(trace: Trace, n: int = 12) -> list[Op]:
    """Some ops and sources, identities left out: those have an answer of their own."""
    nodes = {parent for op in trace.ops for parent in op.parents} | set(trace.ops)
    ops = sorted((op for op in nodes if not op.is_identity), key=lambda op: op.node)
    return random.Random(0).sample(ops, min(n, len(ops)))


def labels(ops: Any) -> list[str]:
    return [op.label for op in ops]


# choosing


def test_everything_that_gives_several_ops_gives_a_selection(trace: Trace) -> None:
    for found in (trace.ops, trace.saved, trace[2:5], trace.ops[1:], trace.select(), trace.between("first", "head")):
        assert isinstance(found, Selection)
    assert trace.select() == trace.ops == trace.saved
    assert list(trace.ops[2:5]) == list(trace.ops)[2:5] == list(trace[2:5])
    assert list(trace.ops[::-2]) == list(trace.ops)[::-2]
    assert trace.ops[-1] == trace[-1]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"function": "relu"}, ["relu_1_3", "relu_2_6"]),  # relu_ is a relu
        ({"function": "relu_"}, ["relu_2_6"]),
        ({"function": "*pool*"}, ["max_pool2d_1_1", "max_pool2d_2_4", "avg_pool2d_1_8", "adaptive_avg_pool2d_1_10"]),
        ({"function": "nothing"}, []),
        ({"module_class": "Conv2d"}, ["conv2d_1_2", "conv2d_2_5"]),
        ({"module_class": "Seq*"}, ["conv2d_2_5", "relu_2_6", "dropout_1_7"]),
        ({"module_class": "Sequential", "function": "conv2d"}, ["conv2d_2_5"]),
        ({"kind": "input"}, ["input_1"]),
        ({"kind": "parameter", "what": lambda op: op.shape == (2,)}, ["head.bias"]),
        ({"what": "block.**"}, ["conv2d_2_5", "relu_2_6", "dropout_1_7"]),
        ({"what": "**/conv2d"}, ["conv2d_1_2", "conv2d_2_5"]),
        ({"what": "relu_1"}, ["relu_1_3"]),
        ({"what": ["relu_1", "head.weight", "first"]}, ["conv2d_1_2", "relu_1_3", "head.weight"]),
        ({"what": lambda op: op.function == "relu"}, ["relu_1_3"]),
    ],
)  # fmt: skip
def test_ops_are_chosen_by_site_function_module_class_kind_and_predicate(
    trace: Trace, asked: dict[str, Any], expected: list[str]
) -> None:
    assert sorted(trace.select(**asked).labels) == sorted(expected)
    nodes = list(trace.select(**asked).nodes)
    assert nodes == sorted(nodes)


@pytest.mark.parametrize("name", ZOO)
def test_choosing_by_columns_agrees_with_choosing_by_the_attributes_of_each_op(name: str) -> None:
    trace = zoo(name)
    for function in {op.function for op in trace.ops}:
        assert function in {op.function for op in trace.select(function=function)}
        expected = [op for op in trace.ops if function in (op.function, op.function.strip("_"))]
        assert list(trace.select(function=function)) == expected
    for kind in ("op", "input", "parameter", "buffer", "constant"):
        assert all(op.kind == kind for op in trace.select(kind=kind))
    assert list(trace.select(kind="constant")) == list(trace.constants)
    for class_name in {call.class_name for call in trace.calls}:

        def is_inside(op: Op, class_name: str = class_name) -> bool:
            call = op.module
            while call is not None and call.class_name != class_name:
                call = call.parent
            return call is not None

        assert list(trace.select(module_class=class_name)) == [op for op in trace.ops if is_inside(op)]


def test_where_narrows_what_was_chosen(trace: Trace) -> None:
    behind = trace.select(function="relu").descendants
    assert behind.where(function="*pool*") == behind & trace.select(function="*pool*")
    assert behind.where("head").labels == ("linear_1_12",)
    assert len(trace.ops.where(kind="parameter")) == 0


def test_a_name_that_means_nothing_is_an_error_with_the_nearest(trace: Trace) -> None:
    with pytest.raises(SiteError, match=r"no site matches 'blok.\*\*'"):
        trace.select("blok.**")
    with pytest.raises(SiteError, match="no site matches 'relu_9'"):
        trace.between("relu_9", "head")
    with pytest.raises(InputError, match=r"3\.5 selects no ops: give a site"):
        trace.select([3.5])


# neighbors


@pytest.mark.parametrize("name", ZOO)
def test_neighbors_in_the_zoo_are_those_that_networkx_finds(name: str) -> None:
    check_neighbors(zoo(name))


@pytest.mark.parametrize("seed", range(8))
def test_neighbors_in_random_graphs_are_those_that_networkx_finds(seed: int) -> None:
    check_neighbors(tangle(seed))


def check_neighbors(trace: Trace) -> None:
    graph = networkx.DiGraph(trace.to_networkx())
    for op in sample(trace):
        here = trace.select(op)
        assert set(here.ancestors.labels) == networkx.ancestors(graph, op.label)
        assert set(here.descendants.labels) == networkx.descendants(graph, op.label)
        assert set(here.parents.labels) == set(graph.predecessors(op.label))
        assert set(here.children.labels) == set(graph.successors(op.label))
    several = sample(trace, 3)
    chosen = trace.select(several)
    assert set(chosen.ancestors.labels) == {name for op in several for name in networkx.ancestors(graph, op.label)}
    assert set(chosen.descendants.labels) == {name for op in several for name in networkx.descendants(graph, op.label)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("distance", [0, 1, 2, 5])
def test_what_is_near_is_what_a_search_finds_that_does_not_pass_through_sources(seed: int, distance: int) -> None:
    trace = tangle(seed)
    directed = networkx.DiGraph(trace.to_networkx())
    sources = {op.label for op in (*trace.inputs, *trace.parameters.values())}
    for op in sample(trace):
        both_ways = networkx.DiGraph()
        both_ways.add_node(op.label)
        for parent, child in directed.edges:
            both_ways.add_edge(child, parent)
            if parent not in sources or parent == op.label:
                both_ways.add_edge(parent, child)
        lengths = networkx.single_source_shortest_path_length(both_ways, op.label, cutoff=distance)
        assert set(trace.select(op).near(distance).labels) == set(lengths)


def test_a_distance_is_a_whole_number_of_steps(trace: Trace) -> None:
    for distance in (-1, 1.5, True):
        with pytest.raises(InputError, match="distance must be an integer number of steps"):
            trace.ops.near(distance)  # type: ignore[arg-type]


def test_poolings_that_follow_a_relu_directly_and_somewhere(trace: Trace) -> None:
    relus, pools = trace.select(function="relu"), trace.select(function="*pool*")
    # Between the second relu and its pooling stands a dropout that gives back its input: it does not part them.
    assert (pools & relus.children).labels == ("max_pool2d_2_4", "avg_pool2d_1_8")
    assert (pools & relus.descendants).labels == ("max_pool2d_2_4", "avg_pool2d_1_8", "adaptive_avg_pool2d_1_10")


def test_what_follows_an_identity_follows_the_op_that_made_its_tensor(trace: Trace) -> None:
    dropout = trace.select(function="dropout")
    assert dropout[0].is_identity
    assert dropout.parents.labels == ("relu_2_6",)
    assert dropout.children.labels == ("avg_pool2d_1_8",)
    assert dropout.descendants == trace.select("relu_2").descendants - dropout
    assert "dropout_1_7" in (dropout | trace.select("relu_2")).children.labels
    assert "dropout_1_7" in (dropout | trace.select("conv2d_2")).descendants.labels
    assert trace.between("dropout_1", "head").labels[0] == "avg_pool2d_1_8"
    assert trace.paths("dropout_1", "head").count == 1
    assert set(dropout.near(1).labels) >= {"relu_2_6", "dropout_1_7", "avg_pool2d_1_8"}


# combining


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_selections_combine_as_sets_do(trace: Trace, data: st.DataObject) -> None:
    everything = [*range(len(trace.tables.nodes))]
    a, b = (set(data.draw(st.lists(st.sampled_from(everything)))) for _ in range(2))
    p, q = trace.select([Op(trace, node) for node in a]), trace.select([Op(trace, node) for node in b])
    ops = set(trace.op_nodes)
    for found, expected in ((p & q, a & b), (p | q, a | b), (p - q, a - b), (~p, ops - a), (~~p, ops & a)):
        assert list(found.nodes) == sorted(expected)
    assert (p == q) == (a == b)
    assert ~(p | q) == ~p & ~q
    assert (p == q) <= (hash(p) == hash(q))
    assert [op in p for op in trace.ops] == [op.node in a for op in trace.ops]


def test_sources_are_counted_where_they_are_in_and_never_in_what_is_left(trace: Trace) -> None:
    above = trace.select("head").ancestors
    assert {op.kind for op in above} == {"op", "input", "parameter"}
    assert len(above) == len(above.where(kind="op")) + len(above.where(kind="input")) + len(
        above.where(kind="parameter")
    )
    assert {op.kind for op in ~above} == {"op"}
    assert above.total.count == len(above.where(kind="op"))


def test_selections_of_two_traces_do_not_combine(trace: Trace) -> None:
    other = cutaway.trace(Net().eval(), torch.randn(2, 3, 16, 16))
    with pytest.raises(InputError, match=r"different traces. trace.select\(selection.sites\) finds the same sites"):
        _ = trace.ops & other.ops
    with pytest.raises(InputError, match="belongs to another trace"):
        trace.between(other[0], "head")
    with pytest.raises(InputError, match="only selections combine"):
        _ = trace.ops | list(trace.ops)
    assert trace.ops != other.ops
    relus = trace.select(function="relu")
    assert other.select(relus.sites).labels == relus.labels
    assert other[0] not in trace.ops


# looking


def test_a_selection_fits_a_dozen_lines(trace: Trace) -> None:
    for found in (trace.ops, trace.ops[:1], trace.select("head").ancestors, trace.select(function="none")):
        lines = repr(found).splitlines()
        assert len(lines) <= 12
        assert max(map(len, lines)) <= 100
    text = repr(trace.select(function="relu"))
    assert text.startswith("<Selection of 2 ops of Net: ")
    assert all(word in text for word in ("relu_1_3", "block.1/relu", "2×4×8×8"))
    assert repr(trace.ops).endswith(f"and {len(trace) - 9} more")
    assert repr(trace.select(function="none")) == "<Selection of 0 ops of Net>"


def test_the_table_of_a_selection_is_that_part_of_the_table_of_the_trace(trace: Trace) -> None:
    relus = trace.select(function="relu")
    assert relus.table().equals(trace.table().loc[list(relus.labels)])
    assert list(trace.select("head").ancestors.table().index) == labels(trace.select("head").ancestors)
    assert len(trace.select(function="none").table()) == 0


def test_every_site_of_a_selection_leads_back_to_its_op(trace: Trace) -> None:
    found = trace.select("head").ancestors
    assert [trace[site] for site in found.sites] == list(found)
    assert [trace[label] for label in found.labels] == list(found)
