"""The moments of a tensor, and the table that all backends fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.recording.statistics.quantiles import DISTRIBUTION

Floats = NDArray[np.float64]


class Moments(NamedTuple):
    """The exact statistics from one pass over a tensor."""

    mean: float
    abs_mean: float
    std: float
    norm: float
    min: float
    max: float
    zeros: float
    nans: float
    infs: float


class StatisticTable:
    """The statistics of one step: one column per statistic, one row per tensor; NaN where not filled.

    Backends fill the columns they compute. Names are those of `core/statistics.py`.
    """

    def __init__(self, sizes: list[int]) -> None:
        self._n_rows = len(sizes)
        self._columns: dict[str, Floats] = {"count": np.array(sizes, np.float64)}

    @property
    def is_filled(self) -> NDArray[np.bool_]:
        """Which rows are filled: their number of zeros is never NaN."""
        is_filled: NDArray[np.bool_] = ~np.isnan(self.column("zeros"))
        return is_filled

    def column(self, name: str) -> Floats:
        """One statistic of all rows, as a writable array."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = np.full(self._n_rows, np.nan)
        return column

    def add_zeros(self, number: int, n_stored: int) -> None:
        """Turn the statistics of the stored values of a sparse tensor into those of the whole tensor.

        The others are zeros: `count` minus `n_stored`.
        """
        n = int(self.column("count")[number])
        n_zeros, share = n - n_stored, n_stored / n
        if n_zeros <= 0:
            return
        mean, std = self.column("mean")[number], self.column("std")[number]
        # The variance between stored values and zeros is added to the one within, which cannot cancel.
        self.column("std")[number] = np.sqrt(share * std**2 + share * (1 - share) * mean**2)
        self.column("mean")[number] = share * mean
        self.column("abs_mean")[number] *= share
        for name, smaller in (("min", np.minimum), ("max", np.maximum)):
            self.column(name)[number] = smaller(self.column(name)[number], 0)  # NaN stays NaN
        self.column("zeros")[number] += n_zeros

    def put_moments(self, numbers: NDArray[np.int64], moments: Floats) -> None:
        """Write the moments of some rows, `[row, field of Moments]`."""
        self._put(numbers, Moments._fields, moments)

    def put_distribution(self, numbers: NDArray[np.int64], values: Floats) -> None:
        """Write quantiles and histogram of some rows, `[row, column of DISTRIBUTION]`."""
        self._put(numbers, DISTRIBUTION, values)

    def _put(self, numbers: NDArray[np.int64], names: tuple[str, ...], values: Floats) -> None:
        for name, column in zip(names, values.T, strict=True):
            self.column(name)[numbers] = column
