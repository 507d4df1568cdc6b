"""`cutaway info`."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from tests.cli.conftest import Ask
from tests.store.collected import collection
from tests.store.recorded import STATISTICS, STEPS, loss_of, record
from tests.store.saved_results import ranking

import cutaway
from cutaway.store.writing.writer import Writer


def test_a_run_is_told_whole(ask: Ask, base: Path) -> None:
    found = ask("info", base, "--json").document
    assert found["kinds"]["long"] == {"n_steps": 10, "first_step": 5, "last_step": 95}
    assert found["statistics"] == list(STATISTICS)
    assert found["config"] == {"optimizer": {"lr": 0.1, "name": "sgd"}, "layers": [1, 2]}
    assert found["environment"] == {"torch": "2.9"}
    assert found["scalars"]["loss"] == {"n_points": len(STEPS), "last_step": 95, "last": loss_of(95)}
    assert found["n_notes"] == 2
    assert found["state"] == "ended"
    assert found["n_bytes"] == sum(file.stat().st_size for file in base.rglob("*") if file.is_file())
    assert sum(found["sizes"].values()) == found["n_bytes"]
    text = ask("info", base).out
    for word in ("optimizer.lr = 0.1", "torch = 2.9", "loss", "short", "mean, std, max", "was closed", "2 (1 warn"):
        assert word in text, word


def test_a_resume_shows_sessions_and_shadowed_steps(ask: Ask, base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "base")
    record(tmp_path / "base", (60, 65), resume=True)
    found = ask("info", tmp_path / "base", "--json").document
    assert [one["number"] for one in found["sessions"]] == [1, 2]
    assert found["n_shadowed"] == len([step for step in STEPS if step >= 60])
    assert found["n_steps"] == len([step for step in STEPS if step < 60]) + 2


def test_a_trace_shows_its_summary(ask: Ask, tmp_path: Path) -> None:
    trace = cutaway.trace(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), torch.ones(1, 3))
    trace.save(tmp_path / "net")
    answer = ask("info", tmp_path / "net")
    assert answer.code == 0
    assert "Trace of Sequential: 2 ops" in answer.out
    assert "Trace of Sequential" in ask("info", tmp_path / "net", "--json").document["summary"][0]


def test_problems_are_told(ask: Ask, base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "base")
    index = tmp_path / "base" / "rank-0" / "0001.index"
    data = bytearray(index.read_bytes())
    data[len(data) // 2] ^= 1
    index.write_bytes(data)
    assert "damage: rank-0/0001.index" in ask("info", tmp_path / "base").out


def test_a_folder_of_several_says_what_to_do(ask: Ask, base: Path, tmp_path: Path) -> None:
    for name in "ab":
        shutil.copytree(base, tmp_path / name)
    answer = ask("info", tmp_path)
    assert answer.code == 2
    assert "holds 2 archives" in answer.err


def test_activations_tell_what_was_collected_and_how(ask: Ask, tmp_path: Path) -> None:
    wanted = collection(tmp_path / "acts")
    about = ask("info", tmp_path / "acts", "--json").document
    assert (about["n_rows"], about["n_units"]) == wanted.values.shape
    assert about["sites"] == {"encoder.layer.0": 5, "encoder.layer.1": 3, "conv": 4}
    assert (about["n_items"], about["dtype"], about["aggregate"], about["is_whole"]) == (
        wanted.n_items,
        "float32",
        "last",
        True,
    )
    assert about["provenance"] == {"model": "Tiny"}
    assert [(one["item"], one["what"]) for one in about["problems"]] == wanted.problems
    lines = ask("info", tmp_path / "acts").lines
    assert lines[0] == "acts: activations that was closed"
    assert f"  rows      {len(wanted.words)} of {wanted.n_items} items, 'last' of the tokens of a word" in lines
    assert "    model = Tiny" in lines


def test_a_result_tells_what_it_is_and_what_it_says_of_itself(ask: Ask, tmp_path: Path) -> None:
    made = ranking()
    made.save(tmp_path / "verbs")
    found = ask("info", tmp_path / "verbs", "--json").document
    assert (found["kind"], found["damage"]) == ("result", [])
    assert (found["result"]["type"], found["result"]["topic"]) == ("Ranking", "neurons")
    text = ask("info", tmp_path / "verbs").out
    assert text.startswith("verbs: a result that was closed")
    for line in repr(made).splitlines():
        assert line in text


def test_a_result_that_cannot_be_read_is_told_with_its_problem(ask: Ask, tmp_path: Path) -> None:
    with Writer(tmp_path / "later", kind="result") as writer:
        writer.document("result", {"version": 1, "type": "Later", "content": {"class": "Later", "fields": {}}})
    found = ask("info", tmp_path / "later", "--json").document
    assert "it has a 'Later'" in found["damage"][0]
