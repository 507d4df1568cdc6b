"""The facts of a step, against a plain training that counts for itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.utils.checkpoint import checkpoint

import cutaway
from cutaway.store.runs.step_facts import StepFacts

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.drop, self.head = nn.Linear(4, 6), nn.Dropout(0.1), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(self.body(x).relu()))


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def loss_of(model: nn.Module) -> Tensor:
    return model(torch.ones(3, 4)).pow(2).mean()


def total_norm(model: nn.Module) -> float:
    return math.sqrt(sum(float(p.grad.double().pow(2).sum()) for p in model.parameters() if p.grad is not None))


def facts_of(path: Path, body: Callable[[Net, Any], None], n_steps: int = 1, **options: Any) -> list[StepFacts]:
    model = net()
    with cutaway.record(path, model, every=1, **options) as run:
        for _ in range(n_steps):
            with run.step():
                body(model, run)
    loaded = cutaway.load(path)
    assert loaded.problems == ()
    return [step.facts for step in loaded]


def test_learning_rates_and_groups_are_those_of_the_optimizer_when_it_steps(tmp_path: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(
        [
            {"params": model.body.parameters(), "lr": 0.5, "momentum": 0.9},
            {"params": [model.head.weight, nn.Parameter(torch.zeros(1))]},
        ],
        lr=0.1,
    )
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for _ in range(3):
            with run.step():
                loss_of(model).backward()
                optimizer.step()
                scheduler.step()  # changes the rate of the next step
    loaded = cutaway.load(tmp_path / "run")
    for number, step in enumerate(loaded):
        (taken,) = step.facts.optimizer_steps
        assert taken.optimizer == "SGD"
        assert [group.n_others for group in taken.groups] == [0, 1]
        assert step.facts.learning_rates == {
            "body.weight": 0.5 * 0.5**number,
            "body.bias": 0.5 * 0.5**number,
            "head.weight": 0.1 * 0.5**number,
        }
        assert step.facts.groups["body.bias"].options["momentum"] == 0.9
    # A rate that changes at every step does not write the names of the parameters again.
    assert sum(name.startswith("optimizer/") for name in loaded.documents) == 1


def test_modes_and_frozen_parameters_are_those_of_the_call(tmp_path: Path) -> None:
    def body(model: Net, run: Any) -> None:
        model.drop.train(run.number == 0)
        model.body.bias.requires_grad_(run.number == 0)
        loss_of(model).backward()
        model.drop.train()
        model.body.bias.requires_grad_()

    first, second = facts_of(tmp_path / "run", body, 2)
    assert (first.eval_modules, first.frozen, first.has_other_modes) == ((), (), False)
    assert (second.eval_modules, second.frozen, second.has_other_modes) == (("drop",), ("body.bias",), False)


def test_a_validation_pass_in_the_same_step_is_marked(tmp_path: Path) -> None:
    def body(model: Net, run: Any) -> None:
        loss_of(model).backward()
        model.eval()(torch.ones(3, 4))
        model.train()

    (facts,) = facts_of(tmp_path / "run", body)
    assert facts.eval_modules == ()
    assert facts.has_other_modes


@pytest.mark.parametrize("options", [{}, {"gradients": False}, {"at": "head"}])
def test_micro_batches_are_counted_and_partial_gradients_marked(tmp_path: Path, options: Any) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with cutaway.record(tmp_path / "run", model, every=1, **options) as run:
        with run.step():
            for _ in range(3):
                (loss_of(model) / 3).backward()
            optimizer.step()
            optimizer.zero_grad()
        for number in range(2):
            with run.step():
                loss_of(model).backward()
                if number:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=False)
        with run.step():
            loss_of(model).backward()
            optimizer.step()
        with run.step():
            model(torch.ones(1, 4))
    facts = [step.facts for step in cutaway.load(tmp_path / "run")]
    assert [each.n_backward for each in facts] == [3, 1, 1, 1, 0]
    assert [each.is_partial for each in facts] == [False, True, False, False, False]
    assert [each.is_continued for each in facts] == [False, False, True, False, False]
    assert [len(each.optimizer_steps) for each in facts] == [1, 0, 1, 1, 0]


def test_a_checkpoint_or_a_penalty_is_no_further_backward_call(tmp_path: Path) -> None:
    def body(model: Net, run: Any) -> None:
        x = torch.ones(3, 4, requires_grad=True)
        torch.autograd.grad(model(x).sum(), x)
        hidden = checkpoint(model.body, x, use_reentrant=True)
        checkpoint(model.head, hidden, use_reentrant=True).sum().backward()

    assert facts_of(tmp_path / "run", body)[0].n_backward == 1


def test_the_norm_is_known_before_and_after_clipping(tmp_path: Path) -> None:
    norms: list[tuple[float, float]] = []
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for clip in (lambda: clip_grad_norm_(model.parameters(), max_norm=0.01),
                     lambda: clip_grad_norm_(model.parameters(), 100.0, norm_type=2),
                     lambda: clip_grad_value_(model.parameters(), 0.001)):  # fmt: skip
            with run.step():
                loss_of(model).backward()
                before = total_norm(model)
                clip()
                norms.append((before, total_norm(model)))
                optimizer.step()
                optimizer.zero_grad()
    steps = [step.facts for step in cutaway.load(tmp_path / "run")]
    assert [(f.clippings[0].method, f.clippings[0].limit, f.clippings[0].is_active) for f in steps] == [
        ("norm", 0.01, True),
        ("norm", 100.0, False),
        ("value", 0.001, False),
    ]
    for facts, (before, after) in zip(steps, norms, strict=True):
        assert facts.clippings[0].norm == pytest.approx(before, rel=1e-5)
        assert facts.optimizer_steps[0].grad_norm == pytest.approx(after, rel=1e-5)


def test_a_norm_over_some_gradients_only_is_not_given(tmp_path: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with cutaway.record(tmp_path / "run", model, every=1, at="head.*") as run:
        with run.step():
            loss_of(model).backward()
            optimizer.step()
    assert cutaway.load(tmp_path / "run").at(0).facts.optimizer_steps[0].grad_norm is None


@pytest.mark.parametrize("fused", [False, True])
def test_steps_that_the_scaler_skips_are_marked(tmp_path: Path, fused: bool) -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    skipped = []
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for factor in (1.0, float("inf"), 1.0):
            with run.step():
                before = model.head.weight.detach().clone()
                scaler.scale(loss_of(model) * factor).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                skipped.append(torch.equal(before, model.head.weight))
    facts = [step.facts for step in cutaway.load(tmp_path / "run")]
    assert skipped == [False, True, False]
    assert [each.n_skipped for each in facts] == [0, 1, 0]
    assert not any(each.is_partial for each in facts)


def test_torch_is_as_it_was_after_each_step(tmp_path: Path) -> None:
    def state() -> Any:
        cells = [f.__closure__[0].cell_contents for f in (clip_grad_norm_, clip_grad_value_)]
        return (torch.amp.GradScaler.step, *cells)

    before, model = state(), net()
    with (
        cutaway.record(tmp_path / "run", model, every=2) as run,
        cutaway.record(tmp_path / "b", model, every=3) as other,
    ):
        for _ in range(4):
            with run.step(), other.step():
                loss_of(model).backward()
                clip_grad_norm_(model.parameters(), 1.0)
            assert state() == before
    assert [len(step.facts.clippings) for step in cutaway.load(tmp_path / "run")] == [1, 1]


def test_a_run_of_an_older_version_has_no_facts() -> None:
    golden = cutaway.load(Path(__file__).parents[2] / "store" / "golden" / "v1" / "run")
    assert golden.at(-1).facts is None
