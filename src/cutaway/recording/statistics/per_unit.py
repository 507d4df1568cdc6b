"""Statistics of each unit and of each sample of a tensor, for the level "full"; on any device, without waiting.

Sums, lowest and highest over some dimensions are what torch does fast; its variance is not (3 ms for 131,072
values on a CPU), so that it is put together from sums here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import torch
from torch import Tensor

from cutaway.recording.statistics.inputs import widened
from cutaway.recording.statistics.scratch import CHUNK, scratch

MOST_UNITS = 16_384
"""A tensor with more units has no statistics of each."""

_ACROSS = (0, 2)


def of_units(tensor: Tensor, dim: int) -> Tensor:
    """`PER_UNIT` of each index of a dimension: float32 `(5, unit)`, where the tensor is."""
    values = _grouped(tensor, dim)  # (outer, unit, inner)
    mean, std = _mean_std(values)
    low, high = _extremes(values)
    zeros = _joined(values, lambda part, _: torch.eq(part, 0, out=_beside(part)).sum(_ACROSS))
    return _stacked([mean, std, low, high, zeros / _size(values)])


def of_samples(tensor: Tensor, dim: int) -> Tensor:
    """`PER_SAMPLE` of each index of a dimension: float32 `(4, sample)`, where the tensor is."""
    values = _grouped(tensor, dim)  # (outer, sample, inner)
    mean, std = _mean_std(values)
    low, high = _extremes(values)
    magnitude = _joined(values, lambda part, _: torch.abs(part, out=_beside(part)).sum(_ACROSS))
    return _stacked([mean, magnitude / _size(values), std, torch.maximum(-low, high)])


def has_groups(tensor: Tensor, dim: int | None, most: int | None = None) -> bool:
    """Whether a tensor has such a dimension, and something in it."""
    if dim is None or not tensor.numel() or not -tensor.dim() <= dim < tensor.dim():
        return False
    return most is None or tensor.shape[dim] <= most


def _grouped(tensor: Tensor, dim: int) -> Tensor:
    shape, dim = tensor.shape, dim % tensor.dim()
    values = widened(tensor)
    return values.reshape(prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :]))


def _size(values: Tensor) -> int:
    return values.shape[0] * values.shape[2]


def _stacked(rows: list[Tensor]) -> Tensor:
    return torch.stack([row.to(torch.float32) for row in rows])


# parts that stay in the cache; on other devices there is one part


def _parts(values: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Parts of `(outer, group, inner)`, and which groups they are of."""
    n_outer, n_groups, n_inner = values.shape
    everything = slice(0, n_groups)
    if not values.is_cpu or values.numel() <= CHUNK:
        yield everything, values
    elif n_outer > 1:
        step = max(1, CHUNK // (n_groups * n_inner))
        for start in range(0, n_outer, step):
            yield everything, values[start : start + step]
    else:
        step = max(1, CHUNK // n_inner)
        for start in range(0, n_groups, step):
            groups = slice(start, min(start + step, n_groups))
            yield groups, values[:, groups]


def _beside(part: Tensor) -> Tensor:
    """Memory for a tensor of the same shape."""
    if not part.is_cpu or part.numel() > CHUNK:
        return torch.empty_like(part, memory_format=torch.contiguous_format)
    return scratch("beside", part.dtype)[0][: part.numel()].view(part.shape)


def _joined(
    values: Tensor, of: Callable[[Tensor, slice], Tensor], join: Callable[[Tensor], Tensor] = lambda parts: parts.sum(0)
) -> Tensor:
    """A function of each part, put together to one number for each group."""
    found = [of(part, groups) for groups, part in _parts(values)]
    if len(found) == 1:
        return found[0]
    return torch.cat(found) if values.shape[0] == 1 else join(torch.stack(found).to(torch.float64))


def _mean_std(values: Tensor) -> tuple[Tensor, Tensor]:
    """Around a first mean, so that nothing cancels, and corrected by what is left."""
    n = _size(values)
    near = (_joined(values, lambda part, _: part.sum(_ACROSS)) / n).to(values.dtype)

    def sums(part: Tensor, groups: slice) -> Tensor:
        distances = torch.sub(part, near[groups, None], out=_beside(part))
        total = distances.sum(_ACROSS)
        return torch.stack([total, distances.mul_(distances).sum(_ACROSS)], dim=1)  # (group, 2)

    rest, squares = (_joined(values, sums) / n).unbind(1)
    return near + rest, (squares - rest * rest).clamp_(min=0).sqrt_()


def _extremes(values: Tensor) -> tuple[Tensor, Tensor]:
    low = _joined(values, lambda part, _: part.amin(_ACROSS), lambda parts: parts.amin(0))
    high = _joined(values, lambda part, _: part.amax(_ACROSS), lambda parts: parts.amax(0))
    return low, high
