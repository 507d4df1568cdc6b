"""The flight recorder: every trigger on a planted fault, its numbers against torch, and what it writes."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.recording.training import equal, left_behind
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import cutaway
from cutaway.recording.flight.readings import Readings
from cutaway.recording.flight.ring import KIND

N_STEPS = 40
FAULT = 30


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


@pytest.fixture(params=["at once", "gathered"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Reads tensors like those of the CPU, or like those of a device."""
    monkeypatch.setattr(Readings, "reads_at_once", request.param == "at once")
    return str(request.param)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))


Fault = Callable[[nn.Sequential, Tensor], Tensor]


def train(path: Path, fault: Fault | None = None, *, at: int = FAULT, logs: bool = True, **options: Any) -> cutaway.Run:
    """Train, plant a fault at one step, and load the run."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with cutaway.record(path, model, **{"every": None, "flight": cutaway.Flight(steps=12), **options}) as run:
        for number in range(N_STEPS):
            x = torch.randn(4, 4)
            with run.step():
                result = model(x) if fault is None or number != at else fault(model, x)
                loss = result.pow(2).mean() + 1
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                if logs:
                    run.log(loss=loss)
    loaded = cutaway.load(path)
    assert isinstance(loaded, cutaway.Run)
    return loaded


def reasons(run: cutaway.Run) -> list[str]:
    return [note.text for note in run.notes if KIND in note.about]


# triggers


def test_a_healthy_training_writes_nothing(tmp_path: Path) -> None:
    run = train(tmp_path / "run")
    assert (len(run), run.notes, run.problems) == (0, (), ())


@pytest.mark.parametrize("logs", [True, False])
def test_a_loss_spike_writes_the_steps_before_it(tmp_path: Path, logs: bool, way: str) -> None:
    run = train(tmp_path / "run", lambda model, x: model(100 * x), logs=logs)
    assert run.steps_of(KIND).tolist() == list(range(FAULT - 11, FAULT + 1))
    assert any("loss spike" in text for text in reasons(run))
    step = run.at(FAULT)
    assert "LossSpike" in step.about[KIND]["triggers"]
    assert step.about[KIND]["step"] == FAULT
    assert list(step.about["losses"]) == (["loss"] if logs else ["backward"])
    assert step.about["losses"].popitem()[1] > 10


@pytest.mark.parametrize("layer", [0, 2, 4])
def test_nan_is_traced_to_the_layer_it_began_in(tmp_path: Path, layer: int, way: str) -> None:
    def fault(model: nn.Sequential, x: Tensor) -> Tensor:
        with torch.no_grad():
            model[layer].bias[0] = float("nan")
        return model(x)  # type: ignore[no-any-return]

    run = train(tmp_path / "run", fault)
    (text,) = reasons(run)
    # The output of layer 2 is overwritten in place by the ReLU after it; its own name comes first all the same.
    assert f"NaN or Inf: output of '{layer}'" in text
    flags = {site: run.at(FAULT)[site].stats["nonfinite"] for site in run.at(FAULT).sites}
    assert flags == {str(number): float(number >= layer) for number in range(5)}
    assert len(run) == 12  # it stays NaN to the end, and is written once


def test_an_exploding_gradient_names_the_parameter(tmp_path: Path, way: str) -> None:
    def fault(model: nn.Sequential, x: Tensor) -> Tensor:
        result: Tensor = model(x)
        result.register_hook(lambda gradient: gradient * 1e4)
        return result

    run = train(tmp_path / "run", fault)
    assert any("gradient norm jump" in text for text in reasons(run))
    assert run.at(FAULT)["4.weight"].grad.stats["norm"] > 100 * run.at(FAULT - 1)["4.weight"].grad.stats["norm"]


def test_an_exception_in_a_step_writes_the_ring_with_the_broken_step(tmp_path: Path, way: str) -> None:
    def fault(model: nn.Sequential, x: Tensor) -> Tensor:
        model[:2](x)
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        train(tmp_path / "run", fault)
    run = cutaway.load(tmp_path / "run")
    assert run.steps.tolist() == list(range(FAULT - 11, FAULT + 1))
    assert run.at(FAULT).about["error"] == "ValueError: planted"
    assert run.at(FAULT).sites == ("0", "1")


def test_an_exception_between_steps_writes_the_ring(tmp_path: Path) -> None:
    def work() -> None:
        model = network()
        with cutaway.record(tmp_path / "run", model, every=None, flight=True) as run:
            for _ in range(5):
                with run.step():
                    model(torch.randn(4, 4))
            raise OSError("no data")

    with pytest.raises(OSError, match="no data"):
        work()
    loaded = cutaway.load(tmp_path / "run")
    assert loaded.steps.tolist() == [0, 1, 2, 3, 4]
    assert "OSError: no data" in loaded.at(4).about[KIND]["reason"]


def test_your_own_predicate_sees_the_step_and_those_before(tmp_path: Path, way: str) -> None:
    seen: list[tuple[int, list[int]]] = []

    def mine(step: cutaway.triggers.FlightStep, before: Any) -> str | bool:
        seen.append((step.number, [each.number for each in before]))
        assert step.norm("4") == step.norm(".")
        assert np.isfinite(step.mean("0"))
        return "mine" if step.number == 20 else False

    run = train(tmp_path / "run", flight=cutaway.Flight(steps=4, triggers=[mine]))
    assert run.steps.tolist() == [17, 18, 19, 20]
    assert seen[:3] == [(0, []), (1, [0]), (2, [0, 1])]
    assert seen[-1] == (N_STEPS - 1, [36, 37, 38])
    assert reasons(run) == ["flight recorder: mine. Steps 17–20: 4 steps written."]


def test_a_predicate_that_raises_is_reported_once(tmp_path: Path) -> None:
    def broken(step: Any, before: Any) -> bool:
        return bool(step.norm("head") > 1)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = train(tmp_path / "run", flight=cutaway.Flight(triggers=[broken, cutaway.triggers.Raised()]))
    assert len(said) == len(run.problems) == 1
    assert "no output 'head'" in run.problems[0]


# numbers


def test_the_numbers_are_those_of_torch(tmp_path: Path, way: str) -> None:
    model = network()
    outputs: dict[str, tuple[float, float]] = {}
    for name, module in model.named_children():
        module.register_forward_hook(
            lambda _, args, result, name=name: outputs.update({name: (result.mean().item(), result.norm().item())})
        )
    gradients: dict[str, float] = {}
    flight = cutaway.Flight(triggers=[lambda step, before: step.number == 2])
    with cutaway.record(tmp_path / "run", model, every=None, flight=flight) as run:
        for number in range(4):
            with run.step(kind="train"):
                model(torch.randn(4, 4)).pow(2).sum().backward()
                if number == 2:
                    expected = dict(outputs)
                    gradients = {name: p.grad.norm().item() for name, p in model.named_parameters()}  # type: ignore[union-attr]
                model.zero_grad(set_to_none=False) if number < 2 else None
    step = cutaway.load(tmp_path / "run").at(2)
    for name, (mean, norm) in expected.items():
        assert (step[name].stats["mean"], step[name].stats["norm"]) == pytest.approx((mean, norm), rel=1e-5)
    assert step["."].stats["norm"] == step["4"].stats["norm"]
    for name, norm in gradients.items():
        assert step[name].grad.stats["norm"] == pytest.approx(norm, rel=1e-5)
    assert step.about["kind"] == "train"


class Odd(nn.Module):
    """Outputs that are no plain tensors of floats."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.several = nn.LSTM(2, 2)
        self.low = nn.Linear(2, 2).bfloat16()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        twice = self.inner(self.inner(x))
        self.low(x.bfloat16())
        return {"odd": self.several(twice)[0], "int": torch.arange(3), "huge": torch.full((4,), 3e38)}


def test_passes_tuples_halves_integers_and_overflowing_sums(tmp_path: Path, way: str) -> None:
    model = Odd()
    flight = cutaway.Flight(triggers=[lambda step, before: step.number == 1])
    with cutaway.record(tmp_path / "run", model, every=None, flight=flight) as run:
        for _ in range(3):
            with run.step():
                model(torch.ones(3, 2))
    step = cutaway.load(tmp_path / "run").at(1)
    assert {"inner", "several@out.0", "several@out.1.0", "low", ".@out.int", ".@out.huge"} <= set(step.sites)
    assert step["inner"].n_passes == 2
    assert step[".@out.int"].stats["mean"] == 1.0
    if way == "at once":  # a sum that overflows on a device counts as Inf
        assert step[".@out.huge"].stats["nonfinite"] == 0


def test_outputs_are_chosen_by_site(tmp_path: Path) -> None:
    flight = cutaway.Flight(at=["2", "4"], gradients=False, triggers=[lambda step, before: step.number == 5])
    run = train(tmp_path / "run", flight=flight)
    assert [(row.site, row.of) for row in run.rows] == [("2", "value"), ("4", "value")]


def test_a_pattern_that_matches_nothing_is_reported(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="matches no site"):
        train(tmp_path / "run", flight=cutaway.Flight(at="layer.*"))


# beside the schedule


def test_recorded_steps_are_shared_and_not_written_twice(tmp_path: Path) -> None:
    run = train(tmp_path / "run", lambda model, x: model(100 * x), every=10)
    assert run.steps.tolist() == [0, 10, *range(FAULT - 11, FAULT + 1)]
    assert run.steps_of("").tolist() == [0, 10, 20, 30]
    assert "2 recorded already" in reasons(run)[0]  # the spike itself came at a recorded step
    assert len(run["0"].stats("norm")) == len(run)
    assert not cutaway.store.verify(tmp_path / "run").damage


def test_steps_written_after_later_ones_are_in_order(tmp_path: Path) -> None:
    run = train(tmp_path / "run", lambda model, x: model(100 * x), at=33, every=30)
    assert run.steps.tolist() == [0, *range(22, 34)]
    assert np.isfinite(run["4"].stats("norm")).all()
    assert np.array_equal(run["4"].stats("norm")[1:], [run.at(n)["4"].stats["norm"] for n in range(22, 34)])
    assert run.at(30).kind == ""
    assert run.at(29).kind == KIND
    assert [step.step for step in run] == run.steps.tolist()


def test_a_step_whose_kind_is_not_due_is_in_the_ring(tmp_path: Path) -> None:
    model = network()
    flight = cutaway.Flight(triggers=[lambda step, before: step.number == 4])
    with cutaway.record(tmp_path / "run", model, every={"hard": 1}, flight=flight) as run:
        for number in range(6):
            with run.step(kind=None) as step:
                model(torch.randn(4, 4))
                step.kind = "hard" if number == 2 else "easy"
    loaded = cutaway.load(tmp_path / "run")
    assert [(step.step, step.kind) for step in loaded] == [(0, KIND), (1, KIND), (2, "hard"), (3, KIND), (4, KIND)]
    assert loaded.at(3).about["kind"] == "easy"
    assert "0" in loaded.at(3)


def test_a_loss_logged_after_the_step_counts(tmp_path: Path, way: str) -> None:
    model = network()
    with cutaway.record(tmp_path / "run", model, every=None, flight=True) as run:
        for number in range(N_STEPS):
            with run.step():
                loss = model(torch.randn(4, 4)).pow(2).mean()
            run.log(loss=float("inf") if number == 7 else loss)
    loaded = cutaway.load(tmp_path / "run")
    assert loaded.steps[-1] == 7
    assert "'loss' is inf" in reasons(loaded)[0]


def test_the_ring_is_written_at_most_so_many_times(tmp_path: Path) -> None:
    flight = cutaway.Flight(triggers=[lambda step, before: step.number % 2 == 1], most_writes=3)
    run = train(tmp_path / "run", flight=flight)
    assert run.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert [note.text.endswith("most_writes=3 is reached.") for note in run.notes] == [False, False, False, True]


def test_partial_gradients_of_an_accumulation_are_not_judged(tmp_path: Path) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    flight = cutaway.Flight(triggers=[lambda step, before: step.number == 7])
    with cutaway.record(tmp_path / "run", model, every=None, flight=flight) as run:
        for number in range(9):
            with run.step():
                model(torch.randn(4, 4)).pow(2).mean().backward()
                if number % 4 == 3:
                    optimizer.step()
                    optimizer.zero_grad()
    loaded = cutaway.load(tmp_path / "run")
    assert ["0.weight" in {row.site for row in loaded.at(n).rows if row.of == "grad"} for n in (5, 6, 7)] == [0, 0, 1]


# transparency


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.body, self.norm = (
            nn.Linear(4, 6),
            nn.Dropout(0.5),
            nn.Linear(6, 6),
            nn.BatchNorm1d(6),
        )
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(self.first(x)).relu_()
        x = checkpoint(self.body, x, use_reentrant=True)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def bits(path: Path, optimizer: Callable[..., torch.optim.Optimizer], *recorders: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    model = Net()
    stepper = optimizer(model.parameters(), lr=0.01)
    runs = [cutaway.record(path / str(n), model, **options) for n, options in enumerate(recorders)]
    losses = []
    for _ in range(5):
        steps = [run.step() for run in runs]
        for step in steps:
            step.__enter__()
        loss = model(torch.randn(3, 4)).pow(2).mean()
        loss.backward()
        stepper.step()
        stepper.zero_grad()
        for step in reversed(steps):
            step.__exit__(None, None, None)
        for run in runs:
            run.log(loss=loss)
        losses.append(loss.detach())
    for run in runs:
        run.close()
        assert run.problems == ()
    return {"losses": losses, **left_behind(model, stepper)}


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_the_training_ends_in_the_same_bits(tmp_path: Path, optimizer: Any, way: str) -> None:
    flight = {"every": None, "flight": True}
    plain = bits(tmp_path, optimizer)
    assert equal(plain, bits(tmp_path / "a", optimizer, flight))
    assert equal(plain, bits(tmp_path / "b", optimizer, flight, {"every": 2}, {"every": 2, "flight": "disk"}))


def test_no_memory_is_held(tmp_path: Path, way: str) -> None:
    model = network()
    alive = []
    with cutaway.record(tmp_path / "run", model, every=None, flight=cutaway.Flight(steps=3)) as run:
        for _ in range(12):
            with run.step():
                model(torch.randn(4, 4)).sum().backward()
            gc.collect()
            alive.append(sum(isinstance(each, Tensor) for each in gc.get_objects()))
    assert alive[4] == alive[-1]


# settings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flight": "dsik"}, "pass True, 'disk'"),
        ({"flight": 50}, "cutaway.Flight"),
    ],
)
def test_a_wrong_setting_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(cutaway.errors.InputError, match=message):
        cutaway.record(tmp_path / "run", network(), **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "1 to 65,536"),
        ({"triggers": "nan"}, "pass a list"),
        ({"triggers": [cutaway.triggers.NonFinite]}, r"create it, as in NonFinite\(\)"),
        ({"triggers": [3]}, "functions of the step"),
        ({"at": "encoder/softmax"}, "outputs of modules only"),
        ({"most_writes": -1}, "from 0"),
    ],
)
def test_wrong_settings_say_what_to_pass(options: dict[str, Any], message: str) -> None:
    with pytest.raises(cutaway.errors.InputError, match=message):
        cutaway.Flight(**options)


def test_a_model_that_is_not_called_is_reported(tmp_path: Path) -> None:
    model = network()
    with cutaway.record(tmp_path / "run", model, every=None, flight=True) as run:
        for _ in range(3):
            with run.step():
                nn.functional.linear(torch.randn(2, 4), model[0].weight).sum().backward()
        assert len(run.problems) == 1
        assert "sees no module outputs" in run.problems[0]


@pytest.mark.cuda
def test_a_watched_step_on_a_gpu_waits_for_nothing_and_has_torch_numbers(tmp_path: Path) -> None:
    model = network().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    norms = []
    model[0].register_forward_hook(lambda _, args, result: norms.append(result.detach().norm()))
    flight = cutaway.Flight(triggers=[cutaway.triggers.NonFinite()])
    with cutaway.record(tmp_path / "run", model, every=None, flight=flight) as run:
        for number in range(12):
            x = torch.randn(64, 4, device="cuda")
            if number == 9:
                with torch.no_grad():
                    model[2].bias[0] = float("nan")
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error" if number > 1 else "default")
            with run.step():
                loss = model(x).pow(2).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)
            torch.cuda.set_sync_debug_mode("default")
    loaded = cutaway.load(tmp_path / "run")
    assert loaded.problems == ()
    assert loaded.steps[-1] == 9
    assert "output of '2'" in reasons(loaded)[0]
    assert loaded["0"].stats("norm").tolist() == pytest.approx(torch.stack(norms[:10]).tolist(), rel=1e-5)
    assert [loaded.at(9)[site].stats["nonfinite"] for site in "01234"] == [0, 0, 1, 1, 1]


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_and_meta_outputs_have_the_numbers_of_the_full_tensor(tmp_path: Path) -> None:
    class Odd(nn.Module):
        """Returns what has no plain memory."""

        def __init__(self) -> None:
            super().__init__()
            self.sparse, self.meta = nn.Identity(), nn.Identity()

        def forward(self, x: Tensor) -> None:
            self.sparse(x.to_sparse())
            self.meta(torch.empty(3, device="meta"))

    model, x = Odd(), torch.tensor([[0.0, 3.0, 0.0], [4.0, 0.0, 0.0]])
    flight = cutaway.Flight(triggers=[lambda step, before: True])
    with cutaway.record(tmp_path / "run", model, every=None, flight=flight) as run, run.step():
        model(x)
    found = cutaway.load(tmp_path / "run")
    assert found.problems == ()
    stats = found.at(0)["sparse"].stats
    assert (stats["mean"], stats["norm"], stats["nonfinite"]) == (pytest.approx(7 / 6), 5, 0)
    assert np.isnan(found.at(0)["meta"].stats["mean"])
