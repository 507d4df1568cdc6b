"""Selectivity of a unit: the difference of its means with and without the label, in parts of its range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.core.matrices import Matrix
from cutaway.neurons.ranking.class_statistics import moments, n_rows_of, safe_ratio
from cutaway.neurons.ranking.combine import Overall, combine_labels, refuse_numbers
from cutaway.results.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels


def selectivity(matrix: Matrix, encoded: EncodedLabels, *, overall: Overall = "mean") -> Ranking:
    """`|mean₊ - mean₋| / (max - min)`: means with and without the label, range over all rows.

    It is no selectivity in the sense of control tasks, which compares a probe's accuracies.
    """
    refuse_numbers(encoded, "selectivity", "it compares rows with a label and rows without.", _INSTEAD)
    found = moments(matrix, encoded)
    n_rows = n_rows_of(encoded)
    with_label, without = found.sums / n_rows, (found.totals - found.sums) / (found.n_rows - n_rows)
    effects = safe_ratio(with_label - without, (found.high - found.low)[None])
    return combine_labels(
        "selectivity", matrix, encoded, scores=np.abs(effects), signs=effects, dead=found.dead, overall=overall
    )


_INSTEAD = "'probeless' and 'mean_select' rank by correlation with numbers, 'linear' fits them."
