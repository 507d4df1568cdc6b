"""Bitwise equality of two values, and their largest relative difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.capture.model.sharding import is_dtensor, local_part

TOLERANCES = {
    torch.float64: 1e-10,
    torch.complex128: 1e-10,
    torch.float32: 1e-5,
    torch.complex64: 1e-5,
    # Twice the machine epsilon, as for bfloat16.
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
}
"""Allowed difference between two runs of a nondeterministic kernel, relative to the largest element."""

_FIRST = 1024


def bit_equal(a: Any, b: Any) -> bool:
    """Bitwise equality of shape, dtype, layout and every element; all NaN are equal."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return _equal_objects(a, b)
    if a.layout != b.layout or a.dtype != b.dtype or a.device != b.device or a.is_nested != b.is_nested:
        return False
    if is_dtensor(a) and is_dtensor(b) and a.placements != b.placements:  # type: ignore[attr-defined]
        return False
    a, b = local_part(a), local_part(b)
    if hasattr(a, "__tensor_flatten__") and type(a) is type(b):  # wrapper subclasses, such as jagged tensors
        return all(bit_equal(getattr(a, name), getattr(b, name)) for name in a.__tensor_flatten__()[0])
    if a.is_nested:
        parts = list(zip(a.unbind(), b.unbind(), strict=False))
        return a.size(0) == b.size(0) and all(bit_equal(p, q) for p, q in parts)
    if a.shape != b.shape:
        return False
    if has_no_numbers(a):
        return True
    if a.layout is torch.sparse_coo:
        a, b = a.coalesce(), b.coalesce()
        return bit_equal(a.indices(), b.indices()) and bit_equal(a.values(), b.values())
    if a.layout is not torch.strided:
        return bit_equal(a.to_dense(), b.to_dense())
    if a.is_quantized:
        return bool(a.qscheme() == b.qscheme() and bit_equal(a.dequantize(), b.dequantize()))
    a, b = _plain(a), _plain(b)
    if torch.equal(a, b):
        return True
    if not (a.is_floating_point() or a.is_complex()):
        return False
    if a.is_contiguous() and b.is_contiguous():  # a difference usually shows in the first elements
        first, other = a.view(-1)[:_FIRST], b.view(-1)[:_FIRST]
        if bool(((first != other) & ~(first.isnan() & other.isnan())).any()):
            return False
    # `torch.equal` finds NaN different from itself.
    no_number = a.isnan()
    return bool(
        torch.equal(no_number, b.isnan()) and torch.equal(a.masked_fill(no_number, 0), b.masked_fill(no_number, 0))
    )


def has_no_numbers(tensor: Tensor) -> bool:
    """Whether a tensor has a shape and a dtype only: on the meta device, or made under `FakeTensorMode`."""
    return tensor.is_meta or hasattr(tensor, "fake_mode")


def deviation(a: Any, b: Any) -> float | None:
    """The largest difference relative to the largest element of `b`; None if the two cannot be compared."""
    a, b = local_part(a), local_part(b)
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return None
    if (
        a.layout != b.layout
        or a.dtype != b.dtype
        or a.is_nested
        or b.is_nested
        or a.shape != b.shape
        or has_no_numbers(a)
    ):
        return None
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    if not (a.is_floating_point() or a.is_complex()) or a.is_quantized:
        return None
    # Differences of half-precision numbers would themselves be rounded or overflow.
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = _plain(a).to(wide), _plain(b).to(wide)
    if not torch.equal(a.isfinite(), b.isfinite()) or a.numel() == 0:
        return None
    finite = b.isfinite()
    a, b = a.where(finite, 0), b.where(finite, 0)
    largest = float(b.abs().max())
    return float((a - b).abs().max()) / largest if largest else float((a - b).abs().max())


def is_close(a: Any, b: Any) -> bool:
    """Whether two values agree within the tolerance of their dtype."""
    difference = deviation(a, b)
    return difference is not None and difference <= TOLERANCES.get(a.dtype, 1e-2)


def _plain(tensor: Tensor) -> Tensor:
    plain = tensor.detach().as_subclass(Tensor).resolve_conj().resolve_neg()
    if plain.dtype is torch.complex32:
        return plain.to(torch.complex64)  # exact; torch 2.13 cannot compare complex32
    return plain.float() if "float8" in str(plain.dtype) or "float4" in str(plain.dtype) else plain


def _equal_objects(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        kinds = "fc"
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in kinds and b.dtype.kind in kinds)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_equal_objects(p, q) for p, q in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float) and a != a:
        return b != b
    return type(a) is type(b) and bool(a == b)


def difference_text(value: Any, again: Any) -> str:
    """How two values differ: the deviation, or dtype, shape and device of each."""
    apart = deviation(again, value)
    if apart is not None:
        return f": off by {apart:.1e} of its largest element, tolerance {TOLERANCES.get(value.dtype, 1e-2):.0e}"
    if isinstance(value, Tensor) and isinstance(again, Tensor):
        return f": {_kind(again)} instead of {_kind(value)}" if _kind(again) != _kind(value) else ""
    return f": {again!r:.40} instead of {value!r:.40}"


def _kind(tensor: Tensor) -> str:
    shape = "nested" if tensor.is_nested else list(tensor.shape)
    return f"{str(tensor.dtype).removeprefix('torch.')} {shape} on {tensor.device}"
