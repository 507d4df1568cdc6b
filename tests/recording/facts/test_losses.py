"""A logged tensor is a loss only if the step was trained on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cutaway

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


class WithLoss(nn.Module):
    """Returns its loss, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.body(x)
        return scores, scores.pow(2).mean()


def roles(path: Path, body: Any) -> dict[str, str]:
    torch.manual_seed(0)
    model = WithLoss()
    with cutaway.record(path, model, every=1) as run:
        with run.step():
            body(model, run)
    loaded = cutaway.load(path)
    # Some bodies call a part of the model only.
    assert [each for each in loaded.problems if "was not called itself" not in each] == []
    return {moment.site: moment.role for moment in loaded.at(0) if moment.site[0] in "$."}


def test_only_what_backward_was_called_on_is_a_loss(tmp_path: Path) -> None:
    def body(model: WithLoss, run: Any) -> None:
        scores = model.body(torch.ones(3, 4))
        main, size, spread = scores.pow(2).mean(), scores.abs().sum(), scores.std()
        run.log({"train/main": main, "spread": spread})  # before the backward pass
        total = main + 0.1 * size
        total.backward()
        run.log(total=total, size=size, norm=scores.norm())  # after it

    found = roles(tmp_path / "run", body)
    expected = {"$train/main": "loss", "$total": "loss", "$size": "loss", "$spread": "value", "$norm": "value"}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("way", ["scaled", "divided", "stacked", "summed"])
def test_a_loss_that_is_scaled_before_backward_is_still_one(tmp_path: Path, way: str) -> None:
    def body(model: WithLoss, run: Any) -> None:
        loss = model.body(torch.ones(3, 4)).pow(2).mean()
        other = model.body(torch.zeros(3, 4)).pow(2).mean()
        {
            "scaled": lambda: torch.amp.GradScaler("cpu", init_scale=8.0).scale(loss),
            "divided": lambda: loss / 4,
            "stacked": lambda: torch.stack([loss, other]).mean(),
            "summed": lambda: sum([loss, other]),
        }[way]().backward()
        run.log(loss=loss)

    assert roles(tmp_path / "run", body)["$loss"] == "loss"


def test_a_divisor_or_a_factor_is_no_loss(tmp_path: Path) -> None:
    def body(model: WithLoss, run: Any) -> None:
        scores = model.body(torch.ones(3, 4))
        spread, gate = scores.std(), scores.mean()
        loss = scores.pow(2).mean() / spread * gate
        loss.backward()
        run.log(loss=loss, spread=spread, gate=gate)

    found = roles(tmp_path / "run", body)
    assert (found["$loss"], found["$spread"], found["$gate"]) == ("loss", "value", "value")


@pytest.mark.parametrize("is_trained", [True, False])
def test_a_number_that_the_model_returns_is_a_loss_if_it_is_trained_on(tmp_path: Path, is_trained: bool) -> None:
    def body(model: WithLoss, run: Any) -> None:
        _, loss = model(torch.ones(3, 4))
        if is_trained:
            loss.backward()

    assert roles(tmp_path / "run", body)[".@out.1"] == ("loss" if is_trained else "value")


def test_a_role_that_the_user_states_stays(tmp_path: Path) -> None:
    def body(model: WithLoss, run: Any) -> None:
        run.tensor("regret", model.body(torch.ones(3, 4)).mean(), role="loss")

    assert roles(tmp_path / "run", body)["$regret"] == "loss"


def test_a_name_with_a_slash_is_found_as_typed(tmp_path: Path) -> None:
    def body(model: WithLoss, run: Any) -> None:
        loss = model.body(torch.ones(3, 4)).mean()
        loss.backward()
        run.log({"train/loss": loss, "a.b": loss * 1, "odd @ name": loss * 1})

    roles(tmp_path / "run", body)
    run = cutaway.load(tmp_path / "run")
    assert "$train/loss" in run.sites
    for name in ("train/loss", "a.b", "odd @ name"):
        assert run["$" + name].stats("mean").shape == (1,)
        assert run.at(0)["$" + name].stats["count"] == 1
        assert run.scalars[name].values.shape == (1,)
