"""What is computed exactly of each tensor: the table in which all ways of computing it meet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.recording.sampling import N_SAMPLES

Floats = NDArray[np.float64]


class Moments(NamedTuple):
    """One tensor."""

    n: float
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
    """The tensors of one step: a row of moments and a row of samples for each, NaN where nothing was put."""

    def __init__(self, sizes: list[int]) -> None:
        self.moments: Floats = np.full((len(sizes), len(Moments._fields)), np.nan)
        self.moments[:, 0] = sizes
        self.samples = np.full((len(sizes), N_SAMPLES), np.nan, np.float32)

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Which rows something was put into: their number of zeros is never NaN."""
        found: NDArray[np.bool_] = ~np.isnan(self.column("zeros"))
        return found

    def column(self, name: str) -> Floats:
        """One moment of all rows."""
        found: Floats = self.moments[:, Moments._fields.index(name)]
        return found
