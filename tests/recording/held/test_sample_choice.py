"""Which samples are stored when a step is kept afterwards, against NumPy and plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cutaway
from cutaway.recording.held.sample_choice import SampleChoice

LABELS = ["cat", "dog", "cat", "owl", "dog", "cat"]
LOSSES = torch.tensor([0.5, 3.0, 0.1, 2.0, 9.0, 4.0])


def kept(path: Path, **options: Any) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    x = torch.randn(6, 4)
    with cutaway.record(path, model, every=1, samples=1) as run:
        for _ in range(2):  # the first is traced, the second is not
            with run.step(kind=None):
                run.samples(label=LABELS, ids=torch.arange(6))
                model(x).sum().backward()
                run.keep("chosen", **options)
    loaded = cutaway.load(path)
    expected = model(x).detach().numpy()
    for step in loaded:
        chosen = [*step.about.get("samples", [0])]
        assert step.kind == "chosen"
        assert np.array_equal(step["1"].value, expected[chosen])
        assert step.samples.label == [LABELS[index] for index in chosen]
    return loaded


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"samples": 3}, [0, 1, 2]),
        ({"samples": [4, 1]}, [4, 1]),
        ({"samples": torch.tensor([4, 1])}, [4, 1]),
        ({"samples": LOSSES > 2.5}, [1, 4, 5]),
        ({"samples": [True, False, False, True, False, False]}, [0, 3]),
        ({"samples": 3, "by": LOSSES}, [4, 5, 1]),
        ({"samples": 2, "by": [0.0, float("nan"), 1.0, 0.0, 0.0, 0.0]}, [1, 2]),
        ({"samples": 1, "per": "label"}, [0, 1, 3]),
        ({"samples": 1, "per": "label", "by": LOSSES}, [4, 5, 3]),
        ({"samples": 9, "by": LOSSES}, [4, 5, 1, 3, 0, 2]),
    ],
)
def test_the_chosen_samples_are_stored(options: dict[str, Any], expected: list[int] | None, tmp_path: Path) -> None:
    run = kept(tmp_path / "run", **options)
    assert [step.about.get("samples") for step in run] == [expected] * 2
    assert [step.sample_indices for step in run] == [None if expected is None else tuple(expected)] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": LOSSES}, "samples=None is None: pass how many"),
        ({"samples": [1], "by": LOSSES}, "needs samples= as a number"),
        ({"samples": 2, "per": "lable"}, "'label'"),
        ({"samples": 2, "by": torch.ones(6, 2)}, r"has shape \[6, 2\]: pass one number per sample"),
        ({"samples": 2, "by": LOSSES[:3], "per": "label"}, "has 3 numbers, but run.samples"),
        ({"samples": 2, "per": ["cat"]}, "pass the name of a field"),
        ({"samples": "all"}, "pass how many samples"),
    ],
)
def test_a_wrong_choice_says_what_to_pass_and_keeps_the_step(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.warns(RuntimeWarning, match=message):
        run = kept(tmp_path / "run", **options)
    assert run.steps.tolist() == [0, 1]
    assert all("recording failed" not in problem for problem in run.problems)


def test_keep_in_the_wrong_place_is_reported(tmp_path: Path) -> None:
    model = nn.Linear(4, 2)
    with cutaway.record(tmp_path / "run", model, every=1, samples=1) as run:
        with pytest.warns(RuntimeWarning, match=r"run\.keep\(\) was called outside a step"):
            run.keep()
        with run.step():
            model(torch.ones(2, 4))
            with pytest.warns(RuntimeWarning, match="begin the step with run.step"):
                run.keep(samples=[1])
    assert cutaway.load(tmp_path / "run").steps.tolist() == [0]


def test_the_schedule_decides_whether_a_kind_is_due(tmp_path: Path) -> None:
    model = nn.Linear(4, 2)
    with cutaway.record(tmp_path / "run", model, every={"hard": 2}) as run:
        for number in range(8):
            with run.step(kind=None):
                model(torch.ones(2, 4))
                if number % 2:
                    run.keep("hard" if number != 3 else "easy")
    assert cutaway.load(tmp_path / "run").steps.tolist() == [1, 7]


def test_ties_keep_their_order() -> None:
    assert SampleChoice(3, by=[1.0, 1.0, 2.0, 1.0]).indices({}) == (2, 0, 1)
