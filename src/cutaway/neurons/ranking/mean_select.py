"""Mean Select: mean z-score of a unit over the rows with the label (Fan et al., 2023, arXiv 2301.12608).

The paper describes the method in words only (neurons are ranked by their activations over the contexts of a concept),
and NeuroX lists it without code. The formula is our interpretation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.core.matrices import Matrix
from cutaway.neurons.ranking.class_statistics import moments, n_rows_of, safe_ratio
from cutaway.neurons.ranking.combine import Overall, combine_labels
from cutaway.results.neurons.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels


def mean_select(matrix: Matrix, encoded: EncodedLabels, *, overall: Overall = "mean") -> Ranking:
    """`|mean over the rows of the label of (x - mean) / std|`, mean and std over all rows.

    If labels are numbers, rows are weighted by the standardized number, which gives Pearson's correlation.
    """
    statistics = moments(matrix, encoded)
    if encoded.kind == "numbers":
        size = np.sqrt(((encoded.codes - encoded.codes.mean()) ** 2).sum() * statistics.deviations)
        effects = safe_ratio(statistics.sums, size)
    else:
        effects = safe_ratio(
            statistics.sums / n_rows_of(encoded) - statistics.totals / statistics.n_rows, statistics.std
        )
    return combine_labels(
        "mean_select", matrix, encoded, scores=np.abs(effects), signs=effects, dead=statistics.dead, overall=overall
    )
