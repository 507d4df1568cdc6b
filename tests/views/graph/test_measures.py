"""Numbers to color by, held against torch and the trace itself."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from tests.call_count import count_calls
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway.layout.graph_view import Measure
from cutaway.views.graph.measures import measures


def named(trace: cutaway.Trace, rows: list[int] | None = None) -> dict[str, Measure]:
    rows = list(range(len(trace.tables.nodes))) if rows is None else rows
    found = {each.name: each for each in measures(trace, rows)}
    for each in found.values():
        assert len(each.values) == len(rows)
        assert all(value is None or math.isfinite(value) for value in each.values)
        assert any(each.values)
        assert each.title
    return found


@pytest.fixture
def trace() -> cutaway.Trace:
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(4, 300), nn.ReLU(), nn.Linear(300, 400)), torch.rand(64, 4)
    with cutaway.watch(net) as found:
        net(x).pow(2).mean().backward()
    return found


def test_each_number_is_that_of_its_op(trace: cutaway.Trace) -> None:
    found = named(trace)
    assert set(found) == {"seconds", "flops", "bytes", "mean", "std", "abs_max", "zeros", "grad_norm"}
    for row in range(len(trace.tables.nodes)):
        op = cutaway.Op(trace, row)
        value = op.value.double()
        told = {name: each.values[row] for name, each in found.items()}
        assert told["seconds"] == (op.seconds if op.kind == "op" else None)
        assert told["flops"] == (op.flops if op.kind == "op" else None)
        assert told["bytes"] == op.bytes
        size = value.abs().max().item()
        assert told["abs_max"] == size
        is_sample = value.numel() > 16_384
        near = 0.1 if is_sample else 1e-6
        assert told["mean"] == pytest.approx(value.mean().item(), rel=near, abs=size * (0.02 if is_sample else 1e-9))
        assert told["std"] == pytest.approx(value.std(correction=0).item(), rel=near)
        assert told["zeros"] == pytest.approx((value == 0).double().mean().item(), abs=0.02 if is_sample else 1e-9)
        grad = None if op.grad is None else op.grad.double().norm().item()
        assert told["grad_norm"] == (None if grad is None else pytest.approx(grad, rel=0.05 if is_sample else 1e-6))


def test_rows_come_in_the_order_that_is_asked_for_and_minus_one_is_nothing(trace: cutaway.Trace) -> None:
    rows = list(range(len(trace.tables.nodes)))
    straight, mixed = named(trace), named(trace, [-1, *rows[::-1]])
    for name, each in mixed.items():
        assert each.values[0] is None
        expected = [value and pytest.approx(value, rel=1e-9) for value in straight[name].values]
        assert list(each.values[1:]) == expected[::-1]


def test_sums_are_those_of_the_trace() -> None:
    model, args, kwargs = ZOO["multiple_outputs"]()
    trace = cutaway.trace(model, *args, **kwargs)
    found = named(trace, trace.op_nodes)
    assert sum(value or 0 for value in found["bytes"].values) == trace.bytes
    spent = {id(event): event[9] - event[8] for event in trace.tables.nodes.event if event is not None}
    assert sum(value or 0 for value in found["seconds"].values) == pytest.approx(sum(spent.values()) * 1e-9)


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2, torch.complex64])
def test_every_nan_is_counted(size: int, dtype: torch.dtype) -> None:
    x = torch.ones(size)
    x[3], x[7], x[8] = torch.nan, torch.inf, -torch.inf
    x = x.to(dtype)
    with cutaway.watch() as trace:
        x.clone()
        torch.ones(3) * 2
    found = named(trace)
    assert list(found["n_nan"].values) == [3, 3, 0, 0]
    assert found["mean"].values[0] == pytest.approx(1)


def test_what_is_nowhere_is_left_out() -> None:
    with cutaway.watch(save=None) as trace:
        torch.ones(3) + 1
    assert set(named(trace)) == {"seconds", "bytes"}
    assert named(trace, [-1, -1]) == {}
    assert named(trace, []) == {}


def test_values_that_are_gone_have_no_number() -> None:
    net, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)), torch.ones(2, 3)
    trace = cutaway.trace(net, x)
    trace["0"].value.add_(1)
    found = named(trace)["mean"]
    assert found.values[trace["0"].node] is None
    assert found.values[trace["2"].node] is not None
    with cutaway.watch(net, save="1") as part:
        net(x)
    some = named(part)["mean"]
    assert [row for row, value in enumerate(some.values) if value is not None] == [part["1"].node]


@pytest.mark.parametrize(
    "name",
    ["mixed_dtypes", "saturated", "structured_outputs", "numpy_round_trip", "scalars_steer", "function_transforms"],
)
def test_a_loaded_trace_has_the_same_numbers(name: str, tmp_path: Path) -> None:
    model, args, kwargs = ZOO[name]()
    trace = cutaway.trace(model, *args, **kwargs)
    trace.save(tmp_path / "trace")
    loaded = cutaway.load(tmp_path / "trace")
    assert isinstance(loaded, cutaway.Trace)
    assert named(loaded) == named(trace)


def test_peculiar_values_have_numbers_or_none() -> None:
    with cutaway.watch() as trace:
        torch.eye(3).to_sparse()
        torch.empty(3, device="meta") + 1
        torch.tensor([True, False]).any().item()
        torch.zeros(0) + 1
        torch.full((3,), 1e300, dtype=torch.float64).square()
    found = named(trace)
    by_function = {op.function: op.node for op in trace}
    assert found["mean"].values[by_function["to_sparse"]] == pytest.approx(1 / 3)
    assert found["mean"].values[by_function["square"]] is None
    assert found["n_nan"].values[by_function["square"]] == 3
    assert found["mean"].values[by_function["item"]] == 1


class Loop(nn.Module):
    """Thousands of tiny ops."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2_500):
            x = torch.relu(x) + 0.01
        return x


def test_thousands_of_ops_take_little_work_each() -> None:
    trace = cutaway.trace(Loop(), torch.randn(8, 16))
    rows = list(range(len(trace.tables.nodes)))
    assert count_calls(lambda: measures(trace, rows)) < 100 * len(rows)
