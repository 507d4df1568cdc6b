"""Values, gradients and updates of what no optimizer steps, beside copies that the loop makes itself."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.recording.training import Off, equal, left_behind
from torch import Tensor, nn

import cutaway
from cutaway.recording.hooks import unoptimized
from cutaway.store.runs.run import Run

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


def net() -> nn.Sequential:
    torch.manual_seed(0)
    # Without a bias: before BatchNorm its gradient is rounding noise, which may change nothing.
    return nn.Sequential(nn.Linear(8, 6, bias=False), nn.BatchNorm1d(6), nn.Linear(6, 3))


def states(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def norms(run: Run, step: int, site: str, of: str = "value") -> float:
    return float(run.at(step)[site].other(of).stats["norm"] if of != "value" else run.at(step)[site].stats["norm"])


def in_place(parameter: Tensor) -> None:
    with torch.no_grad():
        parameter -= 0.1 * parameter.grad


def through_data(parameter: Tensor) -> None:
    parameter.data.add_(parameter.grad, alpha=-0.1)


def swapped(parameter: Tensor) -> None:
    parameter.data = parameter.data - 0.1 * parameter.grad


def clear(parameter: Tensor) -> None:
    parameter.grad = None


def zero(parameter: Tensor) -> None:
    parameter.grad.zero_()


@pytest.mark.parametrize("update", [in_place, through_data, swapped])
@pytest.mark.parametrize("end", [clear, zero])
def test_manual_sgd(update: Callable[[Any], None], end: Callable[[Any], None], tmp_path: Path) -> None:
    model = net()
    seen: list[tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]] = []
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for _ in range(2):
            before = states(model)
            with run.step():
                model(X).pow(2).sum().backward()
                grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
                for parameter in model.parameters():
                    update(parameter)
                    end(parameter)
            seen.append((before, grads, states(model)))
    recorded = cutaway.load(tmp_path / "run")
    assert recorded.problems == ()
    for step, (before, grads, after) in enumerate(seen):
        for name, grad in grads.items():
            assert norms(recorded, step, name) == pytest.approx(before[name].norm().item(), rel=1e-5)
            assert norms(recorded, step, name, "grad") == pytest.approx(grad.norm().item(), rel=1e-5)
            change = (after[name] - before[name]).norm().item()
            assert norms(recorded, step, name, "update") == pytest.approx(change, rel=1e-4)
        for name in ("1.running_mean", "1.running_var"):
            assert norms(recorded, step, name) == pytest.approx(before[name].norm().item(), rel=1e-5)
            change = (after[name] - before[name]).norm().item()
            assert norms(recorded, step, name, "update") == pytest.approx(change, rel=1e-4)
        assert norms(recorded, step, "1.num_batches_tracked", "update") == 1


def test_a_teacher_is_read_as_the_forward_pass_reads_it_and_an_optimizer_is_not_counted_twice(tmp_path: Path) -> None:
    student, teacher = net(), net().requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    read, changes = [], []
    with cutaway.record(tmp_path / "run", {"student": student, "teacher": teacher}, every=1) as run:
        for number in range(2):
            start = states(teacher)
            with run.step():
                if number:  # a target network that is synchronized before its first use in the step
                    teacher.load_state_dict(student.state_dict())
                read.append(states(teacher))
                (student(X) - teacher(X)).pow(2).sum().add(student[0].weight.sum()).backward()
                optimizer.step()
                optimizer.zero_grad()
                for mine, other in zip(teacher.parameters(), student.parameters(), strict=True):
                    mine.data.lerp_(other.data, 0.1)
            changes.append({name: value - start[name] for name, value in states(teacher).items()})
    recorded = cutaway.load(tmp_path / "run")
    assert recorded.problems == ()
    for step in range(2):
        assert norms(recorded, step, "teacher.0.weight") == pytest.approx(read[step]["0.weight"].norm().item())
        change = changes[step]["0.weight"].norm().item()
        assert norms(recorded, step, "teacher.0.weight", "update") == pytest.approx(change, rel=1e-4)
    assert [*recorded["student.0.weight"].has] == ["value", "grad", "update"]


def test_what_does_not_change_has_no_update_and_nan_that_stays_is_no_change(tmp_path: Path) -> None:
    model = net()
    model.register_buffer("odd", torch.tensor([float("nan"), float("inf")]))
    model.register_buffer("mask", torch.tensor([True, False]))
    model[0].weight.requires_grad_(False)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for number in range(2):
            with run.step():
                model.eval()(X).sum().backward()
                model.mask[number] ^= True
    recorded = cutaway.load(tmp_path / "run")
    assert [site for site in recorded.sites if "update" in recorded[site].has] == ["mask"]
    assert recorded.problems == ()


def test_copies_are_made_only_of_what_no_optimizer_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 200_000)).requires_grad_(False)
    model[0].requires_grad_(True)
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    copied: list[set[str]] = []
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    original = unoptimized.UnoptimizedTensors.start

    def start(self: Any) -> None:
        original(self)
        copied.append({names[id_] for id_ in self._copies})

    monkeypatch.setattr(unoptimized.UnoptimizedTensors, "start", start)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for number in range(4):
            with run.step():
                model(X[:1]).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                if number == 2:
                    with torch.no_grad():
                        model[1].bias += 1
    # Large frozen tensors are copied until a step has shown that they do not change, and again after they have.
    assert copied == [set(names.values()), set(), set(), {"1.bias"}]
    problems = cutaway.load(tmp_path / "run").problems
    assert len(problems) == 1
    assert "changes of '1.bias' outside an optimizer were not recorded as updates: it had not changed" in problems[0]


def test_copies_stay_within_most_update_bytes_and_the_run_says_what_is_missing(tmp_path: Path) -> None:
    model = net()
    before = states(model)
    with cutaway.record(tmp_path / "run", model, every=1, most_update_bytes=200) as run, run.step():
        model(X).pow(2).sum().backward()
        for parameter in model.parameters():
            in_place(parameter)
    recorded = cutaway.load(tmp_path / "run")
    assert "update" in recorded["1.running_mean"].has  # small ones first
    assert "update" not in recorded["0.weight"].has
    assert any("outside an optimizer were not recorded as updates: the copies" in text for text in recorded.problems)
    assert norms(recorded, 0, "1.running_var") == pytest.approx(before["1.running_var"].norm().item())


def test_a_step_that_the_scaler_skips_has_no_gradient_of_its_own(tmp_path: Path) -> None:
    model = nn.Linear(8, 3)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=4.0)
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        scaler.scale(model(X).sum() * float("inf")).backward()
        scaler.step(optimizer)
        optimizer.zero_grad()
    assert [*cutaway.load(tmp_path / "run")["weight"].has] == ["value"]  # the scaled gradient never counted


def test_a_training_without_an_optimizer_ends_in_the_same_bits(tmp_path: Path) -> None:
    def trained(record: Callable[[dict[str, nn.Module]], Any]) -> Any:
        student, teacher = net(), copy.deepcopy(net()).requires_grad_(False)
        run = record({"student": student, "teacher": teacher})
        for _ in range(3):
            with run.step():
                inputs = torch.randn(4, 8)
                nn.functional.dropout(student(inputs) - teacher(inputs)).pow(2).sum().backward()
                for mine, other in zip(student.parameters(), teacher.parameters(), strict=True):
                    in_place(mine)
                    clear(mine)
                    other.data.lerp_(mine.data, 0.1)
        run.close()
        return [left_behind(model) for model in (student, teacher)]

    plain = trained(lambda models: Off())
    recorded = trained(lambda models: cutaway.record(tmp_path / "run", models, every=1, statistics="full"))
    for one, other in zip(plain, recorded, strict=True):
        assert all(equal(one[what], other[what]) for what in one)
    assert np.isfinite(cutaway.load(tmp_path / "run")["student.0.weight"].stats("norm")).all()
