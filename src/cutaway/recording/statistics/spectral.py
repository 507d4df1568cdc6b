"""The spectral norm of a matrix by Golub–Kahan–Lanczos, deterministic and without waiting.

The iteration starts from a fixed vector, with full reorthogonalization. It yields a small bidiagonal matrix, whose
largest singular value is computed on the host when the step is read.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.recording.statistics.inputs import widen
from cutaway.recording.statistics.quantiles import GOLDEN

N_STEPS = 48
"""Enough for a relative error of 1e-3 in the worst case: random matrices, whose spectrum has no gap at the top."""
_NEGLIGIBLE = 1e-5


def bidiagonal(tensor: Tensor) -> Tensor | None:
    """The input of `largest_singular_value` as a small float32 tensor on the matrix's device; None if not a matrix.

    Args:
        tensor: two dimensions or more; all but the first are flattened.
    """
    if tensor.dim() < 2 or not tensor.numel():
        return None
    matrix = widen(tensor).reshape(tensor.shape[0], -1)
    scale = matrix.abs().amax()
    matrix = matrix / scale.clamp(min=torch.finfo(matrix.dtype).tiny)  # squares of small values would underflow
    n_steps = min(*matrix.shape, N_STEPS)
    left = matrix.new_zeros(n_steps, matrix.shape[0])
    right = matrix.new_zeros(n_steps, matrix.shape[1])
    sizes = matrix.new_zeros(2, n_steps)  # the diagonal and the superdiagonal
    vector = _start_vector(matrix)
    for step in range(n_steps):
        right[step] = vector
        left[step] = _orthonormalize(matrix.mv(vector), left[:step], sizes, sizes[0, step])
        vector = _orthonormalize(matrix.mT.mv(left[step]), right[: step + 1], sizes, sizes[1, step])
    return torch.cat([scale[None], sizes.reshape(-1)]).to(torch.float32)


def _orthonormalize(vector: Tensor, before: Tensor, sizes: Tensor, size: Tensor) -> Tensor:
    """Orthogonalize a vector against earlier ones and normalize it; writes its length to `size`.

    Returns zeros if the rest is negligible: the Krylov space is exhausted, and what is left is rounding error.
    """
    for _ in range(2):  # Gram–Schmidt twice: once is not enough in floating point
        vector = vector - before.mT.mv(before.mv(vector))
    size.copy_(torch.linalg.vector_norm(vector))
    return torch.where(size > _NEGLIGIBLE * sizes.max(), vector / size, 0)


def largest_singular_value(packed: NDArray[np.float32]) -> float:
    """The largest singular value, from the result of `bidiagonal`."""
    scale, sizes = float(packed[0]), packed[1:].reshape(2, -1).astype(np.float64)
    if not (isfinite(scale) and np.isfinite(sizes).all()):
        return float("nan")
    small = np.diag(sizes[0]) + np.diag(sizes[1, :-1], 1)
    return scale * float(np.linalg.svd(small, compute_uv=False)[0])


def _start_vector(matrix: Tensor) -> Tensor:
    """A fixed start vector that is unlikely to be orthogonal to the top singular vector."""
    number = torch.arange(1, matrix.shape[1] + 1, device=matrix.device)
    vector = (number * GOLDEN % 2**32).to(matrix.dtype) / 2**32 - 0.4  # not orthogonal to a constant vector either
    start: Tensor = vector / torch.linalg.vector_norm(vector)
    return start
