"""Mean Select: how far a unit is from its mean where the concept is (Fan et al., 2023, arXiv 2301.12608).

The paper says in words that neurons are ranked by their activations over the contexts of a concept, and NeuroX lists
the method without its code. The formula here is our reading of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.core.matrices import Matrix
from cutaway.neurons.ranking.class_statistics import moments, n_rows_of, safe_ratio
from cutaway.neurons.ranking.combine import Overall, combine_labels
from cutaway.results.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels


def mean_select(matrix: Matrix, encoded: EncodedLabels, *, overall: Overall = "mean") -> Ranking:
    """`|mean over the rows of the label of (x - mean) / std|`, mean and std over all rows.

    Of numbers, each row counts with its standardised number, and the mean is Pearson's correlation.
    """
    found = moments(matrix, encoded)
    if encoded.kind == "numbers":
        size = np.sqrt(((encoded.codes - encoded.codes.mean()) ** 2).sum() * found.deviations)
        effects = safe_ratio(found.sums, size)
    else:
        effects = safe_ratio(found.sums / n_rows_of(encoded) - found.totals / found.n_rows, found.std)
    return combine_labels(
        "mean_select", matrix, encoded, scores=np.abs(effects), signs=effects, dead=found.dead, overall=overall
    )
