"""Whatever goes wrong in the recorder, the training ends in the same bits, one warning is given, and nothing stays."""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.recording.training import equal, left_behind
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
from torch.utils.checkpoint import checkpoint

import cutaway
from cutaway.recording import (
    coverage,
    environment,
    models,
    recorder,
    sample_fields,
    scalars,
    step,
    step_cycle,
    step_graph,
    tensors,
    values,
)
from cutaway.recording.extra_passes import backward_check, batch_copy, edited_steps, fixed_batches
from cutaway.recording.extra_passes import losses as backward_losses
from cutaway.recording.facts import collector, losses, tables, training_calls
from cutaway.recording.flight import flight_hooks, flight_recorder, readings, ring
from cutaway.recording.flight import recorded as flight_recorded
from cutaway.recording.held import held_hooks, held_step, sample_choice
from cutaway.recording.hooks import (
    autograd_graph,
    backward_calls,
    gradients,
    module_calls,
    op_values,
    site_filter,
    unoptimized,
)
from cutaway.recording.hooks import step_hooks as hooks_module
from cutaway.recording.statistics import stable_sites, summary
from cutaway.store.writing import flight_ring

N_STEPS = 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.body, self.norm = nn.Linear(4, 6), nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.head = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        x = checkpoint(self.body, x, use_reentrant=True)
        return self.head(self.norm(x))


def training(run: Any, seed: int = 0, kind: str | None = "") -> Any:
    torch.manual_seed(seed)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    run = run(model)
    run.fixed_batch("toy", torch.ones(2, 4), every=1, edits={"silent": {"head": 0}})
    for _ in range(N_STEPS):
        x = torch.randn(3, 4)
        with run.step(kind):
            result = model(x)
            run.tensor("result", result, role="value")
            run.samples(text=["a", "b", "c"])
            with run.iteration(), run.gradients("loss"):
                loss = result.pow(2).mean()
                loss.backward()
            weight = model.head.weight  # not through the checkpoint, where no extra pass would run
            run.backward(size=weight.pow(2).mean(), sparse=weight.abs().mean())
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)
            run.note("done")
            if kind is None:
                run.keep("late", samples=1, by=[0.0, 2.0, 1.0])
    run.arrange("head", label="end")
    run.close()
    return left_behind(model, optimizer)


def hooks() -> Any:
    return (
        len(torch_module._global_forward_hooks),
        len(torch_module._global_forward_pre_hooks),
        len(torch_optimizer._global_optimizer_pre_hooks),
        len(torch_optimizer._global_optimizer_post_hooks),
        torch._C._len_torch_function_stack(),
        torch.is_grad_enabled(),
    )


SHIELDS = {
    "BackwardCalls.current", "StepHooks.before_step", "StepHooks.after_step", "Recorder._is_open", "Recorder.__init__",
    "Gradients._note_arrival", "StepFacts.scaler_begins", "StepFacts.scaler_ends", "StepFacts.clipped_norm",
    "StepFacts.clips_value", "FlightHooks.before_step", "FlightHooks.after_step", "Recorder.step", "Step.__enter__",
    "Step.__exit__", "Step.__init__", "Recorder.path", "named_losses", "total_of",
}  # fmt: skip
"""What stands between the program and the rest, and is too small to fail."""
PUBLIC = {name for name in vars(recorder.Recorder) if not name.startswith("_")}
MODULES = (
    autograd_graph, backward_calls, module_calls, sample_fields, environment, gradients, values, hooks_module,
    op_values, scalars, recorder, tensors, stable_sites, summary, step, step_cycle, step_graph, models, coverage,
    unoptimized, site_filter, backward_check, backward_losses, batch_copy, edited_steps, fixed_batches, collector,
    losses, tables, training_calls,
)  # fmt: skip
HELD_MODULES = (held_hooks, held_step, sample_choice)
FLIGHT_MODULES = (flight_hooks, flight_recorder, flight_recorded, readings, ring, flight_ring)
CONSTRUCTION = {
    "record", "_rank", "_as_module", "RecordedModels.__init__", "StepCycle.__init__", "_Several.__init__",
    "Coverage.__init__", "ForwardCounter.__init__",
    "FlightRecorder.__init__", "FlightHooks.__init__", "Ring.__init__", "FlightRing.__init__",
}  # fmt: skip


def functions(modules: tuple[Any, ...]) -> Iterator[tuple[Any, str, str]]:
    """Every function and method of the modules, with where it lives."""
    for module in modules:
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                yield module, name, name
            elif inspect.isclass(value) and value.__module__ == module.__name__:
                for inner, method in vars(value).items():
                    if inspect.isfunction(method):
                        yield value, inner, f"{name}.{inner}"


def inner_functions(modules: tuple[Any, ...] = MODULES) -> list[Any]:
    left_out = SHIELDS | CONSTRUCTION | {f"Recorder.{name}" for name in PUBLIC}
    return [
        pytest.param(owner, name, id=full)
        for owner, name, full in functions(modules)
        if full not in left_out and not name.startswith(("__r", "__enter", "__exit"))
    ]


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> Iterator[None]:
    """Each test collects garbage, which takes a second in a process that has run thousands of others before."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def unrecorded() -> Any:
    class Off:
        def backward(self, size: torch.Tensor, sparse: torch.Tensor) -> None:
            (size + sparse).backward()

        def __getattr__(self, name: str) -> Any:
            from contextlib import nullcontext

            return lambda *args, **kwargs: nullcontext()

    return training(lambda model: Off())


@pytest.mark.parametrize("at_call", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 7))])
@pytest.mark.parametrize(("owner", "name"), inner_functions())
def test_a_failure_anywhere_leaves_the_training_alone(
    owner: Any, name: str, at_call: int, unrecorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[..., Any] = getattr(owner, name)
    n_calls = 0

    def broken(*args: Any, **kwargs: Any) -> Any:
        nonlocal n_calls
        n_calls += is_armed
        if is_armed and n_calls == at_call:
            raise ArithmeticError("broken on purpose")
        return original(*args, **kwargs)

    is_armed = False
    before = hooks()
    monkeypatch.setattr(owner, name, broken)

    def run_of(model: nn.Module) -> Any:
        nonlocal is_armed
        run = cutaway.record(tmp_path / "run", model, every=1, samples=2, statistics="full")
        is_armed = True
        return run

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        recorded = training(run_of)
    is_armed = False
    assert hooks() == before
    for what in unrecorded:
        assert equal(unrecorded[what], recorded[what]), what
    mine = [str(one.message) for one in said if issubclass(one.category, RuntimeWarning)]
    assert len(mine) == (n_calls >= at_call and any("broken" in text for text in mine)), mine
    found = cutaway.load(tmp_path / "run")
    # One step may be lost, the others are there.
    assert len(found) >= N_STEPS - 1
    if n_calls >= at_call and n_calls > at_call + 1 and mine:
        assert any("broken on purpose" in note.text for note in found.notes)
    gc.collect()


@pytest.mark.parametrize(("owner", "name"), inner_functions(FLIGHT_MODULES))
def test_a_failure_in_the_flight_recorder_leaves_the_training_alone(
    owner: Any, name: str, unrecorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[..., Any] = getattr(owner, name)
    n_calls = 0

    def broken(*args: Any, **kwargs: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 2:
            raise ArithmeticError("broken on purpose")
        return original(*args, **kwargs)

    before = hooks()
    monkeypatch.setattr(owner, name, broken)
    flight = cutaway.Flight(steps=2, disk=True, triggers=[lambda step, before: step.number == 1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        recorded = training(lambda model: cutaway.record(tmp_path / "run", model, every=[0], flight=flight))
    assert hooks() == before
    for what in unrecorded:
        assert equal(unrecorded[what], recorded[what]), what
    mine = [str(one.message) for one in said if issubclass(one.category, RuntimeWarning)]
    assert len(mine) == (n_calls >= 2), mine
    assert 0 in cutaway.load(tmp_path / "run").steps
    gc.collect()


@pytest.mark.parametrize(("owner", "name"), inner_functions(HELD_MODULES))
def test_a_failure_in_a_held_step_leaves_the_training_alone(
    owner: Any, name: str, unrecorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[..., Any] = getattr(owner, name)
    n_calls = 0

    def broken(*args: Any, **kwargs: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 2:
            raise ArithmeticError("broken on purpose")
        return original(*args, **kwargs)

    before = hooks()
    monkeypatch.setattr(owner, name, broken)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        recorded = training(lambda model: cutaway.record(tmp_path / "run", model, every=1, graph=False), kind=None)
    assert hooks() == before
    for what in unrecorded:
        assert equal(unrecorded[what], recorded[what]), what
    mine = [str(one.message) for one in said if issubclass(one.category, RuntimeWarning)]
    assert len(mine) == (n_calls >= 2), mine
    assert len(cutaway.load(tmp_path / "run").steps_of("late")) >= N_STEPS - 1
    gc.collect()


def test_warnings_as_errors_do_not_get_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ArithmeticError("broken on purpose")

    monkeypatch.setattr(summary.Summary, "add", broken)
    model = nn.Linear(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
            model(torch.randn(2, 4))
    assert any("broken on purpose" in note.text for note in cutaway.load(tmp_path / "run").notes)


def test_a_failure_that_comes_back_with_other_numbers_is_said_once(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with cutaway.record(tmp_path / "run", model, every=1) as run:
            for number in (9, 8, 7, 6):
                with run.step(number=number):
                    model(torch.randn(2, 4))
    assert len([one for one in said if "must increase" in str(one.message)]) == 1
    assert cutaway.load(tmp_path / "run").steps.tolist() == [9, 10, 11, 12]


def test_the_time_of_nested_work_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from cutaway.recording import error_guard

    clock = iter([10.0, 13.0])  # read at the start and at the end of the outermost call only
    monkeypatch.setattr(error_guard, "perf_counter", lambda: next(clock))
    guard = error_guard.ErrorGuard(lambda text: None)
    guard(lambda: guard(lambda: guard(lambda: None)))
    assert guard.seconds == 3.0
    assert next(clock, None) is None
