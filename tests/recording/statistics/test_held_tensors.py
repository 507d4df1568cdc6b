"""Tensors of a device wait for a common launch, and are neither read too late nor held for long."""

from __future__ import annotations

import pytest
import torch
from tests.recording.statistics.test_summary import OnDevice, column

from cutaway.recording.statistics import held_tensors


def test_a_tensor_that_may_change_is_read_as_it_was() -> None:
    summary, tensor = OnDevice(), torch.ones(3000)
    summary.add(tensor)
    tensor.zero_()
    assert (column(summary, "mean").tolist(), summary.lost) == ([1], set())


def test_a_stable_tensor_is_not_copied_and_a_change_of_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "clone", None)
    summary, tensors = OnDevice(), [torch.full((3000,), float(number)) for number in range(3)]
    for tensor in tensors:
        summary.add(tensor, is_stable=True)
    tensors[1].mul_(2)
    summary.flush()
    tensors[2].zero_()
    means = column(summary, "mean")
    assert (means[[0, 2]].tolist(), summary.lost) == ([0, 2], {1})
    assert torch.tensor(means).isnan().tolist() == [False, True, False]
    assert column(summary, "count").tolist() == [3000] * 3


def test_a_tensor_without_a_version_counter_is_copied() -> None:
    summary = OnDevice()
    with torch.inference_mode():
        tensor = torch.ones(3000)
        summary.add(tensor, is_stable=True)
        tensor.zero_()
    assert column(summary, "mean").tolist() == [1]


def test_a_tensor_whose_memory_was_freed_is_lost() -> None:
    summary, tensor = OnDevice(), torch.ones(3000)
    summary.add(tensor, is_stable=True)
    tensor.untyped_storage().resize_(0)
    summary.matrix()
    assert summary.lost == {0}


@pytest.mark.parametrize("is_view", [False, True])
def test_what_is_held_is_bounded_by_its_memory(is_view: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_tensors, "MOST_BYTES", 40_000)
    summary, first = OnDevice(), torch.ones(9000)
    summary.add(first[:10] if is_view else first, is_stable=True)  # a view keeps 36 kB alive
    summary.add(torch.ones(9000), is_stable=True)
    first.zero_()  # too late to be lost
    assert (column(summary, "mean").tolist(), summary.lost) == ([1, 1], set())


def test_a_large_tensor_that_may_change_is_read_at_once_instead_of_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_tensors, "MOST_COPY_BYTES", 1000)
    monkeypatch.setattr(torch.Tensor, "clone", None)
    summary, tensor = OnDevice(), torch.ones(3000)
    summary.add(tensor)
    tensor.zero_()
    assert column(summary, "mean").tolist() == [1]
