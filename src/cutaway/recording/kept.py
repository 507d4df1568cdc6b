"""Values that are kept: those of the first samples of a batch, or of chosen ones, brought to the CPU at the end."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cutaway.capture.raw import raw
from cutaway.core.arrays import Raw

_MOST_WHOLE = 65_536
"""A tensor without a batch dimension is kept whole up to so many elements."""


class Keeper:
    """Cuts the kept samples out of tensors.

    Args:
        samples: how many, from the first; or which.
        batch_dim: the dimension that counts samples.
    """

    def __init__(self, samples: int | Sequence[int], batch_dim: int = 0) -> None:
        self.samples = samples
        self.batch_dim = batch_dim
        self.batch_size: int | None = None
        """Samples in this step's batch; learnt from the first input if nobody said it."""
        self.n_bytes = 0

    @property
    def is_off(self) -> bool:
        """Whether no values are kept at all."""
        return self.samples == 0 if isinstance(self.samples, int) else not len(self.samples)

    def chosen(self, n_samples: int) -> list[int]:
        """The numbers of the samples that are kept of so many."""
        if isinstance(self.samples, int):
            return list(range(min(self.samples, n_samples)))
        return [number for number in self.samples if number < n_samples]

    def batch_dim_of(self, tensor: Tensor, batch_dim: int | None = None) -> int | None:
        """The dimension of a tensor that counts samples; None if it has none."""
        dim = self.batch_dim if batch_dim is None else batch_dim
        if self.batch_size is None or not -tensor.dim() <= dim < tensor.dim():
            return None
        return dim if tensor.shape[dim] == self.batch_size else None

    def keep(self, tensor: Tensor, batch_dim: int | None = None) -> Tensor | None:
        """A copy of the kept samples, where the tensor is; None if nothing of it is kept."""
        if self.is_off or tensor.layout is not torch.strided or tensor.is_meta:
            return None
        dim = self.batch_dim_of(tensor, batch_dim)
        part = tensor.detach()
        if dim is not None:
            if isinstance(self.samples, int):
                part = part.narrow(dim, 0, min(self.samples, part.shape[dim]))
            else:
                wanted = torch.tensor(self.chosen(part.shape[dim]), device=part.device)
                part = part.index_select(dim, wanted)
        elif part.numel() > _MOST_WHOLE:
            return None
        copy = part.clone(memory_format=torch.contiguous_format)
        self.n_bytes += copy.nbytes
        return copy


def collected(tensors: Sequence[Tensor]) -> list[Raw]:
    """Tensors as bytes; those on a device are copied all at once, with one wait for each device."""
    arrived: list[Tensor] = []
    devices = set()
    for tensor in tensors:
        if tensor.device.type == "cuda":
            beside = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            beside.copy_(tensor, non_blocking=True)
            devices.add(tensor.device)
            arrived.append(beside)
        else:
            arrived.append(tensor)
    for device in devices:
        torch.cuda.current_stream(device).synchronize()
    return [raw(tensor) for tensor in arrived]
