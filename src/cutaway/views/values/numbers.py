"""Reads any value of a trace as numbers: tensors of any kind, arrays, Python numbers, lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.errors import InputTypeError
from cutaway.core.formatting import type_text

Array = NDArray[Any]

MOST_ELEMENTS: Final = 4_000_000
"""Larger values are sampled."""
_NATIVE = frozenset({
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128",
})  # fmt: skip
_NUMBERS = (bool, int, float, complex, np.generic)


@dataclass(frozen=True, slots=True)
class Numbers:
    """A strided tensor or an array that can be indexed with `[…]`, or the reason why there is none."""

    source: Any
    """None if the value has no numbers."""
    shape: tuple[int, ...]
    dtype: str
    note: str = ""
    """How it was converted."""
    reason: str = ""
    """Why the value has no numbers."""

    @property
    def n_elements(self) -> int:
        return 0 if self.source is None else math.prod(self.source.shape)

    def near(self, most: int = MOST_ELEMENTS) -> Numbers:
        """The same with a NumPy array as source, unless it has more elements than `most`."""
        if isinstance(self.source, np.ndarray) or self.n_elements > most:
            return self
        return replace(self, source=array_of(self.source))

    def sample(self, most: int = MOST_ELEMENTS) -> tuple[Array, int]:
        """A flat sample of its elements in any order, and how many elements each one stands for: 1 if it is all."""
        source, n = self.source, self.n_elements
        if n <= most:
            return array_of(source).ravel(order="K"), 1
        step = -(-n // most)
        while math.gcd(step, source.shape[-1]) > 1:  # a common factor would always sample the same units
            step += 1
        if isinstance(source, np.ndarray):
            # In the order of memory, most views are contiguous, which makes the stride below cheap.
            source = source.transpose(sorted(range(source.ndim), key=lambda d: -abs(source.strides[d])))
        if _is_contiguous(source):
            return array_of(source.reshape(-1)[::step]), step
        steps = [1] * len(source.shape)
        while math.prod(sizes := [-(-n // step) for n, step in zip(source.shape, steps, strict=True)]) > most:
            steps[sizes.index(max(sizes))] *= 2
        return array_of(source[tuple(slice(None, None, step) for step in steps)]).reshape(-1), math.prod(steps)

    def extremes(self) -> tuple[float, float]:
        """The lowest and the highest of all elements; NaN if any element is NaN."""
        source = self.source
        if not isinstance(source, np.ndarray):
            try:
                low, high = source.aminmax()
                return float(low), float(high)
            except (RuntimeError, TypeError, NotImplementedError):  # torch has no aminmax for some dtypes
                pass
        source = array_of(source)
        with np.errstate(all="ignore"):
            return float(source.min()), float(source.max())

    def n_not_finite(self) -> tuple[int, int]:
        """The numbers of NaN and of infinite elements, over all elements."""
        whole = array_of(self.source)
        n_nan = int(np.count_nonzero(np.isnan(whole)))
        return n_nan, int(whole.size - np.count_nonzero(np.isfinite(whole))) - n_nan


def numbers_of(value: Any) -> Numbers:
    """Read a value as numbers; never raises.

    >>> numbers_of([1, 2.5]).source
    array([1. , 2.5])
    >>> numbers_of("text").reason
    'a str is not numeric'
    """
    try:
        return _tensor(value) if is_tensor(value) else _array(value)
    except Exception as error:  # a tensor subclass or stand-in may refuse any operation
        return Numbers(None, shape_of(value), dtype_of(value), reason=reason_of(error))


def array_of(source: Any) -> Array:
    """The elements of a strided tensor or an array as real numbers; magnitudes of complex ones."""
    array = exact_array_of(source)
    if array.dtype.kind != "c":
        return array
    with np.errstate(all="ignore"):
        magnitudes: Array = np.abs(array)
    return magnitudes


def exact_array_of(source: Any) -> Array:
    """The elements of a strided tensor or an array, complex ones unchanged; without a copy if possible."""
    array: Array = source if isinstance(source, np.ndarray) else late.call("raw", source).array()
    if array.dtype.kind not in "biufc":
        raise InputTypeError(f"an array of {array.dtype} is not numeric.")
    return array


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor of any kind, without importing torch."""
    # Views must not import torch (see the layers in CONTRIBUTING.md).
    return hasattr(value, "detach") and hasattr(value, "layout")


def shape_of(value: Any) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in value.shape)
    except Exception:  # no shape, or a symbolic one
        return ()


def dtype_of(value: Any) -> str:
    """The name of the dtype of a value; of its class if it has no dtype."""
    try:
        return str(value.dtype).removeprefix("torch.")
    except Exception:
        return type(value).__name__


def reason_of(error: BaseException) -> str:
    """The first line of an error message; the class of the error if it has none."""
    message = str(error).strip().partition("\n")[0].rstrip(".")
    return message or type(error).__name__


def _tensor(tensor: Any) -> Numbers:
    shape, dtype = shape_of(tensor), dtype_of(tensor)
    if tensor.is_meta:
        return Numbers(None, shape, dtype, reason="a tensor on the meta device has no values")
    if tensor.is_nested:
        return _nested(tensor, dtype)
    if str(tensor.layout) != "torch.strided":
        return _sparse(tensor, shape, dtype)
    if tensor.is_quantized:
        return Numbers(tensor.dequantize(), shape, dtype, "dequantized")
    note = "magnitudes" if "complex" in dtype else ""
    array = _as_array(tensor) if dtype in _NATIVE else None
    return Numbers(tensor if array is None else array, shape, dtype, note)


def _as_array(tensor: Any) -> Array | None:
    """A tensor as an array without a copy; None if that is impossible or unsafe.

    Ten times faster than reading the raw bytes, which works for any tensor.
    """
    if type(tensor).__module__ != "torch" or not tensor.is_cpu:
        return None
    try:
        if tensor.untyped_storage().nbytes() < _end(tensor):  # the storage was freed: `.numpy()` would read beyond it
            return None
        array: Array = tensor.detach().numpy()
    except (RuntimeError, TypeError, NotImplementedError):  # conjugated or wrapped tensors
        return None
    return array


def _end(tensor: Any) -> int:
    """The number of bytes of storage that a tensor needs."""
    reach = tensor.storage_offset()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if not size:
            return 0
        reach += (size - 1) * stride
    return int((reach + 1) * tensor.element_size())


def _nested(tensor: Any, dtype: str) -> Numbers:
    parts = tensor.detach().unbind()
    shapes = ", ".join("×".join(map(str, part.shape)) for part in parts[:8]) + ", …" * (len(parts) > 8)
    arrays = [array_of(part).reshape(-1) for part in parts]
    flat = np.concatenate(arrays) if arrays else np.empty(0)
    return Numbers(flat, (), dtype, f"nested: {len(parts)} parts ({shapes}), concatenated")


def _sparse(tensor: Any, shape: tuple[int, ...], dtype: str) -> Numbers:
    layout = str(tensor.layout).removeprefix("torch.")
    if math.prod(shape) <= MOST_ELEMENTS:
        return Numbers(tensor.detach().to_dense(), shape, dtype, f"{layout}, converted to dense")
    stored = tensor.detach()
    values = stored.coalesce().values() if layout == "sparse_coo" else stored.values()
    return Numbers(values, shape, dtype, f"{layout}: only the {math.prod(values.shape):,} stored values")


def _array(value: Any) -> Numbers:
    if isinstance(value, np.ndarray):
        array, dtype = value, dtype_of(value)
    elif isinstance(value, _NUMBERS) or (isinstance(value, (list, tuple)) and _is_numeric(value)):
        array, dtype = np.asarray(value), type(value).__name__
    else:
        return Numbers(None, (), type(value).__name__, reason=f"{type_text(value)} is not numeric")
    if array.dtype.kind not in "biufc":
        return Numbers(None, array.shape, dtype, reason=f"an array of {array.dtype} is not numeric")
    return Numbers(array, array.shape, dtype, "magnitudes" if array.dtype.kind == "c" else "")


def _is_numeric(values: Any) -> bool:
    return all(_is_numeric(item) if isinstance(item, (list, tuple)) else isinstance(item, _NUMBERS) for item in values)


def _is_contiguous(source: Any) -> bool:
    if isinstance(source, np.ndarray):
        return bool(source.flags.c_contiguous)
    asked: Callable[[], bool] = source.is_contiguous
    return asked()
