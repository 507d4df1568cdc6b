"""Probeless: differences between the class means of a unit.

Antverg & Belinkov, "On the Pitfalls of Analyzing Individual Neurons in Language Models", ICLR 2022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.core.matrices import Matrix
from cutaway.neurons.ranking.class_statistics import Floats, Moments, moments, n_rows_of, safe_ratio
from cutaway.neurons.ranking.combine import combine_labels
from cutaway.results.neurons.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels


def probeless(matrix: Matrix, encoded: EncodedLabels, *, standardize: bool = True) -> Ranking:
    """With `q_c` the mean of class c, the score for c is `Σ_c' |q_c - q_c'|`; the overall score sums over all pairs.

    Differences are divided by the pooled standard deviation within classes. Without that, units with a large scale win
    regardless of the labels, and a ranking of two layers compares their scales. With several labels per row, each label
    is compared with the rest. If labels are numbers, the regression slope replaces the difference of means: in units of
    the residual deviation it is `|r| / √(1 - r²)`, which gives the same order as the correlation r.

    Args:
        standardize: False for the plain differences of the paper and of NeuroX.
    """
    sums = moments(matrix, encoded)
    overall = None
    if encoded.kind == "numbers":
        effects, spread = _slopes(sums, encoded)
        scores = np.abs(effects)
    elif encoded.kind == "multilabel":
        effects, spread = _one_vs_rest(sums, n_rows_of(encoded))
        scores = np.abs(effects)
    else:
        n_rows = n_rows_of(encoded)
        means = sums.sums / n_rows  # (label, unit), about the shift
        spread = _pooled_std(sums, n_rows, means)
        scores = np.stack([np.abs(means - mean).sum(axis=0) for mean in means])
        effects = means * len(means) - means.sum(axis=0)  # proportional to the class mean minus the mean of the others
        # Each pair of classes occurs in the scores of both.
        overall = scores.sum(axis=0) / 2
    if standardize:
        scores = safe_ratio(scores, spread)
        overall = None if overall is None else safe_ratio(overall, spread)
    return combine_labels(
        "probeless",
        matrix,
        encoded,
        scores=scores,
        signs=effects,
        dead=sums.dead,
        overall="mean" if overall is None else overall,
        standardize=standardize,
    )


def _pooled_std(sums: Moments, n_rows: Floats, means: Floats) -> Floats:
    """(unit,): pooled standard deviation within classes."""
    squares = sums.squares - (n_rows * means**2).sum(axis=0)
    # The difference of large sums may be rounding only; without a floor, such a unit would score infinity.
    least = 1e-12 * sums.deviations
    return np.asarray(np.sqrt(np.maximum(squares, least) / max(sums.n_rows - len(means), 1)))


def _one_vs_rest(sums: Moments, n_rows: Floats) -> tuple[Floats, Floats]:
    """(label, unit): mean with the label minus mean without, and the pooled deviation."""
    n_rest = sums.n_rows - n_rows
    with_label, without = sums.sums / n_rows, (sums.totals - sums.sums) / n_rest
    squares = sums.squares - n_rows * with_label**2 - n_rest * without**2
    spread = np.sqrt(np.maximum(squares, 1e-12 * sums.deviations) / max(sums.n_rows - 2, 1))
    return with_label - without, spread


def _slopes(sums: Moments, encoded: EncodedLabels) -> tuple[Floats, Floats]:
    """(1, unit): regression slope per standard deviation of the numbers, and the residual deviation."""
    numbers = encoded.codes - encoded.codes.mean()
    slopes = sums.sums / np.sqrt((numbers**2).sum() * sums.n_rows)  # (1, unit)
    left = sums.deviations / sums.n_rows - slopes**2
    return slopes, np.sqrt(np.maximum(left, 1e-12 * sums.deviations / sums.n_rows))
