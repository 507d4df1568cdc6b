"""Memory to work in, kept from tensor to tensor: fresh memory costs more than the work that is done in it."""

from __future__ import annotations

import threading

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CHUNK = 131_072
"""Values that are worked on at a time: with as much scratch beside them they stay in the second cache."""

Chunk = NDArray[np.floating]


class Scratch(threading.local):
    """Pieces of main memory by name and dtype, each thread its own, made when first needed."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, torch.dtype], tuple[Tensor, Chunk]] = {}

    def __call__(self, name: str, dtype: torch.dtype) -> tuple[Tensor, Chunk]:
        """The same memory as a tensor and as an array. It is filled with ones."""
        made = self._made.get((name, dtype))
        if made is None:
            with torch.inference_mode(False):  # else it could not be written to outside of that mode
                tensor = torch.ones(CHUNK, dtype=dtype, device="cpu")
            made = self._made[name, dtype] = (tensor, tensor.numpy())
        return made


scratch = Scratch()
