"""A fingerprint changes with any value, and with nothing else."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cutaway.studies.fingerprints import combined_fingerprint, state_fingerprints, tensor_fingerprint

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.complex64)


@given(st.sampled_from(DTYPES), st.integers(1, 300), st.data())
def test_one_changed_element_is_seen(dtype: torch.dtype, n: int, data: st.DataObject) -> None:
    tensor = torch.arange(n).remainder(2).to(dtype)
    changed = tensor.clone()
    i = data.draw(st.integers(0, n - 1))
    changed[i] = 1 - int(tensor[i].real)
    assert tensor_fingerprint(tensor) != tensor_fingerprint(changed)
    assert tensor_fingerprint(tensor) == tensor_fingerprint(tensor.clone())


def test_swapped_rows_of_a_large_tensor_are_seen() -> None:
    tensor = torch.randn(512, 100, generator=torch.Generator().manual_seed(0))
    assert tensor_fingerprint(tensor) != tensor_fingerprint(
        tensor[torch.randperm(512, generator=torch.Generator().manual_seed(1))]
    )


def test_layout_is_no_value() -> None:
    tensor = torch.arange(12.0).view(3, 4)
    assert tensor_fingerprint(tensor.t().contiguous().t()) == tensor_fingerprint(tensor)
    assert tensor_fingerprint(tensor.t()) != tensor_fingerprint(tensor)


def test_tensors_without_readable_memory_have_one_too() -> None:
    assert tensor_fingerprint(torch.empty(3, device="meta"))
    assert tensor_fingerprint(torch.eye(3).to_sparse()) == tensor_fingerprint(torch.eye(3).to_sparse())
    assert tensor_fingerprint(torch.eye(3).to_sparse()) != tensor_fingerprint((2 * torch.eye(3)).to_sparse())
    assert tensor_fingerprint(torch.empty(0))
    assert tensor_fingerprint(torch.tensor(1.0)) != tensor_fingerprint(torch.tensor(2.0))


def test_a_state_knows_buffers_modes_and_modules_yet_to_be_made() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.LazyLinear(3))
    state = state_fingerprints(model)
    assert "0.running_mean" in state
    assert "1.weight" not in state
    mode = combined_fingerprint(state, model)
    model.eval()
    assert combined_fingerprint(state_fingerprints(model), model) != mode
    model[0].running_mean.add_(1)
    assert state_fingerprints(model)["0.running_mean"] != state["0.running_mean"]
