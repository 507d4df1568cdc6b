"""A fingerprint changes with any value, and with nothing else."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cutaway.studies.fingerprints import of_state, of_tensor, state_of

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.complex64)


@given(st.sampled_from(DTYPES), st.integers(1, 300), st.data())
def test_one_changed_element_is_seen(dtype: torch.dtype, n: int, data: st.DataObject) -> None:
    tensor = torch.arange(n).remainder(2).to(dtype)
    changed = tensor.clone()
    i = data.draw(st.integers(0, n - 1))
    changed[i] = 1 - int(tensor[i].real)
    assert of_tensor(tensor) != of_tensor(changed)
    assert of_tensor(tensor) == of_tensor(tensor.clone())


def test_swapped_rows_of_a_large_tensor_are_seen() -> None:
    tensor = torch.randn(512, 100, generator=torch.Generator().manual_seed(0))
    assert of_tensor(tensor) != of_tensor(tensor[torch.randperm(512, generator=torch.Generator().manual_seed(1))])


def test_layout_is_no_value() -> None:
    tensor = torch.arange(12.0).view(3, 4)
    assert of_tensor(tensor.t().contiguous().t()) == of_tensor(tensor)
    assert of_tensor(tensor.t()) != of_tensor(tensor)


def test_tensors_without_readable_memory_have_one_too() -> None:
    assert of_tensor(torch.empty(3, device="meta"))
    assert of_tensor(torch.eye(3).to_sparse()) == of_tensor(torch.eye(3).to_sparse())
    assert of_tensor(torch.eye(3).to_sparse()) != of_tensor((2 * torch.eye(3)).to_sparse())
    assert of_tensor(torch.empty(0))
    assert of_tensor(torch.tensor(1.0)) != of_tensor(torch.tensor(2.0))


def test_a_state_knows_buffers_modes_and_modules_yet_to_be_made() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.LazyLinear(3))
    state = state_of(model)
    assert "0.running_mean" in state
    assert "1.weight" not in state
    mode = of_state(state, model)
    model.eval()
    assert of_state(state_of(model), model) != mode
    model[0].running_mean.add_(1)
    assert state_of(model)["0.running_mean"] != state["0.running_mean"]
