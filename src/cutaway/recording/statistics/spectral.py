"""The largest singular value of a matrix, without random numbers and without waiting for a device.

Golub–Kahan–Lanczos steps from a fixed start, every vector made orthogonal to all before it. They leave a small
bidiagonal matrix, whose largest singular value is computed on the host when the step is read.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.recording.statistics.inputs import widened
from cutaway.recording.statistics.quantiles import GOLDEN

N_STEPS = 48
"""Enough for 1e-3 where singular values lie closest: random matrices, whose bulk ends without a gap."""
_NOTHING = 1e-5


def bidiagonal(tensor: Tensor) -> Tensor | None:
    """What `largest` needs, as one small float32 tensor where the matrix is; None if it is no matrix.

    Args:
        tensor: of two dimensions or more; behind the first they count as one.
    """
    if tensor.dim() < 2 or not tensor.numel():
        return None
    matrix = widened(tensor).reshape(tensor.shape[0], -1)
    scale = matrix.abs().amax()
    matrix = matrix / scale.clamp(min=torch.finfo(matrix.dtype).tiny)  # else squares of small values vanish
    n_steps = min(*matrix.shape, N_STEPS)
    left = matrix.new_zeros(n_steps, matrix.shape[0])
    right = matrix.new_zeros(n_steps, matrix.shape[1])
    sizes = matrix.new_zeros(2, n_steps)  # the diagonal, and the one above it
    vector = _start(matrix)
    for step in range(n_steps):
        right[step] = vector
        left[step] = _next(matrix.mv(vector), left[:step], sizes, sizes[0, step])
        vector = _next(matrix.mT.mv(left[step]), right[: step + 1], sizes, sizes[1, step])
    return torch.cat([scale[None], sizes.reshape(-1)]).to(torch.float32)


def _next(vector: Tensor, before: Tensor, sizes: Tensor, size: Tensor) -> Tensor:
    """A vector made orthogonal to those before it and of length one; its own length is written to `size`.

    Zero if next to nothing is left of it: the steps have seen all there is, and the rest is rounding.
    """
    for _ in range(2):  # once is not enough in floating point
        vector = vector - before.mT.mv(before.mv(vector))
    size.copy_(torch.linalg.vector_norm(vector))
    return torch.where(size > _NOTHING * sizes.max(), vector / size, 0)


def largest(found: NDArray[np.float32]) -> float:
    """The largest singular value, from what `bidiagonal` left."""
    scale, sizes = float(found[0]), found[1:].reshape(2, -1).astype(np.float64)
    if not (isfinite(scale) and np.isfinite(sizes).all()):
        return float("nan")
    small = np.diag(sizes[0]) + np.diag(sizes[1, :-1], 1)
    return scale * float(np.linalg.svd(small, compute_uv=False)[0])


def _start(matrix: Tensor) -> Tensor:
    """A fixed vector that is near to orthogonal to nothing."""
    number = torch.arange(1, matrix.shape[1] + 1, device=matrix.device)
    vector = (number * GOLDEN % 2**32).to(matrix.dtype) / 2**32 - 0.4  # nor to a constant
    start: Tensor = vector / torch.linalg.vector_norm(vector)
    return start
