"""The measuring code of recording on little data; the figures themselves are left to `make bench`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from benchmarks.peers.comgra import Comgra, from_notes
from benchmarks.recording import training_step, trainings
from benchmarks.recording.training_step import ATTACHED, CORE, DISK, FIRST, FULL, LINEAR, OVERALL, VALUES, Size, Watched

import cutaway

LITTLE = Size({"mlp": 3}, 2, 1, (10, 20), {}, ())


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


@pytest.fixture(scope="module")
def found() -> list[training_step.Figure]:
    return training_step.figures(LITTLE, from_notes("not asked"))


def test_every_figure_is_measured(found: list[training_step.Figure]) -> None:
    assert {figure.work for figure in found} == {
        *training_step.VARIANTS,
        DISK,
        training_step.EMPTY,
        FIRST,
        OVERALL,
        LINEAR,
    }
    assert all(figure.value > 0 for figure in found)
    chains = [figure.remark for figure in found if figure.work == LINEAR]
    assert [remark.split(" tensors")[0] for remark in chains] == ["28", "48"]  # outputs, input, loss, …, gradients


def test_figures_are_judged_by_their_aims_and_stand_beside_the_peer(found: list[training_step.Figure]) -> None:
    by_work = {figure.work: figure for figure in found}
    assert (by_work[ATTACHED].aim, by_work[CORE].aim) == (1.01, None)
    assert (by_work[CORE].peer, by_work[FULL].peer, by_work[VALUES].peer) == (16, 26, 117)
    assert training_step.AIMS["transformer", CORE] == 1.15


def test_a_peer_that_was_measured_comes_before_the_notes() -> None:
    peer = Comgra({"mlp": {"values": {"ratio": 3.0, "bytes": 5.0}}})
    assert peer.ratio("mlp", "values") == (3.0, "")
    assert peer.n_bytes("mlp", "values") == (5.0, "")
    assert peer.ratio("mlp", "statistics") == (16, "(notes)")


@pytest.mark.parametrize("name", trainings.TRAININGS)
def test_a_training_learns_and_is_recorded_as_it_runs(name: str, tmp_path: Path) -> None:
    training = trainings.TRAININGS[name]()
    watched = Watched(training, tmp_path / "run", {"every": 1})
    with watched.recorder:
        for _ in range(3):
            assert watched.by_thread() > 0
    run = cutaway.load(tmp_path / "run")
    loss = run.scalars["loss"].values
    assert loss[2] < loss[0]
    assert len(run) == watched.n_steps == 3
    n_parameters = len(list(training.model.parameters()))
    ofs = [row.of for row in run.at(-1).rows]
    assert ofs.count("update") == n_parameters
    assert ofs.count("grad") >= n_parameters


def test_a_step_that_is_attached_only_records_nothing_more(tmp_path: Path) -> None:
    watched = Watched(trainings.mlp(), tmp_path / "run", {"every": [0]}, logs=False)
    with watched.recorder:
        watched.step()
        watched.recorder.flush()
        n_bytes = watched.n_bytes()
        for _ in range(5):
            watched.step()
        watched.recorder.flush()
        assert watched.n_bytes() == n_bytes
