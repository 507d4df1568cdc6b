"""Outliers in a table with one row per unit or per sample: each is compared with the others of the same tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cutaway.core.unusual import FALL, RISE
from cutaway.core.zscores import FAR, medians, z_among_peers


def table_outliers(values: NDArray[np.float32], columns: Sequence[str]) -> NDArray[np.float32]:
    """The z-scores of unusual numbers among the rows of a table, `[row, column]`; NaN for usual ones.

    Magnitudes are judged: the standard deviation, the mean and the largest of the magnitudes. One is unusual if its
    z-score is 5 or more, and it is twice the median or more, or a tenth of it or less, as against the past of a tensor
    (`core/unusual.py`).

    >>> table = np.full((8, 2), 1, np.float32)
    >>> table[3, 1] = 255
    >>> np.argwhere(np.isfinite(table_outliers(table, ("mean", "std")))).tolist()
    [[3, 1]]

    Args:
        values: `[row, column]`.
        columns: the statistic of each column.
    """
    z, _ = z_among_peers(values, [0] * len(values), columns)
    sizes = np.abs(values.astype(np.float64))
    usual = medians(np.where(np.isfinite(sizes), sizes, np.nan))
    is_apart = (sizes >= RISE * usual) | (sizes * FALL <= usual)
    outliers: NDArray[np.float32] = np.where((np.abs(z) >= FAR) & is_apart, z, np.nan).astype(np.float32)
    return outliers


def strongest(outliers: NDArray[np.float32]) -> NDArray[np.float64]:
    """By row, the largest z-score in magnitude; 0 for a row without outliers."""
    sizes: NDArray[np.float64] = np.abs(np.nan_to_num(outliers.astype(np.float64), nan=0.0)).max(axis=1, initial=0.0)
    return sizes
