"""Sums over the rows, one pass over the blocks: what the streaming methods know of each unit."""

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
"""Beside the upper quartile of the deviations: float16 rounds the values of dead units to about a tenth of this."""
_DEAD_BESIDE_MEAN = 1e-7
"""What float32 resolves."""
_DEAD_OF_DOUBLES = (1e-10, 1e-14)
"""The same of float64, in which units on a small scale are told well."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums of `x - shift`, all in float64; the shift keeps squares from cancelling."""

    n_rows: int
    shift: Floats
    """(unit,): the mean of the first block."""
    sums: Floats
    """(label, unit): over the rows of each label; each row weighed by its number, where labels are numbers."""
    totals: Floats
    """(unit,): over all rows."""
    squares: Floats
    """(unit,)."""
    low: Floats
    high: Floats
    """(unit,): the least and the largest value."""
    dtype: np.dtype[Any]
    """Of what was read."""

    @property
    def mean(self) -> Floats:
        """(unit,): of all rows."""
        return self.shift + self.totals / self.n_rows

    @property
    def deviations(self) -> Floats:
        """(unit,): sums of squares about the mean."""
        return np.maximum(self.squares - self.totals**2 / self.n_rows, 0.0)

    @property
    def std(self) -> Floats:
        """(unit,): over all rows, divided by their number."""
        return np.sqrt(self.deviations / self.n_rows)

    @property
    def dead(self) -> NDArray[np.int64]:
        """Units that are the same at every row, but for rounding."""
        return dead_units(self.std, self.mean, self.dtype)


def moments(matrix: Matrix, encoded: EncodedLabels) -> Moments:
    """One pass over the matrix."""
    n_units = matrix.n_units
    shift = np.zeros(n_units)
    sums = np.zeros((n_labels(encoded), n_units))
    totals, squares = np.zeros(n_units), np.zeros(n_units)
    low, high = np.full(n_units, np.inf), np.full(n_units, -np.inf)
    check_rows(matrix, encoded)
    for rows, block in matrix.blocks():
        values = block.astype(np.float64)  # (row, unit)
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
    """Units that never change, but for rounding.

    Their standard deviation is a millionth of the upper quartile of all that move, or 1e-7 of their own mean; of
    values in float64, 1e-10 and 1e-14. The largest would not do: some models have a unit that is thousands of times as
    large as the rest.

    >>> dead_units(np.array([0.0, 0.5, 1e-9, 0.3]), np.zeros(4))
    array([0, 2])
    """
    moving = std[std > 0]
    scale = float(np.quantile(moving, 0.75)) if len(moving) else 0.0
    least, beside_mean = _DEAD_OF_DOUBLES if np.dtype(dtype) == np.float64 else (_DEAD, _DEAD_BESIDE_MEAN)
    return np.flatnonzero((std <= least * scale) | (std <= beside_mean * np.abs(mean)))


def check_rows(matrix: Matrix, encoded: EncodedLabels) -> None:
    """As many labels as rows; and rows with each label, and rows without."""
    n_rows = matrix.n_rows
    if len(encoded.codes) != n_rows:
        raise InputError(
            f"{len(encoded.codes):,} labels were given for {n_rows:,} rows of activations: one label a row."
        )
    if encoded.kind == "numbers":
        return
    counts = n_rows_of(encoded)[:, 0]
    lacking = np.flatnonzero((counts == 0) | (counts == n_rows))
    if len(lacking):
        label = encoded.classes[lacking[0]]
        raise InputError(
            f"label {label!r} is that of {counts[lacking[0]]:.0f} of {n_rows:,} rows: nothing to tell apart."
        )


def n_labels(encoded: EncodedLabels) -> int:
    """How many labels have rows of their own; numbers are one."""
    return 1 if encoded.kind == "numbers" else len(encoded.classes)


def indicators(encoded: EncodedLabels, rows: slice) -> Floats:
    """(row, label): 1 where the row has the label; numbers, about their mean."""
    codes = encoded.codes[rows]
    if encoded.kind == "classes":
        return np.asarray(codes[:, None] == np.arange(len(encoded.classes)), np.float64)
    if encoded.kind == "multilabel":
        return np.asarray(codes, np.float64)
    return np.asarray(codes - encoded.codes.mean(), np.float64)[:, None]


def n_rows_of(encoded: EncodedLabels) -> Floats:
    """(label, 1): how many rows each label has."""
    if encoded.kind == "classes":
        return np.bincount(encoded.codes, minlength=len(encoded.classes)).astype(np.float64)[:, None]
    return np.asarray(encoded.codes.sum(axis=0), np.float64)[:, None]


def safe_ratio(above: Floats, below: Floats) -> Floats:
    """The quotient; 0 where nothing can be divided by.

    >>> safe_ratio(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    array([0.5, 0. ])
    """
    shape = np.broadcast_shapes(above.shape, below.shape)
    return np.divide(above, below, out=np.zeros(shape), where=np.broadcast_to(below, shape) > 0)
