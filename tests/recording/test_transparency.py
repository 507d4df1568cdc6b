"""A recorded training ends in the very bits that an unrecorded one ends in."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

import cutaway
from tests.recording.training import OPTIMIZERS, Off, equal, recorder_to, train_case
from tests.zoo import ZOO


def check(name: str, optimizer: str, path: Path, n_steps: int, **settings: Any) -> None:
    try:
        plain = train_case(name, optimizer, lambda model: Off(), n_steps)
    except Exception as error:  # the case cannot be trained at all: then it fails alike when recorded
        with pytest.raises(type(error)):
            train_case(name, optimizer, recorder_to(path, **settings), n_steps)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        recorded = train_case(name, optimizer, recorder_to(path, **settings), n_steps)
    for what in plain:
        assert equal(plain[what], recorded[what]), f"{name}: {what} differ"
    run = cutaway.load(path)
    assert not run.problems
    assert [note.text for note in run.notes if note.level == "error"] == []
    assert run.steps.tolist() == list(range(n_steps))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", ZOO)
def test_training_ends_in_the_same_bits(name: str, optimizer: str, tmp_path: Path) -> None:
    check(name, optimizer, tmp_path / "run", 4, statistics="full")


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ZOO)
def test_fifty_steps_end_in_the_same_bits(name: str, optimizer: str, tmp_path: Path) -> None:
    check(name, optimizer, tmp_path / "run", 50)


def test_nothing_is_left_in_torch(tmp_path: Path) -> None:
    before = (
        dict(torch_module._global_forward_hooks),
        dict(torch_module._global_forward_pre_hooks),
        dict(torch_optimizer._global_optimizer_pre_hooks),
        dict(torch_optimizer._global_optimizer_post_hooks),
        torch._C._len_torch_function_stack(),
    )
    train_case("transformer_training", "adamw", recorder_to(tmp_path / "run"), 3)
    assert before == (
        dict(torch_module._global_forward_hooks),
        dict(torch_module._global_forward_pre_hooks),
        dict(torch_optimizer._global_optimizer_pre_hooks),
        dict(torch_optimizer._global_optimizer_post_hooks),
        torch._C._len_torch_function_stack(),
    )
