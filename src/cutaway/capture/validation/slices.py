"""Smaller arguments for functions that compute each part of their result from a part of their arguments.

One row of a `linear` shows as well as all rows that the result depends on the weight, and takes a thousandth of the
time. A slice can only show that a function depends on an argument; where it does not, the whole call is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cutaway.capture.validation.compare import has_no_numbers

_SMALL = 4096
"""Below this number of elements, the cost of a call is not that of its arithmetic."""
_KINDS = (Tensor, torch.nn.Parameter)

Slices = Callable[[Sequence[Tensor], tuple[Any, ...], Mapping[str, Any]], list[Tensor] | None]


def smaller(
    name: str, parents: Sequence[int], event: tuple[Any, ...], values: Mapping[int, Any]
) -> dict[int, Tensor] | None:
    """Slices of the values of all parents on which the same call works; None if there are none.

    Args:
        name: the name of the function.
        parents: the nodes of its tensors, in the order of its arguments.
        event: the call.
        values: their values by node.
    """
    take = _FUNCTIONS.get(name)
    if take is None or len(set(parents)) != len(parents):  # one tensor twice, and two slices of it
        return None
    tensors = [values[parent] for parent in parents]
    if not all(map(_is_plain, tensors)) or sum(tensor.numel() for tensor in tensors) < _SMALL:
        return None
    slices = take(tensors, event[1], event[2] or {})
    return None if slices is None else dict(zip(parents, slices, strict=True))


def _is_plain(value: Any) -> bool:
    return (
        type(value) in _KINDS
        and value.is_floating_point()
        and value.layout is torch.strided
        and not has_no_numbers(value)
        and value.numel() > 0
    )


def _first(tensor: Tensor, n_dims: int) -> Tensor:
    """The first index of each of the leading dimensions, which stay."""
    return tensor[(slice(0, 1),) * n_dims]


def _linear(tensors: Sequence[Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor] | None:
    if len(args) < 2 or tensors[0].dim() < 2 or tensors[1].dim() != 2:
        return None
    given, *rest = tensors
    return [_first(given, given.dim() - 1), *(each[:1] for each in rest)]


def _convolution(tensors: Sequence[Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor] | None:
    groups = args[6] if len(args) > 6 else kwargs.get("groups", 1)
    if len(args) < 2 or groups != 1 or tensors[0].dim() != tensors[1].dim():
        return None
    return [each[:1] for each in tensors]


def _product(tensors: Sequence[Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor] | None:
    if len(tensors) != 2 or min(each.dim() for each in tensors) < 2:
        return None
    return [tensors[0][..., :1, :], tensors[1][..., :1]]


def _addmm(tensors: Sequence[Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor] | None:
    if len(tensors) != 3 or len(args) < 3:
        return None
    bias, a, b = tensors
    return [bias[(slice(0, 1),) * bias.dim()], a[:1], b[:, :1]]


def _elementwise(tensors: Sequence[Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor] | None:
    # From the back, so that broadcasting stays the same: all dimensions but the last.
    return [_first(each, max(each.dim() - 1, 0)) for each in tensors] if "out" not in kwargs else None


def _layer_norm(tensors: Sequence[Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor] | None:
    shape = args[1] if len(args) > 1 else kwargs.get("normalized_shape")
    if not isinstance(shape, (tuple, list)):
        return None
    return [_first(tensors[0], tensors[0].dim() - len(shape)), *tensors[1:]]


_ELEMENTWISE = (
    *("add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_", "neg", "square", "sqrt", "rsqrt", "exp", "pow"),
    *("relu", "relu_", "gelu", "silu", "tanh", "sigmoid", "elu", "softplus"),
)
_FUNCTIONS: dict[str, Slices] = {
    "linear": _linear,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(("matmul", "mm", "bmm"), _product),
    "addmm": _addmm,
    "layer_norm": _layer_norm,
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
}
