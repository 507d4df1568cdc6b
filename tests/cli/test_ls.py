"""`cutaway ls`."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from tests.cli.conftest import Ask
from tests.store.collected import collection
from tests.store.recorded import OPTIONS, STEPS, fill, record, record_and_be_killed
from tests.store.saved_results import ranking

import cutaway
from cutaway.store.format.manifest import Head
from cutaway.store.writing.writer import Writer


def test_archives_below_a_folder_are_listed_with_their_state(ask: Ask, base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "deep" / "er" / "ended")
    record_and_be_killed(tmp_path / "killed")
    cutaway.trace(torch.nn.Linear(3, 2), torch.ones(1, 3)).save(tmp_path / "net.trace")
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "cutaway.json").write_bytes(Head("run", "1", "now", version=99).packed())
    with Writer(tmp_path / "live", kind="run", options=OPTIONS) as writer:
        fill(writer, STEPS[:4])
        answer = ask("ls", tmp_path, "--json")
    assert answer.code == 0
    found = {one["name"]: one for one in answer.document["archives"]}
    assert {name: one["state"] for name, one in found.items()} == {
        "deep/er/ended": "ended",
        "killed": "killed",
        "live": "live",
        "net.trace": "ended",
        "strange": "unreadable",
    }
    ended = found["deep/er/ended"]
    files = [file for file in (tmp_path / "deep" / "er" / "ended").rglob("*") if file.is_file()]
    assert ended["n_bytes"] == sum(file.stat().st_size for file in files)
    assert (ended["kind"], ended["n_steps"], ended["last_step"]) == ("run", len(STEPS), STEPS[-1])
    assert ended["kinds"] == ["short", "long"]
    assert ended["n_tensors"] == 4
    assert found["net.trace"]["kind"] == "trace"
    assert found["net.trace"]["n_tensors"] > 2
    assert "version 99" in found["strange"]["damage"][0]
    lines = ask("ls", tmp_path).lines
    assert lines[0].split() == ["name", "kind", "steps", "last", "kinds", "tensors", "size", "started", "state"]
    assert {line.rindex(" ") + 1 for line in lines[:6]} == {lines[0].index("state")}


def test_one_run_can_be_named_itself_and_is_listed_once(ask: Ask, base: Path) -> None:
    names = [one["name"] for one in ask("ls", base, base.parent, "--json").document["archives"]]
    assert names == ["base"]


def test_a_run_whose_head_is_lost_is_listed_with_its_problem(ask: Ask, tmp_path: Path) -> None:
    record(tmp_path / "base", STEPS[:3])
    (tmp_path / "base" / "cutaway.json").unlink()
    (one,) = ask("ls", tmp_path / "base", "--json").document["archives"]
    assert one["n_steps"] == 3
    assert one["damage"]


def test_activations_are_listed_with_their_sites_also_when_nothing_is_in_them(ask: Ask, tmp_path: Path) -> None:
    collection(tmp_path / "acts")
    Writer(tmp_path / "begun", kind="activations", options=OPTIONS).close()
    found = {one["name"]: one for one in ask("ls", tmp_path, "--json").document["archives"]}
    assert (found["acts"]["kind"], found["acts"]["n_tensors"], found["acts"]["damage"]) == ("activations", 3, [])
    assert (found["begun"]["kind"], found["begun"]["n_tensors"]) == ("activations", None)
    assert "without a description" in found["begun"]["damage"][0]


def test_results_are_listed_with_their_type_also_when_they_are_not_whole(ask: Ask, tmp_path: Path) -> None:
    ranking().save(tmp_path / "verbs")
    Writer(tmp_path / "begun", kind="result", options=OPTIONS).close()
    found = {one["name"]: one for one in ask("ls", tmp_path, "--json").document["archives"]}
    verbs = found["verbs"]
    assert (verbs["kind"], verbs["kinds"], verbs["state"], verbs["damage"]) == ("result", ["Ranking"], "ended", [])
    assert verbs["n_tensors"] > 20
    assert (found["begun"]["kind"], found["begun"]["kinds"]) == ("result", [])
    assert "not saved completely" in found["begun"]["damage"][0]
