"""Tensors of every kind are converted to raw bytes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import deserialize
from torch import Tensor, nn

from cutaway.capture.saved.value_folder import FolderSink
from cutaway.capture.tensors.raw_bytes import raw
from cutaway.core.arrays import DTYPES
from cutaway.core.errors import InputError

warnings.filterwarnings("ignore", message=".*quantize.*deprecated", category=UserWarning)
QUANTIZED = {"qint8", "quint8", "qint32"}
PLAIN = [name for name in DTYPES if name not in QUANTIZED]


def filled(name: str, *shape: int) -> Tensor:
    """Random bits under that dtype, and truth values that are 0 or 1."""
    dtype = getattr(torch, name)
    codes = torch.randint(0, 2 if name == "bool" else 256, (*shape, dtype.itemsize), dtype=torch.uint8)
    return codes.view(dtype).squeeze(-1)


def stored(tensor: Tensor) -> bytes:
    """The bytes of a contiguous tensor, read from its storage."""
    start = tensor.storage_offset() * tensor.element_size()
    return bytes(tensor.untyped_storage())[start : start + tensor.numel() * tensor.element_size()]


@pytest.mark.parametrize("name", PLAIN)
def test_the_bytes_of_every_dtype_are_those_in_memory(name: str) -> None:
    tensor = filled(name, 3, 4)
    found = raw(tensor)
    assert (found.dtype, found.shape, found.nbytes) == (name, (3, 4), tensor.nbytes)
    assert bytes(found.data) == stored(tensor)


@pytest.mark.parametrize("name", PLAIN)
def test_strides_are_made_right(name: str) -> None:
    tensor = filled(name, 4, 6)
    size = tensor.element_size()
    rows = np.frombuffer(stored(tensor), f"V{size}").reshape(4, 6)
    found = raw(tensor.t()[1::2])
    assert (found.shape, bytes(found.data)) == ((3, 4), rows.T[1::2].tobytes())


def test_a_single_element_may_have_any_stride() -> None:
    grid = torch.arange(6.0).view(3, 2)
    for tensor in (grid.t()[:1, 2:], grid[:, 1][1:2], grid[::2, 1][1:], torch.tensor([3 + 4j]).imag):
        assert tensor.numel() == 1
        assert raw(tensor).array().tolist() == tensor.tolist()


@pytest.mark.parametrize("name", PLAIN)
def test_empty_tensors_and_single_numbers_keep_their_shape(name: str) -> None:
    assert raw(filled(name, 0, 3)).array().size == 0
    assert raw(filled(name, 0, 3)).shape == (0, 3)
    single = raw(filled(name, 1)[0])
    assert (single.shape, single.nbytes) == ((), DTYPES[name].itemsize)


@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128])
def test_conjugate_and_negative_views_are_resolved(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[1 + 2j, 3 - 4j], [5j, 6]], dtype=dtype)
    assert tensor.conj().is_conj()
    assert tensor.conj().imag.is_neg()
    assert np.array_equal(raw(tensor.conj()).array(), [[1 - 2j, 3 + 4j], [-5j, 6]])
    assert np.array_equal(raw(tensor.conj().imag).array(), [[-2, 4], [-5, 0]])


@pytest.mark.parametrize("dtype", [torch.qint8, torch.quint8, torch.qint32])
def test_quantized_tensors_give_their_integers(dtype: torch.dtype) -> None:
    tensor = torch.quantize_per_tensor(torch.tensor([[1.0, 2.0], [-3.0, 4.0]]), 0.5, 10, dtype)
    found = raw(tensor.t())
    assert f"torch.{found.dtype}" == str(dtype)
    assert found.array().tolist() == [[12, 4], [14, 18]]
    scales, zeros = torch.tensor([0.5, 0.25]), torch.zeros(2, dtype=torch.int64)
    by_channel = torch.quantize_per_channel(torch.ones(2, 2), scales, zeros, 0, dtype)
    assert raw(by_channel).array().tolist() == [[2, 2], [4, 4]]


def test_parameters_and_expanded_tensors_are_plain() -> None:
    parameter = nn.Parameter(torch.arange(3.0))
    assert raw(parameter).array().tolist() == [0, 1, 2]
    assert parameter.requires_grad
    assert raw(torch.ones(1).expand(2, 3)).array().tolist() == [[1, 1, 1]] * 2
    assert raw(torch.arange(6.0)[2:4]).array().tolist() == [2, 3]


def test_a_tensor_that_lies_right_is_not_copied() -> None:
    tensor = torch.arange(3.0)
    array = raw(tensor).array()
    tensor[0] = 7
    assert array.tolist() == [7, 1, 2]


def test_a_subclass_is_not_asked() -> None:
    class Loud(Tensor):
        @classmethod
        def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("asked")

    assert raw(torch.ones(2).as_subclass(Loud)).array().tolist() == [1, 1]


def freed() -> Tensor:
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


def fake() -> Tensor:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(2)


def packed() -> Tensor:
    return torch.quantize_per_channel(torch.ones(4, 4), torch.ones(4), torch.zeros(4), 0, torch.quint4x2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.ones(2, device="meta"), r"meta device and has no values"),
        (lambda: torch.eye(2).to_sparse(), r"torch.sparse_coo.*to_dense"),
        (lambda: torch.eye(2).to_sparse_csr(), r"torch.sparse_csr.*to_dense"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), r"nested.*unbind"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), r"nested.*unbind"),
        (packed, r"quint4x2 .*dequantize"),
        (freed, r"was freed"),
        (fake, r"a FakeTensor .*has no plain values.*plain tensor"),
        (lambda: nn.UninitializedParameter(), r"no shape yet"),
        (lambda: torch.ones((1,) * 65), r"65 dimensions"),
        (lambda: [1.0], r"got a list"),
    ],
)
def test_what_has_no_plain_values_is_refused_with_a_remedy(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        raw(make())


def test_a_tensor_inside_vmap_is_refused() -> None:
    with pytest.raises(InputError, match="has no plain values"):
        torch.func.vmap(lambda x: (raw(x), x)[1])(torch.ones(2, 3))


@pytest.mark.parametrize("name", PLAIN)
def test_a_folder_gives_back_every_dtype_to_the_bit_and_is_valid(name: str, tmp_path: Path) -> None:
    sink = FolderSink(tmp_path)
    for index, tensor in enumerate([filled(name, 4, 6), filled(name, 1)[0], filled(name, 0, 3)]):
        back: Any = sink.keep(index, tensor).load()
        assert (back.dtype, back.shape, back.is_conj()) == (tensor.dtype, tensor.shape, False)
        assert bytes(raw(back).data) == bytes(raw(tensor).data)
        ((_, found),) = deserialize((tmp_path / f"{index:06d}.safetensors").read_bytes())
        assert bytes(found["data"]) == bytes(raw(tensor).data)


def test_a_folder_says_what_to_do_with_what_it_cannot_hold(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path)
    with pytest.raises(InputError, match=r"to_dense.*transform="):
        sink.keep(0, torch.eye(2).to_sparse())
    with pytest.raises(InputError, match=r"dequantize it with transform="):
        sink.keep(0, torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8))
    assert not list(tmp_path.iterdir())
