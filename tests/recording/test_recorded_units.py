"""Units and samples of recorded tensors: the same as in a trace, whatever the sizes are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.store.test_golden import GOLDEN
from torch import Tensor, nn

import cutaway

PER_UNIT = ("mean", "std", "min", "max", "zero_share")


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.arms = nn.ModuleList([nn.Conv2d(3, 8, 1), nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(3, 16, 5, padding=2)])

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([arm(x) for arm in self.arms], 1)


class Heads(nn.Module):
    """Heads folded into the batch, as `nn.MultiheadAttention` does inside."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(8, 12)
        self.fold = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # (batch, token, 8)
        n, t, _ = x.shape
        folded: Tensor = self.fold(self.q(x).view(n, t, 3, 4).transpose(1, 2).reshape(n * 3, t, 4))
        return folded


class SequenceFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.lstm(x)[0]
        return result


def rows_of(value: np.ndarray, units: tuple[int, ...]) -> np.ndarray:
    """(unit, everything else), by plain indexing."""
    moved = np.moveaxis(value, units, range(len(units)))
    return moved.reshape(int(np.prod(moved.shape[: len(units)])), -1)


Case = tuple[Callable[[], nn.Module], tuple[int, ...], dict[str, Callable[[np.ndarray], np.ndarray]]]

CASES: dict[str, Case] = {
    # The table: samples, time steps and image columns posed as units.
    "batch_norm": (
        lambda: nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6)),
        (4, 8),
        {"0": lambda v: rows_of(v, (1,)), "1": lambda v: rows_of(v, (1,))},
    ),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(3, 5, 3), nn.ReLU()), (4, 3, 12), {"1": lambda v: rows_of(v, (1,))}),
    "conv2d": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), (4, 3, 12, 12), {"1": lambda v: rows_of(v, (1,))}),
    "conv3d": (
        lambda: nn.Sequential(nn.Conv3d(3, 5, 3), nn.ReLU()),
        (4, 3, 6, 6, 6),
        {"1": lambda v: rows_of(v, (1,))},
    ),
    "inception": (Inception, (2, 3, 9, 9), {".": lambda v: rows_of(v, (1,))}),
    "flatten": (
        lambda: nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(8, 3)),
        (5, 3, 4, 4),
        {"1": lambda v: rows_of(v, (1,))},
    ),
    "heads": (Heads, (2, 5, 8), {"fold": lambda v: rows_of(v.reshape(2, 3, 5, 4), (1, 3))}),
    "sequence_first": (SequenceFirst, (7, 2, 3), {"lstm@out.0": lambda v: rows_of(v, (2,))}),
}


@pytest.mark.parametrize("name", CASES)
def test_tables_of_units_are_those_of_plain_indexing(name: str, tmp_path: Path) -> None:
    make, shape, sites = CASES[name]
    torch.manual_seed(0)
    model, x = make(), torch.randn(shape)
    with cutaway.record(tmp_path / "run", model, every=1, statistics="full", samples=64) as run:
        for _ in range(2):  # the first step is traced, the second uses what that told
            with run.step():
                model(x).square().mean().backward()
    loaded = cutaway.load(tmp_path / "run")
    assert [note.text for note in loaded.notes] == []
    trace = cutaway.trace(model, x)
    for step in (loaded.at(0), loaded.at(1)):
        for site, rows in sites.items():
            value = step[site].value
            table = step[site].other("unit").value
            expected = rows(value.astype(np.float64))
            by_hand = [expected.mean(1), expected.std(1), expected.min(1), expected.max(1), (expected == 0).mean(1)]
            assert table.shape == (5, len(expected)) == (5, trace[site].unit_layout.n_units)
            np.testing.assert_allclose(table, by_hand, rtol=1e-4, atol=1e-5)


def test_gradients_have_the_units_of_their_values(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True)), torch.randn(4, 3, 12, 12)
    with cutaway.record(tmp_path / "run", model, every=1, statistics="full", samples=4) as run:
        with run.step():
            model(x).square().mean().backward()
    step = cutaway.load(tmp_path / "run").at(0)
    for site in ("0", "1"):  # the first is overwritten by the second before its layout is known
        grad = step[site].grad
        np.testing.assert_allclose(grad.other("unit/grad").value[0], grad.value.mean((0, 2, 3)), rtol=1e-4, atol=1e-7)
        assert step[site].other("unit").value.shape == (5, 8)
    first = nn.functional.conv2d(x, model[0].weight, model[0].bias).detach()
    np.testing.assert_array_equal(step["0"].value, first)


def test_samples_are_kept_along_the_dimension_that_the_model_never_computes_across(tmp_path: Path) -> None:
    model, x = SequenceFirst(), torch.randn(7, 4, 3)
    with cutaway.record(tmp_path / "run", model, every=1, samples=2) as run:
        for _ in range(2):
            with run.step():
                model(x).sum().backward()
    step = cutaway.load(tmp_path / "run").at(1)
    np.testing.assert_array_equal(step[".@in.0"].value, x[:, :2])
    np.testing.assert_array_equal(step["lstm@out.0"].value, model(x)[:, :2].detach())
    assert step["lstm@out.1.0"].value.shape == (1, 2, 5)


class Flat(nn.Module):
    """Tokens of all samples in one dimension, as in a mixture of experts."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.act = nn.Linear(3, 5), nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # (batch, token, 3)
        flat: Tensor = self.act(self.up(x.reshape(-1, 3)))
        return flat.view(*x.shape[:2], 5)


def test_samples_and_tokens_in_one_dimension_are_told_apart_at_every_step(tmp_path: Path) -> None:
    model = Flat()
    shapes = [(2, 6), (3, 4), (4, 6)]  # as many rows in the second as in the first
    xs = [torch.randn(*shape, 3) for shape in shapes]
    with cutaway.record(tmp_path / "run", model, every=1, samples=1) as run:
        for x in xs:
            with run.step():
                model(x).sum().backward()
    loaded = cutaway.load(tmp_path / "run")
    for number, (x, (n, t)) in enumerate(zip(xs, shapes, strict=True)):
        step, plain = loaded.at(number), model(x).detach().numpy()
        np.testing.assert_array_equal(step["act"].value, plain[0])
        assert step["act"].value.shape == (t, 5)
        np.testing.assert_allclose(step["act"].stats["batch_std"], plain.std(0).mean(), rtol=1e-5)
        assert step.about["batch_size"] == n


def test_the_batch_size_is_that_of_the_dimension_that_counts_samples(tmp_path: Path) -> None:
    model = SequenceFirst()
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for n in (4, 5):
            with run.step():
                model(torch.randn(7, n, 3)).sum().backward()
    loaded = cutaway.load(tmp_path / "run")
    assert [loaded.at(number).about["batch_size"] for number in (0, 1)] == [4, 5]


def test_parameters_have_output_units(tmp_path: Path) -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.layer = nn.Embedding(7, 5), nn.Linear(5, 3)
            self.matrix = nn.Parameter(torch.randn(3, 4))

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.layer(self.table(x)) @ self.matrix
            return result

    model = Product()
    with cutaway.record(tmp_path / "run", model, every=1, statistics="full") as run:
        for _ in range(2):
            with run.step():
                model(torch.arange(6).view(2, 3)).sum().backward()
    step = cutaway.load(tmp_path / "run").at(1)
    widths = {site: step[site].other("unit").value.shape[1] for site in ("table.weight", "layer.weight", "matrix")}
    assert widths == {"table.weight": 5, "layer.weight": 3, "matrix": 4}
    np.testing.assert_allclose(
        step["matrix"].other("unit").value[0], model.matrix.detach().numpy().mean(0), rtol=1e-5, atol=1e-7
    )


class Largest(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x.topk(2).values


def test_what_the_graph_does_not_tell_has_no_table_and_one_note(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 6), Largest())
    with cutaway.record(tmp_path / "run", model, every=1, statistics="full") as run:
        for _ in range(3):
            with run.step():
                model(torch.randn(3, 4)).sum().backward()
    loaded = cutaway.load(tmp_path / "run")
    (note,) = loaded.notes
    assert "the unit dimension of '1' is unknown" in note.text
    assert "unit_dim=" in note.text
    assert "unit" not in loaded["1"].has
    assert loaded.at(0)["0"].other("unit").value.shape == (5, 6)


def test_the_user_can_state_units(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 6), Largest())
    with cutaway.record(tmp_path / "run", model, every=1, statistics="full", unit_dim={"1": 1}) as run:
        for _ in range(2):
            with run.step():
                result = model(torch.randn(3, 4))
                run.tensor("free", torch.randn(3, 5, 7), unit_dim=1, batch_dim=0)
                result.sum().backward()
    loaded = cutaway.load(tmp_path / "run")
    assert [note.text for note in loaded.notes] == []
    for step in (loaded.at(0), loaded.at(1)):
        assert step["1"].other("unit").value.shape == (5, 2)
        assert step["$free"].other("unit").value.shape == (5, 5)
        assert step["$free"].other("samples").value.shape == (4, 3)


def test_a_run_that_is_not_traced_says_how_samples_were_taken(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv1d(3, 5, 3), nn.ReLU())
    with cutaway.record(tmp_path / "run", model, every=1, statistics="full", samples=2, graph=False) as run:
        with run.step():
            model(torch.randn(4, 3, 12)).sum().backward()
    loaded = cutaway.load(tmp_path / "run")
    notes = [note.text for note in loaded.notes]
    assert any("was not traced" in text and "dimension 0" in text for text in notes)
    step = loaded.at(0)
    assert step["0"].other("unit").value.shape == (5, 5)  # torch's own layer knows
    assert "unit" not in loaded["1"].has
    assert step["1"].value.shape == (2, 5, 10)


def test_runs_of_older_versions_are_marked(tmp_path: Path) -> None:
    assert cutaway.load(GOLDEN / "run").unit_rule == "sizes"
    with cutaway.record(tmp_path / "run", nn.Linear(2, 2), every=1) as run:
        with run.step():
            pass
    assert cutaway.load(tmp_path / "run").unit_rule == "graph"
