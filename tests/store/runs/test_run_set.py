"""Several runs at once: found, named, asked; one that is damaged spoils none of the others."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway import Run
from cutaway.core.errors import (
    AmbiguousSiteError,
    CutawayError,
    DamagedError,
    InputError,
    NotFoundError,
    SiteError,
    VersionError,
)
from cutaway.store.format.manifest import Head
from cutaway.store.format.records import Row
from cutaway.store.runs.run_set import Runs
from cutaway.store.writing.writer import Writer


def write(
    path: str | Path, number: float, *, sites: tuple[str, ...] = ("encoder.0", "encoder.1"), kind: str = ""
) -> None:
    with Writer(path, kind="run") as writer:
        schema = writer.schema([Row(site) for site in sites], ["mean", "std"])
        for step in range(4):
            writer.step(step, schema=schema, kind=kind, matrix=np.full((len(sites), 2), number + step))
            writer.scalars(step, {"loss": number, f"only/{number:g}": 0.0})


def loaded(*paths: str | Path) -> Runs:
    found = cutaway.load(*paths)
    assert isinstance(found, Runs)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(["base", "lr-1", "lr-2", "deep/er/one"]):
        write(tmp_path / "runs" / name, 10 * number)
    (tmp_path / "runs" / "notes.txt").write_text("not a run")
    (tmp_path / "runs" / "empty").mkdir()
    return tmp_path / "runs"


def test_every_run_below_a_folder_is_named_by_its_path(folder: Path) -> None:
    runs = loaded(folder)
    assert list(runs) == ["base", "deep/er/one", "lr-1", "lr-2"]
    assert (len(runs), "base" in runs, "x" in runs, runs.get("x")) == (4, True, False, None)
    assert isinstance(runs["lr-2"], Run)
    assert runs["lr-2"] is runs["lr-2"]
    assert runs["deep/er/one"]["encoder.0"].stats("mean").tolist() == [30, 31, 32, 33]
    assert repr(runs) == "<Runs: 4 (base, deep/er/one, lr-1, lr-2)>"
    with pytest.raises(NotFoundError, match=r"no run 'lr-3' at .*Nearest: 'lr-"):
        runs["lr-3"]


def test_patterns_and_several_paths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(loaded(folder / "lr-*")) == ["lr-1", "lr-2"]
    assert list(loaded(folder / "base", folder / "lr-1")) == ["base", "lr-1"]
    assert list(loaded(folder / "deep", folder / "deep/er/one")) == ["er/one", "one"]
    with pytest.raises(NotFoundError, match=r"no run matches '.*nothing-\*'"):
        cutaway.load(folder / "nothing-*")
    with pytest.raises(NotFoundError, match=r"no Cutaway archive at .*/bsae: it does not exist\. Nearest: '.*/base'"):
        cutaway.load(folder / "lr-1", folder / "bsae")
    monkeypatch.chdir(folder)
    assert list(loaded("lr-?")) == ["lr-1", "lr-2"]
    assert list(loaded(".")) == list(loaded(folder))
    with pytest.raises(NotFoundError):
        cutaway.load(folder / "empty")


def test_two_runs_of_one_name_are_both_there(tmp_path: Path) -> None:
    for number, name in enumerate(["a", "b"]):
        write(tmp_path / name / "base", number)
    runs = loaded(tmp_path / "a" / "base", tmp_path / "b" / "base")
    assert list(runs) == ["base", str(tmp_path / "b" / "base")]
    assert [run.scalars["loss"].values[0] for run in runs.values()] == [0, 1]


def test_a_folder_whose_name_looks_like_a_pattern_is_itself(tmp_path: Path) -> None:
    write(tmp_path / "run[1]*", 5)
    run = cutaway.load(tmp_path / "run[1]*")
    assert isinstance(run, Run)
    assert run.name == "run[1]*"


def test_curves_scalars_and_series_of_all(folder: Path) -> None:
    write(folder / "other", 40, sites=("decoder",), kind="long")
    runs = loaded(folder)
    curves = runs.curves("encoder.0", "std")
    assert {name: curve.values.tolist() for name, curve in curves.items()} == {
        name: [number, number + 1, number + 2, number + 3]
        for name, number in (("base", 0), ("deep/er/one", 30), ("lr-1", 10), ("lr-2", 20))
    }
    assert {name: series.site for name, series in runs.series("decoder").items()} == {"other": "decoder"}
    assert {name: curve.values[0] for name, curve in runs.scalars("loss").items()} == {
        "base": 0, "deep/er/one": 30, "lr-1": 10, "lr-2": 20, "other": 40,
    }  # fmt: skip
    assert list(runs.scalars("only/40")) == ["other"]
    assert runs.damage == {}
    assert list(runs.curves("decoder", "std", kind="long")) == ["other"]
    assert runs.curves("encoder.0", "std", kind="long") == {}
    with pytest.raises(SiteError, match="none of the 5 runs has 'value' of 'zebra'"):
        runs.series("zebra")
    with pytest.raises(SiteError, match="none of the 5 runs has 'grad' of 'decoder'"):
        runs.series("decoder", of="grad")
    with pytest.raises(AmbiguousSiteError, match="matches 2 tensors"):
        runs.series("encoder.*")
    with pytest.raises(NotFoundError, match=r"none of the 5 runs logged 'lss'. Logged scalars: 'loss'"):
        runs.scalars("lss")
    table = runs.table("mean", at="encoder.*")
    assert table.columns.tolist() == ["run", "step", "kind", "site", "iteration", "pass", "mean"]
    assert (len(table), sorted(set(table.run))) == (4 * 2 * 4, ["base", "deep/er/one", "lr-1", "lr-2"])
    assert table[(table.run == "lr-1") & (table.site == "encoder.1")]["mean"].tolist() == [10, 11, 12, 13]
    with pytest.raises(InputError, match=r"none of the 5 runs has the statistic 'zebra'\. They have: mean, std"):
        runs.table("zebra")


def test_a_run_that_appears_later_is_found(folder: Path) -> None:
    runs = loaded(folder)
    base = runs["base"]
    assert runs.refresh() is False
    write(folder / "new", 50)
    assert runs.refresh() is True
    assert runs["base"] is base, "what was opened stays open"
    assert "new" in runs.curves("encoder.0", "mean")
    with Writer(folder / "base", kind="run", resume=True) as writer:
        writer.step(9, schema=writer.schema([Row("encoder.0")]))
    assert runs.refresh() is True
    assert base.steps.tolist() == [0, 1, 2, 3, 9]
    shutil.rmtree(folder / "new")
    assert runs.refresh() is True
    assert "new" not in runs


def _no_index(run: Path) -> None:
    (run / "cutaway.json").unlink()
    (run / "rank-0" / "0001.index").write_bytes(b"?" * 64)


def _no_head(run: Path) -> None:
    (run / "cutaway.json").write_text("{")
    (run / "rank-0" / "0001.index").write_bytes(b"")


def _later_version(run: Path) -> None:
    (run / "cutaway.json").write_bytes(Head("run", "", "", 2).packed())


def _no_statistics(run: Path) -> None:
    for path in (run / "rank-0").glob("*-s*"):
        path.unlink()


DAMAGES = {_no_index: DamagedError, _no_head: DamagedError, _later_version: VersionError, _no_statistics: DamagedError}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_one_damaged_run_spoils_none_of_the_others(
    folder: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(folder / "lr-1")
    runs = loaded(folder)
    assert list(runs) == ["base", "deep/er/one", "lr-1", "lr-2"]
    others = ["base", "deep/er/one", "lr-2"]
    with caplog.at_level(logging.WARNING):
        assert list(runs.curves("encoder.0", "mean")) == others
    assert sorted(set(runs.table("mean").run)) == others
    assert set(others) <= set(runs.scalars("loss"))
    assert list(runs.damage) == ["lr-1"]
    assert "skipped" in caplog.text
    with pytest.raises(DAMAGES[damage]):
        runs["lr-1"]["encoder.0"].stats("mean")
    runs.refresh()


def test_traces_and_other_folders_are_no_runs(folder: Path) -> None:
    with Writer(folder / "net.trace", kind="trace") as writer:
        writer.document("x", 1)
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to(folder / "base")
    (folder / "out").symlink_to("/")
    assert list(loaded(folder)) == ["base", "deep/er/one", "lr-1", "lr-2"]
    runs = Runs([str(folder / "net.trace")])
    assert len(runs) == 0


def test_a_run_without_its_head_is_found_all_the_same(folder: Path) -> None:
    (folder / "lr-1" / "cutaway.json").unlink()
    runs = loaded(folder)
    assert "lr-1" in runs.curves("encoder.0", "mean")
    assert runs["lr-1"].damage == ("cutaway.json is missing.",)


def test_a_path_in_memory_holds_what_it_holds() -> None:
    write("memory://several/a", 1)
    found = cutaway.load("memory://several/a")
    assert isinstance(found, Run)
    assert list(loaded("memory://several/a", "memory://several/a")) == ["a"]
    with pytest.raises(CutawayError, match=r"it is empty or does not exist"):
        cutaway.load("memory://several/nothing")
