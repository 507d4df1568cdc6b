"""Traces: what they hold and what they add up to."""

from __future__ import annotations

from inspect import isfunction, signature

import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway import Op, Trace
from cutaway.graph.analysis.passes import Passes
from cutaway.graph.analysis.paths import Paths
from cutaway.graph.selection import Selection


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)
        self.lstm = nn.LSTM(8, 4)
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.unused = nn.Linear(3, 3)
        self.loose = nn.Parameter(torch.ones(7))
        self.conv.requires_grad_(False)

    def forward(self, image: Tensor, words: Tensor) -> dict[str, Tensor]:
        x = torch.relu(self.norm(self.conv(image))).flatten(2)  # (batch, 2, 4)
        x = torch.cat([x, self.embed(words)], -1)  # (batch, 2, 8)
        x, _ = self.lstm(x)
        values, _ = self.head(x).max(-1)
        return {"logits": values, "again": self.head(x.detach())}


def inputs() -> dict[str, Tensor]:
    return {"image": torch.randn(3, 1, 4, 4), "words": torch.tensor([[1, 2]] * 3)}


@pytest.fixture(scope="module")
def net() -> Net:
    return Net().eval()


@pytest.fixture(scope="module")
def trace(net: Net) -> Trace:
    return cutaway.trace(net, **inputs())


def test_ops_modules_and_calls_are_counted(net: Net, trace: Trace) -> None:
    assert len(trace) == len(list(trace)) == len(trace.ops)
    assert set(trace.modules) == {name or "." for name, _ in net.named_modules(remove_duplicate=False)}
    assert [(call.address, call.pass_) for call in trace.calls] == [
        (".", 1), ("conv", 1), ("norm", 1), ("embed", 1), ("lstm", 1), ("head", 1), ("head", 2)
    ]  # fmt: skip


def test_every_op_belongs_to_one_module_call(trace: Trace) -> None:
    by_call = [op for call in trace.calls for op in call.ops]
    assert sorted(op.node for op in by_call) == [op.node for op in trace.ops]


def test_parents_come_before_their_children(trace: Trace) -> None:
    for op in trace.ops:
        assert all(parent.node < op.node for parent in op.parents)


def test_bytes_are_those_of_the_saved_values(trace: Trace) -> None:
    for op in trace.ops:
        assert op.bytes == op.value.nbytes
        assert op.shape == tuple(op.value.shape)
        assert f"torch.{op.dtype}" == str(op.value.dtype)
    assert trace.bytes == sum(op.value.nbytes for op in trace.ops if not op.is_identity)


def test_bytes_and_shapes_are_the_same_when_nothing_was_saved(net: Net, trace: Trace) -> None:
    batch = inputs()
    with cutaway.watch(net, save=None) as bare:
        net(**batch)
    assert [(op.label, op.shape, op.bytes) for op in bare.ops] == [(op.label, op.shape, op.bytes) for op in trace.ops]
    assert (bare.bytes, bare.flops) == (trace.bytes, trace.flops)
    assert len(bare.saved) == 0


def test_totals_by_function_and_by_module_agree_with_the_whole(trace: Trace) -> None:
    n_calls = len({op.siblings[0] for op in trace.ops})
    seconds = sum(op.seconds for op in {op.siblings[0] for op in trace.ops})
    for totals in (trace.ops.totals("function"), trace.ops.totals("module")):
        assert sum(row.bytes for row in totals.values()) == trace.bytes
        assert sum(row.flops for row in totals.values()) == trace.flops
        assert sum(row.count for row in totals.values()) == n_calls
        assert sum(row.seconds for row in totals.values()) == pytest.approx(seconds)
        times = [row.seconds for row in totals.values()]
        assert times == sorted(times, reverse=True)


def test_totals_by_function_and_by_module_have_their_keys(trace: Trace) -> None:
    assert set(trace.ops.totals("function")) == {op.function for op in trace.ops}
    assert set(trace.ops.totals("module")) == {call.address for call in trace.calls}
    assert trace.ops.totals("function")["linear"].count == 2
    assert trace.ops.totals("function")["max"].count == 1
    assert trace.ops.totals("module")["head"].count == 2


def test_parameters_are_counted_once_and_by_whether_they_train(net: Net, trace: Trace) -> None:
    count = trace.n_parameters
    parameters = list(net.parameters())
    assert count.total == sum(p.numel() for p in parameters)
    assert count.trainable == sum(p.numel() for p in parameters if p.requires_grad)
    assert count.frozen == sum(p.numel() for p in parameters if not p.requires_grad)
    assert count.bytes == sum(p.nbytes for p in parameters)
    for address, module in trace.modules.items():
        real = net.get_submodule("" if address == "." else address)
        assert module.total.total == sum(p.numel() for p in real.parameters())
        assert module.own.total == sum(p.numel() for p in real.parameters(recurse=False))


def test_tied_parameters_are_listed_with_all_their_addresses(trace: Trace) -> None:
    assert trace.tied_parameters == (("embed.weight", "head.weight"),)
    assert trace.parameters["embed.weight"] == trace.parameters["head.weight"]


def test_parameters_that_no_op_read_are_unused(trace: Trace) -> None:
    assert set(trace.unused_parameters) == {"unused.weight", "unused.bias", "loose"}
    used = {name for op in trace.ops for name in (parent.label for parent in op.parameters)}
    assert used == {op.label for op in trace.parameters.values()}


def test_modules_whose_forward_never_ran_are_uncalled(trace: Trace) -> None:
    assert trace.uncalled_modules == ("unused",)


def test_inputs_and_outputs_are_in_the_order_of_the_flattened_structures(trace: Trace) -> None:
    assert trace.input_paths == ("image", "words")
    assert trace.output_paths == ("logits", "again")
    assert torch.equal(trace.outputs[0].value, trace.returned["logits"])
    assert torch.equal(trace.outputs[1].value, trace.returned["again"])


def test_outputs_in_a_container_that_is_returned_twice_are_found_in_both_places() -> None:
    class Twice(nn.Module):
        def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
            states = [x.sin(), x.cos()]
            return {"states": states, "memory": states}

    trace = cutaway.trace(Twice(), torch.ones(1))
    assert trace.output_paths == ("states.0", "states.1", "memory.0", "memory.1")
    assert trace[".@out.memory.1"] == trace["./cos"]


def test_sites_lists_what_can_be_asked_for(trace: Trace) -> None:
    assert len(set(trace.sites)) == len(trace.sites)
    for site in trace.sites:
        assert trace.match(site)
    assert {op.site for op in trace.ops} <= set(trace.sites)


def test_a_module_is_equal_however_it_was_reached() -> None:
    trace = cutaway.trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(1, 2))
    (call,) = trace.modules["0"].calls
    assert call.module == trace.modules["0"] == trace.modules["."].children[0] != trace.modules["1"]
    assert len({call.module, trace.modules["0"]}) == 1


@pytest.mark.parametrize("kind", [Trace, Op, Selection, Paths, Passes], ids=lambda kind: kind.__name__)
def test_what_takes_no_arguments_is_a_property_apart_from_conversions(kind: type) -> None:
    methods = {name: value for name, value in vars(kind).items() if isfunction(value) and not name.startswith("_")}
    bare = {name for name, method in methods.items() if len(signature(method).parameters) == 1}
    assert bare <= {"table", "to_networkx"}
