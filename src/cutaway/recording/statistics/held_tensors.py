"""Tensors of a device that wait for a common launch.

A tensor is held by reference if nothing is expected to write to it until then. Its version counter tells whether
something did; its values are lost in that case, and the caller is told. Other tensors are copied, or not held at all.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MOST_BYTES = 1 << 30
"""Largest memory that may be held at a time; at most 1/64 of the memory of the device."""
MOST_COPY_BYTES = 64 << 20
"""A larger tensor that may be overwritten is not copied but computed at once."""


class HeldTensor(NamedTuple):
    """A tensor that waits for its statistics.

    A tuple, because a frozen dataclass takes several times as long to create.
    """

    number: int
    """Its row in the summary."""
    tensor: Tensor
    version: int | None
    """Its version counter when it was added; None for a copy."""
    batch_dim: int | None
    unit_dim: int | None
    stream: int
    """The CUDA stream that was current when it was added; 0 on devices without streams."""

    @property
    def is_intact(self) -> bool:
        """Whether it still has the values that it was added with."""
        return (self.version is None or self.tensor._version == self.version) and has_memory(self.tensor)


class HeldTensors:
    """The waiting tensors of a device, up to a number of bytes."""

    def __init__(self, device: torch.device) -> None:
        self._waiting: list[HeldTensor] = []
        self._storages: set[int] = set()
        self._n_bytes = 0
        self._most_bytes = _most_bytes(device)

    def add(
        self, number: int, tensor: Tensor, dims: tuple[int | None, int | None], stream: int, *, is_stable: bool
    ) -> bool:
        """Hold a tensor or a copy of it. Returns whether `take` must follow at once.

        Args:
            dims: its sample dimension and its unit dimension.
            is_stable: whether nothing is expected to write to the tensor before `take`.
        """
        version: int | None = None
        is_urgent = False
        if is_stable and not tensor.is_inference():
            version = tensor._version
        elif tensor.nbytes <= MOST_COPY_BYTES and _is_dense(tensor):
            tensor = tensor.clone()
        else:
            is_urgent = True
        self._waiting.append(HeldTensor(number, tensor, version, *dims, stream))
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._storages:  # a view keeps all of its memory alive
            self._storages.add(key)
            self._n_bytes += storage.nbytes()
        return is_urgent or self._n_bytes > self._most_bytes

    def take(self) -> dict[int, list[HeldTensor]]:
        """Remove all tensors. Returns them by CUDA stream."""
        by_stream: dict[int, list[HeldTensor]] = {}
        for each in self._waiting:
            by_stream.setdefault(each.stream, []).append(each)
        self._waiting, self._storages, self._n_bytes = [], set(), 0
        return by_stream


def _most_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return MOST_BYTES
    return min(MOST_BYTES, torch.cuda.get_device_properties(device).total_memory // 64)


def has_memory(tensor: Tensor) -> bool:
    """Whether its storage still covers it: offloading and FSDP shrink storages to free them."""
    storage = tensor.untyped_storage()
    if tensor.is_contiguous():  # what nearly all are
        return storage.nbytes() >= (tensor.storage_offset() + tensor.numel()) * tensor.element_size()
    extent = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return storage.nbytes() >= (tensor.storage_offset() + extent + 1) * tensor.element_size()


def _is_dense(tensor: Tensor) -> bool:
    """Whether a copy has the same strides: of an expanded tensor it would be larger."""
    is_channels_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return is_channels_last or tensor.is_contiguous()
