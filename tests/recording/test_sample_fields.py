"""What the samples are, in every form in which a program may have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cutaway
from cutaway.recording.sample_fields import select_field
from cutaway.recording.values import SampleSelection


def recorded(path: Path, *, samples: Any = 2, before: bool = False, **fields: Any) -> Any:
    model = nn.Linear(4, 4)
    with cutaway.record(path, model, every=1, samples=samples) as run, run.step():
        if before:
            run.samples(**fields)
        model(torch.randn(3, 4))
        if not before:
            run.samples(**fields)
    return cutaway.load(path).at(0).samples


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("before", [True, False])
def test_fields_of_every_sort(before: bool, tmp_path: Path) -> None:
    found = recorded(
        tmp_path / "run", before=before,
        text=np.array(["a", "b", "ć"]), label=torch.tensor([1, 2, 3], dtype=torch.int16), score=[0.5, 1.5, 2.5],
        tokens=[torch.tensor([1, 2]), torch.tensor([3]), torch.tensor([4])], words=[("a", "b"), ["c"], []],
        image=torch.rand(3, 2, 2, dtype=torch.bfloat16), ids=(f"id{n}" for n in range(3)), nothing=None,
        flags=torch.tensor([True, False, True]), array=np.arange(6).reshape(3, 2), named=range(3),
    )  # fmt: skip
    assert found.text == ["a", "b"]
    assert found.label.tolist() == [1, 2]
    assert found.tokens == [[1, 2], [3]] or [list(one) for one in found.tokens] == [[1, 2], [3]]
    assert found.fields["words"] == [["a", "b"], ["c"]]
    assert found.image.shape == (2, 2, 2)
    assert found.ids == ["id0", "id1"]
    assert "nothing" not in found.fields
    assert found.fields["array"].tolist() == [[0, 1], [2, 3]]
    assert found.fields["flags"].tolist() == [True, False]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_fewer_samples_than_asked_for_and_samples_beyond_the_batch(tmp_path: Path) -> None:
    assert recorded(tmp_path / "a", samples=8, text=["a", "b", "c"]).text == ["a", "b", "c"]
    assert recorded(tmp_path / "b", samples=[0, 9], text=["a", "b", "c"]).text == ["a"]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_what_changes_afterwards_is_kept_as_it_was(tmp_path: Path) -> None:
    label, words = torch.tensor([1, 2, 3]), [["a"], ["b"], ["c"]]
    array = np.array([1.0, 2.0, 3.0])
    first_two = SampleSelection(2)
    fields = {
        name: select_field(name, field, first_two)[0] for name, field in (("l", label), ("w", words), ("a", array))
    }
    label.zero_(), words[0].append("x"), array.fill(0)
    assert fields["l"]().tolist() == [1, 2]
    assert fields["w"]() == [["a"], ["b"]]
    assert fields["a"]().tolist() == [1, 2]


@pytest.mark.parametrize("wrong", [3, {"a": 1}, torch.tensor(3), ["a", None, 3], [object()] * 3, np.float32(2)])
def test_what_is_no_field_is_said_and_the_step_is_recorded(wrong: Any, tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="sample.*odd|odd.*sample"):
        found = recorded(tmp_path / "run", text=["a", "b", "c"], odd=wrong)
    assert len(cutaway.load(tmp_path / "run")) == 1
    assert "odd" not in found.fields


def test_fields_of_unequal_length_are_said_and_the_step_is_recorded(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="one entry"):
        recorded(tmp_path / "run", text=["a", "b", "c"], label=[1])
    assert "." in cutaway.load(tmp_path / "run").at(0)
