"""`cutaway verify`: sentences and exit codes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Ask
from tests.store.collected import collection
from tests.store.recorded import values_of
from tests.store.saved_results import ranking

from cutaway.store.format.manifest import Head


@pytest.fixture
def damaged(base: Path, tmp_path: Path) -> Path:
    path = Path(shutil.copytree(base, tmp_path / "damaged"))
    wanted = bytes(memoryview(values_of(40)[0].data))
    file = next(file for file in path.rglob("*.safetensors") if wanted in file.read_bytes())
    data = bytearray(file.read_bytes())
    data[data.find(wanted)] ^= 1
    file.write_bytes(data)
    return path


def test_a_whole_run_is_exit_code_zero(ask: Ask, base: Path) -> None:
    answer = ask("verify", base)
    assert answer.code == 0
    assert answer.lines[-1] == "No damage found. Everything is intact."


def test_damage_is_exit_code_one_and_says_what_it_costs(ask: Ask, damaged: Path) -> None:
    answer = ask("verify", damaged)
    assert answer.code == 1
    assert answer.lines[-1] == (
        "Damage found in 1 place. Values of 1 tensor (encoder.0) at step 40 cannot be read; everything else is intact."
    )
    found = ask("verify", damaged, "--json")
    assert found.code == 1
    (one,) = found.document["verifications"]
    assert one["is_whole"] is False
    assert one["damage"][0]["cost"] == "values of 1 tensor (encoder.0) at step 40 cannot be read"


def test_a_folder_of_runs_is_verified_one_by_one(ask: Ask, base: Path, damaged: Path) -> None:
    shutil.copytree(base, damaged.parent / "whole")
    answer = ask("verify", damaged.parent, "--json")
    assert answer.code == 1
    assert [one["is_whole"] for one in answer.document["verifications"]] == [False, True]


def test_what_cannot_be_opened_is_exit_code_two(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "cutaway.json").write_bytes(Head("run", "1", "now", version=99).packed())
    answer = ask("verify", tmp_path)
    assert answer.code == 2
    assert "pip install --upgrade cutaway" in answer.err


def test_a_folder_without_anything_readable_says_nothing_more(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "cutaway.json").write_text("{}")
    answer = ask("verify", tmp_path)
    assert answer.code == 1
    assert answer.lines[-1] == "Damage found in 1 place. Nothing can be read."


def test_activations_are_verified(ask: Ask, tmp_path: Path) -> None:
    collection(tmp_path / "acts")
    assert ask("verify", tmp_path / "acts").code == 0
    (file,) = (tmp_path / "acts").rglob("*.safetensors")
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(bytes(data))
    assert ask("verify", tmp_path / "acts").code == 1


def test_results_are_verified(ask: Ask, tmp_path: Path) -> None:
    ranking().save(tmp_path / "verbs")
    assert ask("verify", tmp_path / "verbs").code == 0
    next((tmp_path / "verbs").rglob("*.safetensors")).unlink()
    answer = ask("verify", tmp_path / "verbs")
    assert answer.code == 1
    assert "the result cannot be read" in answer.out.lower()
