"""Average precision of a unit as a detector of the label. NeuroX calls it IoU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.core.matrices import Matrix
from cutaway.neurons.ranking.class_statistics import moments
from cutaway.neurons.ranking.combine import Overall, combine_labels, refuse_numbers
from cutaway.neurons.ranking.thresholds import sorted_units
from cutaway.results.neurons.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels


def average_precision(
    matrix: Matrix, encoded: EncodedLabels, *, absolute: bool = True, floor: float = 0.0, overall: Overall = "mean"
) -> Ranking:
    """`AP = Σ_k (R_k - R_{k-1}) P_k` over all thresholds; equal values form one step, as in scikit-learn.

    The score is the larger of AP(y, x) and AP(y, -x), because a unit that falls with the label is as informative as
    one that rises.

    Args:
        absolute: if False, use AP(y, x) only, so that units that fall with the label rank last.
        floor: treat values of a smaller magnitude as 0; NeuroX uses 0.05.
    """
    refuse_numbers(encoded, "average_precision", "it compares rows with and without a label.", _ALTERNATIVES)
    dead = moments(matrix, encoded).dead  # reads all rows once and raises for NaN
    n_labels = len(encoded.classes)
    scores, signs = np.zeros((n_labels, matrix.n_units)), np.ones((n_labels, matrix.n_units), np.int8)
    for units, sorted_rows in sorted_units(matrix, floor):
        for label, places in enumerate(sorted_rows.places(encoded)):
            precision = sorted_rows.down(places).average_precision
            if absolute:
                reversed_precision = sorted_rows.up(places).average_precision
                signs[label, units] = np.where(reversed_precision > precision, -1, 1)
                precision = np.maximum(precision, reversed_precision)
            scores[label, units] = precision
    return combine_labels(
        "average_precision",
        matrix,
        encoded,
        scores=scores,
        signs=signs,
        dead=dead,
        overall=overall,
        absolute=absolute,
        floor=floor,
    )


_ALTERNATIVES = "Turn them into classes, for example labels > median, or use 'mean_select', which ranks by correlation."
