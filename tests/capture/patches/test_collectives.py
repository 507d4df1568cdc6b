"""Collectives in a watched forward, and validation in several processes; all ranks run this program."""

from __future__ import annotations

from pathlib import Path

from tests import warm_python

TWO_RANKS = """
import copy, sys, time
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
import cutaway
from cutaway.capture.validation import together
from cutaway.errors import CannotValidateError

rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
together.SECONDS = 2.0


class Model(nn.Module):
    def __init__(self, body):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.out, self.body = nn.Linear(4, 4), nn.Linear(4, 2), body

    def forward(self, x):
        return self.out(self.body(self.fc(x)))


def all_reduce(h):
    h = h.detach() * 1
    dist.all_reduce(h)
    return h


def asynchronous(h):
    h = h.detach() * 1
    dist.broadcast(h, 1)
    work = dist.all_reduce(h, async_op=True)
    other = h.new_ones(3)
    work.wait()
    return h * other.sum()


def all_gather(h):
    parts = [torch.empty_like(h) for _ in range(2)]
    dist.all_gather(parts, h.detach())
    return torch.cat(parts)


def with_gradients(h):
    return functional.all_reduce(h, "sum", dist.group.WORLD)


x = torch.randn(3, 4, generator=torch.Generator().manual_seed(rank))
originals = dist.ProcessGroup.allreduce, dist.Work.wait
expected_ops = {
    all_reduce: ["linear", "detach", "mul", "all_reduce", "linear"],
    asynchronous: ["linear", "detach", "mul", "broadcast", "new_ones", "all_reduce", "sum", "mul", "linear"],
    all_gather: ["linear", "empty_like", "empty_like", "detach", "all_gather", "all_gather", "cat", "linear"],
    with_gradients: None,
}
for body, functions in expected_ops.items():
    model = Model(body)
    expected = model(x)
    trace = cutaway.trace(model, x)
    assert torch.equal(trace.returned, expected), body
    assert functions is None or [op.function for op in trace.ops] == functions, trace.ops
    if functions:
        op = next(op for op in trace.ops if op.function in ("all_reduce", "all_gather"))
        assert str(op.source).endswith(f" in {body.__name__}"), op.source
        # What the collective has overwritten is still known.
        total = trace["all_reduce_1"].value if "all_reduce" in functions else None
        if body is all_reduce:
            others = [torch.empty_like(total) for _ in range(2)]
            dist.all_gather(others, trace["mul_1"].value)
            assert torch.equal(trace["mul_1"].value, model.fc(x).detach())
            assert torch.equal(total, others[0] + others[1])
    if rank == 0:  # one process alone may validate: the model does not run again
        report = trace.validate()
        assert report and "2 processes run it together" in str(report), report
    dist.barrier()
    report = trace.validate(retrace=True)
    assert report and report.outputs_compared == 1, report
assert (dist.ProcessGroup.allreduce, dist.Work.wait) == originals

h = torch.ones(3)
with cutaway.watch() as trace:
    work = dist.all_reduce(h * 1, async_op=True)
work.wait()
assert "1 collective not recorded: started with async_op=True" in trace.notes[0], trace.notes

# FSDP2: several optimizer steps in one block
mesh = init_device_mesh("cpu", (2,))


def trained(watched):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def steps():
        for _ in range(3):
            model(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    if not watched:
        return steps(), model, None
    with cutaway.watch(model, keep="copy") as trace:
        steps()
    return None, model, trace


_, plain, _ = trained(False)
_, model, trace = trained(True)
for a, b in zip(plain.parameters(), model.parameters()):
    assert torch.equal(a.to_local(), b.to_local())
assert trace.n_backwards == 3 and len(trace.modules["0"].calls) == 3
assert not trace.unused_parameters and not trace.unexplained
report = trace.validate()
assert not report.failures, report
for call in trace.modules["0"].calls[1:]:  # the parameter is gathered from the shard as the optimizer has left it
    gathered = call.outputs[""].parents[1]
    assert gathered.function == "made_unseen" and gathered.parents[0].kind == "op", gathered.parents

# a process that fails does not hang the others
x = torch.ones(3, 4)
model = Model(all_reduce)
trace = cutaway.trace(model, x)


def refused(match):
    started = time.monotonic()
    try:
        trace.validate(retrace=True)
    except CannotValidateError as error:
        assert match in str(error), error
    else:
        raise AssertionError("it validated")
    assert time.monotonic() - started < 30


# one process cannot run: the others raise at once, and say why
if rank == 1:
    with torch.no_grad():
        model.fc.weight.mul_(1)
refused("rank 1 failed with CannotRun: a parameter was changed after the run" if rank == 0 else "was changed after")
dist.barrier()

# one process does not take part, and comes too late
trace = cutaway.trace(model, x)
if rank == 0:
    together.SECONDS = 1.0
    refused("rank 1 did not answer within 1 s")
    together.SECONDS = 2.0
dist.barrier()
if rank == 1:
    refused("rank 0 has given up waiting")
dist.barrier()
report = trace.validate(retrace=True)  # in step again
assert report, report

# one process fails while the others wait in a collective: nothing works after that
def failing(h):
    if rank == 1 and len(runs) == 1:
        raise ValueError("on purpose")
    runs.append(1)
    return all_reduce(h)


runs = []
model = Model(failing)
trace = cutaway.trace(model, x)
if rank == 1:
    try:
        trace.validate(retrace=True)
    except ValueError as error:
        assert "on purpose" in str(error)
    else:
        raise AssertionError("it validated")
else:
    refused("rank 1 failed with ValueError: on purpose.")
"""


def test_collectives_and_fsdp_in_two_processes_of_which_one_fails(tmp_path: Path) -> None:
    imports = ("torch.distributed.fsdp", "torch.distributed.device_mesh", "torch.distributed._functional_collectives")
    ranks = [
        warm_python.start(["-c", TWO_RANKS, str(tmp_path / "meet"), rank], imports=imports, skips_teardown=True)
        for rank in "01"
    ]
    errors = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(errors)
