"""The most unusual samples of a batch are found and stored, with what is unusual about them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway.core.units.layout import UnitLayout
from cutaway.recording.held.anomalies import anomalies
from cutaway.store.runs.run import Run

BAD = 5


def batch(n: int = 16) -> Tensor:
    torch.manual_seed(3)
    return torch.randn(n, 8)


def kept(path: Path, x: Tensor, model: nn.Module | None = None, n_steps: int = 3, **options: Any) -> Run:
    torch.manual_seed(0)
    model = model or nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 2))
    with cutaway.record(path, model, every=1) as run:
        for _ in range(n_steps):  # the first is traced, the others are not
            with run.step(kind=None):
                run.samples(ids=torch.arange(len(x)), label=["even", "odd"] * (len(x) // 2))
                model(x).pow(2).sum().backward()
                run.keep("odd", **{"samples": 2, "by": "anomaly", **options})
    loaded = cutaway.load(path)
    assert isinstance(loaded, Run)
    return loaded


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_planted_sample_is_stored_with_its_values_and_the_reason(tmp_path: Path) -> None:
    x = batch()
    x[BAD] *= 300
    run = kept(tmp_path / "run", x)
    assert run.problems == ()
    for step in run:
        assert step.sample_indices is not None
        assert step.sample_indices[0] == BAD
        assert np.array_equal(step[".@in.0"].value, x[list(step.sample_indices)].numpy())
        assert step.samples.ids[0] == BAD
        reason = step.about["anomalies"][0]
        assert abs(reason["z"]) > 5
        assert reason["site"] in (".@in.0", "0", "1", "2")
        assert reason["statistic"] in ("mean", "abs_mean", "std", "abs_max")


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_sample_that_is_unusual_only_inside_the_model_is_found(tmp_path: Path) -> None:
    class Hidden(nn.Module):
        """Has a unit that is 0 for all samples but one."""

        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(8, 8)
            self.rare = nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            is_bad = torch.zeros(len(x), 1)
            is_bad[BAD] = 1
            h = self.body(x)
            return (h + 0 * self.rare(h + 1000 * is_bad)).sum(1)

    run = kept(tmp_path / "run", batch(), Hidden())
    for step in run:
        assert step.sample_indices is not None
        assert step.sample_indices[0] == BAD
        assert step.about["anomalies"][0]["site"] == "rare"


def test_nan_is_the_most_unusual(tmp_path: Path) -> None:
    x = batch()
    x[2] *= 300
    x[BAD, 0] = math.nan
    (step,) = kept(tmp_path / "run", x, n_steps=1)
    assert step.sample_indices is not None
    assert sorted(step.sample_indices) == [2, BAD]


def test_some_of_each_category_are_chosen(tmp_path: Path) -> None:
    x = batch()
    x[BAD] *= 300
    x[8] *= 200
    (step,) = kept(tmp_path / "run", x, n_steps=1, samples=1, per="label")
    assert step.sample_indices is not None
    assert sorted(step.sample_indices) == [BAD, 8]
    assert sorted(step.samples.label) == ["even", "odd"]


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (4, {}, "this one has 4, and at least 6 are needed"),
        (16, {"by": "anomalies"}, "pass one number per sample, or by='anomaly'"),
        (16, {"samples": None}, "pass how many"),
    ],
)
def test_what_cannot_be_chosen_is_reported_and_the_step_is_kept(
    n: int, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.warns(RuntimeWarning, match=message):
        run = kept(tmp_path / "run", batch(n), **options)
    assert run.steps.tolist() == [0, 1, 2]
    assert [step.sample_indices for step in run] == [None] * 3
    assert all("recording failed" not in problem for problem in run.problems)


def test_the_score_is_the_robust_z_of_plain_numpy() -> None:
    x = batch(40)
    x[BAD] += 4
    found = anomalies([("x", "value", x, UnitLayout(((40,), (8,)), samples=(0,)))])
    means = x.numpy().mean(1).astype(np.float64)
    median = np.median(means)
    z = (means - median) / (1.4826 * np.median(np.abs(means - median)) * (1 + 8 / 40))
    assert (found[BAD].site, found[BAD].statistic) == ("x", "mean")
    assert found[BAD].z == pytest.approx(z[BAD], rel=1e-4)
    assert all(abs(each.z) >= abs(number) - 1e-3 for each, number in zip(found, z, strict=True))
