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
N_FEW_STEPS = 2
"""For a failure in the first step: it, and one step after it."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.body, self.norm = nn.Linear(4, 6), nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.head = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        x = checkpoint(self.body, x, use_reentrant=True)
        return self.head(self.norm(x))


def training(run: Any, *, kind: str | None = "", n_steps: int = N_STEPS, after_step: Any = lambda: None) -> Any:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    run = run(model)
    run.fixed_batch("toy", torch.ones(2, 4), every=1, edits={"silent": {"head": 0}})
    for _ in range(n_steps):
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
        after_step()
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
    "Step.__exit__", "Step.__init__", "Recorder.path", "named_losses", "total_of", "OutputHook.__call__",
    "ParameterHook.__call__", "_Wrapper.__call__",
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
def small_heap(n_calls: dict[tuple[Any, str], list[int]]) -> Iterator[None]:
    """Each test collects garbage, which takes a second in a process that has run thousands of others before.

    `n_calls` comes first, because its trainings import much: the compiler alone takes 0.1 s each time.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Broken:
    """Replaces a function by one that raises at one of its calls, counted from 1 while it is armed."""

    def __init__(
        self, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch, *, at_call: int = 2, is_armed: bool = True
    ) -> None:
        original: Callable[..., Any] = getattr(owner, name)
        self.n_calls = 0
        self.is_armed = is_armed

        def call(*args: Any, **kwargs: Any) -> Any:
            self.n_calls += self.is_armed
            if self.is_armed and self.n_calls == at_call:
                raise ArithmeticError("broken on purpose")
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)


@pytest.fixture(scope="module")
def unrecorded() -> dict[int, Any]:
    """What a training leaves behind, by the number of its steps."""

    class Off:
        def backward(self, size: torch.Tensor, sparse: torch.Tensor) -> None:
            (size + sparse).backward()

        def __getattr__(self, name: str) -> Any:
            from contextlib import nullcontext

            return lambda *args, **kwargs: nullcontext()

    return {n_steps: training(lambda model: Off(), n_steps=n_steps) for n_steps in (N_FEW_STEPS, N_STEPS)}


def record_all(path: Path, model: nn.Module) -> Any:
    return cutaway.record(path, model, every=1, samples=2, statistics="full")


def record_flight(path: Path, model: nn.Module) -> Any:
    flight = cutaway.Flight(steps=2, disk=True, triggers=[lambda step, before: step.number == 1])
    return cutaway.record(path, model, every=[0], flight=flight)


def record_held(path: Path, model: nn.Module) -> Any:
    return cutaway.record(path, model, every=1, graph=False)


def warned(
    record: Callable[[Path, nn.Module], Any],
    path: Path,
    *,
    arm: Callable[[], None],
    unrecorded: dict[int, Any],
    n_steps: int = N_STEPS,
    after_step: Callable[[], None] = lambda: None,
) -> Any:
    """Train with a recorder and check that the training is the unrecorded one. The recorder's warnings.

    Args:
        arm: called when the recorder has been made, which may raise.
    """

    def run_of(model: nn.Module) -> Any:
        run = record(path, model)
        arm()
        return run

    before = hooks()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        kind = None if record is record_held else ""
        recorded = training(run_of, kind=kind, n_steps=n_steps, after_step=after_step)
    assert hooks() == before
    for what, plain in unrecorded[n_steps].items():
        assert equal(plain, recorded[what]), what
    return [str(one.message) for one in said if issubclass(one.category, RuntimeWarning)]


@pytest.fixture(scope="module")
def n_calls(unrecorded: dict[int, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Any, str], list[int]]:
    """How often each function has been called at the end of every step, and at the end of the training.

    Breaking a later call than the last would repeat the same training.
    """
    counts: dict[tuple[Any, str], list[int]] = {}
    cases = ((record_all, MODULES), (record_flight, FLIGHT_MODULES), (record_held, HELD_MODULES))
    for record, modules in cases:
        with pytest.MonkeyPatch.context() as patch:
            is_armed = record is not record_all
            each = [
                (case.values[:2], Broken(*case.values[:2], patch, at_call=0, is_armed=is_armed))
                for case in inner_functions(modules)
            ]

            def arm() -> None:
                for _, counted in each:
                    counted.is_armed = True

            def note() -> None:
                for case, counted in each:
                    counts.setdefault(case, []).append(counted.n_calls)

            path = tmp_path_factory.mktemp("counted") / "run"
            assert warned(record, path, arm=arm, unrecorded=unrecorded, after_step=note) == []
            note()
    return counts


@pytest.mark.parametrize("at_call", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 7))])
@pytest.mark.parametrize(("owner", "name"), inner_functions())
def test_a_failure_anywhere_leaves_the_training_alone(
    owner: Any,
    name: str,
    at_call: int,
    unrecorded: dict[int, Any],
    n_calls: dict[tuple[Any, str], list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, *_, last = n_calls[owner, name]
    if last < at_call:
        return
    # A third step would only repeat the second, and takes a fifth of the time.
    n_steps = N_FEW_STEPS if first >= at_call and second > at_call + 1 else N_STEPS
    broken = Broken(owner, name, monkeypatch, at_call=at_call, is_armed=False)
    arm = lambda: setattr(broken, "is_armed", True)  # noqa: E731
    mine = warned(record_all, tmp_path / "run", arm=arm, unrecorded=unrecorded, n_steps=n_steps)
    broken.is_armed = False
    assert broken.n_calls >= at_call
    assert len(mine) == any("broken" in text for text in mine), mine
    found = cutaway.load(tmp_path / "run")
    # One step may be lost, the others are there.
    assert len(found) >= n_steps - 1
    if broken.n_calls > at_call + 1 and mine:
        assert any("broken on purpose" in note.text for note in found.notes)
    gc.collect()


@pytest.mark.parametrize(("owner", "name"), inner_functions(FLIGHT_MODULES))
def test_a_failure_in_the_flight_recorder_leaves_the_training_alone(
    owner: Any,
    name: str,
    unrecorded: dict[int, Any],
    n_calls: dict[tuple[Any, str], list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if n_calls[owner, name][-1] < 2:
        return
    broken = Broken(owner, name, monkeypatch)
    mine = warned(record_flight, tmp_path / "run", arm=lambda: None, unrecorded=unrecorded)
    assert broken.n_calls >= 2
    assert len(mine) == 1, mine
    assert 0 in cutaway.load(tmp_path / "run").steps
    gc.collect()


@pytest.mark.parametrize(("owner", "name"), inner_functions(HELD_MODULES))
def test_a_failure_in_a_held_step_leaves_the_training_alone(
    owner: Any,
    name: str,
    unrecorded: dict[int, Any],
    n_calls: dict[tuple[Any, str], list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if n_calls[owner, name][-1] < 2:
        return
    broken = Broken(owner, name, monkeypatch)
    mine = warned(record_held, tmp_path / "run", arm=lambda: None, unrecorded=unrecorded)
    assert broken.n_calls >= 2
    assert len(mine) == 1, mine
    assert len(cutaway.load(tmp_path / "run").steps_of("late")) >= N_STEPS - 1
    gc.collect()


def test_warnings_as_errors_do_not_get_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise ArithmeticError("broken on purpose")

    monkeypatch.setattr(summary.Summary, "add", fail)
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
