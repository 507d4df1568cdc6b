"""Selectivity: difference of the means with and without the label, divided by the range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.core.matrices import Matrix
from cutaway.neurons.ranking.class_statistics import moments, n_rows_of, safe_ratio
from cutaway.neurons.ranking.combine import Overall, combine_labels, refuse_numbers
from cutaway.results.neurons.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels


def selectivity(matrix: Matrix, encoded: EncodedLabels, *, overall: Overall = "mean") -> Ranking:
    """`|mean₊ - mean₋| / (max - min)`: means with and without the label, range over all rows.

    Not to be confused with the selectivity of control tasks, which compares accuracies of a probe.
    """
    refuse_numbers(encoded, "selectivity", "it compares rows with and without a label.", _ALTERNATIVES)
    statistics = moments(matrix, encoded)
    n_rows = n_rows_of(encoded)
    with_label, without = statistics.sums / n_rows, (statistics.totals - statistics.sums) / (statistics.n_rows - n_rows)
    effects = safe_ratio(with_label - without, (statistics.high - statistics.low)[None])
    return combine_labels(
        "selectivity", matrix, encoded, scores=np.abs(effects), signs=effects, dead=statistics.dead, overall=overall
    )


_ALTERNATIVES = "Use 'probeless' or 'mean_select', which rank by correlation, or 'linear', which fits numbers."
