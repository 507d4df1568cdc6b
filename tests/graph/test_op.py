"""Ops: their arguments, their several results, their neighbors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway import Op, Trace


class Code(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def traced(function: Any, *args: Any) -> Trace:
    return cutaway.trace(Code(function), *args)


def edges(op: Op) -> list[tuple[str, str]]:
    return [(edge.argument, edge.parent.label) for edge in op.edges]


X = torch.arange(6.0).reshape(2, 3)


def test_an_op_that_takes_one_tensor_twice_has_two_edges_and_one_parent() -> None:
    trace = traced(lambda x: x + x, X)
    assert edges(trace[0]) == [("0", "input_1"), ("1", "input_1")]
    assert trace[0].parents == trace.inputs
    assert trace.inputs[0].children == (trace[0],)


def test_tensors_of_a_list_have_the_place_in_the_list_in_their_edge() -> None:
    trace = traced(lambda x, y: torch.cat([x, y, x], dim=1), X, X + 1)
    assert edges(trace[0]) == [("0.0", "input_1"), ("0.1", "input_2"), ("0.2", "input_1")]
    assert trace[0].args == ([trace.inputs[0], trace.inputs[1], trace.inputs[0]],)
    assert trace[0].kwargs == {"dim": 1}


def test_tensors_by_keyword_have_the_keyword_in_their_edge() -> None:
    trace = traced(lambda x, y: torch.clamp(x, max=y), X, X + 1)
    assert edges(trace[0]) == [("0", "input_1"), ("max", "input_2")]
    assert trace[0].args == (trace.inputs[0],)
    assert trace[0].kwargs == {"max": trace.inputs[1]}


def test_keywords_keep_the_order_in_which_they_were_given() -> None:
    trace = traced(lambda x, w, b: torch.nn.functional.linear(bias=b, weight=w, input=x), X, X[:, :3], X[:, 0])
    linear = trace["linear_1"]
    assert edges(linear) == [("bias", "input_3"), ("weight", "input_2"), ("input", "input_1")]
    assert [linear.kwargs[name].label for name in ("input", "weight", "bias")] == ["input_1", "input_2", "input_3"]


def test_tensors_in_slices_are_parents_with_their_place() -> None:
    trace = traced(lambda x, i, j: x[0, i:j], X, torch.tensor(1), torch.tensor(3))
    getitem = trace["getitem_1"]
    assert edges(getitem) == [("0", "input_1"), ("1.1.0", "input_2"), ("1.1.1", "input_3")]
    assert getitem.args == (trace.inputs[0], (0, slice(trace.inputs[1], trace.inputs[2], None)))


def test_tensors_in_a_named_result_handed_on_are_arguments_like_all_others() -> None:
    trace = traced(lambda x: torch.stack(torch.aminmax(x)), X)
    low, high = trace.match("aminmax_1")[0].siblings
    stack = trace["stack_1"]
    assert stack.parents == (low, high)
    assert list(stack.args[0]) == [low, high]
    assert [argument for argument, _ in edges(stack)] == ["0.0", "0.1"]


def test_arguments_are_the_same_when_no_value_was_saved() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x, y], dim=1)[:, 1:].clamp(max=x.sum())

    model, args = Code(function), (X, X + 1)
    whole = cutaway.trace(model, *args)
    with cutaway.watch(model, save=None) as trace:
        model(*args)
    for op, bare in zip(whole.ops, trace.ops, strict=True):
        assert edges(op) == edges(bare)
        assert repr(op.args) == repr(bare.args).replace(", not saved", "")
        assert op.kwargs.keys() == bare.kwargs.keys()


def test_replaying_an_op_on_the_values_of_its_arguments_gives_its_value() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 4), nn.Softmax(-1))
    trace = cutaway.trace(model, torch.randn(2, 1, 4, 4))
    for op in trace.ops:
        args = [arg.value if isinstance(arg, Op) else arg for arg in op.args]
        kwargs = {name: arg.value if isinstance(arg, Op) else arg for name, arg in op.kwargs.items()}
        assert torch.equal(op.callable(*args, **kwargs), op.value)


def test_sources_have_no_arguments() -> None:
    trace = traced(lambda x: x + 1, X)
    (source,) = trace.inputs
    assert (source.args, source.kwargs, source.edges, source.parents) == ((), {}, (), ())
    assert source.siblings == (source,)
    assert source.output_index is None


@pytest.mark.parametrize(
    ("function", "kind", "paths"),
    [
        (lambda x: x.max(dim=1), "max", ["values", "indices"]),
        (lambda x: torch.topk(x, 2), "topk", ["values", "indices"]),
        (lambda x: x.chunk(3, dim=1), "chunk", ["0", "1", "2"]),
        (lambda x: torch.linalg.svd(x), "linalg_svd", ["U", "S", "Vh"]),
        (nn.LSTM(3, 2), "lstm", ["0", "1", "2"]),
    ],
)
def test_the_results_of_one_call_are_siblings_numbered_and_named(function: Any, kind: str, paths: list[str]) -> None:
    trace = traced(function, X)
    ops = [op for op in trace.ops if op.function == kind]
    assert [op.output_path for op in ops] == paths
    assert [op.output_index for op in ops] == list(range(len(paths)))
    assert {op.siblings for op in ops} == {tuple(ops)}
    assert [op.args for op in ops] == [ops[0].args] * len(ops)
    assert [trace[f"{op.full_site}"] for op in ops] == ops


def test_values_of_several_results_are_those_of_the_call() -> None:
    trace = traced(lambda x: x.max(dim=1), X)
    values, indices = X.max(dim=1)
    assert torch.equal(trace["./max@out.values"].value, values)
    assert torch.equal(trace["./max@out.indices"].value, indices)


def test_a_single_result_has_no_number() -> None:
    (op,) = traced(lambda x: x.relu(), X).ops
    assert (op.output_index, op.output_path, op.siblings) == (None, "", (op,))


def test_children_are_the_ops_that_have_it_as_a_parent() -> None:
    trace = traced(lambda x: (x.sin() + x.cos()) * x.sin().relu(), X)
    for op in [*trace.ops, *trace.inputs]:
        assert list(op.children) == [other for other in trace.ops if op in other.parents]


def test_two_looks_at_one_op_are_equal_and_hash_alike() -> None:
    trace, other = traced(lambda x: x.relu(), X), traced(lambda x: x.relu(), X)
    assert trace[0] == trace["relu_1"]
    assert hash(trace[0]) == hash(trace["relu_1"])
    assert trace[0] != other[0]
    assert trace["./relu#1"] != trace[0]
