"""Counts NaN and Inf in a tensor."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.capture.model.sharding import local_part
from cutaway.core.arrays import as_array
from cutaway.graph.op import Op


def counts(op: Op) -> tuple[int, int] | None:
    """Number of NaN and of Inf in the value of an op; None if it has no numbers."""
    # Printing a trace must not add ops to another one that is being made.
    with torch.no_grad(), torch._C.DisableTorchFunction():
        value = local_part(op.value)
        if not isinstance(value, Tensor) or value.is_meta or hasattr(value, "fake_mode"):
            return None
        if value.is_quantized or not (value.is_floating_point() or value.is_complex()):
            return 0, 0
        if value.layout is torch.sparse_coo:
            value = value.coalesce().values()
        elif value.is_nested:
            value = value.values()
        # A finite sum has finite terms only: one pass without a mask in memory, which nearly all values end with.
        if value.dtype not in _NO_SUM and bool(value.sum().isfinite()):
            return 0, 0
        if value.dtype in _NO_SUM:
            value = value.float()
        return int(value.isnan().sum()), int(value.isinf().sum())


def array(op: Op) -> NDArray[Any]:
    """The value of an op as a NumPy array."""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return as_array(local_part(op.value))


_NO_SUM = frozenset(
    dtype
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32")
    if (dtype := getattr(torch, name, None)) is not None
)
