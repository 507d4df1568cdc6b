"""Modules that run several times in a step, recorded and read back, held against what plain hooks see."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cutaway
from cutaway import Run
from cutaway.recording.recorder import Recorder

N_STEPS = 5
Body = Callable[[Recorder, nn.Module, int], None]


def accumulate(run: Recorder, model: nn.Module, step: int) -> None:
    """Two forward passes before one optimizer step, of batches of several sizes."""
    for size in (6, 2):
        model(torch.randn(size, 4)).square().mean().backward()


def vary(run: Recorder, model: nn.Module, step: int) -> None:
    for _ in range(1 + step % 3):
        model(torch.randn(3, 4)).square().mean().backward()


def in_rounds(run: Recorder, model: nn.Module, step: int) -> None:
    """One pass before all iterations, then an iteration of one pass and one of two."""
    model(torch.randn(3, 4)).square().mean().backward()
    for n_passes in (1, 2):
        with run.iteration():
            for _ in range(n_passes):
                model(torch.randn(3, 4)).square().mean().backward()


def trained(path: Path, body: Body) -> tuple[Run, list[list[np.ndarray]]]:
    """The run, and by step what each forward of the first layer gave."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    given: list[list[np.ndarray]] = []
    model[0].register_forward_hook(lambda module, args, out: given[-1].append(out.detach().numpy().copy()))
    with cutaway.record(path, model, every=1, samples=2) as run:
        for step in range(N_STEPS):
            given.append([])
            with run.step():
                optimizer.zero_grad()
                body(run, model, step)
                optimizer.step()
    found = cutaway.load(path)
    assert isinstance(found, Run)
    return found, given


@pytest.mark.parametrize("body", [accumulate, vary, in_rounds])
def test_every_pass_is_read_in_the_order_of_execution(tmp_path: Path, body: Body) -> None:
    run, given = trained(tmp_path / "run", body)
    assert [site for site in run.sites if ":" in site] == []
    series = run["0"]
    assert series.steps.tolist() == list(range(N_STEPS))
    means, counts = series.stats("mean"), series.stats("count")
    assert means.shape == (N_STEPS, max(map(len, given)))
    for step, arrays in enumerate(given):
        wanted = [array.astype(np.float64).mean() for array in arrays]
        np.testing.assert_allclose(means[step, : len(arrays)], wanted, rtol=1e-5, atol=1e-7)
        assert counts[step, : len(arrays)].tolist() == [array.size for array in arrays]
        assert np.isnan(means[step, len(arrays) :]).all()
        # The mean over passes by their elements is the mean over all elements.
        whole = np.concatenate([array.ravel() for array in arrays]).astype(np.float64).mean()
        assert series.band("mean").values[step] == pytest.approx(whole, rel=1e-5, abs=1e-7)
        moment = run.at(step)["0"]
        assert moment.n_passes == len(arrays)
        assert moment.values.shape == (len(arrays), 2, 6)
        for one, array in zip(moment.passes, arrays, strict=True):
            assert np.array_equal(one.value, array[:2])
    grads = series.grad
    assert (np.isfinite(grads.stats("norm")) == np.isfinite(means)).all(), "each pass has its own gradient"


def test_iterations_and_passes_within_them_are_told_apart(tmp_path: Path) -> None:
    run, given = trained(tmp_path / "run", in_rounds)
    series = run["0"]
    assert series.passes[0].tolist() == [(0, 1), (1, 1), (2, 1), (2, 2)]
    wanted = np.array([[array.mean() for array in arrays] for arrays in given])
    np.testing.assert_allclose(series.stats("mean", iteration=2), wanted[:, 2:], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(run["0:2"].stats("mean"), wanted[:, 3], rtol=1e-4, atol=1e-6)
    assert run["0.weight"].stats("norm").shape == (N_STEPS,), "a parameter has no passes"
    assert run["0.weight"].update_ratio().values.shape == (N_STEPS,)


def test_a_run_without_passes_is_as_it_was(tmp_path: Path) -> None:
    run, given = trained(tmp_path / "run", lambda run, model, step: model(torch.ones(3, 4)).sum().backward())
    assert run["0"].stats("mean").shape == (N_STEPS,)
    assert np.array_equal(run.at(1)["0"].value, given[1][0][:2])
    assert set(run.table(["mean"])["pass"]) == {1}


@pytest.mark.parametrize("kind", ["", None])
def test_a_recorded_step_leaves_nothing_to_the_garbage_collector(kind: str | None, tmp_path: Path) -> None:
    """A step holds thousands of objects: in a cycle, they would wait for a full collection, which takes long."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> Any:
        with run.step(kind) as opened:
            loss = model(torch.ones(3, 4)).sum()
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
            return weakref.ref(opened.recorded)

    with cutaway.record(tmp_path / "run", model, every=1) as run:
        step()  # traced
        gc.collect()
        gc.disable()
        try:
            assert step()() is None
        finally:
            gc.enable()
