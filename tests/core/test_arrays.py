"""Raw tensor bytes are decoded without torch; torch is the oracle."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from cutaway.core.arrays import DTYPES, Raw, nbytes_of
from cutaway.core.errors import DamagedError, InputError

CODES = torch.arange(256, dtype=torch.int32).to(torch.uint8)
NUMPY = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMPY += ["float16", "float32", "float64", "complex64", "complex128"]
UNPACKED = {"quint4x2", "quint2x4"}
"""Quantized to less than a byte: their shape does not show how their integers are packed."""


def test_every_dtype_of_torch_is_known() -> None:
    names = {str(value).removeprefix("torch.") for value in vars(torch).values() if isinstance(value, torch.dtype)}
    assert names - UNPACKED == set(DTYPES)


@pytest.mark.parametrize("name", DTYPES)
def test_an_element_is_as_large_as_torch_says(name: str) -> None:
    assert DTYPES[name].itemsize == getattr(torch, name).itemsize
    assert DTYPES[name].itemsize % np.dtype(DTYPES[name].numpy).itemsize == 0
    assert nbytes_of(name, (3, 2)) == 6 * getattr(torch, name).itemsize


@pytest.mark.parametrize("name", [name for name in DTYPES if name.startswith("float8")])
def test_every_float8_code_reads_as_torch_reads_it_to_the_bit(name: str) -> None:
    read = Raw(name, (256,), CODES.numpy().data).array()
    expected = CODES.view(getattr(torch, name)).float().numpy()
    assert read.dtype == np.float32
    assert np.array_equal(read.view(np.uint32), expected.view(np.uint32))


def test_every_bfloat16_code_reads_as_torch_reads_it_to_the_bit() -> None:
    codes = np.arange(65536, dtype=np.uint16)
    expected = torch.from_numpy(codes.view(np.int16)).view(torch.bfloat16).float().numpy()
    read = Raw("bfloat16", (65536,), codes.data).array()
    assert np.array_equal(read.view(np.uint32), expected.view(np.uint32))


def test_every_float4_byte_holds_two_numbers_the_first_in_its_lower_half() -> None:
    sizes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]  # the OCP standard for microscaling formats lists them all
    numbers = np.array([*sizes, *(-size for size in sizes)], np.float32)
    expected = [[numbers[code % 16], numbers[code // 16]] for code in range(256)]
    read = Raw("float4_e2m1fn_x2", (128, 2), bytes(range(256))).array()
    assert (read.dtype, read.shape) == (np.float32, (128, 4))
    assert np.array_equal(read.view(np.uint32).reshape(-1), np.array(expected).view(np.uint32).reshape(-1))


def test_a_lone_packed_byte_is_a_row_of_two() -> None:
    assert Raw("float4_e2m1fn_x2", (), b"\x72").array().tolist() == [1.0, 6.0]


def test_every_half_of_a_complex32_reads_as_torch_reads_it() -> None:
    codes = np.arange(65536, dtype=np.uint16)
    expected = torch.from_numpy(codes.view(np.int16)).view(torch.complex32).to(torch.complex64).numpy()
    read = Raw("complex32", (32768,), codes.data).array()
    assert read.dtype == np.complex64
    assert np.array_equal(read.view(np.float32), expected.view(np.float32), equal_nan=True)


@pytest.mark.parametrize("name", NUMPY)
def test_dtypes_that_numpy_has_are_read_without_a_change(name: str) -> None:
    data = bytes(range(1, 1 + 6 * np.dtype(name).itemsize)) if name != "bool" else bytes([0, 1, 1, 0, 1, 0])
    read = Raw(name, (2, 3), data).array()
    assert (read.dtype, read.shape, read.tobytes()) == (np.dtype(name), (2, 3), data)


@pytest.mark.parametrize(("name", "dtype"), [("qint8", "i1"), ("quint8", "u1"), ("qint32", "<i4"), ("bits16", "<u2")])
def test_quantized_numbers_and_bits_are_read_as_plain_integers(name: str, dtype: str) -> None:
    data = bytes(range(250, 256)) * 4
    expected = np.frombuffer(data, dtype)
    assert np.array_equal(Raw(name, expected.shape, data).array(), expected)


def test_a_truth_value_that_is_neither_0_nor_1_is_true() -> None:
    read = Raw("bool", (3,), bytes([0, 2, 255])).array()
    assert read.view(np.uint8).tolist() == [0, 1, 1]


@given(npst.arrays(st.sampled_from([np.dtype(name) for name in NUMPY]), npst.array_shapes(min_dims=0, min_side=0)))
def test_any_array_comes_back(array: np.ndarray[Any, Any]) -> None:
    back = Raw.of(array).array()
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


@pytest.mark.parametrize("name", NUMPY)
def test_other_orders_of_bytes_and_of_elements_are_made_right(name: str) -> None:
    plain = np.arange(24).reshape(4, 6) % 2 if name == "bool" else np.arange(24).reshape(4, 6)
    array = plain.astype(np.dtype(name).newbyteorder(">")).T[::-1, ::2]
    assert np.array_equal(Raw.of(array).array(), plain.T[::-1, ::2].astype(name))
    assert Raw.of(array).array().dtype == np.dtype(name)


def test_a_single_number_keeps_its_shape() -> None:
    raw = Raw.of(np.array(2.5))
    assert (raw.shape, raw.nbytes, raw.array().shape, float(raw.array())) == ((), 8, (), 2.5)


def test_memory_that_lies_right_is_not_copied() -> None:
    array = np.arange(6.0)
    assert np.shares_memory(Raw.of(array).array(), array)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_tensors_have_their_shape(name: str, shape: tuple[int, int]) -> None:
    read = Raw(name, shape, b"").array()
    assert read.size == 0
    assert read.shape == (shape if name != "float4_e2m1fn_x2" else (shape[0], 2 * shape[1]))


@pytest.mark.parametrize("name", DTYPES)
def test_what_is_read_cannot_be_written_to(name: str) -> None:
    read = Raw(name, (2, 2), bytearray(4 * DTYPES[name].itemsize)).array()
    with pytest.raises(ValueError, match="read-only"):
        read[...] = 1


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([object()]), np.zeros(2, "M8[s]"), np.zeros(2, "f4,i4")])
def test_arrays_of_other_things_are_refused(array: np.ndarray[Any, Any]) -> None:
    with pytest.raises(InputError, match=r"has no matching torch dtype.*astype"):
        Raw.of(array)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="a long double is a double here")
def test_long_doubles_are_refused() -> None:
    with pytest.raises(InputError, match="has no matching torch dtype"):
        Raw.of(np.zeros(2, np.longdouble))


@pytest.mark.parametrize("length", [0, 7, 9, 16])
def test_too_few_or_many_bytes_are_damage(length: int) -> None:
    with pytest.raises(DamagedError, match=rf"shape \[2\] takes 8 bytes, but there are {length}"):
        Raw("float32", (2,), bytes(length)).array()


ABSURD: list[Any] = [
    (-1,),
    (2.0,),
    (True,),
    ("3",),
    (2**64,),
    (10**5000,),
    (2**40, 2**40),
    (0, 2**62, 2**62),
    (1,) * 65,
    (2**62,) * 64,
]


@pytest.mark.parametrize("shape", ABSURD, ids=range(len(ABSURD)))
@pytest.mark.parametrize("name", ["float32", "float8_e5m2", "float4_e2m1fn_x2"])
def test_absurd_shapes_raise_and_take_no_memory(name: str, shape: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DamagedError):
            Raw(name, shape, b"").array()
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_an_unknown_dtype_is_named() -> None:
    with pytest.raises(DamagedError, match=r"'float3' is not a dtype .*float64, float32"):
        Raw("float3", (1,), b"a").array()


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys; from cutaway.core.arrays import Raw; import cutaway.core.safetensors, cutaway.store.format.ragged;"
        "Raw('float8_e4m3fn', (1,), b'a').array(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
