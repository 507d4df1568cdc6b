"""Models spread over processes: FSDP2 and tensor parallelism, traced in two processes and in one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests import warm_python
from torch import nn

import cutaway
from cutaway.errors import StaleValueError

TWO_RANKS = """
import copy, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
import cutaway

rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
plain = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
x = torch.randn(3, 4)
expected = plain(x).detach()
names = ("0.weight", "0.bias", "2.weight", "2.bias")


def sharded():
    model = copy.deepcopy(plain)
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh)
    return model


def gradients(model, watched):
    if watched:
        with cutaway.watch(model, keep="copy") as trace:
            model(x).sum().backward()
    else:
        trace = None
        model(x).sum().backward()
    return [parameter.grad.to_local() for parameter in model.parameters()], trace


# FSDP2: the whole parameters exist only while a module runs
model = sharded()
trace = cutaway.trace(model, x)
assert torch.equal(trace.returned, expected)
assert tuple(trace.parameters) == names and not trace.unused_parameters and not trace.unexplained
assert [op.label for op in trace["linear_1"].parents] == ["input_1", "0.weight", "0.bias"]
assert "FSDP frees" in trace.notes[0] and "NOTE" in repr(trace), trace.notes
report = trace.validate()
assert not report.failures and "2 processes run it together" in report.notes[0], report
report = trace.validate(retrace=True)
assert report and report.coverage.exact == report.coverage.total and report.outputs_compared == 1, report
without, _ = gradients(sharded(), False)
within, trace = gradients(sharded(), True)
assert all(torch.equal(a, b) for a, b in zip(without, within))
assert torch.equal(trace.parameters["0.weight"].value, plain[0].weight)
report = trace.validate()
assert report and report.coverage.exact == report.coverage.total, report
with cutaway.watch(model, save=["0"]) as trace, torch.no_grad():
    model(x)
assert not trace.validate().failures

# tensor parallelism: DTensors inside, plain tensors outside
model = copy.deepcopy(plain)
parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
for mode in (torch.enable_grad, torch.no_grad):
    with mode():
        trace = cutaway.trace(model, x)
    assert [op.function for op in trace.ops] == [
        *("from_local", "linear", "redistribute", "to_local", "relu"),
        *("from_local", "linear", "redistribute", "to_local"),
    ], trace.ops
    chain = [op.parents[0].label for op in trace.ops]
    assert chain == ["input_1", *(op.label for op in trace.ops)][:-1], chain
    torch.testing.assert_close(trace.returned + 0, expected)
    assert not trace.unused_parameters and not trace.unexplained
    assert "DTensors over 2 processes" in trace.notes[0], trace.notes
    if rank == 0:
        repr(trace)  # one process alone may look at its trace
        report = trace.validate()
        assert report and report.coverage.opaque == 8, report
        assert any("on DTensors not replayed" in note for note in report.notes), report
    dist.barrier()
report = trace.validate(retrace=True)
assert report and report.outputs_compared == 1, report
dist.barrier()  # a rank that leaves while the other still talks to it may abort it (gloo, torch 2.13)
dist.destroy_process_group()
"""


def test_fsdp_and_tensor_parallelism_in_two_processes(tmp_path: Path) -> None:
    imports = ("torch.distributed.fsdp", "torch.distributed.tensor.parallel", "torch.distributed.device_mesh")
    ranks = [
        warm_python.start(["-c", TWO_RANKS, str(tmp_path / "meet"), rank], imports=imports, skips_teardown=True)
        for rank in "01"
    ]
    errors = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(errors)


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[object]:
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        dist.destroy_process_group()


def test_dtensors_of_one_process_are_traced_and_proven(mesh: object) -> None:
    from torch.distributed.tensor import Partial, Shard, distribute_module, distribute_tensor

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    x = torch.randn(3, 4)
    expected = model(x)
    distribute_module(model, mesh)  # type: ignore[arg-type]
    trace = cutaway.trace(model, distribute_tensor(x, mesh, [Shard(0)]))  # type: ignore[arg-type]
    report = trace.validate()
    assert report.coverage.exact == 3, report
    assert report.outputs_compared == 1
    assert torch.equal(trace.returned.to_local(), expected)
    assert not trace.notes

    class Sum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.full_tensor() * 2  # type: ignore[attr-defined]

    from torch.distributed.tensor import DTensor

    given = DTensor.from_local(x, mesh, [Partial()])  # type: ignore[arg-type]
    with cutaway.watch(model := Sum(), keep="copy") as trace:
        model(given)
    assert [op.function for op in trace.ops] == ["full_tensor", "mul"]
    # `clone` of a partial sum would communicate, and change the value.
    assert trace.inputs[0].value.placements == given.placements


def test_notes_are_stored_with_a_trace(tmp_path: Path) -> None:
    trace = cutaway.trace(nn.ReLU(), torch.ones(2))
    for notes in ((), ("one", "two")):
        trace.tables.notes = notes
        trace.save(tmp_path / str(len(notes)))
        assert cutaway.load(tmp_path / str(len(notes))).notes == notes  # type: ignore[union-attr]


def test_a_value_whose_memory_was_freed_is_not_read() -> None:
    class Frees(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            z = y * 2
            y.untyped_storage().resize_(0)
            return z

    trace = cutaway.trace(Frees(), torch.ones(4))
    with pytest.raises(StaleValueError, match="its memory has been freed since"):
        trace["add_1"].value  # noqa: B018
    report = trace.validate()
    assert not report.failures
    assert report.outcomes["mul_1_2"] == "without inputs"
