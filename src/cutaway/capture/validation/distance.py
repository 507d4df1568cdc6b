"""How far two values are apart, whatever their dtype, device and layout."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.capture.validation.compare import same
from cutaway.results.diff import Distance

_CHUNK = 1 << 22
"""Elements that are compared at a time: each needs a few doubles."""


def distance(a: Any, b: Any) -> Distance | None:
    """How far `b` is from `a`; None where the two have no elements to hold against each other.

    >>> distance(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.5])).norm
    0.1

    Values of other dtypes or devices are equal if their numbers are.
    """
    if isinstance(a, Tensor) and isinstance(b, Tensor) and same(a, b):
        return None if a.is_meta else Distance(True, n_elements=_n_elements(a))
    try:
        one, two = _flat(a), _flat(b)
        if one is None or two is None:
            return None if isinstance(a, Tensor) or isinstance(b, Tensor) else _of_things(a, b)
        if one[1] != two[1]:
            return None
        return _measured(*_on_one_device(one[0], two[0]))
    except (RuntimeError, TypeError, NotImplementedError):  # a kind of tensor that cannot be turned into numbers
        return None


def _n_elements(tensor: Tensor) -> int:
    return sum(part.numel() for part in tensor.unbind()) if tensor.is_nested else tensor.numel()


def _of_things(a: Any, b: Any) -> Distance:
    """Values without numbers: texts, lists of anything."""
    is_equal = same(a, b)
    if is_equal:
        return Distance(True)
    return Distance(False, 0.0, None, None, None, n_different=1)


def _flat(value: Any) -> tuple[Tensor, Any] | None:
    """The elements of a value in one row, and its shape; None if it has none."""
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
    """Both where the second is, if doubles can be had there."""
    if a.device != b.device or b.device.type not in ("cpu", "cuda"):
        return a.cpu(), b.cpu()
    return a, b


def _measured(a: Tensor, b: Tensor) -> Distance:
    largest = greatest = 0.0
    sums = [0.0] * 7
    for one, two in _chunks(a, b):
        numbers = _numbers(one, two)
        largest, greatest = max(largest, numbers[0]), max(greatest, numbers[1])
        sums = [before + more for before, more in zip(sums, numbers[2:], strict=True)]
    apart, mine, theirs, product, n_different, n_nan, n_inf = sums
    if not n_different:
        return Distance(True, n_elements=a.numel())
    cosine = _ratio(product, mine**0.5 * theirs**0.5)
    return Distance(
        False,
        absolute=largest,
        relative=_ratio(largest, greatest),
        norm=_ratio(apart**0.5, mine**0.5),
        cosine=None if cosine is None else max(-1.0, min(1.0, cosine)),
        n_elements=a.numel(),
        n_different=int(n_different),
        n_nan=int(n_nan),
        n_inf=int(n_inf),
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole and isfinite(part) and isfinite(whole) else None


def _chunks(a: Tensor, b: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Pieces of both as exact numbers of one dtype."""
    exact = _exact(a.dtype, b.dtype)
    for start in range(0, a.numel(), _CHUNK):
        yield a[start : start + _CHUNK].to(exact), b[start : start + _CHUNK].to(exact)


def _exact(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    """A dtype that holds every number of both."""
    if a.is_complex or b.is_complex:
        return torch.complex128
    return torch.float64 if a.is_floating_point or b.is_floating_point else torch.int64


def _numbers(a: Tensor, b: Tensor) -> list[float]:
    """Of one piece: largest difference and element; sums of squares and products; counts."""
    other = a != b
    numbers = _sums(a, b, other)
    if isfinite(sum(numbers[:5])):
        return [*numbers, 0.0, 0.0]
    nan_a, nan_b = a.isnan(), b.isnan()
    other &= ~(nan_a & nan_b)
    finite = a.isfinite() & b.isfinite()
    n_inf = ((a.isinf() | b.isinf()) & other & ~(nan_a | nan_b)).sum()
    return [*_sums(a.where(finite, 0), b.where(finite, 0), other), float((nan_a ^ nan_b).sum()), float(n_inf)]


def _sums(a: Tensor, b: Tensor, other: Tensor) -> list[float]:
    """All that is summed up or the largest, with one crossing to the CPU."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    apart = (a - b).abs()
    dots = [torch.vdot(a, a).real, torch.vdot(b, b).real, torch.vdot(b, a).real]
    parts = [apart.max(), a.abs().max(), torch.dot(apart, apart), *dots, other.sum().to(torch.float64)]
    found: list[float] = torch.stack(parts).tolist()
    return found
