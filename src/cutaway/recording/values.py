"""Copies the values of selected samples and moves them to the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from cutaway.capture.tensors.raw_bytes import raw
from cutaway.core.arrays import Raw
from cutaway.core.errors import InputError
from cutaway.core.units.layout import UnitLayout

_MOST_WHOLE = 65_536
"""A tensor without a sample dimension is stored whole up to this many elements."""


class SampleSelection:
    """Selects the samples of a batch whose values are stored.

    Args:
        samples: how many, counted from the first; or which indices.
        batch_dim: the sample dimension of the model's inputs; None if unknown.
    """

    def __init__(self, samples: int | Sequence[int], batch_dim: int | None = 0) -> None:
        self.samples = samples
        self.batch_dim = batch_dim
        self.batch_size: int | None = None
        """Samples in the current batch; inferred from the first model input unless the user states it."""
        self.is_batch_size_given = False
        self.n_bytes = 0
        self.is_postponed = False
        """Whether the samples are chosen at the end of the step: until then the whole tensor is held."""

    @property
    def is_off(self) -> bool:
        """Whether no values are stored."""
        if self.is_postponed:
            return False
        return self.samples == 0 if isinstance(self.samples, int) else not len(self.samples)

    def infer_batch_size(self, inputs: Iterable[Tensor]) -> None:
        """Take the batch size from the model's inputs, unless the user or the graph (`use_layout`) has set it."""
        if not self.is_batch_size_given and self.batch_dim is not None:
            for tensor in inputs:
                if not tensor.is_nested and -tensor.dim() <= self.batch_dim < tensor.dim():
                    self.batch_size = tensor.shape[self.batch_dim]
                    return

    def use_layout(self, layout: UnitLayout | None) -> None:
        """Take the batch size from the layout of a model input, unless the user has set it."""
        if not self.is_batch_size_given and layout is not None and len(layout.samples) == 1:
            self.batch_size = layout.sizes[layout.samples[0]]

    def indices(self, n_samples: int) -> list[int]:
        """The indices of the stored samples in a batch of this size."""
        if isinstance(self.samples, int):
            return list(range(min(self.samples, n_samples)))
        return [number for number in self.samples if number < n_samples]

    def copy_samples(self, tensor: Tensor, layout: UnitLayout | None) -> Tensor | None:
        """Copy the stored samples of a tensor on its own device; None if nothing of it is stored.

        Args:
            layout: determines the sample axis. A tensor without one is stored whole if it is small.
        """
        if self.is_off or tensor.layout is not torch.strided or tensor.is_meta or tensor.is_nested:
            return None
        part = tensor.detach()
        if hasattr(part, "to_local"):
            part = part.to_local()  # DTensor: store the local shard
        if self.is_postponed:
            return part
        if layout is not None and len(layout.samples) == 1 and tuple(part.shape) == layout.shape:
            part = self._select_samples(part, layout)
        elif part.numel() > _MOST_WHOLE:
            return None
        copy = part.clone(memory_format=torch.contiguous_format)
        self.n_bytes += copy.nbytes
        return copy

    def _select_samples(self, tensor: Tensor, layout: UnitLayout) -> Tensor:
        """The stored samples, with as many dimensions as the tensor."""
        axis = layout.samples[0]
        sizes = layout.sizes
        part = tensor if len(sizes) == tensor.dim() else tensor.reshape(sizes)
        if isinstance(self.samples, int):
            # A view: index_select would copy an index tensor to the device first.
            part = part.narrow(axis, 0, min(self.samples, sizes[axis]))
        else:
            indices = torch.tensor(self.indices(sizes[axis]), dtype=torch.long, device=part.device)
            part = part.index_select(axis, indices)
        if len(sizes) == tensor.dim():
            return part
        dim = layout.dim_of(axis)
        shape = [*tensor.shape]
        shape[dim] = shape[dim] // sizes[axis] * part.shape[axis]
        return part.reshape(shape)


def to_host(tensors: Sequence[Tensor]) -> list[Raw | None]:
    """Tensors as bytes. All tensors of a GPU are concatenated and copied once, with one wait per device.

    None for tensors without plain bytes: fake tensors, wrappers.
    """
    raws: dict[int, Raw | None] = {}
    by_device: dict[torch.device, list[int]] = {}
    for number, tensor in enumerate(tensors):
        if tensor.is_cuda and type(tensor) is Tensor and tensor.is_contiguous() and tensor.numel():
            by_device.setdefault(tensor.device, []).append(number)
        else:
            raws[number] = _raw_or_none(tensor)
    for numbers in by_device.values():
        on_device = [tensors[number] for number in numbers]
        # Not pinned memory: it copies faster, but allocating it costs far more, and it could not be reused soon.
        host = torch.cat([tensor.reshape(-1).view(torch.uint8) for tensor in on_device]).cpu().numpy()
        start = 0
        for number, tensor in zip(numbers, on_device, strict=True):
            stop = start + tensor.nbytes
            raws[number] = Raw(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), host[start:stop].data)
            start = stop
    return [raws[number] for number in range(len(tensors))]


def _raw_or_none(tensor: Tensor) -> Raw | None:
    try:
        return raw(tensor)
    except InputError:
        return None
