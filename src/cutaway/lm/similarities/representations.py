"""Named representations of the same rows, read in centered blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.matrices import Matrix, as_matrix
from cutaway.results.lm.similarity import Dissimilarities
from cutaway.store.activations.activations import Activations

Floats = NDArray[np.float64]
BLOCK_BYTES = 2**25
"""Bytes of the blocks of rows in memory at a time, for all representations together."""
_MOST_ROWS = 8192
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class Representation:
    """Rows × units of one layer, model or checkpoint, and the means of its units."""

    name: str
    matrix: Matrix
    mean: Floats
    """(unit,)"""
    live: NDArray[np.int64]
    """Units that vary over the rows; constant units carry no information."""
    distances: Floats | None = None
    """Distances of each row to each later one, if these were given instead of units."""

    @property
    def n_rows(self) -> int:
        return self.matrix.n_rows

    @property
    def n_units(self) -> int:
        """Number of units that vary."""
        return len(self.live)

    def centered_blocks(self, n_rows: int) -> Iterator[tuple[slice, Floats]]:
        """The varying units minus their means, in blocks of rows; each block is a fresh array."""
        is_all = self.n_units == self.matrix.n_units
        for rows, block in self.matrix.blocks(n_rows):
            values = block.astype(np.float64)  # (row, unit)
            values -= self.mean
            yield rows, values if is_all else values[:, self.live]

    def array(self) -> Floats:
        """All rows, centered, in memory."""
        values = np.empty((self.n_rows, self.n_units))
        for rows, block in self.centered_blocks(_MOST_ROWS):
            values[rows] = block
        return values


def representations_of(given: Any, name: str) -> list[Representation]:
    """The representations in an argument: one for an array, one per site, one per entry of a list."""
    representations = [_make_representation(label, each) for label, each in _split_sites(named_parts(given, name))]
    if not representations:
        raise InputError(f"{name} is empty: give rows × units, or a list of them.")
    return representations


def named_parts(given: Any, name: str) -> list[tuple[str, Any]]:
    """The arrays and activations in an argument, by name."""
    if isinstance(given, Mapping):
        parts = [(str(key), each) for key, each in given.items()]
    elif _is_list_of_matrices(given):
        sites = [each.sites[0] if isinstance(each, Activations) and len(each.sites) == 1 else "" for each in given]
        are_names = all(sites) and len(set(sites)) == len(sites)
        parts = [(sites[place] if are_names else str(place), each) for place, each in enumerate(given)]
    else:
        parts = [(name, given)]
    for label, each in parts:
        if not isinstance(each, (Activations, Dissimilarities)) and np.ndim(each) == 0:
            raise InputTypeError(
                f"{label} is of type {type(each).__name__}: give rows × units as an array, a tensor or Activations."
            )
        if getattr(each, "ndim", 2) == 3:
            raise InputError(
                f"{label} has the shape {list(each.shape)}, but rows × units are needed. For [layer, position, unit], "
                "give a list, list(x); for [sequence, position, unit], make each position a row, "
                "x.reshape(-1, x.shape[-1])."
            )
    return parts


def default_names(a: Any, b: Any) -> tuple[str, str]:
    """Names of two representations: their sites, if these differ."""
    sites = [each.sites[0] if isinstance(each, Activations) else "" for each in (a, b)]
    return (sites[0] or "a", sites[1] or "b") if sites[0] != sites[1] else ("a", "b")


def is_collection(given: Any) -> bool:
    """Whether an argument has several representations: a list, a mapping, or activations of several sites."""
    if isinstance(given, Activations):
        return len(given.sites) > 1
    return isinstance(given, Mapping) or _is_list_of_matrices(given)


def check_same_rows(parts: Sequence[tuple[str, Any]]) -> None:
    """Raises unless all have the same rows: the same number and, if known, the same words and items."""
    counts = [(name, len(each)) for name, each in parts]
    if len({count for _, count in counts}) > 1:
        n_each = ", ".join(f"{name} has {count:,}" for name, count in counts[:_MOST_NAMED])
        raise InputError(f"all representations need the same rows, but their numbers differ: {n_each}.")
    known = [(name, each) for name, each in parts if isinstance(each, Activations)]
    for other in known[1:]:
        _check_items(known[0], other)


def row_blocks(
    representations: Sequence[Representation], *, n_rows: int | None = None
) -> Iterator[tuple[slice, list[Floats]]]:
    """The same rows of all representations, centered, in blocks."""
    width = sum(representation.matrix.n_units for representation in representations)
    n_each = n_rows or max(1, min(_MOST_ROWS, BLOCK_BYTES // (8 * max(width, 1))))
    for parts in zip(*(representation.centered_blocks(n_each) for representation in representations), strict=True):
        yield parts[0][0], [values for _, values in parts]


def _split_sites(parts: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Splits activations of several sites into one entry per site."""
    for name, each in parts:
        if isinstance(each, Activations) and len(each.sites) > 1:
            yield from ((site if len(parts) == 1 else f"{name} {site}", each.at(site)) for site in each.sites)
            continue
        yield name, each


def _is_list_of_matrices(given: Any) -> bool:
    if not isinstance(given, (list, tuple)) or not given:
        return False
    first = given[0]
    return isinstance(first, Activations) or getattr(first, "ndim", None) == 2 or np.ndim(_detached(first)) > 1


def _detached(given: Any) -> Any:
    return given.detach().cpu() if hasattr(given, "detach") else given


def _make_representation(name: str, given: Any) -> Representation:
    matrix = as_matrix(given.values if isinstance(given, Dissimilarities) else given)
    if matrix.n_rows < 2:
        raise InputError(f"{name} has {matrix.n_rows} rows: similarity needs at least two.")
    n_units = matrix.n_units
    shift, total = np.zeros(n_units), np.zeros(n_units)
    least, most = np.full(n_units, np.inf), np.full(n_units, -np.inf)
    try:
        for rows, block in matrix.blocks():
            values = block.astype(np.float64)
            least, most = np.minimum(least, values.min(axis=0)), np.maximum(most, values.max(axis=0))
            if rows.start == 0:
                shift = values.mean(axis=0)
            # Relative to the mean of the first block: the sum of many large values would lose digits.
            total += (values - shift).sum(axis=0)
    except InputError as error:
        raise type(error)(f"{name}: {error}") from error
    live = np.flatnonzero(least < most)
    if not len(live):
        raise InputError(f"{name} is the same in every row, so it cannot be compared.")
    distances = given.upper if isinstance(given, Dissimilarities) else None
    return Representation(name, matrix, shift + total / matrix.n_rows, live, distances)


def _check_items(known: tuple[str, Activations], other: tuple[str, Activations]) -> None:
    (name, first), (other_name, second) = known, other
    if first is second:
        return
    for row, (left, right) in enumerate(zip(first.words, second.words, strict=True)):
        if left and right and left != right:
            raise InputError(
                f"all representations need the same rows: row {row} is {left!r} in {name} and {right!r} in "
                f"{other_name}. Choose the rows that both have, in the same order, with acts.rows(…)."
            )
    differing = np.flatnonzero(first.items != second.items)
    if len(differing):
        row = int(differing[0])
        raise InputError(
            f"all representations need the same rows: row {row} is of item {first.items[row]} in {name} and of item "
            f"{second.items[row]} in {other_name}. Choose the rows that both have with acts.rows(…)."
        )
