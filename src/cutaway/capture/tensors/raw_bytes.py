"""From a torch tensor to its plain bytes."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from cutaway.core.arrays import DTYPES, MOST_DIMENSIONS, Raw
from cutaway.core.errors import InputError


def raw(tensor: Tensor) -> Raw:
    """The values of a tensor as bytes on the CPU, whatever its dtype, device, strides and conjugation.

    >>> raw(torch.tensor([1.0, -3.0], dtype=torch.bfloat16)).array()
    array([ 1., -3.], dtype=float32)

    A tensor that lies on the CPU without gaps is not copied: write the bytes, or copy them, before the program goes on.
    Of a quantised tensor these are the integers, under the name of its own dtype: scale and zero point are not in them.
    """
    if not isinstance(tensor, Tensor):
        raise InputError(f"a {type(tensor).__name__} is no tensor: Raw.of takes NumPy arrays.")
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        _check(tensor)
        try:
            data = _bytes(tensor).numpy().data
        except (RuntimeError, NotImplementedError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise InputError(f"{_named(tensor)} holds no plain values ({reason}): {_remedy(tensor)}.") from error
        return Raw(_name(tensor.dtype), tuple(tensor.shape), data)


@cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _bytes(tensor: Tensor) -> Tensor:
    # Thousands of tensors a step come through here: what is already as it should be is left out.
    plain = tensor.detach()
    if type(plain) is not Tensor:
        plain = plain.as_subclass(Tensor)
    if not plain.numel():
        return torch.empty(0, dtype=torch.uint8)
    _check_storage(plain)
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    if plain.is_quantized:
        plain = plain.int_repr()
    if plain.element_size() == 1:
        plain = plain.view(torch.uint8)  # first of all: torch cannot copy every dtype of one byte
    if not plain.is_cpu:
        plain = plain.cpu()
    flat = plain.contiguous().view(-1)
    if flat.stride(0) != 1:  # a single element keeps whatever stride it had
        flat = flat.as_strided((1,), (1,))
    return flat.view(torch.uint8)


def _check_storage(tensor: Tensor) -> None:
    """Sharded training frees the memory of a parameter and keeps its shape: torch would read what is there now."""
    if tensor.is_contiguous():
        reach = tensor.numel()
    else:
        reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    last = (tensor.storage_offset() + reach) * tensor.element_size()
    if tensor.untyped_storage().nbytes() < last:
        raise InputError(f"{_named(tensor)} has had its memory freed: look at it while the model uses it.")


def _check(tensor: Tensor) -> None:
    if is_lazy(tensor):
        raise InputError("this parameter has no shape yet: run the lazy module once before.")
    if tensor.is_meta:
        raise InputError(f"{_named(tensor)} is on the meta device and has no values: run the model on a real one.")
    if tensor.is_nested:
        raise InputError(f"{_named(tensor)} is nested: hand in its parts, `.unbind()`, or `.to_padded_tensor(0)`.")
    if tensor.layout is not torch.strided:
        raise InputError(f"{_named(tensor)} has the layout {tensor.layout}: make it plain with `.to_dense()` before.")
    if _name(tensor.dtype) not in DTYPES:
        remedy = "`.dequantize()` it before" if tensor.is_quantized else "convert it with `.to()` before"
        raise InputError(f"{_named(tensor)} has a dtype that cannot be stored: {remedy}.")
    if tensor.dim() > MOST_DIMENSIONS:
        raise InputError(
            f"{_named(tensor)} has {tensor.dim()} dimensions, NumPy {MOST_DIMENSIONS} at most: reshape it."
        )


def _named(tensor: Tensor) -> str:
    kind = "tensor" if type(tensor) in (Tensor, torch.nn.Parameter) else type(tensor).__name__
    return f"a {kind} of {tensor.dtype}"


def _remedy(tensor: Tensor) -> str:
    if hasattr(tensor, "to_local"):
        return "hand in the part of this rank, `.to_local()`"
    return "hand in a plain tensor instead"
