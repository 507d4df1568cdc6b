"""Average precision of a unit as a detector of the label: what NeuroX calls IoU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.core.matrices import Matrix
from cutaway.neurons.ranking.class_statistics import moments
from cutaway.neurons.ranking.combine import Overall, combine_labels, refuse_numbers
from cutaway.neurons.ranking.thresholds import sorted_units
from cutaway.results.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels


def average_precision(
    matrix: Matrix, encoded: EncodedLabels, *, absolute: bool = True, floor: float = 0.0, overall: Overall = "mean"
) -> Ranking:
    """`AP = Σ_k (R_k - R_{k-1}) P_k` over all thresholds, equal values as one step; scikit-learn's number.

    The larger of AP(y, x) and AP(y, -x) counts, with its sign: a unit that falls where the label is tells as much as
    one that rises.

    Args:
        absolute: False for AP(y, x) alone: then units that fire negatively stand last.
        floor: values of a smaller magnitude count as 0; NeuroX has 0.05.
    """
    refuse_numbers(encoded, "average_precision", "it needs rows with a label and rows without.", _INSTEAD)
    dead = moments(matrix, encoded).dead  # reads all once, and finds what is no number
    n_labels = len(encoded.classes)
    scores, signs = np.zeros((n_labels, matrix.n_units)), np.ones((n_labels, matrix.n_units), np.int8)
    for units, some in sorted_units(matrix, floor):
        for label, places in enumerate(some.places(encoded)):
            found = some.down(places).average_precision
            if absolute:
                other = some.up(places).average_precision
                signs[label, units] = np.where(other > found, -1, 1)
                found = np.maximum(found, other)
            scores[label, units] = found
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


_INSTEAD = "Make classes of them first, for example labels > median; or 'mean_select', which ranks by correlation."
