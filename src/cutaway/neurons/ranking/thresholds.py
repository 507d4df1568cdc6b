"""Threshold sweeps over sorted values of many units, for average precision and IoU.

One sort per unit serves every label and both directions: a threshold that descends from the maximum, for units that
rise with the label, and one that ascends from the minimum, for units that fall. Equal values form one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.matrices import Matrix

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels

Array = NDArray[Any]
Ints = NDArray[np.int64]
_SIGN = np.uint32(1 << 31)
_MOST_VALUES = 2**19
"""Values to sort at once, so that they stay in the CPU cache; at least one unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Sweep for one label in one direction: each row with the label is one threshold."""

    hits: Ints
    """(unit, row with the label): rows with the label that pass this threshold."""
    remaining: Ints
    """(unit, row with the label): all rows that pass this threshold."""

    @property
    def average_precision(self) -> NDArray[np.float64]:
        """(unit,): `Σ_k (R_k - R_{k-1}) P_k`. Each row with the label raises the recall by the same amount."""
        return np.asarray((self.hits / self.remaining).mean(axis=1), np.float64)

    @property
    def best_overlap(self) -> tuple[NDArray[np.float64], Ints]:
        """(unit,): the largest intersection over union of any threshold, and the index of that row."""
        overlaps = self.hits / (self.remaining + self.hits.shape[1] - self.hits)
        best = overlaps.argmax(axis=1)
        return np.take_along_axis(overlaps, best[:, None], axis=1)[:, 0], best


@dataclass(frozen=True, slots=True, eq=False)
class SortedUnits:
    """Some units with their rows sorted by value, ascending."""

    values: Array
    """(unit, place)."""
    rows: Ints
    """(unit, place): the row index."""
    first: Ints | None
    last: Ints | None
    """(unit, place): the first and last place of the same value; None without ties."""

    def places(self, encoded: EncodedLabels) -> Iterator[Ints]:
        """For each label, (unit, row with the label): the places of those rows, ascending."""
        if encoded.kind == "classes":
            codes = compact_codes(encoded).take(self.rows)  # (unit, place)
            for label in range(len(encoded.classes)):
                yield self._where(codes == label)
        else:
            for label in range(len(encoded.classes)):
                yield self._where(encoded.codes[:, label].take(self.rows))

    def _where(self, is_place: NDArray[np.bool_]) -> Ints:
        n_units, n_rows = self.rows.shape
        flat = np.flatnonzero(is_place).reshape(n_units, -1)
        return np.asarray(flat - n_rows * np.arange(n_units)[:, None])

    def down(self, places: Ints) -> Sweep:
        """Sweep down from the maximum."""
        n_hits = places.shape[1]
        before, first = _first_of_run(places, self.first)
        return Sweep(n_hits - before, self.rows.shape[1] - first)

    def up(self, places: Ints) -> Sweep:
        """Sweep up from the minimum."""
        before, last = _last_of_run(places, self.last)
        return Sweep(before + 1, last + 1)


def sorted_units(matrix: Matrix, floor: float = 0.0) -> Iterator[tuple[slice, SortedUnits]]:
    """Yield all units in blocks, sorted.

    Args:
        floor: treat values of a smaller magnitude as 0.
    """
    n_each = max(1, _MOST_VALUES // max(matrix.n_rows, 1))
    for units, block in matrix.column_blocks():
        if floor:
            block[np.abs(block) < floor] = 0.0  # the block is a copy
        for start in range(0, len(block), n_each):
            some = block[start : start + n_each]
            first = units.start + start
            yield slice(first, first + len(some)), sorted_block(some)


def compact_codes(encoded: EncodedLabels) -> Array:
    """(row,): class codes in the smallest integer dtype, which makes `take` faster."""
    return encoded.codes.astype(np.min_scalar_type(len(encoded.classes)))


def has_label(encoded: EncodedLabels, label: int) -> NDArray[np.bool_]:
    """(row,): whether the row has the label with this index."""
    codes = encoded.codes
    return np.asarray(codes == label if encoded.kind == "classes" else codes[:, label], np.bool_)


def sorted_block(block: Array) -> SortedUnits:
    """Sort a block of (unit, row)."""
    values, rows = _in_order(block)
    # Without ties every place is its own step, which saves two arrays of this size.
    is_new = values[:, 1:] != values[:, :-1]
    if is_new.all():
        return SortedUnits(values, rows, None, None)
    places = np.arange(values.shape[1])
    edge = np.ones((len(values), 1), np.bool_)
    first = np.maximum.accumulate(np.where(np.hstack([edge, is_new]), places, 0), axis=1)
    last = np.where(np.hstack([is_new, edge]), places, len(places))
    last = np.ascontiguousarray(np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1])
    return SortedUnits(values, rows, first, last)


def _in_order(block: Array) -> tuple[Array, Ints]:
    """(unit, place): ascending values and their rows.

    Sorting float32 values packed with their row into one integer is several times faster than argsort.
    """
    if block.dtype != np.float32:
        rows = np.argsort(block, axis=1, kind="stable")
        return np.take_along_axis(block, rows, axis=1), rows
    bits = (block + np.float32(0)).view(np.uint32)  # adding 0 turns -0 into 0
    keys = bits ^ ((bits.view(np.int32) >> 31).view(np.uint32) | _SIGN)  # integers that sort like the floats
    packed = keys.astype(np.uint64) << np.uint64(32)
    packed |= np.arange(block.shape[1], dtype=np.uint64)
    packed.sort(axis=1)
    keys = (packed >> np.uint64(32)).astype(np.uint32)
    values = (keys ^ ((keys >> np.uint32(31)) - np.uint32(1) | _SIGN)).view(np.float32)
    return values, (packed & np.uint64(2**32 - 1)).view(np.int64)


def _first_of_run(places: Ints, first: Ints | None) -> tuple[Ints, Ints]:
    """For each row with the label: how many of them have smaller values, and the first place of its value."""
    numbers = np.broadcast_to(np.arange(places.shape[1]), places.shape)
    if first is None:
        return numbers, places
    starts = _at(first, places)
    is_new = np.ones(places.shape, np.bool_)
    is_new[:, 1:] = starts[:, 1:] != starts[:, :-1]
    return np.maximum.accumulate(np.where(is_new, numbers, 0), axis=1), starts


def _last_of_run(places: Ints, last: Ints | None) -> tuple[Ints, Ints]:
    """For each row with the label: the index of the last one with the same value, and the last place of that value."""
    numbers = np.broadcast_to(np.arange(places.shape[1]), places.shape)
    if last is None:
        return numbers, places
    ends = _at(last, places)
    is_last = np.ones(places.shape, np.bool_)
    is_last[:, :-1] = ends[:, :-1] != ends[:, 1:]
    last_numbers = np.where(is_last, numbers, places.shape[1])
    return np.minimum.accumulate(last_numbers[:, ::-1], axis=1)[:, ::-1], ends


def _at(array: Ints, places: Ints) -> Ints:
    """`np.take_along_axis(array, places, axis=1)`, several times faster."""
    taken: Ints = array.reshape(-1).take(places + array.shape[1] * np.arange(len(array))[:, None])
    return taken
