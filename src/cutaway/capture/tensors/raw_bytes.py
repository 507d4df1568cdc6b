"""Converts a torch tensor to raw bytes."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from cutaway.core.arrays import DTYPES, MAX_DIMENSIONS, MAX_EXPANDED, Raw
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text


def raw(tensor: Tensor) -> Raw:
    """The values of a tensor as bytes on the CPU, for any dtype, device, strides and conjugation.

    >>> raw(torch.tensor([1.0, -3.0], dtype=torch.bfloat16)).array()
    array([ 1., -3.], dtype=float32)

    A contiguous CPU tensor is not copied: use the bytes before the program continues. A quantized tensor gives its
    integers, with the name of its dtype; scale and zero point are not included.
    """
    if not isinstance(tensor, Tensor):
        raise InputTypeError(f"expected a torch.Tensor, got {type_text(tensor)}; for NumPy arrays, use Raw.of.")
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        _check(tensor)
        try:
            data = _bytes(tensor).numpy().data
        except (RuntimeError, NotImplementedError, TypeError) as error:  # TypeError: a subclass without the op
            reason = str(error).strip().partition("\n")[0]
            raise InputError(f"{_describe(tensor)} has no plain values ({reason}): {_remedy(tensor)}.") from error
        return Raw(_name(tensor.dtype), tuple(tensor.shape), data)


def compact(tensor: Tensor) -> tuple[Raw, tuple[int, ...]]:
    """The bytes of a tensor without the repetitions that `expand` makes, and the shape to which they are expanded.

    >>> stored, shape = compact(torch.tensor([[1.0], [2.0]]).expand(2, 1000))
    >>> stored.shape, stored.nbytes, shape
    ((2, 1), 8, (2, 1000))

    The shape is empty if nothing is repeated.
    """
    with torch.no_grad(), torch._C.DisableTorchFunction():
        if _name(tensor.dtype) in DTYPES and 0 < tensor.numel() <= MAX_EXPANDED:
            part = without_repeats(tensor)
            if part is not tensor:
                return raw(part), tuple(tensor.shape)
    return raw(tensor), ()


def without_repeats(tensor: Tensor) -> Tensor:
    """The part of a tensor that `expand` repeats, as a view; the tensor itself if nothing is repeated."""
    if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return tensor
    # A packed dtype has more numbers than elements in its last dimension.
    if tensor.is_nested or tensor.is_meta or tensor.is_quantized or _name(tensor.dtype) == "float4_e2m1fn_x2":
        return tensor
    dims = list(zip(tensor.shape, tensor.stride(), strict=True))
    if not any(size > 1 and not stride for size, stride in dims):
        return tensor
    return tensor.detach()[tuple(slice(0, 1) if size > 1 and not stride else slice(None) for size, stride in dims)]


@cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _bytes(tensor: Tensor) -> Tensor:
    # This runs for thousands of tensors per step: skip every conversion that is not needed.
    plain = tensor.detach()
    if type(plain) is not Tensor:
        plain = plain.as_subclass(Tensor)
    if not plain.numel():
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    _check_storage(plain)
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    if plain.is_quantized:
        plain = plain.int_repr()
    if plain.element_size() == 1:
        plain = plain.view(torch.uint8)  # first: torch cannot copy every one-byte dtype
    if not plain.is_cpu:
        plain = plain.cpu()
    flat = plain.contiguous().view(-1)
    if flat.stride(0) != 1:  # a single element keeps its old stride
        flat = flat.as_strided((1,), (1,))
    return flat.view(torch.uint8)


def _check_storage(tensor: Tensor) -> None:
    """Raises if the memory was freed: sharded training frees it but keeps the shape, and torch would read garbage."""
    if tensor.is_contiguous():
        reach = tensor.numel()
    else:
        reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    last = (tensor.storage_offset() + reach) * tensor.element_size()
    if tensor.untyped_storage().nbytes() < last:
        raise InputError(f"the memory of {_describe(tensor)} was freed: read it while the model uses it.")


def _check(tensor: Tensor) -> None:
    if is_lazy(tensor):
        raise InputError("this lazy parameter has no shape yet: run its module once first.")
    if tensor.is_meta:
        raise InputError(
            f"{_describe(tensor)} is on the meta device and has no values: run the model on a real device."
        )
    if tensor.is_nested:
        raise InputError(f"{_describe(tensor)} is nested: pass its parts (`.unbind()`) or `.to_padded_tensor(0)`.")
    if tensor.layout is not torch.strided:
        raise InputError(f"{_describe(tensor)} has the layout {tensor.layout}: convert it with `.to_dense()` first.")
    if _name(tensor.dtype) not in DTYPES:
        remedy = "call `.dequantize()` first" if tensor.is_quantized else "convert it with `.to()` first"
        raise InputError(f"{_describe(tensor)} has a dtype that cannot be stored: {remedy}.")
    if tensor.dim() > MAX_DIMENSIONS:
        raise InputError(
            f"{_describe(tensor)} has {tensor.dim()} dimensions; NumPy supports at most {MAX_DIMENSIONS}: reshape it."
        )


def _describe(tensor: Tensor) -> str:
    kind = "tensor" if type(tensor) in (Tensor, torch.nn.Parameter) else type(tensor).__name__
    return f"a {kind} of {tensor.dtype}"


def _remedy(tensor: Tensor) -> str:
    if hasattr(tensor, "to_local"):
        return "pass the part of this rank, `.to_local()`"
    return "pass a plain tensor instead"
