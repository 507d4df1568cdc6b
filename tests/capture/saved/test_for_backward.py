"""`retained` lists the tensors that autograd passes to saved-tensor hooks in a plain run."""

from __future__ import annotations

from typing import Any

import pandas
import pytest
import torch
from tests.oracles import same
from tests.zoo import ZOO, Fn
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import cutaway
from cutaway.core.errors import NotSavedError
from cutaway.graph.analysis.saved_for_backward import Retained


def kept(function: Any, **modules: Any) -> Retained:
    return cutaway.trace(
        Fn(lambda self, x: function(self, x), **modules), torch.ones(2, 3, requires_grad=True)
    ).retained


def handed_to_hooks(name: str) -> int:
    """Bytes of the distinct memory of all tensors that autograd saves when nobody watches."""
    model, args, kwargs = ZOO[name]()
    alive: list[Tensor] = []
    memory: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        alive.append(tensor)  # else its address could be used again
        storage = tensor.untyped_storage()
        memory[storage._cdata] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        model(*args, **kwargs)
    return sum(memory.values())


# torch.func refuses hooks; the executor of scripted code keeps its captures to itself; checkpoints pack theirs.
HIDDEN = {"function_transforms", "jacobians", "scripted_parts", "checkpointed"}


@pytest.mark.parametrize("name", [name for name in ZOO if name not in HIDDEN])
def test_as_many_bytes_are_kept_as_autograd_hands_to_hooks(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    found = cutaway.trace(model, *args, **kwargs).retained
    assert found.bytes == handed_to_hooks(name)
    assert bool(found.note) == (not found.held)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda self, x: x.exp(), {("exp_1_1", "exp_1_1")}),
        (lambda self, x: x.sin(), {("sin_1_1", "input_1")}),
        (lambda self, x: torch.relu(x), {("relu_1_1", "relu_1_1")}),
        (lambda self, x: x + 1, set()),
        (lambda self, x: x * 3, set()),
        (lambda self, x: x * x.exp(), {("exp_1_1", "exp_1_1"), ("mul_1_2", "exp_1_1"), ("mul_1_2", "input_1")}),
        (lambda self, x: x.t().exp().t(), {("exp_1_2", "exp_1_2")}),
        (lambda self, x: x[:, :1].sin(), {("sin_1_2", "getitem_1_1")}),
        (lambda self, x: self.fc(x), {("linear_1_1", "input_1"), ("linear_1_1", "fc.weight")}),
        (lambda self, x: torch.dropout(x, 0.5, True), {("dropout_1_1", None)}),
        (lambda self, x: torch.exp(x).relu_(), {("relu_1_2", "relu_1_2"), ("exp_1_1", "relu_1_2")}),
    ],
)
def test_each_tensor_is_known_by_the_op_that_needs_it_and_the_op_whose_value_it_is(
    function: Any, expected: set[tuple[str, str | None]]
) -> None:
    found = kept(function, fc=nn.Linear(3, 3))
    assert {(row.op.label, row.of.label if row.of else None) for row in found.held} == expected


def test_what_two_ops_need_is_counted_once_in_the_whole_and_for_each_of_them() -> None:
    found = kept(lambda self, x: torch.relu(x) * torch.relu(x).sin())
    first, second = ("relu_1_1", "relu_2_2")
    assert {op.label for op in found.ops} == {first, second, "sin_1_3"}
    assert found.bytes == 3 * 24
    assert sum(found.by_op.values()) == 5 * 24
    assert list(found.by_op.values()) == sorted(found.by_op.values(), reverse=True)
    assert found.by_kind == {"op": 72}


def test_a_view_keeps_all_the_memory_it_is_a_view_of() -> None:
    found = kept(lambda self, x: (x.repeat(100, 1)[0] + 0 * x).sin() + x.repeat(100, 1)[0].sin())
    assert max(row.bytes for row in found.held) == 200 * 3 * 4


def test_parameters_and_what_kernels_make_on_the_side_are_told_apart() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
    trace = cutaway.trace(model, torch.randn(2, 1, 6, 6))
    found = trace.retained
    kinds = found.by_kind
    assert sum(kinds.values()) == found.bytes
    assert kinds["parameter"] == model[0].weight.nbytes + model[1].weight.nbytes
    assert kinds["inside"] >= trace["max_pool2d_1"].value.numel() * 8  # the indices
    assert [op.function for op in found.ops] == ["conv2d", "relu"]


def test_a_function_of_the_user_keeps_what_it_saves_and_what_it_puts_on_its_context() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            ctx.extra = x.repeat(2, 1)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 2

    found = kept(lambda self, x: Twice.apply(x))
    assert {(row.name, row.bytes) for row in found.held} == {("tensors.0", 24), ("extra", 48)}


# what is not there


def test_without_gradients_nothing_is_kept_and_the_answer_says_so() -> None:
    with torch.no_grad():
        found = kept(lambda self, x: x.sin())
    assert (found.bytes, found.held, len(found.ops)) == (0, (), 0)
    assert "ran without gradients" in repr(found)


def test_after_a_backward_pass_nothing_is_kept_and_the_answer_says_so() -> None:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)), torch.ones(2, 3)
    with cutaway.watch(model) as trace:
        model(x).sum().backward()
    found = trace.retained
    assert not found.held
    assert "backward pass has freed" in repr(found)
    with cutaway.watch(model) as trace:
        model(x).sum().backward(retain_graph=True)
    assert trace.retained.bytes == cutaway.trace(model, x).retained.bytes > 0


@pytest.mark.parametrize("options", [{"save": None}, {"save": "0"}, {"keep": "copy"}, {"transform": lambda t: t}])
def test_a_trace_that_let_its_tensors_go_cannot_tell(options: dict[str, Any]) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    with cutaway.watch(model, **options) as trace:
        model(torch.ones(2, 3))
    with pytest.raises(NotSavedError, match="has released them: trace again"):
        _ = trace.retained


# the program stays as it is


def test_nothing_is_unpacked_or_recomputed() -> None:
    unpacked, runs = [], []

    def region(x: Tensor) -> Tensor:
        runs.append(1)
        return x.sin().exp()

    def forward(self: Any, x: Tensor) -> Tensor:
        with saved_tensors_hooks(lambda tensor: (tensor,), lambda packed: unpacked.append(1) or packed[0]):
            x = x.exp()
        return checkpoint(region, x, use_reentrant=False)

    found = kept(forward)
    assert (unpacked, runs) == ([], [1])
    assert "3 tensors were packed by saved-tensor hooks" in found.note


@pytest.mark.parametrize("name", ["cnn_training", "transformer_training", "value_overwritten_later", "gpt2"])
def test_gradients_are_the_same_after_asking(name: str) -> None:
    def grads(*, ask: bool) -> list[Tensor | None]:
        model, args, kwargs = ZOO[name]()
        trace = cutaway.trace(model, *args, **kwargs)
        if ask:
            _ = trace.retained
        results = [op for op in trace.outputs if trace.tables.nodes.value[op.node].requires_grad]
        sum(trace.tables.nodes.value[op.node].float().sum() for op in results).backward()
        return [parameter.grad for parameter in model.parameters()]

    for mine, plain in zip(grads(ask=True), grads(ask=False), strict=True):
        assert same(mine, plain)


# looking


def test_the_answer_fits_a_dozen_lines_and_has_a_table() -> None:
    model, args, kwargs = ZOO["gpt2"]()
    found = cutaway.trace(model, *args, **kwargs).retained
    lines = repr(found).splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("<Retained: ")
    table = found.table()
    assert isinstance(table, pandas.DataFrame)
    assert table.drop_duplicates("memory")["bytes"].sum() == found.bytes
    assert len(table) == len(found.held)
