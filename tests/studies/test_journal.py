"""An interrupted study goes on where it was; another study never touches the file."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import warm_python
from torch import Tensor, nn

import cutaway
from cutaway import studies
from cutaway.core.errors import InputError


class Study:
    """A small lesion study that counts its calls, and fails at one of them if told to."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()
        self.x = torch.ones(2, 3)
        self.n_calls = 0
        self.fails_at = 0

    def metric(self) -> Tensor:
        self.n_calls += 1
        if self.n_calls == self.fails_at:
            raise ZeroDivisionError
        result: Tensor = self.model(self.x).mean(0)
        return result

    def run(self, path: Path | None, **options: Any) -> studies.Lesions:
        self.n_calls = 0
        return studies.lesion(self.model, self.metric, **{"at": "1", "each": "unit", **options}, path=path)


def test_a_study_that_failed_half_way_goes_on(tmp_path: Path) -> None:
    study = Study()
    want = study.run(None)
    assert study.n_calls == 5
    study.fails_at = 4  # the baseline and two lesions are done
    with pytest.raises(ZeroDivisionError):
        study.run(tmp_path / "study")
    assert len((tmp_path / "study" / "lesions.jsonl").read_text().splitlines()) == 3
    study.fails_at = 0
    found = study.run(tmp_path / "study")
    assert study.n_calls == 3
    assert np.array_equal(found.scores, want.scores)
    assert np.array_equal(found.baseline, want.baseline)
    again = study.run(tmp_path / "study")
    assert study.n_calls == 1
    assert np.array_equal(again.scores, want.scores)


def test_a_file_cut_at_any_byte_is_taken_up(tmp_path: Path) -> None:
    study, path = Study(), tmp_path / "cut.jsonl"
    want = study.run(path)
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for n in range(len(whole) + 1):
        path.write_bytes(whole[:n])
        found = study.run(path)
        n_done = max(sum(end <= n for end in ends) - 1, 0)
        assert study.n_calls == 5 - n_done, n
        assert np.array_equal(found.scores, want.scores)
        assert path.read_bytes() == whole, n


def test_whole_lines_are_never_changed(tmp_path: Path) -> None:
    study, path = Study(), tmp_path / "study.jsonl"
    study.run(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[3] + lines[1] + lines[2][:9])  # rows in another order, one torn
    study.run(path)
    assert path.read_bytes().startswith(lines[0] + lines[3] + lines[1])
    assert study.n_calls == 3


def other_studies() -> dict[str, Any]:
    def trained(study: Study) -> None:
        study.model[0].weight.data[0, 0] += 1e-6

    def other_data(study: Study) -> None:
        study.x = study.x * 1.01

    def longer(study: Study) -> None:
        metric = study.metric
        study.metric = lambda: torch.cat([metric(), metric()])  # type: ignore[method-assign]

    return {
        "sites": (lambda study: None, {"at": "*"}),
        "number of rows": (lambda study: None, {"each": "site"}),
        "rows": (lambda study: None, {"at": ["1#3", "1#2", "1#1", "1#0"]}),
        "change": (lambda study: None, {"to": 1}),
        "parameters, buffers or training mode": (trained, {}),
        "baseline": (other_data, {}),
        "shape of the metric": (longer, {}),
    }


@pytest.mark.parametrize("what", other_studies())
def test_another_study_is_refused_and_the_file_left_alone(what: str, tmp_path: Path) -> None:
    study, path = Study(), tmp_path / "study.jsonl"
    study.run(path)
    before = path.read_bytes() + b'{"row": 0, "na'
    path.write_bytes(before)
    change, options = other_studies()[what]
    change(study)
    with pytest.raises(InputError, match=f"holds another study and was not changed: its {what} is"):
        study.run(path, **options)
    assert path.read_bytes() == before


def test_training_mode_belongs_to_the_study(tmp_path: Path) -> None:
    study = Study()
    study.run(tmp_path)
    study.model.train()
    with pytest.raises(InputError, match="training mode is"):
        study.run(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "notes of mine", "notes\nof mine\n", '{"a": 1}\n', "[]\n"])
def test_a_file_of_another_kind_is_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text(text)
    if text in ("", "{"):  # what a death may leave of a first line
        assert len(Study().run(path)) == 4
        return
    with pytest.raises(InputError, match="is not a study file"):
        Study().run(path)
    assert path.read_text() == text


def test_a_damaged_line_is_told_not_guessed(tmp_path: Path) -> None:
    study, path = Study(), tmp_path / "study.jsonl"
    study.run(path)
    lines = path.read_text().splitlines(keepends=True)
    for wrong in ("xx\n", '{"row": 99, "name": "", "score": [0, 0]}\n', '{"row": 1, "name": "", "score": [0]}\n'):
        path.write_text("".join([lines[0], wrong, *lines[2:]]))
        with pytest.raises(InputError, match=r"line 2 of .*study\.jsonl is not a row of a study"):
            study.run(path)


def test_numbers_that_are_none_survive(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Identity(), nn.Identity())
    x = torch.tensor([[1.0, 2.0]])

    def metric() -> Tensor:
        y = model(x)[0]
        return torch.stack([y[0] / y[1], y[1] / y[0], torch.log(y[0] - 1.5)])

    first = studies.lesion(model, metric, at="0", each="unit", path=tmp_path)
    again = studies.lesion(model, metric, at="0", each="unit", path=tmp_path)
    assert np.isnan(first.scores).any()
    assert np.isinf(first.scores).any()
    assert np.array_equal(first.scores, again.scores, equal_nan=True)
    for line in (tmp_path / "lesions.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_a_killed_study_goes_on(tmp_path: Path) -> None:
    code = """
import os, signal, sys, torch, cutaway
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).eval()
calls = []
def metric():
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return model(torch.ones(2, 3)).mean(0)
cutaway.studies.lesion(model, metric, at="1", each="unit", path=sys.argv[1])
"""
    killed = warm_python.run(["-c", code, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    study = Study()
    study.run(tmp_path)
    assert study.n_calls == 3


def test_one_folder_holds_both_kinds_of_study(tmp_path: Path) -> None:
    study = Study()
    study.run(tmp_path)
    model, x = study.model, study.x

    def patch() -> studies.Patching:
        return studies.patch(
            model, lambda out: out.sum(), clean=lambda: model(x), corrupted=lambda: model(-x), at="*", path=tmp_path
        )

    first, again = patch(), patch()
    assert np.array_equal(first.scores, again.scores)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lesions.jsonl", "patching.jsonl"]


def test_changes_are_known_again() -> None:
    from cutaway.studies.fingerprints import change_fingerprint

    def scaled(by: float) -> Any:
        return lambda value: value * by

    model, x = nn.Linear(2, 2), torch.ones(1, 2)
    pairs = [
        (0, 1),
        (cutaway.edit.scale(2), cutaway.edit.scale(3)),
        (cutaway.edit.swap(torch.relu), cutaway.edit.swap(torch.tanh)),
        (torch.zeros(3), torch.ones(3)),
        (np.zeros(3), np.zeros(4)),
        (scaled(2), scaled(3)),
        (lambda value: value + 1, lambda value: value + 2),
        (lambda value: value.exp(), lambda value: value.log()),
        (cutaway.trace(model, x), cutaway.trace(model, 2 * x)),
        (cutaway.trace(model, x)[0], cutaway.trace(model, 2 * x)[0]),
    ]
    for one, other in pairs:
        assert change_fingerprint(one) != change_fingerprint(other)
        assert change_fingerprint(one) == change_fingerprint(one)
    assert change_fingerprint(scaled(2)) == change_fingerprint(scaled(2))
    assert "0x" not in change_fingerprint(lambda value: [2 * v for v in value])
