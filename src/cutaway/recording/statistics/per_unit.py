"""Statistics per unit and per sample for the level "full", on any device, without waiting.

torch is fast at sums, minima and maxima over dimensions. Its variance is not (3 ms for 131,072 values on a CPU), so
the variance is computed from sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import torch
from torch import Tensor

from cutaway.recording.statistics.inputs import widen
from cutaway.recording.statistics.scratch import CHUNK, scratch

MOST_UNITS = 16_384
"""A tensor with more units gets no statistics per unit."""

_REDUCED_DIMS = (0, 2)


def unit_statistics(tensor: Tensor, dim: int) -> Tensor:
    """`PER_UNIT` for each index of a dimension: float32 `(5, unit)`, on the tensor's device."""
    values = _group(tensor, dim)  # (outer, unit, inner)
    mean, std = _mean_std(values)
    low, high = _extremes(values)
    zeros = _reduce_parts(values, lambda part, _: torch.eq(part, 0, out=_scratch_like(part)).sum(_REDUCED_DIMS))
    return _stack([mean, std, low, high, zeros / _n_per_group(values)])


def sample_statistics(tensor: Tensor, dim: int) -> Tensor:
    """`PER_SAMPLE` for each index of a dimension: float32 `(4, sample)`, on the tensor's device."""
    values = _group(tensor, dim)  # (outer, sample, inner)
    mean, std = _mean_std(values)
    low, high = _extremes(values)
    magnitude = _reduce_parts(values, lambda part, _: torch.abs(part, out=_scratch_like(part)).sum(_REDUCED_DIMS))
    return _stack([mean, magnitude / _n_per_group(values), std, torch.maximum(-low, high)])


def has_groups(tensor: Tensor, dim: int | None, most: int | None = None) -> bool:
    """Whether a tensor has this dimension and is not empty."""
    if dim is None or not tensor.numel() or not -tensor.dim() <= dim < tensor.dim():
        return False
    return most is None or tensor.shape[dim] <= most


def _group(tensor: Tensor, dim: int) -> Tensor:
    shape, dim = tensor.shape, dim % tensor.dim()
    values = widen(tensor)
    return values.reshape(prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :]))


def _n_per_group(values: Tensor) -> int:
    return values.shape[0] * values.shape[2]


def _stack(rows: list[Tensor]) -> Tensor:
    return torch.stack([row.to(torch.float32) for row in rows])


# chunks that fit into the cache; on other devices there is one chunk


def _parts(values: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Chunks of `(outer, group, inner)`, and the groups they belong to."""
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


def _scratch_like(part: Tensor) -> Tensor:
    """Scratch memory for a tensor of the same shape."""
    if not part.is_cpu or part.numel() > CHUNK:
        return torch.empty_like(part, memory_format=torch.contiguous_format)
    return scratch("beside", part.dtype)[0][: part.numel()].view(part.shape)


def _reduce_parts(
    values: Tensor, of: Callable[[Tensor, slice], Tensor], join: Callable[[Tensor], Tensor] = lambda parts: parts.sum(0)
) -> Tensor:
    """Apply a function to each chunk, and combine the results to one number per group."""
    results = [of(part, groups) for groups, part in _parts(values)]
    if len(results) == 1:
        return results[0]
    return torch.cat(results) if values.shape[0] == 1 else join(torch.stack(results).to(torch.float64))


def _mean_std(values: Tensor) -> tuple[Tensor, Tensor]:
    """Computed around a first estimate of the mean, so that nothing cancels, then corrected."""
    n = _n_per_group(values)
    near = (_reduce_parts(values, lambda part, _: part.sum(_REDUCED_DIMS)) / n).to(values.dtype)

    def sums(part: Tensor, groups: slice) -> Tensor:
        distances = torch.sub(part, near[groups, None], out=_scratch_like(part))
        total = distances.sum(_REDUCED_DIMS)
        return torch.stack([total, distances.mul_(distances).sum(_REDUCED_DIMS)], dim=1)  # (group, 2)

    rest, squares = (_reduce_parts(values, sums) / n).unbind(1)
    return near + rest, (squares - rest * rest).clamp_(min=0).sqrt_()


def _extremes(values: Tensor) -> tuple[Tensor, Tensor]:
    low = _reduce_parts(values, lambda part, _: part.amin(_REDUCED_DIMS), lambda parts: parts.amin(0))
    high = _reduce_parts(values, lambda part, _: part.amax(_REDUCED_DIMS), lambda parts: parts.amax(0))
    return low, high
