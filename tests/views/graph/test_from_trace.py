"""The graph of a trace as columns: complete, in order, and what it says of each op."""

from __future__ import annotations

import pytest
import torch
from tests.call_count import count_calls
from tests.views.graphs import SOURCES, check_graph
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway.graph.modules import ModuleCall
from cutaway.graph.tables import PARAMETER
from cutaway.layout.graph_view import CONDITION, FAILED, OUTPUT, plain
from cutaway.views.graph.from_trace import graph_view


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8))
        self.head = nn.Linear(8, 2)
        self.register_buffer("scale", torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x) * self.scale)


def calls_around(call: ModuleCall | None) -> list[int]:
    return [call.number, *calls_around(call.parent)] if call else []


def reaches(op: cutaway.Op, tensor: int, around: list[int]) -> bool:
    """Whether a reader within these calls can have a tensor from an op: each call between them returned it."""
    for number in calls_around(op.module):
        if number in around:
            return True
        if tensor not in [out.node for out in ModuleCall(op.trace, number).outputs.values()]:
            return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ZOO)
def test_every_op_and_every_edge_is_there_once_and_in_order(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    trace = cutaway.trace(model, *args, **kwargs)
    view = graph_view(trace)
    check_graph(view)
    ops = [row for row, kind in zip(view.nodes.row, view.nodes.kind, strict=True) if kind not in SOURCES]
    assert ops == trace.op_nodes
    rows = view.nodes.row
    found = sorted((rows[p], rows[c]) for p, c in zip(view.edges.parent, view.edges.child, strict=True))
    drawn = set(view.nodes.row)
    table = trace.tables.nodes

    def shown(parent: int, reader: int) -> int:
        """Who reads a tensor after an op gave it back as it was is drawn behind that op."""
        same = [op for op in trace.ops if op.is_identity and set(table.parents[op.node]) == {parent}]
        around = calls_around(cutaway.Op(trace, reader).module)
        return max([op.node for op in same if op.node < reader and reaches(op, parent, around)], default=parent)

    wanted = [
        (shown(parent, op.node), op.node)
        for op in trace.ops
        for parent in table.parents[op.node]
        if table.kind[parent] != PARAMETER and parent in drawn
    ]
    assert found == sorted(wanted)
    outputs = [(path, op.node) for path, op in zip(trace.output_paths, trace.outputs, strict=True) if op.node in drawn]
    assert [(path, view.nodes.row[node]) for path, node in view.nodes.outputs] == outputs


def test_modules_are_groups_nested_as_in_the_code() -> None:
    view = graph_view(cutaway.trace(Net(), torch.ones(3, 4)))
    assert view.groups.label == (".", "body")
    assert view.groups.class_name == ("Net", "Sequential")
    assert view.groups.n_ops == (5, 3)
    assert view.groups.parameters[1] == f"{4 * 8 + 8 + 8 * 8 + 8:,} parameters"
    inside = view.nodes.label[view.groups.first[1] : view.groups.end[1]]
    assert inside == ("linear_1_1", "relu_1_2", "linear_2_3")


def test_a_node_says_what_it_is() -> None:
    view = graph_view(cutaway.trace(Net(), torch.ones(3, 4)))
    number = {label: i for i, label in enumerate(view.nodes.label)}
    linear, relu, scale = number["linear_1_1"], number["relu_1_2"], number["scale"]
    assert view.nodes.lines[linear] == ("3×8 · 96 B", "weight 8×4 · bias 8", "body.0 (Linear)")
    assert [view.nodes.kind[i] for i in (number["input_1"], linear, relu, scale)] == [
        *("input", "parametric", "plain", "buffer")
    ]
    assert view.nodes.form[linear] == "leaf"
    assert view.nodes.form[number["mul_1_4"]] == "function"
    assert view.nodes.flags[number["linear_3_5"]] == OUTPUT
    assert view.nodes.site[relu] == "body.1/relu"


def test_arguments_are_named_where_their_order_matters() -> None:
    class Both(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return torch.where(a > 0, input=a - b, other=a + b)

    view = graph_view(cutaway.trace(Both(), torch.ones(2), torch.ones(2)))
    names = {
        (view.nodes.label[p], view.nodes.label[c]): argument
        for p, c, argument in zip(view.edges.parent, view.edges.child, view.edges.argument, strict=True)
    }
    assert names["input_1", "sub_1_2"] == "0"
    assert names["input_2", "sub_1_2"] == "1"
    assert names["input_1", "add_1_3"] == ""
    assert {names[label, "where_1_4"] for label in ("gt_1_1", "sub_1_2", "add_1_3")} == {"0", "input", "other"}


def test_what_is_decided_is_marked_and_where_it_leaves_the_path() -> None:
    class Decides(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if (x * 2).sum() > 0:
                return x + 1
            return x - 1

    view = graph_view(cutaway.trace(Decides(), torch.ones(2)))
    number = {label: i for i, label in enumerate(view.nodes.label)}
    assert view.nodes.flags[number["bool_1_4"]] & CONDITION
    labels, edges = view.nodes.label, view.edges
    begins = [(labels[edges.parent[e]], labels[edges.child[e]]) for e in edges.branch_starts]
    assert begins == [("input_1", "mul_1_1")]


def test_the_op_that_raised_is_the_last_node_with_its_parents() -> None:
    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 8)
            self.second = nn.Sequential(nn.ReLU(), nn.Linear(9, 2))

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))

    with pytest.raises(RuntimeError), cutaway.watch(model := Wrong()) as trace:
        model(torch.ones(3, 4))
    view = graph_view(trace)
    check_graph(view)
    assert view.error.startswith("RuntimeError: ")
    assert (view.nodes.kind[-1], view.nodes.label[-1]) == ("failed", "linear")
    parents = [p for p, c in zip(view.edges.parent, view.edges.child, strict=True) if c == len(view.nodes.row) - 1]
    assert [view.nodes.label[parent] for parent in parents] == ["relu_1_3"]
    flagged = [view.groups.label[g] for g, flags in enumerate(view.groups.flags) if flags & FAILED]
    assert flagged == [".", "second"]


def test_loops_name_the_first_pass_and_the_number() -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(3):
                x = self.cell(x)
            return x

    view = graph_view(cutaway.trace(Loop(), torch.ones(2, 4)))
    assert view.groups.rolled == (0, 1, 1, 1)
    assert view.groups.pass_ == (1, 1, 2, 3)
    assert view.groups.label == (".", "cell:1", "cell:2", "cell:3")
    assert view.nodes.rolled == (0, 1, 2, 1, 2, 1, 2)
    assert view.nodes.pass_ == (1, 1, 1, 2, 2, 3, 3)
    assert view.is_rolled


def test_a_view_is_plain_data() -> None:
    import json

    view = graph_view(cutaway.trace(Net(), torch.ones(3, 4)))
    assert json.loads(json.dumps(plain(view), allow_nan=False))["nodes"]["label"][0] == "input_1"


def test_a_call_with_thousands_of_results_is_summed_up_once() -> None:
    class Parts(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return x.unbind(0)

    trace = cutaway.trace(Parts(), torch.ones(4000, 2))
    assert count_calls(lambda: graph_view(trace)) < 500 * 4000  # once for each result: 16 million shapes
    view = graph_view(trace)
    assert view.nodes.lines[1][0] == "4000 results: 2, 2, 3998 more · 31.2 KB"
    assert set(view.nodes.lines[1:]) == {view.nodes.lines[1]}
