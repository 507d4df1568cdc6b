"""Centered kernel alignment (CKA): whether the same rows are close to each other in both representations.

Kornblith et al., "Similarity of Neural Network Representations Revisited", ICML 2019. Debiased by the estimator of
Song et al., "Feature Selection via Dependence Maximization", JMLR 2012, as in Nguyen et al., ICLR 2021.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cutaway.core.errors import InputError
from cutaway.core.formatting import listed
from cutaway.lm.similarities.products import products, row_squares
from cutaway.lm.similarities.representations import Floats, Representation, row_blocks
from cutaway.lm.similarities.scores import ComparisonTask, Scores

Kernel = Literal["linear", "rbf"]
TILE_BYTES = 2**27
"""Bytes of the tiles of all Gram matrices in memory at a time."""
_MOST_ROWS_FOR_MEDIAN = 2048
_MOST_TILE = 2048
_HELD_BYTES = 2**29


@dataclass(slots=True)
class _GramSums:
    """Sums over Gram matrices, one per representation; every form of HSIC follows from them."""

    products: Floats
    """(representation, representation): sum of elementwise products of two Gram matrices; NaN if not needed."""
    rows: Floats
    """(representation, row): the sum of each row."""
    diagonal: Floats
    """(representation, row)"""


def cka(task: ComparisonTask, *, kernel: Kernel = "linear", debiased: bool = False, bandwidth: float = 1.0) -> Scores:
    """HSIC of two kernels, normalized by the root of the product of their own HSICs."""
    if kernel not in ("linear", "rbf"):
        raise InputError(f"kernel={kernel!r}: give 'linear' or 'rbf'.")
    if kernel == "linear" and bandwidth != 1.0:
        raise InputError(f"bandwidth={bandwidth!r} is for kernel='rbf' only.")
    if not bandwidth > 0:
        raise InputError(f"bandwidth={bandwidth!r}: give a positive factor of the median distance.")
    if debiased and task.n_rows < 4:
        raise InputError(f"debiased CKA needs at least 4 rows, got {task.n_rows}.")
    scores = Scores()
    if kernel == "rbf":
        sums = _over_tiles(task.representations, _widths(task.representations, bandwidth))
    elif _is_gram_cheaper(task):
        sums = _over_tiles(task.representations, None)
    else:
        sums = _over_units(task)
    hsic = _unbiased(sums) if debiased else _biased(sums)
    self_hsic = np.diag(hsic)
    for i, j in task.pairs:
        both = self_hsic[i] * self_hsic[j]
        is_sound = min(self_hsic[i], self_hsic[j]) > 0
        scores.values[i, j] = float(hsic[i, j] / np.sqrt(both)) if is_sound else float("nan")
    lost = [task.representations[i].name for i in task.used if not self_hsic[i] > 0]
    if lost:
        scores.warnings.append(f"{', '.join(lost)}: no more similar to itself than chance; its similarities are NaN.")
    if not debiased:
        scores.values = {pair: min(value, 1.0) for pair, value in scores.values.items()}
        wide = [each.name for each in task.representations if each.n_units >= each.n_rows]
        if wide:
            scores.warnings.append(
                f"{listed(wide, 3)}: at least as many units as rows ({task.n_rows:,}). Plain CKA is then high even for "
                "unrelated representations; debiased=True corrects for it."
            )
    return scores


def _biased(sums: _GramSums) -> Floats:
    n = sums.rows.shape[1]
    totals = sums.rows.sum(axis=1)
    hsic: Floats = sums.products - 2 / n * sums.rows @ sums.rows.T + np.outer(totals, totals) / n**2
    return hsic


def _unbiased(sums: _GramSums) -> Floats:
    n = sums.rows.shape[1]
    rows = sums.rows - sums.diagonal
    totals = rows.sum(axis=1)
    inner = sums.products - sums.diagonal @ sums.diagonal.T
    hsic: Floats = (inner + np.outer(totals, totals) / ((n - 1) * (n - 2)) - 2 / (n - 2) * rows @ rows.T) / (
        n * (n - 3)
    )
    return hsic


def _is_gram_cheaper(task: ComparisonTask) -> bool:
    """Whether Gram matrices (row, row) are cheaper than products of units."""
    widths = [each.n_units for each in task.representations]
    n = task.n_rows
    by_units = n * sum(widths[i] * widths[j] for i, j in task.pairs)
    # Half: only tiles on and above the diagonal are computed.
    by_rows = n * n * (sum(widths) + len(widths) ** 2) / 2
    return by_rows < by_units


def _over_units(task: ComparisonTask) -> _GramSums:
    """Sums for linear kernels: `‖XᵀY‖²` is the sum of elementwise products; rows of a centered Gram matrix sum to 0."""
    n = len(task.representations)
    squares = np.full((n, n), np.nan)
    pairs = {*task.pairs, *((i, i) for i in range(n))}
    for (i, j), product in products(task.representations, sorted(pairs)):
        squares[i, j] = squares[j, i] = np.einsum("ij,ij->", product, product)
    diagonal = row_squares(task.representations)
    return _GramSums(squares, np.zeros_like(diagonal), diagonal)


def _over_tiles(representations: Sequence[Representation], widths: Floats | None) -> _GramSums:
    """Sums over Gram matrices tile by tile; no Gram matrix is ever whole in memory.

    Args:
        widths: of the RBF kernel of each representation; None for linear kernels. 1 is subtracted from every entry of
            an RBF kernel: HSIC stays the same, and wide kernels keep their digits.
    """
    n_rows, n = representations[0].n_rows, len(representations)
    size = int(max(16, min(_MOST_TILE, np.sqrt(TILE_BYTES / (8 * n)))))
    sums = _GramSums(np.zeros((n, n)), np.zeros((n, n_rows)), np.zeros((n, n_rows)))
    is_held = 8 * n_rows * sum(each.n_units for each in representations) <= _HELD_BYTES
    held = list(row_blocks(representations, n_rows=size)) if is_held else None

    def blocks() -> Iterator[tuple[slice, list[Floats]]]:
        return iter(held) if held is not None else row_blocks(representations, n_rows=size)

    for above, left in blocks():
        for beside, right in blocks():
            if beside.start < above.start:
                continue
            tiles = np.empty((n, above.stop - above.start, beside.stop - beside.start))
            for number in range(n):
                tile = left[number] @ right[number].T  # (row, row)
                tiles[number] = tile if widths is None else _radial(left[number], right[number], tile, widths[number])
            flat = tiles.reshape(n, -1)
            if above.start == beside.start:
                corner = np.arange(above.stop - above.start)
                if widths is not None:
                    # The squared distance of a row to itself is rounding noise when it comes from inner products.
                    tiles[:, corner, corner] = 0.0
                sums.diagonal[:, above] = tiles[:, corner, corner]
                sums.products += flat @ flat.T
            else:
                # Tiles below the diagonal are skipped; by symmetry, those above count twice.
                sums.products += 2 * (flat @ flat.T)
                sums.rows[:, beside] += tiles.sum(axis=1)
            sums.rows[:, above] += tiles.sum(axis=2)
    return sums


def _radial(left: Floats, right: Floats, inner: Floats, width: float) -> Floats:
    """`exp(-d² / 2σ²) - 1`, where d is the distance of two rows."""
    kernel: Floats = np.expm1(-_squares(left, right, inner) / (2 * width**2))
    return kernel


def _squares(left: Floats, right: Floats, inner: Floats) -> Floats:
    left_squares, right_squares = np.einsum("ij,ij->i", left, left), np.einsum("ij,ij->i", right, right)
    squares: Floats = np.maximum(left_squares[:, None] + right_squares[None, :] - 2 * inner, 0.0)
    return squares


def _widths(representations: Sequence[Representation], bandwidth: float) -> Floats:
    """A factor of the median distance between rows; with many rows, the median of an evenly spaced sample."""
    n = representations[0].n_rows
    # 2,048 rows make 32 MB of distances.
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MOST_ROWS_FOR_MEDIAN)).round().astype(np.int64))
    widths = []
    for representation in representations:
        values = np.concatenate(
            [
                block[chosen[(chosen >= rows.start) & (chosen < rows.stop)] - rows.start]
                for rows, (block,) in row_blocks([representation])
            ]
        )
        squares = _squares(values, values, values @ values.T)[np.triu_indices(len(values), 1)]
        median = float(np.sqrt(np.median(squares)))
        if not median > 0:
            raise InputError(
                f"{representation.name}: most rows are equal, so the median distance that scales the RBF kernel is 0."
            )
        widths.append(bandwidth * median)
    return np.array(widths)
