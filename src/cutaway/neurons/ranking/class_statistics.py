"""Per-class sums of every unit, computed in one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels

Floats = NDArray[np.float64]
_DEAD = 1e-6
"""Relative to the upper quartile of the deviations. Rounding to float16 moves dead units by about a tenth of this."""
_DEAD_BESIDE_MEAN = 1e-7
"""Relative to the mean of the unit: the resolution of float32."""
_DEAD_OF_DOUBLES = (1e-10, 1e-14)
"""The same two limits for float64, which resolves units on a small scale."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums of `x - shift` in float64. The shift avoids catastrophic cancellation in the squares."""

    n_rows: int
    shift: Floats
    """(unit,): the mean of the first block."""
    sums: Floats
    """(label, unit): over the rows of each label; if labels are numbers, weighted by the number of each row."""
    totals: Floats
    """(unit,): over all rows."""
    squares: Floats
    """(unit,)."""
    low: Floats
    high: Floats
    """(unit,): minimum and maximum."""
    dtype: np.dtype[Any]
    """dtype of the activations."""

    @property
    def mean(self) -> Floats:
        """(unit,): mean over all rows."""
        return self.shift + self.totals / self.n_rows

    @property
    def deviations(self) -> Floats:
        """(unit,): sum of squared deviations from the mean."""
        return np.maximum(self.squares - self.totals**2 / self.n_rows, 0.0)

    @property
    def std(self) -> Floats:
        """(unit,): population standard deviation over all rows."""
        return np.sqrt(self.deviations / self.n_rows)

    @property
    def dead(self) -> NDArray[np.int64]:
        """Units that are constant up to rounding."""
        return dead_units(self.std, self.mean, self.dtype)


def moments(matrix: Matrix, encoded: EncodedLabels) -> Moments:
    """Compute the sums in one pass over the matrix."""
    n_units = matrix.n_units
    shift = np.zeros(n_units)
    sums = np.zeros((n_labels(encoded), n_units))
    totals, squares = np.zeros(n_units), np.zeros(n_units)
    low, high = np.full(n_units, np.inf), np.full(n_units, -np.inf)
    check_rows(matrix, encoded)
    for rows, block in matrix.blocks():
        values = block.astype(np.float64)  # (row, unit)
        # Any value near the mean does; that of the first block needs no second pass.
        if rows.start == 0:
            shift = values.mean(axis=0)
        np.minimum(low, block.min(axis=0), out=low)
        np.maximum(high, block.max(axis=0), out=high)
        values -= shift
        sums += indicators(encoded, rows).T @ values
        totals += values.sum(axis=0)
        squares += np.einsum("ij,ij->j", values, values)
    return Moments(matrix.n_rows, shift, sums, totals, squares, low, high, matrix.dtype)


def dead_units(std: Floats, mean: Floats, dtype: Any = np.float32) -> NDArray[np.int64]:
    """Units that are constant up to rounding.

    Their standard deviation is at most 1e-6 of the upper quartile over all varying units, or 1e-7 of their own mean;
    for float64, 1e-10 and 1e-14. The reference is the quartile, not the maximum, because some models have a unit
    thousands of times larger than the rest.

    >>> dead_units(np.array([0.0, 0.5, 1e-9, 0.3]), np.zeros(4))
    array([0, 2])
    """
    moving = std[std > 0]
    scale = float(np.quantile(moving, 0.75)) if len(moving) else 0.0
    least, beside_mean = _DEAD_OF_DOUBLES if np.dtype(dtype) == np.float64 else (_DEAD, _DEAD_BESIDE_MEAN)
    return np.flatnonzero((std <= least * scale) | (std <= beside_mean * np.abs(mean)))


def check_rows(matrix: Matrix, encoded: EncodedLabels) -> None:
    """Check that there is one label per row, and that each label has rows with and without it."""
    n_rows = matrix.n_rows
    if len(encoded.codes) != n_rows:
        raise InputError(
            f"got {len(encoded.codes):,} labels for {n_rows:,} rows of activations: pass one label per row."
        )
    if encoded.kind == "numbers":
        return
    counts = n_rows_of(encoded)[:, 0]
    lacking = np.flatnonzero((counts == 0) | (counts == n_rows))
    if len(lacking):
        label = encoded.classes[lacking[0]]
        raise InputError(
            f"label {label!r} has {counts[lacking[0]]:.0f} of {n_rows:,} rows: pass rows with and without it."
        )


def n_labels(encoded: EncodedLabels) -> int:
    """The number of labels; 1 if labels are numbers."""
    return 1 if encoded.kind == "numbers" else len(encoded.classes)


def indicators(encoded: EncodedLabels, rows: slice) -> Floats:
    """(row, label): 1 if the row has the label; if labels are numbers, centered numbers."""
    codes = encoded.codes[rows]
    if encoded.kind == "classes":
        return np.asarray(codes[:, None] == np.arange(len(encoded.classes)), np.float64)
    if encoded.kind == "multilabel":
        return np.asarray(codes, np.float64)
    return np.asarray(codes - encoded.codes.mean(), np.float64)[:, None]


def n_rows_of(encoded: EncodedLabels) -> Floats:
    """(label, 1): the number of rows with each label."""
    if encoded.kind == "classes":
        return np.bincount(encoded.codes, minlength=len(encoded.classes)).astype(np.float64)[:, None]
    return np.asarray(encoded.codes.sum(axis=0), np.float64)[:, None]


def safe_ratio(above: Floats, below: Floats) -> Floats:
    """`above / below`; 0 where `below` is not positive.

    >>> safe_ratio(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    array([0.5, 0. ])
    """
    shape = np.broadcast_shapes(above.shape, below.shape)
    return np.divide(above, below, out=np.zeros(shape), where=np.broadcast_to(below, shape) > 0)
