"""Activations as a matrix of rows × units, read block by block from NumPy, torch or disk.

Data larger than memory is never loaded as a whole. NaN and infinite activations raise an error that names their rows
when a block is first read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import as_array
from cutaway.core.errors import InputError
from cutaway.core.formatting import numbered

Array = NDArray[Any]
BLOCK_BYTES = 2**25
"""Size of a block of rows, in float32."""
COLUMN_BYTES = 2**28
"""Size of a block of whole columns."""
_MAX_ROWS = 8192


class Source(Protocol):
    """The data behind a matrix that is not an array; `cutaway.Activations` implements it."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and units."""

    @property
    def names(self) -> Sequence[str]:
        """The site of each unit."""

    def blocks(self, n_rows: int = ...) -> Iterator[tuple[slice, Array]]:
        """Yields the rows in order, `n_rows` at a time."""

    def columns(self, indices: Any) -> Array:
        """All rows of these units: rows × units."""

    def units(self, indices: Any) -> Source:
        """A source with only these units."""


@dataclass(slots=True, eq=False)
class Matrix:
    """Rows × units in float32, or in float64 if the data needs it."""

    source: Any
    """A 2-d array, or a `Source`."""
    names: Sequence[str] | None
    units: NDArray[np.int64] | None = None
    """The selected units of the source; None for all."""
    _is_checked: bool = field(default=False, repr=False)

    @property
    def n_rows(self) -> int:
        return int(self.source.shape[0])

    @property
    def n_units(self) -> int:
        return int(self.source.shape[1]) if self.units is None else len(self.units)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values that are read."""
        return _working_dtype(self.source.dtype) if isinstance(self.source, np.ndarray) else np.dtype(np.float32)

    def blocks(self, n_rows: int | None = None) -> Iterator[tuple[slice, Array]]:
        """Yields all rows in order, block by block; a block may be a view of the input, so do not modify it."""
        n_each = n_rows or max(1, min(_MAX_ROWS, BLOCK_BYTES // (4 * max(self.n_units, 1))))
        for rows, block in self._read(n_each):
            values = np.asarray(block, self.dtype)  # (row, unit)
            if not self._is_checked:
                check_finite(values, rows.start, self.units)
            yield rows, values
        self._is_checked = True

    def columns(self, indices: Any) -> Array:
        """All rows of these units, in memory; the caller makes sure that they fit."""
        wanted = np.asarray(indices, np.int64)
        inner = wanted if self.units is None else self.units[wanted]
        if isinstance(self.source, np.ndarray):
            values = np.empty((self.n_rows, len(inner)), self.dtype)
            # In slices, because fancy indexing copies, and the source may be a memory map larger than memory.
            for rows in _slices(self.n_rows, _MAX_ROWS):
                values[rows] = self.source[rows][:, inner]
        else:
            values = np.asarray(self.source.columns(inner), self.dtype)
        if not self._is_checked:
            check_finite(values, 0, inner)
        return values

    def column_blocks(self, n_bytes: int = COLUMN_BYTES) -> Iterator[tuple[slice, Array]]:
        """Yields all units in order, block by block, each with all its rows: `(unit, row)`, a copy."""
        n_each = max(1, min(self.n_units, n_bytes // (self.dtype.itemsize * max(self.n_rows, 1))))
        for units in _slices(self.n_units, n_each):
            if n_each == self.n_units:
                columns = self.array()
            else:
                columns = self.columns(np.arange(units.start, units.stop))
            yield units, np.ascontiguousarray(columns.T)
        self._is_checked = True

    def array(self) -> Array:
        """The whole matrix in memory, as a copy."""
        values = np.empty((self.n_rows, self.n_units), self.dtype)
        for rows, block in self.blocks():
            values[rows] = block
        return values

    def select_units(self, indices: NDArray[np.int64]) -> Matrix:
        """A matrix with only these units, in this order."""
        inner = indices if self.units is None else self.units[indices]
        names = None if self.names is None else NameSubset(self.names, indices)
        return Matrix(self.source, names, inner, self._is_checked)

    def _read(self, n_rows: int) -> Iterator[tuple[slice, Array]]:
        if not isinstance(self.source, np.ndarray):
            yield from (self.source if self.units is None else self.source.units(self.units)).blocks(n_rows)
            return
        for rows in _slices(self.n_rows, n_rows):
            block = self.source[rows]
            yield rows, block if self.units is None else block[:, self.units]


@dataclass(frozen=True, slots=True)
class NameSubset(Sequence[str]):
    """A selection of names that does not copy them.

    >>> list(NameSubset(["a", "b", "c"], np.array([2, 0])))
    ['c', 'a']
    """

    names: Sequence[str]
    indices: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return NameSubset(self.names, self.indices[index])
        return self.names[int(self.indices[index])]


def as_matrix(acts: Any) -> Matrix:
    """Wraps activations, an array or a tensor as a matrix, without a copy if memory can be shared.

    >>> as_matrix([[1.0, 2.0], [3.0, 4.0]]).n_units
    2
    """
    if isinstance(acts, Matrix):
        return acts
    if hasattr(acts, "blocks") and hasattr(acts, "columns"):
        return Matrix(acts, acts.names)
    # An array stays as it is: a memory map is read block by block.
    array = acts if isinstance(acts, np.ndarray) else as_array(acts)
    if array.ndim != 2:
        raise InputError(
            f"activations must be rows × units, got the shape {list(array.shape)}. "
            "If a tensor has more dimensions, make each position a row: x.reshape(-1, x.shape[-1])."
        )
    if array.dtype.kind not in "biuf":
        raise InputError(f"activations must be numbers, got the dtype {array.dtype}.")
    if not array.shape[1]:
        raise InputError(f"activations must have at least one unit, got the shape {list(array.shape)}.")
    return Matrix(array, None)


def check_finite(values: Array, first_row: int, units: NDArray[np.int64] | None = None) -> None:
    """Raises an error that names rows and units if a value is NaN or infinite."""
    if np.isfinite(values).all():
        return
    bad = ~np.isfinite(values)
    rows, columns = np.flatnonzero(bad.any(axis=1)) + first_row, np.flatnonzero(bad.any(axis=0))
    named = numbered("row", rows), numbered("unit", columns if units is None else units[columns])
    raise InputError(
        f"activations contain NaN or infinite values: in {named[0]}, in {named[1]} (of those read so far). Remove "
        "these rows from activations and labels, or collect in float32 if float16 overflowed."
    )


def _working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    # float32 holds integers up to 2**24 exactly: those of 8 and 16 bits, not those of 32.
    is_exact_in_float32 = dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize < 4) or dtype.kind == "f"
    return np.dtype(np.float32 if is_exact_in_float32 and dtype.itemsize <= 4 else np.float64)


def _slices(n: int, n_each: int) -> Iterator[slice]:
    for first in range(0, n, n_each):
        yield slice(first, min(first + n_each, n))
