"""What a step gives to the writer, as every reader finds it: exact numbers of elements, and names as typed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway.cli import main
from cutaway.recording.statistics.summary import Summary
from cutaway.store.exports.export import export
from cutaway.store.runs.run import Run
from cutaway.views.run.arrangement import Arrangement, dependencies_of
from cutaway.views.run.rows import RunRows
from cutaway.views.run.tensor_view import tensor_view

COUNTS = [(1 << 24) + 1, 12, (1 << 31) + 3]
"""The number of elements of a tensor in each step; float32 rounds the first and the last."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    model = nn.Linear(3, 2)
    with cutaway.record(tmp_path / "run", model, every=1) as recorder:
        for count in COUNTS:
            with recorder.step():
                model(torch.ones(4, 3)).sum().backward()
                # A meta tensor has a size, but needs no memory.
                recorder.tensor("large", torch.empty(count, device="meta"))
    found = cutaway.load(tmp_path / "run")
    assert isinstance(found, Run)
    return found


def test_large_numbers_of_elements_are_read_exactly(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run["$large"].stats("count").tolist() == COUNTS
    assert run["$large"].curve("count").values.tolist() == COUNTS
    assert [run.at(step)["$large"].stats["count"] for step in range(3)] == COUNTS
    assert run["."].stats("count").tolist() == [8, 8, 8]
    assert [row["count"] for row in run["$large"].records(["count"])] == COUNTS
    rows = RunRows(run)
    number = rows.number("$large")
    assert number is not None
    shown = [tensor_view(rows, number, step=step).statistics for step in range(3)]
    assert [each.value for view in shown for each in view if each.name == "count"] == COUNTS
    main(["query", str(run.path), "$large", "--stat", "count"])
    assert [int(line.split()[1]) for line in capsys.readouterr().out.splitlines()[1:]] == COUNTS
    main(["query", str(run.path), "$large", "--stat", "count", "--json"])
    assert json.loads(capsys.readouterr().out)["curves"][0]["values"] == COUNTS
    main(["query", str(run.path), "$large", "--at-step", "2", "--stat", "count"])
    assert capsys.readouterr().out.split()[-1] == str(COUNTS[2])


def test_only_steps_that_need_it_take_twice_the_room(run: Run) -> None:
    assert [run.at(step).matrix.dtype for step in range(3)] == [np.float64, np.float32, np.float64]


def test_large_numbers_of_elements_are_exported_exactly(run: Run, tmp_path: Path) -> None:
    export(run.path, tmp_path / "csv", format="csv", what="statistics", at="$large")
    with open(tmp_path / "csv" / "statistics.csv", newline="") as file:
        assert [float(row["count"]) for row in csv.DictReader(file)] == COUNTS
    export(run.path, tmp_path / "npy", format="npy", what="statistics", at="$large")
    about = json.loads((tmp_path / "npy" / "statistics.json").read_text())
    statistics = np.load(tmp_path / "npy" / "statistics.npy")
    assert statistics[0, about["statistics"].index("count")].tolist() == COUNTS


def test_in_full_statistics_large_numbers_of_zeros_are_exact() -> None:
    for level, dtype in (("core", np.float32), ("full", np.float64)):
        summary = Summary(level)
        summary.add(torch.empty(1 << 25, device="meta"))  # exact in float32, but its number of zeros need not be
        assert summary.matrix().dtype == dtype


class _Naming(nn.Module):
    """Names a tensor twice, and another once."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(3, 3)
        self.decoder = nn.Linear(3, 3)
        self.run: Any = None

    def forward(self, x: Tensor) -> Tensor:
        state = self.encoder(x) * 2
        self.run.tensor("m/state.x", state)
        self.run.tensor("a/b", state + 1)
        state = self.decoder(state) * 3
        self.run.tensor("m/state.x", state)
        return state


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_names_with_slashes_and_dots_are_found_as_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = _Naming()
    at, unit_dim = ["encoder", "$a/b", "$m/state.x"], {"$m/state.x": 0}
    with cutaway.record(tmp_path / "run", model, every=1, at=at, unit_dim=unit_dim, statistics="full") as recorder:
        model.run = recorder
        recorder.arrange("$m/state.x", label="the state")
        recorder.link("$a/b", "$m/state.x:2")
        with recorder.step():
            model(torch.ones(4, 3)).sum().backward()
    run = cutaway.load(tmp_path / "run")
    assert isinstance(run, Run)
    assert run.problems == ()
    assert run["$a/b"].stats("count").tolist() == [12]
    assert "$m/state.x" in run
    assert run["$m/state.x"].n_passes == 2
    assert run["$m/state.x:2"].stats("mean") == run["$m/state.x"].stats("mean")[:, 1]
    assert run.at(0)["$m/state.x:2"].other("unit").shape == (5, 4)  # unit_dim=0
    for asked in ("$a/b", "$m/state.x", "$m/state.x:2"):
        assert main(["query", str(run.path), asked, "--stat", "count"]) == 0
    export(run.path, tmp_path / "csv", format="csv", what="statistics", at="$m/state.x")
    rows = RunRows(run)
    graph, *_ = dependencies_of(rows, None)
    links = {(link.parent, link.child, link.is_manual) for link in graph.links}
    first, second = "$m/state%2Ex:1", "$m/state%2Ex:2"
    assert links == {
        ("encoder", first, False), (first, "$a/b", False), (first, second, False), ("$a/b", second, True)
    }  # fmt: skip
    labels = Arrangement(run.documents["arrangement"])
    assert [labels.label(node) for node in graph.nodes if node.name in (first, second)] == ["the state"] * 2


def test_a_name_in_at_that_never_comes_is_reported_as_typed(tmp_path: Path) -> None:
    def record() -> None:
        model = nn.Linear(3, 2)
        at = [".", "$train/los", "$logits"]
        with cutaway.record(tmp_path / "run", model, every=1, at=at) as run, run.step():
            logits = model(torch.ones(4, 3))
            run.tensor("logits", logits)  # the output of a module has its name, too
            run.tensor("train/loss", logits.sum())

    with pytest.warns(RuntimeWarning, match=r"at='\$train/los' matches no tensor of the run.*'\$train/loss'") as caught:
        record()
    assert len(caught) == 1
