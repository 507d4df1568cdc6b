"""Tensors as raw bytes: the memory layout of every torch dtype, decoded with NumPy only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.errors import DamagedError, InputError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from typing_extensions import Buffer

Array = NDArray[Any]
MAX_DIMENSIONS = 64
"""NumPy's limit."""
MAX_EXPANDED = 1 << 36
"""Most elements of an array that is stored smaller and expanded when read: a file must not fill the memory."""
_MAX_ELEMENTS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Dtype:
    """Memory layout of the elements of one torch dtype, and how to decode them."""

    itemsize: int
    """Bytes per torch element."""
    numpy: str
    """The NumPy dtype of the raw bytes."""
    stored: str
    """The dtype that represents it in a safetensors file."""
    n_parts: int = 1
    """Number of stored elements per torch element."""
    decode: Callable[[Array], Array] | None = None
    """Decodes the raw bytes to numbers, for dtypes that NumPy lacks."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A tensor of any dtype as raw bytes.

    >>> raw = Raw("bfloat16", (2,), bytes([0x80, 0x3F, 0x40, 0xC0]))
    >>> raw.array()
    array([ 1., -3.], dtype=float32)
    """

    dtype: str
    """Torch's name of the dtype, without `torch.`."""
    shape: tuple[int, ...]
    """The shape in torch: a packed `float4_e2m1fn_x2` element is one byte with two numbers."""
    data: Buffer
    """The elements: C order, little-endian, contiguous."""

    @property
    def nbytes(self) -> int:
        return nbytes_of(self.dtype, self.shape)

    @classmethod
    def of(cls, array: Array) -> Raw:
        """Wraps a NumPy array of numbers or booleans, in any byte order.

        Memory is shared if it already has the right layout.

        >>> Raw.of(np.arange(3.0)[::-1]).array()
        array([2., 1., 0.])
        """
        plain = np.asarray(array)
        dtype = DTYPES.get(plain.dtype.name)
        if dtype is None or plain.dtype.kind not in "biufc":
            raise InputError(
                f"an array of dtype {plain.dtype} has no matching torch dtype: "
                "convert it to numbers first, for example with .astype(np.float64)."
            )
        shape = plain.shape  # np.ascontiguousarray would turn a scalar into a 1-d array
        flat = np.ascontiguousarray(plain, dtype=dtype.numpy).reshape(-1)
        return cls(plain.dtype.name, shape, flat.view(np.uint8).data)

    def array(self) -> Array:
        """The numbers, as a read-only NumPy array.

        Dtypes that NumPy lacks are converted exactly: bfloat16, float8 and float4 to float32, complex32 to complex64.
        The last dimension of a `float4_e2m1fn_x2` array is twice that of the tensor. Quantized tensors give their
        integers; dtypes without arithmetic (`bits8`, `int4`, …) give their raw bytes.
        """
        expected = nbytes_of(self.dtype, self.shape)
        data = memoryview(self.data)
        n_bytes = data.nbytes
        if n_bytes != expected:
            raise DamagedError(
                f"a {self.dtype} tensor of shape {short_repr(list(self.shape))} takes "
                f"{short_repr(expected)} bytes, but there are {n_bytes}: the file is truncated or was changed."
            )
        dtype = DTYPES[self.dtype]
        codes: Array = np.frombuffer(data, dtype.numpy) if expected else np.empty(0, dtype.numpy)
        numbers = codes if dtype.decode is None else dtype.decode(codes)
        try:
            shaped = numbers.reshape(_read_shape(self.dtype, self.shape))
        except ValueError as error:  # an empty tensor whose other dimensions are too large
            raise DamagedError(f"no array can have the shape {short_repr(list(self.shape))}: {error}.") from error
        shaped.flags.writeable = False
        return shaped


def as_array(value: Any, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
    """A tensor, array, number or list as a NumPy array, for `__array__` methods (the protocol of NumPy 2).

    >>> as_array([1, 2], dtype="float32")
    array([1., 2.], dtype=float32)

    Args:
        value: the value; dtypes of torch that NumPy lacks are converted as by `Raw.array`.
        dtype: the dtype to convert to; None keeps that of the value.
        copy: True for a new, writable array; None for a read-only one that shares memory if it can; False to raise if
            it cannot.
    """
    if hasattr(value, "data_ptr"):
        numbers = late.call("raw", value).array()
        is_shared = not numbers.size or numbers.ctypes.data == value.data_ptr()
    else:
        numbers = np.asarray(value)
        is_shared = numbers is value
    if copy is False and not (is_shared and (dtype is None or numbers.dtype == dtype)):
        raise InputError("NumPy needs a copy to hold this value as asked: leave out copy=False.")
    if copy:
        return np.array(numbers, dtype=dtype)
    shared: Array = numbers.view()
    # The memory may belong to a running program: writing to it through NumPy would escape autograd.
    shared.flags.writeable = False
    return shared if dtype is None else shared.astype(dtype, copy=False)


def nbytes_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor; raises `DamagedError` for an unknown dtype or an impossible shape.

    >>> nbytes_of("complex128", (3, 2))
    96
    """
    known = DTYPES.get(dtype)
    if known is None:
        raise DamagedError(
            f"{short_repr(dtype)} is not a dtype that this version of Cutaway knows: {', '.join(DTYPES)}."
        )
    if len(shape) > MAX_DIMENSIONS:
        raise DamagedError(f"a tensor has {len(shape):,} dimensions; the limit is {MAX_DIMENSIONS}.")
    for size in shape:
        if type(size) is not int or not 0 <= size <= _MAX_ELEMENTS:
            raise DamagedError(
                f"the shape {short_repr(shape)} contains {short_repr(size)}: sizes must be integers from 0 to 2**63."
            )
    return math.prod(shape) * known.itemsize


def short_repr(value: object) -> str:
    """The repr of a value, short enough for a message."""
    try:
        text = repr(value)
    except ValueError:  # an integer with thousands of digits
        return "a number too large to print"
    return text if len(text) < 100 else f"{text[:100]}…"


def _read_shape(dtype: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if dtype != "float4_e2m1fn_x2":
        return shape
    return (*shape[:-1], 2 * shape[-1]) if shape else (2,)


def _decode_bool(codes: Array) -> Array:
    """Reads bytes above 1 as true, as torch does; a NumPy bool with such a byte misbehaves."""
    return codes.view(np.bool_) if not codes.size or codes.max() <= 1 else codes != 0


def _decode_bfloat16(codes: Array) -> Array:
    return (codes.astype(np.uint32) << 16).view(np.float32)


def _decode_complex32(codes: Array) -> Array:
    with np.errstate(invalid="ignore"):  # a signaling NaN
        return codes.astype(np.float32).view(np.complex64)


def _decode_float4(codes: Array) -> Array:
    """Decodes two numbers per byte, the low half first."""
    table = _float4_table()
    both = np.stack([codes & 0x0F, codes >> 4], axis=-1)  # (byte, half)
    return table[both.reshape(-1)]


def _decode_float8(exponent_bits: int, bias: int, *, is_fnuz: bool = False) -> Callable[[Array], Array]:
    return lambda codes: _float8_table(exponent_bits, bias, is_fnuz)[codes]


def _decode_e8m0(codes: Array) -> Array:
    return _e8m0_table()[codes]


_QUIET_NAN = 0x7FC00000
_PLAIN_NAN = 0x7F800001
"""The NaN that torch produces for dtypes with a single NaN code."""


@cache
def _float8_table(exponent_bits: int, bias: int, is_fnuz: bool) -> Array:
    """The float32 value of each of the 256 codes; NaN bits are identical to torch's."""
    mantissa_bits = 7 - exponent_bits
    codes = np.arange(256, dtype=np.uint32)
    numbers = _small_floats(codes, exponent_bits, mantissa_bits, bias=bias)
    bits = numbers.view(np.uint32)
    if is_fnuz:
        bits[0x80] = _PLAIN_NAN  # this code would be -0; there is no infinity
        return numbers
    sign, mantissa = codes >> 7 << 31, (codes & (2**mantissa_bits - 1)) << (23 - mantissa_bits)
    if exponent_bits == 5:
        top = codes & 0x7C == 0x7C  # as in IEEE: infinity and three NaN codes
        quiet = np.where(mantissa != 0, _QUIET_NAN, 0x7F800000).astype(np.uint32)
        bits[top] = (sign | quiet | mantissa)[top]
    else:
        top = codes & 0x7F == 0x7F  # NaN is all ones; there is no infinity
        bits[top] = (sign | _QUIET_NAN | mantissa)[top]
    return numbers


@cache
def _float4_table() -> Array:
    return _small_floats(np.arange(16, dtype=np.uint32), 2, 1, bias=1)


@cache
def _e8m0_table() -> Array:
    """Powers of two only: no sign, no zero."""
    table = np.zeros(256, np.float32)
    table[:255] = np.ldexp(1.0, np.arange(-127, 128))
    table.view(np.uint32)[255] = _PLAIN_NAN
    return table


def _small_floats(codes: Array, exponent_bits: int, mantissa_bits: int, *, bias: int) -> Array:
    """Decodes sign, exponent and mantissa as in IEEE 754, without infinities and NaN."""
    mantissa = (codes & (2**mantissa_bits - 1)).astype(np.float64) / 2**mantissa_bits
    exponent = (codes >> mantissa_bits & (2**exponent_bits - 1)).astype(np.int64)
    size = np.ldexp(np.where(exponent > 0, 1 + mantissa, mantissa), np.maximum(exponent, 1) - bias)
    sign = np.where(codes >> (exponent_bits + mantissa_bits) != 0, -1.0, 1.0)
    numbers: Array = (sign * size).astype(np.float32)
    return numbers


DTYPES: dict[str, Dtype] = {
    "float64": Dtype(8, "<f8", "F64"),
    "float32": Dtype(4, "<f4", "F32"),
    "float16": Dtype(2, "<f2", "F16"),
    "bfloat16": Dtype(2, "<u2", "BF16", decode=_decode_bfloat16),
    "float8_e4m3fn": Dtype(1, "u1", "F8_E4M3", decode=_decode_float8(4, 7)),
    "float8_e5m2": Dtype(1, "u1", "F8_E5M2", decode=_decode_float8(5, 15)),
    "float8_e4m3fnuz": Dtype(1, "u1", "F8_E4M3FNUZ", decode=_decode_float8(4, 8, is_fnuz=True)),
    "float8_e5m2fnuz": Dtype(1, "u1", "F8_E5M2FNUZ", decode=_decode_float8(5, 16, is_fnuz=True)),
    "float8_e8m0fnu": Dtype(1, "u1", "F8_E8M0", decode=_decode_e8m0),
    "float4_e2m1fn_x2": Dtype(1, "u1", "F4", n_parts=2, decode=_decode_float4),
    "bool": Dtype(1, "u1", "BOOL", decode=_decode_bool),
    "int8": Dtype(1, "i1", "I8"),
    "int16": Dtype(2, "<i2", "I16"),
    "int32": Dtype(4, "<i4", "I32"),
    "int64": Dtype(8, "<i8", "I64"),
    "uint8": Dtype(1, "u1", "U8"),
    "uint16": Dtype(2, "<u2", "U16"),
    "uint32": Dtype(4, "<u4", "U32"),
    "uint64": Dtype(8, "<u8", "U64"),
    "complex32": Dtype(4, "<f2", "F16", n_parts=2, decode=_decode_complex32),
    "complex64": Dtype(8, "<c8", "C64"),
    "complex128": Dtype(16, "<c16", "F64", n_parts=2),
    "qint8": Dtype(1, "i1", "I8"),
    "quint8": Dtype(1, "u1", "U8"),
    "qint32": Dtype(4, "<i4", "I32"),
    "bits8": Dtype(1, "u1", "U8"),
    "bits16": Dtype(2, "<u2", "U16"),
    "bits1x8": Dtype(1, "u1", "U8"),
    "bits2x4": Dtype(1, "u1", "U8"),
    "bits4x2": Dtype(1, "u1", "U8"),
    **{f"{sign}int{bits}": Dtype(1, "u1", "U8") for sign in ("", "u") for bits in range(1, 8)},
}
"""Every torch dtype that can hold data, by name."""
