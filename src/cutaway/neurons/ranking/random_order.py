"""Random order, the baseline for every method."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.core.matrices import Matrix
from cutaway.neurons.ranking.class_statistics import moments, n_labels
from cutaway.neurons.ranking.combine import combine_labels
from cutaway.results.neurons.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels


def random(matrix: Matrix, encoded: EncodedLabels, *, seed: int = 0) -> Ranking:
    """Draw uniform scores per label and overall; dead units rank last."""
    generator = np.random.default_rng(seed)
    drawn = generator.random((1 + n_labels(encoded), matrix.n_units))  # overall, then each label
    statistics = moments(matrix, encoded)
    return combine_labels(
        "random",
        matrix,
        encoded,
        scores=drawn[1:],
        signs=np.zeros_like(drawn[1:]),
        dead=statistics.dead,
        overall=drawn[0],
        seed=seed,
    )
