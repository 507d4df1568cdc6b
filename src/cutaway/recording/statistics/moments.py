"""What is computed exactly of each tensor: the table in which all ways of computing it meet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.recording.statistics.quantiles import N_SAMPLES

Floats = NDArray[np.float64]


class Moments(NamedTuple):
    """What one pass over a tensor gives."""

    mean: float
    abs_mean: float
    std: float
    norm: float
    min: float
    max: float
    zeros: float
    nans: float
    infs: float


class Table:
    """The tensors of one step: a column for each statistic and a row of samples, NaN where nothing was put.

    A backend puts the columns that it computes; the names are those of `core/statistics.py`.
    """

    def __init__(self, sizes: list[int]) -> None:
        self._columns: dict[str, Floats] = {"count": np.array(sizes, np.float64)}
        self.samples = np.full((len(sizes), N_SAMPLES), np.nan, np.float32)

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Which rows something was put into: their number of zeros is never NaN."""
        found: NDArray[np.bool_] = ~np.isnan(self.column("zeros"))
        return found

    def column(self, name: str) -> Floats:
        """One statistic of all rows; what is written into it stays."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = np.full(len(self.samples), np.nan)
        return found

    def put_moments(self, numbers: NDArray[np.int64], moments: Floats) -> None:
        """The moments of some rows, `[row, field of Moments]`."""
        for name, values in zip(Moments._fields, moments.T, strict=True):
            self.column(name)[numbers] = values
