"""Which outputs and gradients nothing overwrites before their statistics are computed, learned from recorded steps.

Statistics of GPU tensors are computed for many tensors at once, some time after each was recorded. A tensor may then be
held by reference only if the program does not write to it meanwhile. That is tried out when a site is recorded for the
first time: its statistics are taken at once, taken again with all others, and compared. A version counter would not
suffice, because custom kernels and `.data` write without counting; it guards the later steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SiteOf = tuple[str, str]
"""A site without its pass, and what is recorded of it: its value or a gradient."""

_SUMS = 1e-5
"""Largest relative difference of two sums over the same values."""


class StableSites:
    """The sites of a run whose tensors may be held by reference."""

    def __init__(self) -> None:
        self._known: dict[SiteOf, bool] = {}

    def find(self, site: SiteOf) -> bool | None:
        """Whether a site is stable; None if that was never tried."""
        return self._known.get(site)

    def learn(self, site: SiteOf, *, is_stable: bool) -> None:
        """Note the result for one tensor of a site. A site that was overwritten once is never held again."""
        self._known[site] = is_stable and self._known.get(site, True)

    def compare(self, site: SiteOf, row: NDArray[np.floating[Any]], later: NDArray[np.floating[Any]]) -> None:
        """Learn from the statistics of one tensor, taken at two times."""
        self.learn(site, is_stable=bool(np.allclose(row, later, rtol=_SUMS, atol=0, equal_nan=True)))
