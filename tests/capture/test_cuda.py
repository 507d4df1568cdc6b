"""Capture on a GPU: the same guarantees, and no synchronization."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.oracles import check_replay, same, tensors
from tests.zoo import ZOO
from torch import nn

import cutaway

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

_ELSEWHERE = {"meta", "quantized", "numpy_round_trip", "scripted_parts"}
"""Bound to another device, or makes tensors on the CPU by itself."""


def on_gpu(name: str) -> Any:
    model, args, kwargs = ZOO[name]()
    move = lambda tree: torch.utils._pytree.tree_map(lambda t: t.cuda() if isinstance(t, torch.Tensor) else t, tree)  # noqa: E731
    return model.cuda(), move(args), move(kwargs)


@pytest.mark.parametrize(
    "name", ["mlp", "cnn_training", "lstm", "attention", "chained_in_place", "in_place_through_views", "gpt2"]
)
def test_outputs_and_gradients_are_bit_equal(name: str) -> None:
    def run(traced: bool) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        model, args, kwargs = on_gpu(name)
        result = cutaway.trace(model, *args, **kwargs).returned if traced else model(*args, **kwargs)
        found = tensors(result)
        ways = [t.sum() for t in found.values() if t.requires_grad]
        if ways:
            torch.autograd.backward(ways)
        return found, {n: p.grad for n, p in model.named_parameters() if p.grad is not None}

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        for plain, ours in zip(run(False), run(True), strict=True):
            assert plain.keys() == ours.keys()
            assert all(same(plain[key], ours[key]) for key in plain)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", ["mlp", "cnn", "chained_in_place", "setitem", "multiple_outputs"])
def test_every_op_gives_its_value_again(name: str) -> None:
    if name == "setitem":
        pytest.skip("makes its target on the CPU")
    model, args, kwargs = on_gpu(name)
    assert check_replay(cutaway.trace(model, *args, **kwargs))


def test_no_operation_synchronizes() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(inplace=True), nn.Linear(64, 64), nn.LayerNorm(64)).cuda()
    x = torch.randn(8, 64, device="cuda")
    cutaway.trace(model, x)
    torch.cuda.set_sync_debug_mode("error")
    try:
        trace = cutaway.trace(model, x)
        with cutaway.watch(model, save=None):
            model(x)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert {op.device for op in trace} == {"cuda:0"}


def test_values_can_go_to_the_cpu_or_to_disk(tmp_path: Any) -> None:
    model, x = nn.Linear(4, 4).cuda(), torch.ones(2, 4, device="cuda")
    for keep in ("cpu", tmp_path):
        with cutaway.watch(model, keep=keep) as trace:
            expected = model(x)
        assert same(trace["."].value, expected.cpu())
        assert trace["."].device == "cuda:0"


def test_a_seed_restores_the_generator_of_the_gpu() -> None:
    model, x = nn.Dropout(0.5).cuda(), torch.ones(1000, device="cuda")
    before = torch.cuda.get_rng_state()
    found = []
    for _ in range(2):
        with cutaway.watch(model, seed=3) as trace:
            model(x)
        found.append(trace["."].value)
    assert same(*found)
    assert torch.equal(before, torch.cuda.get_rng_state())


def test_a_trace_proves_itself_with_dropout_and_autocast() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).cuda()
    x = torch.randn(16, 64, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        trace = cutaway.trace(model.train(), x)
    state = torch.cuda.get_rng_state()
    report = trace.validate()
    assert report, repr(report)
    assert report.coverage.proven == len(trace)
    assert report.outputs_compared == 1
    assert torch.equal(torch.cuda.get_rng_state(), state)


@pytest.mark.parametrize("name", ["mlp", "cnn_training", "lstm", "attention", "chained_in_place", "gpt2"])
def test_models_of_the_zoo_prove_themselves(name: str) -> None:
    model, args, kwargs = on_gpu(name)
    report = cutaway.trace(model, *args, **kwargs).validate()
    assert report, repr(report)


def test_sums_in_any_order_are_close_not_wrong() -> None:
    """`index_add` on a GPU adds in another order each time."""

    class Scatter(nn.Module):
        def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return torch.zeros(4, 64, device="cuda").index_add(0, index, x) * 2

    x, index = torch.randn(20_000, 64, device="cuda"), torch.randint(4, (20_000,), device="cuda")
    report = cutaway.trace(Scatter(), x, index).validate()
    assert report, repr(report)
    assert report.coverage.proven == report.coverage.total


def test_values_kept_on_the_cpu_prove_on_the_gpu() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).cuda()
    x = torch.randn(2, 8, device="cuda")
    with cutaway.watch(model, keep="cpu") as trace:
        model(x)
    assert not trace["relu_1"].value.is_cuda
    report = trace.validate()
    assert report, repr(report)
    assert report.coverage.proven == 2
