"""Any tensor as plain numbers in memory: what statistics may be taken of, whatever it is wrapped in.

All statistics here are free of order, so a transposed tensor is read in the order of its memory, and an expanded
one is read once and counted often.
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
_NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16}) | {
    dtype for name, dtype in vars(torch).items() if name.startswith(("float8_", "float4_"))
}
"""The dtypes that float32 holds exactly."""


def wide_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype in which the numbers of a tensor are added up: float32 if it holds them exactly, else float64."""
    return torch.float32 if tensor.dtype in _NARROW or tensor.device.type == "mps" else torch.float64


def widened(tensor: Tensor) -> Tensor:
    """The numbers of a tensor in `wide_dtype`."""
    return tensor.to(wide_dtype(tensor))


def outside_transforms() -> AbstractContextManager[object]:
    """Within `torch.func.grad`, `vmap`…, leave them for a while: else each result is wrapped by them again."""
    if torch._C._functorch.peek_interpreter_stack() is None:
        return nullcontext()
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    found: AbstractContextManager[object] = temporarily_clear_interpreter_stack()
    return found


def plain(tensor: Any) -> Tensor | None:
    """The numbers of a tensor as an ordinary strided tensor of a real dtype, or None if it has none.

    Of a DTensor the local part, of a sparse tensor the values that are stored, of a quantised one what they stand
    for, of a nested one all its values, of complex numbers their magnitudes. Meta and fake tensors have none.
    """
    for _ in range(_DEPTH if _is_wrapped(tensor) else 0):
        inner = _opened(tensor)
        if inner is tensor:
            break
        tensor = inner
    if tensor.is_meta or _is_hollow(tensor):
        return None
    found: Tensor = tensor.detach()
    if found.is_complex():
        return (found.to(torch.complex64) if found.dtype == torch.complex32 else found).abs()
    return found.resolve_neg()


def _is_wrapped(tensor: Any) -> bool:
    if type(tensor) not in _ORDINARY or tensor.layout is not torch.strided:
        return True
    is_transformed: bool = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return is_transformed or tensor.is_nested or tensor.is_quantized


def _opened(tensor: Any) -> Any:
    """What is inside of one layer of wrapping; the tensor itself if there is none."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return torch._C._functorch.get_unwrapped(tensor)
    if hasattr(tensor, "to_local"):
        return tensor.detach().to_local()
    if tensor.is_nested:
        return tensor.detach().values()
    if tensor.layout is torch.sparse_coo:
        return tensor.detach().coalesce().values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
        return tensor.detach().values()
    if tensor.layout is not torch.strided:
        return tensor.detach().to_dense()
    if tensor.is_quantized:
        return tensor.detach().dequantize()
    if type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__ and hasattr(tensor, "wait"):
        return tensor.wait()  # the result of a collective that is under way
    return tensor


def _is_hollow(tensor: Tensor) -> bool:
    """Whether a tensor only says what it would be: fake tensors, and wrappers that have no memory of their own."""
    if type(tensor) in _ORDINARY or type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__:
        return False
    if _is_fake(tensor):
        return True
    try:
        return tensor.data_ptr() == 0 and tensor.numel() > 0
    except RuntimeError:
        return True


def _is_fake(tensor: Tensor) -> bool:
    fake = sys.modules.get("torch._subclasses.fake_tensor")  # without it there are none
    return fake is not None and isinstance(tensor, fake.FakeTensor)


@dataclass(frozen=True, slots=True)
class Operand:
    """Numbers in the order of memory."""

    values: Tensor
    """One-dimensional and contiguous if they lie side by side, else strided, the largest stride first."""
    repeats: int
    """How often each of them counts."""
    is_dense: bool


def has_samples(tensor: Tensor, batch_dim: int | None) -> bool:
    """Whether a tensor has such a dimension, and two samples or more in it."""
    return batch_dim is not None and -tensor.dim() <= batch_dim < tensor.dim() and tensor.shape[batch_dim] > 1


def batch_layout(tensor: Tensor, batch_dim: int) -> tuple[int, int]:
    """Where samples are among the values of `in_memory_order`: their number, and how far apart two of them are.

    The distance is 0 where the dimension is expanded: all samples are the same memory.
    """
    stride, size = tensor.stride(batch_dim), tensor.shape[batch_dim]
    if not stride:
        return size, 0
    faster = sorted(pair for pair in zip(tensor.stride(), tensor.shape, strict=True) if pair[0] and pair[1] != 1)
    return size, prod(length for _, length in faster[: faster.index((stride, size))])


def in_memory_order(tensor: Tensor) -> Operand:
    """A plain tensor as its memory holds it."""
    if tensor.is_contiguous():
        return Operand(tensor.view(-1), 1, is_dense=True)
    pairs = [(stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]
    repeats = prod(size for stride, size in pairs if not stride)
    pairs = sorted((pair for pair in pairs if pair[0]), reverse=True)
    expected = 1
    for stride, size in reversed(pairs):
        if stride != expected:
            sizes, strides = [size for _, size in pairs], [stride for stride, _ in pairs]
            return Operand(tensor.as_strided(sizes, strides), repeats, is_dense=False)
        expected *= size
    return Operand(tensor.as_strided((expected,), (1,)), repeats, is_dense=True)
