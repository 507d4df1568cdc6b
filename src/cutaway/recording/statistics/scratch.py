"""Reusable scratch buffers per thread: allocating them costs more than the work."""

from __future__ import annotations

import threading

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CHUNK = 131_072
"""Values to process at a time: with as much scratch memory beside them they fit into the L2 cache."""

Chunk = NDArray[np.floating]


class Scratch(threading.local):
    """Buffers by name and dtype, one set per thread, allocated on first use."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype], tuple[Tensor, Chunk]] = {}

    def __call__(self, name: str, dtype: torch.dtype) -> tuple[Tensor, Chunk]:
        """One buffer as a tensor and as an array. It is filled with ones when allocated."""
        buffer = self._buffers.get((name, dtype))
        if buffer is None:
            with torch.inference_mode(False):  # an inference tensor could not be written to outside of inference mode
                tensor = torch.ones(CHUNK, dtype=dtype, device="cpu")
            buffer = self._buffers[name, dtype] = (tensor, tensor.numpy())
        return buffer


scratch = Scratch()
