"""Unwraps any tensor (DTensor, sparse, nested, quantized, …) to plain strided values.

No statistic here depends on order. A transposed tensor is therefore read in memory order, and an expanded one is read
once and weighted by its repeats.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

_DEPTH = 8
_ORDINARY = (Tensor, torch.nn.Parameter)
_SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
_NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16}) | {
    dtype for name, dtype in vars(torch).items() if name.startswith(("float8_", "float4_"))
}
"""Dtypes that float32 represents exactly."""


def wide_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype to sum a tensor in: float32 if it represents the values exactly, else float64."""
    return torch.float32 if tensor.dtype in _NARROW or tensor.device.type == "mps" else torch.float64


def widen(tensor: Tensor) -> Tensor:
    """Convert a tensor to `wide_dtype`."""
    return tensor.to(wide_dtype(tensor))


def outside_transforms() -> AbstractContextManager[object]:
    """Leave `torch.func.grad`, `vmap`, … for the block: inside them every result would be wrapped again."""
    if torch._C._functorch.peek_interpreter_stack() is None:
        return nullcontext()
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    result: AbstractContextManager[object] = temporarily_clear_interpreter_stack()
    return result


def plain_tensor(tensor: Any) -> Tensor | None:
    """The values of a tensor as a strided tensor of a real dtype, or None if it has none.

    A DTensor gives its local shard, a sparse tensor its stored values, a quantized tensor its dequantized values, a
    nested tensor all its values, a complex tensor its magnitudes. Meta and fake tensors give None.
    """
    for _ in range(_DEPTH if is_wrapped(tensor) else 0):
        inner = _unwrap(tensor)
        if inner is tensor:
            break
        tensor = inner
    if tensor.is_meta or _has_no_data(tensor):
        return None
    result: Tensor = tensor.detach()
    if result.is_complex():
        return (result.to(torch.complex64) if result.dtype == torch.complex32 else result).abs()
    return result.resolve_neg()


def is_sparse(tensor: Tensor) -> bool:
    """Whether a tensor stores only some of its values; `plain_tensor` gives these, and all others are zero."""
    return tensor.layout in _SPARSE


def is_wrapped(tensor: Any) -> bool:
    """Whether a tensor is not an ordinary strided one."""
    if type(tensor) not in _ORDINARY or tensor.layout is not torch.strided:
        return True
    is_transformed: bool = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return is_transformed or tensor.is_nested or tensor.is_quantized


def _unwrap(tensor: Any) -> Any:
    """Remove one layer of wrapping; the tensor itself if there is none."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return torch._C._functorch.get_unwrapped(tensor)
    if hasattr(tensor, "to_local"):
        return tensor.detach().to_local()
    if tensor.is_nested:
        return tensor.detach().values()
    if tensor.layout is torch.sparse_coo:
        return tensor.detach().coalesce().values()
    if is_sparse(tensor):
        return tensor.detach().values()
    if tensor.layout is not torch.strided:
        return tensor.detach().to_dense()
    if tensor.is_quantized:
        return tensor.detach().dequantize()
    if type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__ and hasattr(tensor, "wait"):
        return tensor.wait()  # an asynchronous collective
    return tensor


def _has_no_data(tensor: Tensor) -> bool:
    """Whether a tensor has no memory: fake tensors, and wrapper subclasses."""
    if type(tensor) in _ORDINARY or type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__:
        return False
    if _is_fake(tensor):
        return True
    try:
        return tensor.data_ptr() == 0 and tensor.numel() > 0
    except RuntimeError:
        return True


def _is_fake(tensor: Tensor) -> bool:
    fake = sys.modules.get("torch._subclasses.fake_tensor")  # if it is not imported, there are no fake tensors
    return fake is not None and isinstance(tensor, fake.FakeTensor)


@dataclass(frozen=True, slots=True)
class MemoryOrder:
    """The values of a tensor in memory order."""

    values: Tensor
    """1-D and contiguous if dense in memory, else strided with the largest stride first."""
    repeats: int
    """How often each value counts."""
    is_dense: bool


def has_samples(tensor: Tensor, batch_dim: int | None) -> bool:
    """Whether a tensor has this dimension, with two samples or more."""
    return batch_dim is not None and -tensor.dim() <= batch_dim < tensor.dim() and tensor.shape[batch_dim] > 1


def batch_layout(tensor: Tensor, batch_dim: int) -> tuple[int, int]:
    """The number of samples, and the distance between two samples in the values of `in_memory_order`.

    The distance is 0 for an expanded dimension: all samples share memory.
    """
    stride, size = tensor.stride(batch_dim), tensor.shape[batch_dim]
    if not stride:
        return size, 0
    faster = sorted(pair for pair in zip(tensor.stride(), tensor.shape, strict=True) if pair[0] and pair[1] != 1)
    return size, prod(length for _, length in faster[: faster.index((stride, size))])


def in_memory_order(tensor: Tensor) -> MemoryOrder:
    """A plain tensor in memory order."""
    if tensor.is_contiguous():
        return MemoryOrder(tensor.view(-1), 1, is_dense=True)
    pairs = [(stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]
    repeats = prod(size for stride, size in pairs if not stride)
    pairs = sorted((pair for pair in pairs if pair[0]), reverse=True)
    expected = 1
    for stride, size in reversed(pairs):
        if stride != expected:
            sizes, strides = [size for _, size in pairs], [stride for stride, _ in pairs]
            return MemoryOrder(tensor.as_strided(sizes, strides), repeats, is_dense=False)
        expected *= size
    return MemoryOrder(tensor.as_strided((expected,), (1,)), repeats, is_dense=True)
