"""Ops that ran several times, as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway import Op, Trace
from cutaway.core.errors import AmbiguousSiteError, NotSavedError, OpenTraceError, ShapesDifferError
from cutaway.graph.analysis.passes import Passes


def recurrent(self: Any, x: Tensor) -> Tensor:
    h = torch.zeros(2, 5)
    states = []
    for t in range(x.shape[0]):
        h = torch.tanh(self.cell(torch.cat([x[t], h], 1)))
        states.append(h)
    return torch.stack(states)


def model() -> nn.Module:
    torch.manual_seed(0)
    return Fn(recurrent, cell=nn.Linear(9, 5))


@pytest.fixture(scope="module")
def trace() -> Trace:
    return cutaway.trace(model(), torch.randn(6, 2, 4))


def test_values_are_stacked_over_the_passes(trace: Trace) -> None:
    """The stack that the model itself makes is the oracle."""
    values = trace["./tanh"].values
    assert torch.equal(values, trace.returned)
    assert torch.equal(values, torch.stack([op.value for op in trace["./tanh"].passes]))
    values.zero_()  # our own copy
    assert trace["tanh_1"].value.abs().sum() > 0


def test_a_unit_of_all_passes(trace: Trace) -> None:
    assert torch.equal(trace["cell#3"].values, trace["cell"].values[..., 3])
    assert trace["./tanh#1"].passes[2] == trace["./tanh:3#1"]


def test_numbers_that_left_torch_are_stacked_as_an_array() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for _ in range(4):
            x = x * 2
            self.last = x.sum().item()
        return x

    trace = cutaway.trace(Fn(forward), torch.ones(3))
    found = trace["./item"].values
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [6.0, 12.0, 24.0, 48.0]


def test_gradients_are_stacked_for_each_backward_pass() -> None:
    net, x = model(), torch.randn(6, 2, 4)
    with cutaway.watch(net) as trace:
        states = net(x)
        states.sum().backward(retain_graph=True)
        states[3].sum().backward()
    passes = trace["./tanh"]
    first, second = passes.grads
    assert first.shape == (6, 2, 5)
    assert torch.equal(first, torch.stack([op.grads[0] for op in passes.passes]))
    for i, op in enumerate(passes.passes):
        if op.grads[1] is None:
            assert second[i].isnan().all()
        else:
            assert torch.equal(second[i], op.grads[1])
    assert trace["./getitem"].grads == (None, None)


def test_one_value_or_gradient_of_several_passes_is_refused_with_the_way_out(trace: Trace) -> None:
    passes = trace["./tanh"]
    with pytest.raises(AmbiguousSiteError, match=r"'tanh_1_5' ran 6 times, .*own value: 'tanh_1_5', .*\.values\."):
        _ = passes.value
    with pytest.raises(AmbiguousSiteError, match=r"own gradient: .*\.passes\[0\] to \.passes\[5\], .*\.grads"):
        _ = passes.grad


def test_passes_of_several_shapes_are_refused_with_the_shapes() -> None:
    trace = cutaway.trace(Fn(lambda self, x: self.fc(self.fc(x).unsqueeze(0)), fc=nn.Linear(4, 4)), torch.ones(4))
    with pytest.raises(
        ShapesDifferError, match=r"first has shape \[4\] and float32, pass 2 shape \[1, 4\] and float32"
    ):
        _ = trace["fc"].values
    assert "of several shapes" in repr(trace["fc"])


def test_passes_that_were_not_saved_say_how_to_save_them() -> None:
    net, x = model(), torch.randn(6, 2, 4)
    with cutaway.watch(net, save="cell:2") as trace:
        net(x)
    with pytest.raises(
        NotSavedError, match=r"5 of 6 passes were not saved, 'linear_1_4' .*save='cell/linear.1'"
    ) as caught:
        _ = trace["cell"].values
    site = str(caught.value).partition("save='")[2].partition("'")[0]
    with cutaway.watch(net, save=site) as trace:
        net(x)
    assert trace["cell"].values.shape == (6, 2, 5)


def test_its_full_site_saves_every_pass(trace: Trace) -> None:
    net, x = model(), torch.randn(6, 2, 4)
    for passes in (op for op in trace.rolled if isinstance(op, Passes)):
        with cutaway.watch(net, save=str(passes.full_site)) as again:
            net(x)
        assert set(passes.nodes) <= {op.node for op in again.saved}, passes


def test_costs_are_sums(trace: Trace) -> None:
    cell = trace["cell"]
    assert cell.flops == 6 * trace["cell:1"].flops == sum(op.flops for op in cell.passes)
    assert cell.bytes == 6 * trace["cell:1"].bytes
    assert cell.seconds == pytest.approx(sum(op.seconds for op in cell.passes))
    assert sum(op.flops for op in trace.rolled) == trace.flops


def test_what_is_the_same_in_all_passes_is_that_of_the_first(trace: Trace) -> None:
    cell, first = trace["cell"], trace["cell:1"]
    for name in ("label", "function", "callable", "kind", "shape", "dtype", "position", "module", "parameters"):
        assert getattr(cell, name) == getattr(first, name), name
    assert cell.site == "cell/linear"
    assert trace["./tanh"].site == "./tanh"


def test_the_rolled_ops_are_a_sequence_in_order_of_first_execution(trace: Trace) -> None:
    rolled = trace.rolled
    assert [op.label for op in rolled] == [
        "zeros_1_1",
        "getitem_1_2",
        "cat_1_3",
        "linear_1_4",
        "tanh_1_5",
        "stack_1_26",
    ]
    assert [type(op) for op in rolled] == [Op, Passes, Passes, Passes, Passes, Op]
    assert rolled[-1] == trace.outputs[0]
    assert rolled[1:3] == (rolled[1], rolled[2])
    assert rolled is trace.rolled
    assert repr(rolled) == "<6 ops, rolled up from 26>"


def test_parents_and_children_are_rolled_up_and_told_by_pass(trace: Trace) -> None:
    cat, tanh = trace["./cat"], trace["./tanh"]
    by_label = {op.label: passes for op, passes in cat.parents_by_pass.items()}
    assert by_label == {"getitem_1_2": (1, 2, 3, 4, 5, 6), "zeros_1_1": (1,), "tanh_1_5": (2, 3, 4, 5, 6)}
    assert tanh in cat.parents
    children = {op.label: passes for op, passes in tanh.children_by_pass.items()}
    assert children == {"cat_1_3": (1, 2, 3, 4, 5), "stack_1_26": (1, 2, 3, 4, 5, 6)}
    assert [op.label for op in tanh.children] == ["cat_1_3", "stack_1_26"]
    assert {(edge.parent.label, edge.argument) for edge in cat.edges} == {
        ("getitem_1_2", "0.0"), ("zeros_1_1", "0.1"), ("tanh_1_5", "0.1")
    }  # fmt: skip


def test_the_rolled_graph_has_the_edges_of_the_graph(trace: Trace) -> None:
    for op in trace.ops:
        for parent in op.parents:
            if isinstance(op.rolled, Passes):
                assert parent.rolled in op.rolled.parents
            if isinstance(parent.rolled, Passes):
                assert op.rolled in parent.rolled.children


def test_an_op_knows_its_passes(trace: Trace) -> None:
    third = trace["tanh_3"]
    assert (third.n_passes, third.loop_pass, third.pass_) == (6, 3, 1)
    assert third.passes[2] == third
    assert third.rolled == trace["./tanh"] == trace["./tanh"].rolled
    alone = trace["stack_1"]
    assert (alone.n_passes, alone.loop_pass, alone.passes, alone.rolled) == (1, 1, (alone,), alone)
    source = trace.inputs[0]
    assert (source.passes, source.rolled) == ((source,), source)


def test_passes_are_no_op_and_equal_by_their_passes(trace: Trace) -> None:
    passes = trace["./tanh"]
    assert passes != trace["tanh_1"]
    assert trace["tanh_1"] != passes
    assert len({passes, trace["tanh_1"], trace["tanh_2"].rolled}) == 2
    assert len(passes) == 6
    assert list(passes) == list(passes.passes)
    assert repr(passes) == "<Passes tanh_1_5 ×6 at ./tanh: float32 [2, 5]>"


def test_several_results_of_one_call_are_rolled_up_each_for_itself() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        h = c = torch.zeros(2, 5)
        for t in range(3):
            h, c = self.cell(x[t], (h, c))
        return h + c

    trace = cutaway.trace(Fn(forward, cell=nn.LSTMCell(4, 5)), torch.randn(3, 2, 4))
    hidden, memory = trace["cell@out.0"], trace["cell@out.1"]
    assert (len(hidden.passes), len(memory.passes)) == (3, 3)
    assert torch.equal(hidden.values[-1], trace["cell@out.0:3"].value)
    assert torch.equal(hidden.values[-1] + memory.values[-1], trace.returned)


def test_while_the_model_runs_passes_are_not_known() -> None:
    net = model()
    with pytest.raises(OpenTraceError, match="passes are not known until the block ends"):
        with cutaway.watch(net, save=lambda op: op.n_passes > 1):
            net(torch.randn(2, 2, 4))
