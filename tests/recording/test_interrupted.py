"""Steps and runs that end otherwise than they should: exceptions, Ctrl-C, forgotten blocks, forks, sudden death."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import ROOT, warm_python
from torch import Tensor, nn
from torch.optim import optimizer as torch_optimizer

import cutaway
from cutaway.recording.hooks.step_hooks import StepHooks
from cutaway.recording.step import RecordedStep
from cutaway.recording.step_cycle import StepCycle
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Writer


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def is_clean(model: nn.Module) -> bool:
    return (
        all("_compiled_call_impl" not in module.__dict__ for module in model.modules())
        and not torch_optimizer._global_optimizer_pre_hooks
        and not torch_optimizer._global_optimizer_post_hooks
        and not torch._C._len_torch_function_stack()
        and torch.is_grad_enabled()
    )


class Stopping(nn.Module):
    """Raises in its forward or its backward."""

    def __init__(self, where: str, error: type[BaseException]) -> None:
        super().__init__()
        self.where, self.error, self.is_on = where, error, True

    def forward(self, x: Tensor) -> Tensor:
        if self.is_on and self.where == "forward":
            raise self.error("stop")
        if self.is_on and self.where == "backward" and x.requires_grad:
            x.register_hook(self.stop)
        return x + 1

    def stop(self, grad: Tensor) -> None:
        raise self.error("stop")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
@pytest.mark.parametrize("where", ["forward", "backward", "optimizer", "iteration", "gradients", "closure"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_an_exception_anywhere_in_a_step(where: str, error: type[BaseException], tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), Stopping(where, error), nn.Linear(4, 2))

    class Optimizer(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            if where == "optimizer" and model[1].is_on:
                raise error("stop")
            return super().step(closure)

    optimizer = Optimizer(model.parameters(), lr=0.1)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for number in range(4):
            model[1].is_on = number < 2
            try:
                with run.step():
                    with run.iteration(), run.gradients("loss"):
                        model(torch.randn(2, 4)).sum().backward()
                        if where == "iteration" and model[1].is_on:
                            raise error("stop")
                    if where == "gradients" and model[1].is_on:
                        with run.gradients("other"):
                            raise error("stop")

                    def closure(is_on: bool = model[1].is_on) -> float:
                        if is_on:
                            raise error("stop")
                        return 0.0

                    optimizer.step(closure if where == "closure" else None)
                    optimizer.zero_grad()
            except error:
                assert number < 2
            assert is_clean(model)
    found = cutaway.load(tmp_path / "run")
    assert found.steps.tolist() == [0, 1, 2, 3]
    errors = [found.at(number).about.get("error", "") for number in range(4)]
    assert errors == [f"{error.__name__}: stop"] * 2 + [""] * 2
    assert found.at(3)["0.weight"].update is not None
    assert all(len(p._backward_hooks or ()) == 0 for p in model.parameters())


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (StepCycle, "_begin"), (StepCycle, "_is_due"), (StepCycle, "_write"), (RecordedStep, "start"),
        (RecordedStep, "stop"), (RecordedStep, "write"), (StepHooks, "start"), (StepHooks, "read_remaining"),
        (StepHooks, "stop"), (StepHooks, "_record_results"), (StepHooks, "_read_parameters"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_inside_the_recorder_gets_out_and_leaves_nothing(
    owner: Any, name: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    original = getattr(owner, name)
    is_armed = True

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_armed
        if is_armed and when == "before":
            is_armed = False
            raise KeyboardInterrupt
        result = original(*args, **kwargs)
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, name, interrupted)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        n_interrupts = 0
        for _ in range(3):
            try:
                with run.step():
                    model(torch.randn(2, 4)).sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
            except KeyboardInterrupt:
                n_interrupts += 1
            assert is_clean(model)
            assert not run.recording
    assert n_interrupts == 1
    assert {1, 2} <= set(cutaway.load(tmp_path / "run").steps.tolist())


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_generator_that_is_abandoned_in_a_step(tmp_path: Path) -> None:
    model = mlp()

    def training(run: Any) -> Iterator[int]:
        while True:
            with run.step(), run.iteration():
                model(torch.randn(2, 4))
                yield 1

    run = cutaway.record(tmp_path / "run", model, every=1)
    steps = training(run)
    next(steps), next(steps)
    steps.close()
    assert is_clean(model)
    with run.step():
        model(torch.randn(2, 4))
    run.close()
    assert cutaway.load(tmp_path / "run").steps.tolist() == [0, 1, 2]


def test_closing_inside_a_step_ends_it_and_later_calls_do_nothing(tmp_path: Path) -> None:
    model = mlp()
    run = cutaway.record(tmp_path / "run", model, every=1)
    with run.step():
        model(torch.randn(2, 4))
        run.close()
        assert is_clean(model)
    run.close()
    with pytest.warns(RuntimeWarning, match="the run is closed"):
        run.log(loss=1.0)
    with run.step():
        assert not run.recording
        run.tensor("x", torch.ones(2))
        run.samples(text=["a"])
        run.note("late")
    run.flush()
    assert cutaway.load(tmp_path / "run").steps.tolist() == [0]


def test_numbers_and_notes_between_steps_belong_to_the_step_before(tmp_path: Path) -> None:
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        run.log(start=1)
        for number in (3, 7):
            with run.step(number=number):
                model(torch.randn(2, 4))
                run.log(inside=number)
            run.log(after=number)
            run.note("after")
    found = cutaway.load(tmp_path / "run")
    assert found.scalars["start"].steps.tolist() == [0]
    assert found.scalars["inside"].steps.tolist() == found.scalars["after"].steps.tolist() == [3, 7]
    assert [note.step for note in found.notes] == [3, 7]


# memory


@pytest.mark.parametrize("is_traced", [True, False])
@pytest.mark.parametrize("does_raise", [True, False])
def test_nothing_of_a_step_stays_in_memory(does_raise: bool, is_traced: bool, tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    alive: list[weakref.ref[Any]] = []
    gc.collect()
    gc.disable()
    try:
        with cutaway.record(tmp_path / "run", model, every=1, samples=2, graph=is_traced) as run:
            for number in range(6):
                try:
                    with run.step(kind="a" if is_traced else ""):
                        x = torch.randn(3, 4)
                        hidden = model[0](x)
                        result = model(x)
                        loss = result.sum() + hidden.sum()
                        run.tensor("hidden", hidden)
                        run.log(loss=loss)
                        loss.backward()
                        optimizer.step()
                        optimizer.zero_grad()
                        alive += [weakref.ref(one) for one in (x, hidden, result, loss)]
                        if does_raise and number % 2:
                            raise ValueError
                except ValueError:
                    pass
                del x, hidden, result, loss
                if number:  # a trace is a graph of objects, and the first step has one
                    assert not [one() for one in alive[4:] if one() is not None]
    finally:
        gc.enable()
    gc.collect()
    assert not [one() for one in alive if one() is not None]


def test_memory_does_not_grow_over_two_hundred_steps(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("needs /proc")
    with cutaway.record(tmp_path / "run", model, every=1, samples=4) as run:
        for number in range(200):
            with run.step():
                model(torch.randn(64, 256)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            if number == 50:
                run.flush()
                before = resident()
        run.flush()
        assert resident() - before < 24e6


# processes


def program(tmp_path: Path, body: str, **about: Any) -> warm_python.Program:
    script = tmp_path / "program.py"
    script.write_text(
        "import os, signal, sys, time, torch\nfrom torch import nn\nimport cutaway\n"
        f"path = {str(tmp_path / 'run')!r}\n" + body
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1", **about}
    return warm_python.start([str(script)], env=environment)


TRAINING = """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def one(run):
    with run.step():
        loss = model(torch.randn(2, 4)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.log(loss=loss)
"""


def test_a_recorder_that_is_never_closed_loses_nothing(tmp_path: Path) -> None:
    body = "run = cutaway.record(path, model, every=3)\nfor _ in range(10): one(run)\nrun.note('end')\n"
    done = program(tmp_path, TRAINING + body)
    _out, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    assert err == ""
    found = cutaway.load(tmp_path / "run")
    assert found.steps.tolist() == [0, 3, 6, 9]
    assert len(found.scalars["loss"].steps) == 10
    assert found.notes[-1].text == "end"
    assert "schedule" in found.documents


def test_forks_and_data_loaders_inside_the_loop(tmp_path: Path) -> None:
    body = (
        TRAINING
        + """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 12
    def __getitem__(self, number):
        with torch.no_grad(): model(torch.ones(1, 4))   # a worker that uses the model records nothing
        return torch.ones(4) * number
with cutaway.record(path, model, every=1, samples=2) as run:
    for _ in range(2):
        with run.step():
            for x in torch.utils.data.DataLoader(Data(), batch_size=6, num_workers=2):
                model(x).sum().backward()
    with run.step():
        child = os.fork()
        if child == 0:
            model(torch.ones(2, 4)).sum().backward()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        model(torch.zeros(2, 4))
"""
    )
    done = program(tmp_path, body)
    _out, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    found = cutaway.load(tmp_path / "run")
    assert found.steps.tolist() == [0, 1, 2]
    assert found.at(0)[".@in.0:2"].value[:, 0].tolist() == [6.0, 7.0]
    assert not [note for note in found.notes if note.level == "error"]
    assert "0:3" not in found.at(0)
    assert found.at(2)[".@in.0"].stats["norm"] == 0


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    body = (
        TRAINING
        + """
run = cutaway.record(path, model, every=3)
for number in range(8): one(run)
run.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    done = program(tmp_path, body)
    done.communicate(timeout=120)
    assert done.returncode == -signal.SIGKILL
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=3, resume=True) as run:
        assert run.number == 8
        for _ in range(5):
            with run.step():
                model(torch.randn(2, 4))
                run.log(loss=1.0)
    found = cutaway.load(tmp_path / "run")
    assert isinstance(found, Run)
    assert found.scalars["loss"].steps.tolist() == list(range(13))
    assert found.steps.tolist()[:3] == [0, 3, 6]
    assert 8 not in found.steps  # the schedule was at 6 when it was last saved: the next is three steps on


DDP = """
import torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + path + ".meet", rank=rank, world_size=2)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
ddp = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(ddp.parameters(), lr=0.1)
run = cutaway.record(path, ddp, every=2, samples=2, enabled=os.environ["RECORD"] == "1")
torch.manual_seed(rank)
for _ in range(6):
    with run.step():
        loss = ddp(torch.randn(3, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.log(loss=loss)
run.close()
assert run.path == path + ("-2" if os.environ["RECORD"] == "1" else "")
print(",".join(p.detach().numpy().tobytes().hex() for p in model.parameters()))
dist.barrier()  # a rank that leaves while the other still talks to it may abort it (gloo, torch 2.13)
dist.destroy_process_group()
"""


def test_two_ranks_write_their_own_folders_and_train_as_before(tmp_path: Path) -> None:
    results = []
    for record in ("0", "1"):
        (tmp_path / record).mkdir()
        Writer(tmp_path / record / "run", kind="run").close()  # taken: both ranks go on to the same next folder
        ranks = [program(tmp_path / record, DDP, RANK=rank, WORLD_SIZE="2", RECORD=record) for rank in "01"]
        outs = [one.communicate(timeout=120) for one in ranks]
        assert all(one.returncode == 0 for one in ranks), outs
        results.append([out.splitlines()[-1] for out, _ in outs])
    assert results[0] == results[1]
    assert results[0][0] == results[0][1]
    assert not (tmp_path / "1" / "run-3").exists()
    found = cutaway.load(tmp_path / "1" / "run-2")
    assert isinstance(found, Run)
    assert found.ranks == (0, 1)
    first, second = found.rank(0), found.rank(1)
    assert first.steps.tolist() == second.steps.tolist() == [0, 2, 4]
    assert (first["module.0.weight"].grad.stats("norm") == second["module.0.weight"].grad.stats("norm")).all()
    assert (first[".@in.0"].stats("norm") != second[".@in.0"].stats("norm")).all()
    assert not [note for note in found.notes if note.level == "error"]
