"""Products `XᵀY` of representations, summed over blocks of rows, for CCA and linear CKA.

Rows are never all in memory. One pass sums as many products as a memory limit allows, so a model with many layers takes
more passes, not more memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cutaway.lm.similarities.representations import Floats, Representation, row_blocks

PRODUCT_BYTES = 2**28
"""Bytes of the products that are summed in one pass."""

Pair = tuple[int, int]


def products(
    representations: Sequence[Representation], pairs: Sequence[Pair], *, maps: Sequence[Floats] | None = None
) -> Iterator[tuple[Pair, Floats]]:
    """`XᵀY` of the centered units of each pair of representation numbers.

    Args:
        maps: units × directions of each representation; rows are projected before they are multiplied.
    """
    widths = [each.n_units for each in representations] if maps is None else [each.shape[1] for each in maps]
    for batch in _batches(pairs, widths):
        used = sorted({representation for pair in batch for representation in pair})
        place = {representation: number for number, representation in enumerate(used)}
        sums = {(i, j): np.zeros((widths[i], widths[j])) for i, j in batch}
        for _, blocks in row_blocks([representations[i] for i in used]):
            if maps is not None:
                blocks = [block @ maps[i] for i, block in zip(used, blocks, strict=True)]
            for (i, j), total in sums.items():
                total += blocks[place[i]].T @ blocks[place[j]]
        while sums:
            # Popped, so that each product is freed as soon as the caller is done with it.
            yield sums.popitem()


def row_squares(representations: Sequence[Representation]) -> Floats:
    """(representation, row): the squared length of each centered row."""
    squares = np.empty((len(representations), representations[0].n_rows))
    for rows, blocks in row_blocks(representations):
        for number, block in enumerate(blocks):
            squares[number, rows] = np.einsum("ij,ij->i", block, block)
    return squares


def _batches(pairs: Sequence[Pair], widths: Sequence[int]) -> Iterator[list[Pair]]:
    """The pairs in groups whose products fit the limit, at least one pair in each."""
    batch: list[Pair] = []
    n_bytes = 0
    for i, j in pairs:
        size = 8 * widths[i] * widths[j]
        if batch and n_bytes + size > PRODUCT_BYTES:
            yield batch
            batch, n_bytes = [], 0
        batch.append((i, j))
        n_bytes += size
    if batch:
        yield batch
