"""Columns of tables of results."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def columns_of(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    """One column for a number, one for each entry of an array, named by its index.

    >>> columns_of("score", np.array(0.5)), columns_of("score", np.array([0.5, 0.25]))
    ({'score': 0.5}, {'score.0': 0.5, 'score.1': 0.25})
    """
    return {".".join([name, *map(str, index)]): float(value) for index, value in np.ndenumerate(values)}
