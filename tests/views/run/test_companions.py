"""Tokens, outputs and targets of one sample, held against the run itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.views.recordings import LENGTH, one_thread, trained
from torch import nn

import cutaway
from cutaway.views.run.companions import Companion
from cutaway.views.run.rows import RunRows
from cutaway.views.run.tensor_view import tensor_view

WORDS = ["a", "b", "c", "d", "e"]


@pytest.fixture
def rows() -> RunRows:
    return RunRows(trained())


def number(rows: RunRows, site: str, of: str = "value", iteration: int = 0) -> int:
    found = rows.number(site, of, iteration)
    assert found is not None
    return found


def test_tokens_have_a_number_each(rows: RunRows) -> None:
    view = tensor_view(rows, number(rows, "h.2"), step=3, sample=1)
    value = rows.run.at(3)["h.2"].value[1].astype(float)  # (token, unit)
    assert view.tokens is not None
    assert len(view.tokens.tokens) == LENGTH
    assert view.tokens.measures == ("mean", "norm", "max")
    np.testing.assert_allclose(view.tokens.values, [value.mean(1), np.linalg.norm(value, axis=1), value.max(1)])
    assert tensor_view(rows, number(rows, "$target"), step=3, sample=1).tokens is None
    assert tensor_view(rows, number(rows, "$margin"), step=3, sample=1).tokens is not None


def test_output_and_target_of_the_same_sample_stand_beside(rows: RunRows) -> None:
    view = tensor_view(rows, number(rows, "h.2"), step=3, sample=1)
    assert [(one.role, one.site) for one in view.companions] == [("output", "head"), ("target", "$target")]
    assert view.companions[1].text == str(rows.run.at(3)["$target"].value[1])
    assert tensor_view(rows, number(rows, "h.2"), step=3).companions == ()
    assert view.companions[0].verdict == ""  # scores of each token, one target


class Looker(nn.Module):
    """Weights of attention, and scores of each token."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Softmax(-1)
        self.head = nn.Linear(5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        looks = self.weights(x[:, None] * torch.tensor([1.0, 2, 3])[:, None, None])
        found: torch.Tensor = self.head(looks.mean(1))
        return found


def test_where_tokens_look_at_tokens_each_is_told_how_much_it_is_looked_at(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Looker()
    with one_thread(), cutaway.record(tmp_path / "run", model, every=1, samples=2) as run, run.step():
        model(torch.randn(3, 5, 5))
        run.samples(tokens=[WORDS, WORDS[:4], WORDS])
    rows = RunRows(cutaway.load(tmp_path / "run"))
    looks = rows.run.at(0)["weights"].value  # (sample, head, query, key)
    for tile, of_head in ((None, slice(None)), (2, slice(2, 3)), (9, slice(None))):
        for sample, n in ((0, 5), (1, 4)):
            view = tensor_view(rows, number(rows, "weights"), step=0, sample=sample, tile=tile)
            assert view.tokens is not None
            assert (view.tokens.measures, view.tokens.is_square) == (("attention received",), True)
            expected = looks[sample, of_head, :n, :n].astype(float).mean((0, 1))
            np.testing.assert_allclose(view.tokens.values[0], expected)
    assert "heads 1–3 of 3" in tensor_view(rows, number(rows, "weights"), step=0).picture.image.caption  # type: ignore[union-attr]


class Rounds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.Linear(7, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = self.cell(torch.cat([x, state], 1))
        return state, self.out(state)


def test_of_a_network_that_runs_in_rounds_the_output_is_that_of_the_round(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Rounds()
    with one_thread(), cutaway.record(tmp_path / "run", model, every=1, samples=2) as run, run.step():
        x, state = torch.randn(4, 3), torch.zeros(4, 4)
        for _ in range(3):
            with run.iteration():
                state, scores = model(x, state)
        run.tensor("class", scores.argmax(1), role="target")
        run.tensor("wanted", state + 0.5, role="target")
    rows = RunRows(cutaway.load(tmp_path / "run"))
    step = rows.run.at(0)

    def companions(site: str, iteration: int) -> dict[str, Companion]:
        view = tensor_view(rows, number(rows, site, iteration=iteration), step=0, sample=1)
        assert [one.role for one in view.companions] == ["output", "output", "target", "target"]
        return {one.site: one for one in view.companions}

    for site, iteration, shown in (("cell", 2, 2), ("cell", 3, 3), ("out.weight", 0, 3), ("$class", 0, 3)):
        found = companions(site, iteration)
        moment = step["out"].other("value", iteration=shown)
        assert moment is not None
        assert rows.row(found["out"].row).iteration == shown
        assert found["out"].text == "[" + ", ".join(f"{value:.4g}" for value in moment.value[1]) + "]"
    wanted = int(step["$class"].value[1])
    last = companions("cell", 3)
    assert last["$class"].text == str(wanted)
    assert last["out"].verdict == f"prediction {wanted}, correct: $class is {wanted}"
    assert next(one.verdict for one in last.values() if one.shape == (4,)) == "mean absolute difference to $wanted: 0.5"
