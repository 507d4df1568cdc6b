"""A value of a trace as plain numbers, whatever it is: a tensor of any kind, an array, a number, a list."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.errors import InputError

Array = NDArray[Any]

MOST_ELEMENTS: Final = 4_000_000
"""Of larger values a part is looked at."""
_NATIVE = frozenset({
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128",
})  # fmt: skip
_NUMBERS = (bool, int, float, complex, np.generic)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Something that numbers can be cut from by `[…]`: a strided tensor or an array."""

    source: Any
    """None where there are no numbers."""
    shape: tuple[int, ...]
    dtype: str
    note: str = ""
    """What had to be done to it."""
    reason: str = ""
    """Why there are no numbers."""

    @property
    def n_elements(self) -> int:
        return 0 if self.source is None else math.prod(self.source.shape)

    def near(self, most: int = MOST_ELEMENTS) -> Numbers:
        """The same with an array as source, unless it is larger than that."""
        if isinstance(self.source, np.ndarray) or self.n_elements > most:
            return self
        return replace(self, source=array_of(self.source))

    def sample(self, most: int = MOST_ELEMENTS) -> tuple[Array, int]:
        """Its elements in a row, in any order, and how many elements each of them stands for: 1 if these are all."""
        source, n = self.source, self.n_elements
        if n <= most:
            return array_of(source).ravel(order="K"), 1
        step = -(-n // most)
        while math.gcd(step, source.shape[-1]) > 1:  # or always the same units are seen
            step += 1
        if isinstance(source, np.ndarray):
            source = source.transpose(sorted(range(source.ndim), key=lambda d: -abs(source.strides[d])))
        if _is_contiguous(source):
            return array_of(source.reshape(-1)[::step]), step
        steps = [1] * len(source.shape)
        while math.prod(sizes := [-(-n // step) for n, step in zip(source.shape, steps, strict=True)]) > most:
            steps[sizes.index(max(sizes))] *= 2
        return array_of(source[tuple(slice(None, None, step) for step in steps)]).reshape(-1), math.prod(steps)

    def extremes(self) -> tuple[float, float]:
        """The lowest and the highest of all its elements; NaN where one of them is NaN."""
        source = self.source
        if not isinstance(source, np.ndarray):
            try:
                low, high = source.aminmax()
                return float(low), float(high)
            except (RuntimeError, TypeError, NotImplementedError):  # a dtype without order
                pass
        source = array_of(source)
        with np.errstate(all="ignore"):
            return float(source.min()), float(source.max())

    def n_not_finite(self) -> tuple[int, int]:
        """How many of all its elements are NaN, and how many infinite."""
        whole = array_of(self.source)
        n_nan = int(np.count_nonzero(np.isnan(whole)))
        return n_nan, int(whole.size - np.count_nonzero(np.isfinite(whole))) - n_nan


def numbers_of(value: Any) -> Numbers:
    """What can be read of a value; never raises.

    >>> numbers_of([1, 2.5]).source
    array([1. , 2.5])
    >>> numbers_of("text").reason
    'it is a str, no numbers'
    """
    try:
        return _tensor(value) if is_tensor(value) else _array(value)
    except Exception as error:  # whatever stands in for a tensor may refuse anything
        return Numbers(None, shape_of(value), dtype_of(value), reason=reason_of(error))


def array_of(source: Any) -> Array:
    """The elements of a strided tensor or an array as real numbers; of complex ones the magnitudes."""
    array = exact_array_of(source)
    if array.dtype.kind != "c":
        return array
    with np.errstate(all="ignore"):
        magnitudes: Array = np.abs(array)
    return magnitudes


def exact_array_of(source: Any) -> Array:
    """The elements of a strided tensor or an array, complex ones as they are; not copied where that can be had."""
    array: Array = source if isinstance(source, np.ndarray) else late.call("raw", source).array()
    if array.dtype.kind not in "biufc":
        raise InputError(f"it is an array of {array.dtype}, no numbers.")
    return array


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor of some kind, told without torch."""
    return hasattr(value, "detach") and hasattr(value, "layout")


def shape_of(value: Any) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in value.shape)
    except Exception:  # no shape, or none that can be told
        return ()


def dtype_of(value: Any) -> str:
    """The name of its dtype; of what has none, that of its class."""
    try:
        return str(value.dtype).removeprefix("torch.")
    except Exception:
        return type(value).__name__


def reason_of(error: BaseException) -> str:
    """Why something could not be read, on one line."""
    said = str(error).strip().partition("\n")[0].rstrip(".")
    return said or type(error).__name__


def _tensor(tensor: Any) -> Numbers:
    shape, dtype = shape_of(tensor), dtype_of(tensor)
    if tensor.is_meta:
        return Numbers(None, shape, dtype, reason="it is on the meta device, where nothing has a value")
    if tensor.is_nested:
        return _nested(tensor, dtype)
    if str(tensor.layout) != "torch.strided":
        return _sparse(tensor, shape, dtype)
    if tensor.is_quantized:
        return Numbers(tensor.dequantize(), shape, dtype, "dequantised")
    note = "magnitudes" if "complex" in dtype else ""
    seen = _seen(tensor) if dtype in _NATIVE else None
    return Numbers(tensor if seen is None else seen, shape, dtype, note)


def _seen(tensor: Any) -> Array | None:
    """A tensor seen as an array without a copy; None where that is not possible, or not sure.

    Ten times faster than the plain bytes, which any tensor has.
    """
    if type(tensor).__module__ != "torch" or not tensor.is_cpu:
        return None
    try:
        if tensor.untyped_storage().nbytes() < _end(tensor):  # its memory was freed
            return None
        array: Array = tensor.detach().numpy()
    except (RuntimeError, TypeError, NotImplementedError):  # conjugated, wrapped…
        return None
    return array


def _end(tensor: Any) -> int:
    """The first byte of its memory that it does not reach."""
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
    return Numbers(flat, (), dtype, f"nested: {len(parts)} parts ({shapes}), one after the other")


def _sparse(tensor: Any, shape: tuple[int, ...], dtype: str) -> Numbers:
    layout = str(tensor.layout).removeprefix("torch.")
    if math.prod(shape) <= MOST_ELEMENTS:
        return Numbers(tensor.detach().to_dense(), shape, dtype, f"{layout}, made dense")
    stored = tensor.detach()
    values = stored.coalesce().values() if layout == "sparse_coo" else stored.values()
    return Numbers(values, shape, dtype, f"{layout}: only the {math.prod(values.shape):,} values that are stored")


def _array(value: Any) -> Numbers:
    if isinstance(value, np.ndarray):
        array, dtype = value, dtype_of(value)
    elif isinstance(value, _NUMBERS) or (isinstance(value, (list, tuple)) and _is_numeric(value)):
        array, dtype = np.asarray(value), type(value).__name__
    else:
        return Numbers(None, (), type(value).__name__, reason=f"it is a {type(value).__name__}, no numbers")
    if array.dtype.kind not in "biufc":
        return Numbers(None, array.shape, dtype, reason=f"its elements are no numbers of a fixed size ({array.dtype})")
    return Numbers(array, array.shape, dtype, "magnitudes" if array.dtype.kind == "c" else "")


def _is_numeric(values: Any) -> bool:
    return all(_is_numeric(item) if isinstance(item, (list, tuple)) else isinstance(item, _NUMBERS) for item in values)


def _is_contiguous(source: Any) -> bool:
    if isinstance(source, np.ndarray):
        return bool(source.flags.c_contiguous)
    asked: Callable[[], bool] = source.is_contiguous
    return asked()
