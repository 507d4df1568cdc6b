"""Statistics of a device are gathered, and are those of the moment at which each tensor was recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway.recording.statistics import held_tensors
from cutaway.recording.statistics.summary import Summary


class Overwriting(nn.Module):
    """Some outputs are overwritten: by a module, by an op, without a version counter, and in a later step alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))
        self.relu = nn.ReLU(inplace=True)
        self.n_calls = 0

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.layers[0](x))
        x = self.layers[1](x)
        x += 1
        x = self.layers[2](x)
        x.data.mul_(3)
        x = self.layers[3](x)
        self.n_calls += 1
        if self.n_calls > 2:
            x.mul_(5)
        return self.layers[4](x)


def record(path: Path, n_steps: int = 4, model: Callable[[], nn.Module] = Overwriting, **options: Any) -> Any:
    torch.manual_seed(0)
    net, x = model(), torch.randn(8, 6)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with cutaway.record(path, net, every=1, **options) as run:
        for _ in range(n_steps):
            with run.step():
                net(x).pow(2).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    return cutaway.load(path)


def by_row(step: Any) -> dict[tuple[str, str], np.ndarray]:
    """The statistics of each row."""
    rows = zip(step.rows, np.asarray(step.matrix), strict=True)
    return {(row.site, row.of): values for row, values in rows if not row.of.startswith(("unit", "samples"))}


@pytest.mark.parametrize("statistics", ["core", "full"])
def test_outputs_are_read_before_they_are_overwritten(
    statistics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = record(tmp_path / "here", statistics=statistics)
    monkeypatch.setattr(Summary, "on_host", frozenset())
    there = record(tmp_path / "there", statistics=statistics)
    for number in range(4):
        left, right = by_row(here.at(number)), by_row(there.at(number))
        lost = {("layers.3", "value")} if number == 2 else set()  # overwritten for the first time
        assert left.keys() == right.keys()
        for row in left.keys() - lost:
            np.testing.assert_allclose(right[row], left[row], rtol=1e-4, atol=1e-6, err_msg=f"{number} {row}")
    assert np.isnan(there.at(2)["layers.3"].stats["mean"])
    assert [note.text for note in there.notes if "overwrote" in note.text] == [
        "statistics of 'layers.3' are missing in this step: the program overwrote the tensors in place, which it had "
        "not done in earlier recorded steps; from now on their statistics are taken at once"
    ]
    assert not [note for note in here.notes if "overwrote" in note.text]


def test_only_tensors_that_are_overwritten_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Summary, "on_host", frozenset())
    copied: list[tuple[int, bool]] = []
    add = held_tensors.HeldTensors.add

    def counted(self: Any, number: int, tensor: Tensor, dims: Any, stream: int, *, is_stable: bool) -> bool:
        copied.append((tensor.numel(), is_stable))
        return add(self, number, tensor, dims, stream, is_stable=is_stable)

    monkeypatch.setattr(held_tensors.HeldTensors, "add", counted)
    model = lambda: nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 6))  # noqa: E731
    record(tmp_path / "run", 1, model=model)
    copied.clear()
    record(tmp_path / "more", 3, model=model, parameters=False, updates=False, gradients=False)
    in_last_step = copied[-5:]  # the input, and four outputs of which two are one tensor
    assert [is_stable for _, is_stable in in_last_step].count(False) == 1
