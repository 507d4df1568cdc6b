"""A recorded training ends in the very bits that an unrecorded one ends in."""

from __future__ import annotations

import copy
import random
import shutil
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.recording.training import OPTIMIZERS, Off, equal, left_behind, loss_of, recorder_to, train_case
from tests.zoo import ZOO
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
from torch.utils.checkpoint import checkpoint

import cutaway


def check(name: str, optimizer: str, path: Path, n_steps: int, **settings: Any) -> None:
    try:
        plain = train_case(name, optimizer, lambda model: Off(), n_steps)
    except Exception as error:  # the case cannot be trained at all: then it fails alike when recorded
        with pytest.raises(type(error)):
            train_case(name, optimizer, recorder_to(path, **settings), n_steps)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        recorded = train_case(name, optimizer, recorder_to(path, **settings), n_steps)
    for what in plain:
        assert equal(plain[what], recorded[what]), f"{name}: {what} differ"
    run = cutaway.load(path)
    assert not run.damage
    assert [note.text for note in run.notes if note.level == "error"] == []
    assert run.steps.tolist() == list(range(n_steps))


@pytest.mark.parametrize("name", ZOO)
def test_training_ends_in_the_same_bits(name: str, tmp_path: Path) -> None:
    check(name, "sgd+adamw", tmp_path / "run", 4, statistics="full")


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ZOO)
def test_fifty_steps_end_in_the_same_bits(name: str, optimizer: str, tmp_path: Path) -> None:
    check(name, optimizer, tmp_path / "run", 50)


WAYS = ("amp", "scaled", "accumulated", "clipped", "checkpointed", "reentrant")


def train_in_a_way(name: str, way: str, optimizer: str, run: Any) -> dict[str, Any]:
    """Some steps under mixed precision, accumulation, clipping or a checkpoint around the whole model."""
    random.seed(0)
    np.random.seed(0)
    model, args, kwargs = ZOO[name]()
    stepper = OPTIMIZERS[optimizer](list(model.parameters()))
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=way == "scaled")
    recorder = run(model)
    torch.manual_seed(1)
    for number in range(8):
        with recorder.step(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=way in ("amp", "scaled")):
            inputs, named = copy.deepcopy(args), copy.deepcopy(kwargs)
            if way in ("checkpointed", "reentrant"):
                given = [one.requires_grad_() if one.is_floating_point() else one for one in inputs]
                result = checkpoint(partial(model, **named), *given, use_reentrant=way == "reentrant")
            else:
                result = model(*inputs, **named)
            loss = loss_of(result)
            assert loss is not None
            scaler.scale(loss * (float("inf") if way == "scaled" and number == 3 else 1)).backward()
            recorder.log(loss=loss)
            if way != "accumulated" or number % 4 == 3:
                if way == "clipped":
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
                scaler.step(stepper)
                scaler.update()
                stepper.zero_grad(set_to_none=number % 2 == 0)
    recorder.close()
    return left_behind(model, stepper)


@pytest.mark.parametrize("optimizer", ["sgd", pytest.param("adamw_foreach", marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "name", ["mlp", "cnn_training", "lstm_cell_loop", "transformer_training", "gpt2", "shared_modules"]
)
def test_every_way_of_training_ends_in_the_same_bits(name: str, way: str, optimizer: str, tmp_path: Path) -> None:
    if way == "reentrant" and name == "gpt2":
        pytest.skip("a re-entrant checkpoint takes no named results")
    plain = train_in_a_way(name, way, optimizer, lambda model: Off())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        recorded = train_in_a_way(name, way, optimizer, recorder_to(tmp_path / "run"))
    for what in plain:
        assert equal(plain[what], recorded[what]), f"{name}: {what} differ"
    run = cutaway.load(tmp_path / "run")
    assert [note.text for note in run.notes if note.level == "error"] == []
    assert len(run) == 8


@pytest.mark.parametrize(
    "name", ["mlp", "cnn_training", "lstm_cell_loop", "transformer_training", "gpt2", "shared_modules"]
)
def test_extra_passes_of_the_recorder_change_no_bit(name: str, tmp_path: Path) -> None:
    def train(is_recorded: bool) -> dict[str, Any]:
        random.seed(0)
        np.random.seed(0)
        model, args, kwargs = ZOO[name]()
        stepper = OPTIMIZERS["adamw"](list(model.parameters()))
        run: Any = cutaway.record(tmp_path / "run", model, every=2) if is_recorded else Off()
        if is_recorded:
            run.fixed_batch("toy", (args, kwargs), every=2, forward=lambda batch: model(*batch[0], **batch[1]))
        torch.manual_seed(1)
        for _ in range(4):
            with run.step():
                loss = loss_of(model(*copy.deepcopy(args), **copy.deepcopy(kwargs)))
                assert loss is not None
                size = sum(parameter.pow(2).mean() for parameter in model.parameters())
                if is_recorded:
                    run.backward(loss=loss, size=size)
                else:
                    (loss + size).backward()
                stepper.step()
                stepper.zero_grad()
        run.close()
        return left_behind(model, stepper)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        recorded = train(True)
    plain = train(False)
    for what in plain:
        assert equal(plain[what], recorded[what]), f"{name}: {what} differ"
    run = cutaway.load(tmp_path / "run")
    assert [note.text for note in run.notes if note.level == "error"] == []
    assert {"toy", ""} == set(run.kinds)
    assert any(row.of == "grad/size" for row in run.rows)


def test_nothing_is_left_in_torch(tmp_path: Path) -> None:
    before = (
        dict(torch_module._global_forward_hooks),
        dict(torch_module._global_forward_pre_hooks),
        dict(torch_optimizer._global_optimizer_pre_hooks),
        dict(torch_optimizer._global_optimizer_post_hooks),
        torch._C._len_torch_function_stack(),
    )
    train_case("transformer_training", "adamw", recorder_to(tmp_path / "run"), 3)
    assert before == (
        dict(torch_module._global_forward_hooks),
        dict(torch_module._global_forward_pre_hooks),
        dict(torch_optimizer._global_optimizer_pre_hooks),
        dict(torch_optimizer._global_optimizer_post_hooks),
        torch._C._len_torch_function_stack(),
    )


class Keeping:
    """Begins every step undecided, and keeps every second, with its most unusual samples."""

    def __init__(self, path: Path, model: torch.nn.Module) -> None:
        self._run = cutaway.record(path, model, every=1, samples=2)

    def step(self, *args: Any, **kwargs: Any) -> Any:
        return self._run.step(kind=None)

    def log(self, **scalars: Any) -> None:
        self._run.log(**scalars)
        if self._run.number % 2:
            self._run.keep("kept", samples=2, by="anomaly")

    def close(self) -> None:
        self._run.close()


def with_fixed_batch(path: Path, batch: Any, model: torch.nn.Module) -> Any:
    run = cutaway.record(path, model, every=2, samples=2)
    run.fixed_batch("toy", batch, every=2, forward=lambda given: model(*given[0], **given[1]))
    return run


def in_flight(path: Path, model: torch.nn.Module) -> Any:
    flight = cutaway.Flight(steps=3, triggers=[lambda step, before: step.number == 2], disk=True)
    return cutaway.record(path, model, every=3, flight=flight)


FEW = ("mlp", "lstm_cell_loop", "transformer_training", "sparse", "meta")


@pytest.mark.parametrize("name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in ZOO])
def test_every_other_way_of_recording_ends_in_the_same_bits(name: str, tmp_path: Path) -> None:
    def train(make: Any) -> dict[str, Any]:
        torch.manual_seed(0)  # not every case seeds its weights
        return train_case(name, "adamw", make, 4)

    torch.manual_seed(0)
    _, args, kwargs = ZOO[name]()
    plain = train(lambda model: Off())
    ways = {
        "flight": partial(in_flight, tmp_path / "flight"),
        "keep": partial(Keeping, tmp_path / "keep"),
        "fixed": partial(with_fixed_batch, tmp_path / "fixed", (args, kwargs)),
    }
    for way, make in ways.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # small batches have no unusual samples
            recorded = train(make)
        for what in plain:
            assert equal(plain[what], recorded[what]), f"{name}, {way}: {what} differ"
        assert not any("recording failed" in problem for problem in cutaway.load(tmp_path / way).problems), way


@pytest.mark.parametrize("name", ["cnn_training", "transformer_training", "shared_modules"])
def test_steps_that_are_kept_or_dropped_afterwards_end_in_the_same_bits(name: str, tmp_path: Path) -> None:
    class Deciding:
        """Begins every step undecided, and keeps every second."""

        def __init__(self, model: torch.nn.Module) -> None:
            self._run = cutaway.record(tmp_path / "run", model, every=1, samples=2)

        def step(self, *args: Any, **kwargs: Any) -> Any:
            return self._run.step(kind=None)

        def log(self, **scalars: Any) -> None:
            self._run.log(**scalars)
            if self._run.number % 2:
                self._run.keep(samples=[0])

        def close(self) -> None:
            self._run.close()

    for way in ("scaled", "clipped", "reentrant"):
        plain = train_in_a_way(name, way, "sgd", lambda model: Off())
        decided = train_in_a_way(name, way, "sgd", Deciding)
        for what in plain:
            assert equal(plain[what], decided[what]), f"{name}, {way}: {what} differ"
        assert cutaway.load(tmp_path / "run").steps.tolist() == [1, 3, 5, 7]
        shutil.rmtree(tmp_path / "run")
