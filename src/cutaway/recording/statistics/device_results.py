"""Inputs and results of the statistics of GPU tensors, which `triton_launch` or `device_torch` computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cutaway.recording.statistics.inputs import batch_layout, in_memory_order
from cutaway.recording.statistics.per_unit import MOST_UNITS, has_groups

PARTIAL = ("mean", "squares", "magnitude", "min", "max", "zeros", "nans", "infs", "batch_std")
"""Columns of a result: mean, sum of squared distances to it, sum of magnitudes, …"""


class DeviceInput(NamedTuple):
    """A tensor whose statistics are computed now."""

    number: int
    """Its row in the summary."""
    tensor: Tensor
    values: Tensor
    """Its values, contiguous and in memory order."""
    n: int
    repeats: int
    """How often each value counts."""
    batch: tuple[int, int]
    """The result of `batch_layout`; (0, 0) without samples."""
    sample_dim: int | None
    """The dimension of the array "samples"; None without one."""
    unit_dim: int | None
    """The dimension of the array "unit"; None without one."""

    @property
    def has_batch(self) -> bool:
        return self.batch[0] > 1

    @staticmethod
    def of(number: int, tensor: Tensor, batch_dim: int | None, unit_dim: int | None, *, is_full: bool) -> DeviceInput:
        """Prepare a plain tensor that is not empty.

        Args:
            batch_dim: its sample dimension, or None.
            unit_dim: its unit dimension, or None.
        """
        values, repeats, batch = tensor, 1, (0, 0)
        if not tensor.is_contiguous():
            ordered = in_memory_order(tensor)
            values = ordered.values if ordered.is_dense else ordered.values.contiguous()
            repeats = ordered.repeats
        if batch_dim is not None and tensor.shape[batch_dim] > 1:
            is_simple = values is tensor
            batch = (
                (tensor.shape[batch_dim], tensor.stride(batch_dim)) if is_simple else batch_layout(tensor, batch_dim)
            )
        sample_dim = batch_dim if is_full and has_groups(tensor, batch_dim) else None
        has_units = is_full and unit_dim is not None and has_groups(tensor, unit_dim, MOST_UNITS)
        if has_units and unit_dim is not None:
            has_units = tensor.numel() > tensor.shape[unit_dim]  # a single value has no standard deviation
        n = values.numel()
        return DeviceInput(number, tensor, values, n, repeats, batch, sample_dim, unit_dim if has_units else None)


@dataclass(frozen=True, slots=True)
class ArrayBlock:
    """Small arrays on the device, one after the other, such as those of the level "full"."""

    values: Tensor
    """float32, 1-D."""
    places: list[tuple[int, str, tuple[int, ...]]]
    """Row in the summary, name ("unit", "samples") and shape of each array."""

    @staticmethod
    def of(number: int, name: str, array: Tensor) -> ArrayBlock:
        """A block of one array."""
        return ArrayBlock(array.reshape(-1), [(number, name, tuple(array.shape))])


@dataclass(frozen=True, slots=True)
class DeviceResults:
    """The results of several tensors, on the device."""

    inputs: NDArray[np.int64]
    """(4, tensor): row in the summary, number of values in memory, repeats, whether it has a batch_std."""
    moments: Tensor
    """(tensor, column of PARTIAL)"""
    samples: Tensor
    """(tensor, N_SAMPLES), padded with NaN."""
    arrays: list[ArrayBlock] = field(default_factory=list)


def summary_of(inputs: list[DeviceInput]) -> NDArray[np.int64]:
    """What `DeviceResults.inputs` holds: without the tensors, whose memory may be freed."""
    # One array: it stays until the end of the step, and a tuple for each tensor is work for the garbage collector.
    columns = (
        [each.number for each in inputs],
        [each.n for each in inputs],
        [each.repeats for each in inputs],
        [each.has_batch for each in inputs],
    )
    return np.array(columns, np.int64)
