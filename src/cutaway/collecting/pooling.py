"""Pools positions into rows (first, last, average, max) and moves rows to the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.core.arrays import Array
from cutaway.store.activations.writer import Dtype

Aggregate = Literal["last", "first", "average", "max"]
AGGREGATES: tuple[Aggregate, ...] = ("last", "first", "average", "max")


@dataclass(frozen=True, slots=True)
class Spans:
    """The positions that make up each row. Positions are counted through all samples of a batch."""

    first: Tensor
    last: Tensor
    member: Tensor
    """All positions of all rows, concatenated."""
    row: Tensor
    """The row of each member."""
    n_members: Tensor
    """Number of members of each row, `[row, 1]`."""

    @staticmethod
    def of(
        first: NDArray[np.int64], last: NDArray[np.int64], left_out: NDArray[np.bool_] | None, device: torch.device
    ) -> Spans:
        """From the first and last position of each row; `left_out` marks positions in between to skip."""
        counts = last - first + 1
        starts = np.cumsum(counts) - counts
        member = np.repeat(first - starts, counts) + np.arange(counts.sum())
        row = np.repeat(np.arange(len(first)), counts)
        if left_out is not None:
            is_kept = ~left_out[member]
            member, row = member[is_kept], row[is_kept]
            counts = np.bincount(row, minlength=len(first))
        arrays = [torch.from_numpy(array).to(device) for array in (first, last, member, row, counts[:, None])]
        return Spans(*arrays)

    def pool(self, values: Tensor, aggregate: Aggregate) -> Tensor:
        """Pool values `[position, unit]` into one row per span; returns a copy in float32 or wider."""
        if aggregate == "first" or aggregate == "last":
            return _wide(values[self.first if aggregate == "first" else self.last])
        values = _wide(values[self.member])
        if len(self.member) == len(self.first):
            return values
        shape = (len(self.first), values.shape[1])
        if aggregate == "average":
            return values.new_zeros(shape).index_add_(0, self.row, values) / self.n_members
        # scatter_reduce_ needs an index of the shape of its source; expand takes no memory.
        index = self.row[:, None].expand(-1, values.shape[1])
        return values.new_full(shape, -torch.inf).scatter_reduce_(0, index, values, "amax")


def to_host(values: Mapping[str, Tensor], dtype: Dtype) -> dict[str, Array]:
    """Copy values to the CPU, already as float16 if that is the stored dtype and nothing overflows.

    torch casts several times faster than NumPy, and float16 halves the copy from a device. Values that overflow stay
    float32, so that the writer can report them.
    """
    if dtype != "float16" or not values:
        return {name: tensor.cpu().numpy().astype(np.float32, copy=False) for name, tensor in values.items()}
    narrow = {name: tensor.to(torch.float16) for name, tensor in values.items()}
    is_lost = torch.stack([(narrow[name].isinf() & tensor.isfinite()).any() for name, tensor in values.items()]).cpu()
    return {
        name: (values[name].to(torch.float32) if lost else tensor).cpu().numpy()
        for (name, tensor), lost in zip(narrow.items(), is_lost.tolist(), strict=True)
    }


def _wide(values: Tensor) -> Tensor:
    # Sums in half precision would be rounded, and NumPy has no bfloat16.
    return values if values.dtype in (torch.float32, torch.float64) else values.to(torch.float32)
