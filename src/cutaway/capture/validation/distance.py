"""Distance between two values of any dtype, device and layout."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.capture.model.sharding import local_part
from cutaway.capture.validation.compare import bit_equal
from cutaway.results.diff import Distance

_CHUNK = 1 << 22
"""Elements compared at a time: each needs several float64 temporaries."""


def distance(a: Any, b: Any) -> Distance | None:
    """The distance of `b` from `a`; None if their elements cannot be compared.

    >>> distance(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.5])).norm
    0.1

    Values with different dtypes or devices are equal if their numbers are.
    """
    if isinstance(a, Tensor) and isinstance(b, Tensor) and bit_equal(a, b):
        return None if a.is_meta else Distance(True, n_elements=_n_elements(a))
    try:
        flat_a, flat_b = _flat(a), _flat(b)
        if flat_a is None or flat_b is None:
            return None if isinstance(a, Tensor) or isinstance(b, Tensor) else _compare_objects(a, b)
        if flat_a[1] != flat_b[1]:
            return None
        return _measure(*_on_one_device(flat_a[0], flat_b[0]))
    except (RuntimeError, TypeError, NotImplementedError):  # a tensor type that cannot be converted to numbers
        return None


def _n_elements(tensor: Tensor) -> int:
    return sum(part.numel() for part in tensor.unbind()) if tensor.is_nested else tensor.numel()


def _compare_objects(a: Any, b: Any) -> Distance:
    """Values that are not numbers: strings, lists of anything."""
    is_equal = bit_equal(a, b)
    if is_equal:
        return Distance(True)
    return Distance(False, 0.0, None, None, None, n_different=1)


def _flat(value: Any) -> tuple[Tensor, Any] | None:
    """The elements of a value as a 1-d tensor, and its shape; None if it has no elements."""
    value = local_part(value)
    if not isinstance(value, Tensor):
        value = _from_python(value)
        if value is None:
            return None
    value = value.detach()
    if value.is_meta:
        return None
    if value.is_nested:
        parts = value.unbind()
        return torch.cat([part.reshape(-1) for part in parts]), tuple(tuple(part.shape) for part in parts)
    if value.is_quantized:
        value = value.dequantize()
    if value.layout is not torch.strided:
        value = value.to_dense()
    plain = value.as_subclass(Tensor).resolve_conj().resolve_neg()
    return plain.reshape(-1), tuple(plain.shape)


def _from_python(value: Any) -> Tensor | None:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # lists of different lengths
        return None
    return torch.from_numpy(array.copy()) if array.dtype.kind in "biufc" else None


def _on_one_device(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both on the device of the second, if it supports float64; otherwise on the CPU."""
    if a.device != b.device or b.device.type not in ("cpu", "cuda"):
        return a.cpu(), b.cpu()
    return a, b


def _measure(a: Tensor, b: Tensor) -> Distance:
    largest = greatest = 0.0
    sums = [0.0] * 7
    for part_a, part_b in _chunks(a, b):
        numbers = _numbers(part_a, part_b)
        largest, greatest = max(largest, numbers[0]), max(greatest, numbers[1])
        sums = [before + more for before, more in zip(sums, numbers[2:], strict=True)]
    squared_difference, squared_a, squared_b, product, n_different, n_nan, n_inf = sums
    if not n_different:
        return Distance(True, n_elements=a.numel())
    cosine = _ratio(product, squared_a**0.5 * squared_b**0.5)
    return Distance(
        False,
        absolute=largest,
        relative=_ratio(largest, greatest),
        norm=_ratio(squared_difference**0.5, squared_a**0.5),
        # Rounding can push a quotient of sums slightly beyond 1.
        cosine=None if cosine is None else max(-1.0, min(1.0, cosine)),
        n_elements=a.numel(),
        n_different=int(n_different),
        n_nan=int(n_nan),
        n_inf=int(n_inf),
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole and isfinite(part) and isfinite(whole) else None


def _chunks(a: Tensor, b: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of both tensors in one dtype that represents them exactly."""
    exact = _exact(a.dtype, b.dtype)
    for start in range(0, a.numel(), _CHUNK):
        yield a[start : start + _CHUNK].to(exact), b[start : start + _CHUNK].to(exact)


def _exact(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    """A dtype that represents every number of both."""
    if a.is_complex or b.is_complex:
        return torch.complex128
    return torch.float64 if a.is_floating_point or b.is_floating_point else torch.int64


def _numbers(a: Tensor, b: Tensor) -> list[float]:
    """For one chunk: largest difference and element; sums of squares and products; counts."""
    other = a != b
    numbers = _sums(a, b, other)
    # Finite sums prove that there is no NaN or infinity: the masks below are needed only otherwise.
    if isfinite(sum(numbers[:5])):
        return [*numbers, 0.0, 0.0]
    nan_a, nan_b = a.isnan(), b.isnan()
    other &= ~(nan_a & nan_b)
    finite = a.isfinite() & b.isfinite()
    n_inf = ((a.isinf() | b.isinf()) & other & ~(nan_a | nan_b)).sum()
    return [*_sums(a.where(finite, 0), b.where(finite, 0), other), float((nan_a ^ nan_b).sum()), float(n_inf)]


def _sums(a: Tensor, b: Tensor, other: Tensor) -> list[float]:
    """All sums and maxima of a chunk, with one transfer to the CPU."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    apart = (a - b).abs()
    dots = [torch.vdot(a, a).real, torch.vdot(b, b).real, torch.vdot(b, a).real]
    parts = [apart.max(), a.abs().max(), torch.dot(apart, apart), *dots, other.sum().to(torch.float64)]
    numbers: list[float] = torch.stack(parts).tolist()
    return numbers
