"""What a page is told of a run before it asks for numbers."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import warm_python
from tests.views.recordings import trained, written

import cutaway
from cutaway.layout.graph_view import plain
from cutaway.store.format.records import Row
from cutaway.store.reading.segment_reader import SegmentReader
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Writer
from cutaway.views.run.rows import RunRows
from cutaway.views.run.run_view import item_id, other_item, plain_data, run_item, run_view, structure_at

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x00\n"


@pytest.fixture
def run() -> Run:
    return trained()


def test_steps_kinds_and_rows_are_those_of_the_run(run: Run) -> None:
    view = run_view(RunRows(run))
    assert list(view.steps) == run.steps.tolist()
    assert [view.kinds[kind] for kind in view.kind_of] == [step.kind for step in run]
    assert [(row.site, row.of, row.iteration, row.role) for row in view.rows] == [
        (row.site, row.of, row.iteration, row.role) for row in RunRows(run).rows
    ]
    assert [row.row for row in view.rows] == list(range(len(view.rows)))
    assert view.statistics == run.statistics
    assert view.losses == ("guess",)
    assert view.scalars == tuple(run.scalars)
    assert set(view.sample_fields) == {"ids", "text", "tokens", "label", "image", "weight"}
    assert [(note.step, note.level, note.text) for note in view.notes] == [(2, "warning", "third\nstep")]
    assert view.config == {"lr": 0.01}
    assert view.environment["cutaway"] == cutaway.__version__
    assert view.iterations == (0,)
    assert view.lost == view.damage == view.sessions == ()


def test_every_step_knows_its_structure(run: Run) -> None:
    view = run_view(RunRows(run))
    hashes = [view.structures[number].hash if number >= 0 else "" for number in view.structure_of]
    assert hashes == [step.about.get("structure", "") for step in run] == [structure_at(run, s.step) for s in run]
    assert sum(one.n_steps for one in view.structures) == sum(number >= 0 for number in view.structure_of)
    for one in view.structures:
        assert one.from_step == min(step.step for step in run if step.about["structure"] == one.hash)
        assert set(one.kinds) == {step.kind for step in run if step.about["structure"] == one.hash}


def test_neither_statistics_nor_values_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("it was read")

    for name in ("raw", "matrix", "curve", "rows"):
        monkeypatch.setattr(SegmentReader, name, refuse)
    view = run_view(RunRows(cutaway.load(run.path)))
    assert len(view.steps) == len(run)


def test_all_of_it_is_json_whatever_the_run_holds(tmp_path: Path) -> None:
    rows = [Row(HOSTILE, role=HOSTILE, node=HOSTILE, part=HOSTILE, names=(HOSTILE * 2,))]
    with Writer(tmp_path / "run", kind="run") as writer:
        writer.document("config", {HOSTILE: [float("nan"), float("-inf"), b"bytes", {"a": {"b": [1, None, True]}}]})
        writer.document("environment", ["no", "map"])
        schema = writer.schema(rows, [HOSTILE])
        writer.step(0, schema=schema, kind=HOSTILE, matrix=np.ones((1, 1)), about={"structure": ["no text"]})
        writer.note(HOSTILE, step=0, level=HOSTILE)
        writer.scalars(0, {HOSTILE: 1.0})
    view = run_view(RunRows(cutaway.load(tmp_path / "run")), name=HOSTILE)
    text = json.dumps(plain(view), allow_nan=False)
    again = json.loads(text)
    assert again["rows"][0]["site"] == again["rows"][0]["node"] == again["scalars"][0] == HOSTILE
    assert again["config"][HOSTILE] == ["nan", "-inf", "5 bytes", {"a": {"b": [1, None, True]}}]
    assert again["environment"] == {}
    assert again["structure_of"] == [-1]


def test_data_that_is_nested_without_end_is_cut_off() -> None:
    deep: Any = "bottom"
    for _ in range(500):
        deep = [deep]
    assert "…" in json.dumps(plain_data(deep), ensure_ascii=False)


def test_an_id_is_safe_in_an_address_and_told_apart_by_the_name(run: Run) -> None:
    ids = {item_id(name) for name in ("base", "deep/base", HOSTILE, "", "\ud800")}
    assert len(ids) == 5
    assert all(id_.isalnum() and id_.isascii() and len(id_) == 12 for id_ in ids)
    assert (
        run_item(run, name="deep/base").id == item_id("deep/base") == run_view(RunRows(run), name="deep/base").item.id
    )


def test_the_item_counts_what_is_there(run: Run) -> None:
    item = run_item(run)
    assert (item.name, item.kind, item.state) == ("run", "run", "ended")
    assert (item.n_steps, item.last_step, item.n_tensors) == (len(run), run.steps[-1], len(run.sites))
    assert other_item("x", "runs/x", damage="it is damaged").damage == ("it is damaged",)
    assert other_item("t", "runs/t", kind="trace").state == "ended"


def test_a_run_is_live_until_it_ends_and_killed_if_its_writer_died(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "live", kind="run")
    schema = writer.schema([Row("a")], ["mean"])
    writer.step(0, schema=schema, matrix=np.ones((1, 1)))
    writer.flush()
    rows = RunRows(cutaway.load(tmp_path / "live"))
    assert run_view(rows).item.state == "live"
    writer.step(5, schema=schema, matrix=np.ones((1, 1)))
    writer.close()
    assert rows.refresh()
    view = run_view(rows)
    assert (view.item.state, view.steps, view.item.last_step) == ("ended", (0, 5), 5)
    code = (
        "import sys, time, numpy as np\n"
        "from cutaway.store.writing.writer import Writer\n"
        "from cutaway.store.format.records import Row\n"
        "w = Writer(sys.argv[1], kind='run')\n"
        "w.step(0, schema=w.schema([Row('a')], ['mean']), matrix=np.ones((1, 1)))\n"
        "w.flush(); print('ready', flush=True); time.sleep(60)\n"
    )
    with warm_python.start(["-c", code, str(tmp_path / "dead")]) as process:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGKILL)
    assert run_item(cutaway.load(tmp_path / "dead")).state == "killed"


def test_a_resumed_run_says_where_its_sessions_begin(tmp_path: Path) -> None:
    written(tmp_path / "run", [np.ones((1, 3))] * 6)
    with Writer(tmp_path / "run", kind="run", resume=True) as writer:
        schema = writer.schema([Row("t0")], ["mean"])
        for step in (4, 7):
            writer.step(step, schema=schema, matrix=np.ones((1, 1)))
    view = run_view(RunRows(cutaway.load(tmp_path / "run")))
    assert view.steps == (0, 1, 2, 3, 4, 7)
    assert view.sessions == (4,)


def test_an_empty_run_can_be_looked_at(tmp_path: Path) -> None:
    Writer(tmp_path / "run", kind="run").close()
    view = run_view(RunRows(cutaway.load(tmp_path / "run")))
    assert view.steps == view.rows == view.kinds == view.structures == ()
    assert view.item.last_step is None
