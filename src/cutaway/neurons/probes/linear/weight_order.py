"""Orders units by their share of the weight mass of a linear probe.

For one class, the units that hold a fraction p of the mass are the fewest units with the largest |w| whose sum is at
least p · Σ|w|, at least one. For all classes, it is the union. Dalvi et al., "What is one grain of sand in the
desert?", AAAI 2019. The steps are those of NeuroX, which leaves the order inside a step undefined; here it is defined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
N_STEPS = 100


@dataclass(frozen=True, slots=True, eq=False)
class MassOrder:
    """All units, in tiers."""

    order: Ints
    """Best first; inside a tier by the largest share of the mass of a class, then by index."""
    cutoffs: Ints
    """Number of units up to the end of each tier."""
    shares: Floats
    """(unit,): its largest share of the mass of a class."""
    tier_of: Ints
    """(unit,)."""

    @property
    def scores(self) -> Floats:
        """(unit,): scores from 1 to 0 that reproduce the order: the mass that is left when the unit is listed."""
        n = len(self.cutoffs)
        scores: Floats = np.where(self.shares > 0, (n - 1 - self.tier_of + self.shares) / n, 0.0)
        return scores


def mass_order(weights: Any, n_steps: int = N_STEPS) -> MassOrder:
    """Raise p from 0 to 1 in `n_steps` steps; each step adds a tier of new units.

    Units with zero weight are in the last tier.

    >>> mass_order([[0.1, -0.7, 0.2], [0.0, 0.1, 0.9]]).order
    array([2, 1, 0])
    """
    if n_steps < 1:
        raise InputError(f"n_steps={n_steps}: must be 1 or more.")
    shares = _shares(weights)
    tiers = np.full(shares.shape[1], n_steps)
    for row in np.atleast_2d(np.abs(np.asarray(weights, np.float64))):
        order = np.argsort(-row, kind="stable")
        order = order[row[order] > 0]
        ahead = np.concatenate([[0.0], row[order].cumsum()[:-1]])[: len(order)]
        # A unit enters at the first step whose mass exceeds the mass of the units before it.
        reached = np.searchsorted(row.sum() * (np.arange(n_steps + 1) / n_steps), ahead, side="right")
        # NeuroX lists the first unit of each class at p = 0 already.
        reached[:1] = 0
        tiers[order] = np.minimum(tiers[order], reached)
    return _in_tiers(tiers, n_steps + 1, shares)


def granular_order(weights: Any, size: int, n_steps: int = N_STEPS) -> MassOrder:
    """Raise p until there are at least 0, `size`, 2 · `size`, … units; each time adds a tier of new units.

    >>> granular_order([[0.4, 0.3, 0.2, 0.1]], size=2).cutoffs
    array([1, 2, 4])
    """
    if size < 1:
        raise InputError(f"size={size}: must be 1 or more.")
    fine = mass_order(weights, n_steps)
    wanted = np.arange(0, len(fine.order) + 1, size)
    kept = np.unique([*np.searchsorted(fine.cutoffs, wanted), n_steps])
    kept = kept[np.diff(fine.cutoffs[kept], prepend=0) > 0]
    tier_of = np.searchsorted(kept, fine.tier_of)
    return _in_tiers(tier_of, len(kept), _shares(weights))


def holding(weights: Any, mass: float, *, is_least: bool = False) -> list[Ints]:
    """For each class, the units that hold this fraction of the mass, largest |w| first (or smallest first).

    >>> holding([[0.1, -0.7, 0.2]], 0.8)
    [array([1, 2])]
    """
    if not 0 <= mass <= 1:
        raise InputError(f"mass={mass}: must be a fraction from 0 to 1.")
    units_of_class = []
    for row in np.atleast_2d(np.abs(np.asarray(weights, np.float64))):
        order = np.argsort(row if is_least else -row, kind="stable")
        sums = row[order].cumsum()
        n = int(np.searchsorted(sums, mass * sums[-1], side="left")) + 1
        units_of_class.append(order[: min(n, len(order))].astype(np.int64))
    return units_of_class


def above(weights: Any, fraction: float) -> list[Ints]:
    """For each class, the units whose |w| is above `fraction` of the largest, largest first.

    NeuroX divides by its fraction: its 4 is 0.25 here.

    >>> above([[0.1, -0.7, 0.2]], 0.25)
    [array([1, 2])]
    """
    if not 0 <= fraction <= 1:
        raise InputError(f"fraction={fraction}: must be a fraction from 0 to 1.")
    units_of_class = []
    for row in np.atleast_2d(np.abs(np.asarray(weights, np.float64))):
        order = np.argsort(-row, kind="stable")
        units_of_class.append(order[row[order] > fraction * row.max()].astype(np.int64))
    return units_of_class


def _shares(weights: Any) -> Floats:
    """(class, unit): share of the mass of the class; 0 for a class without weights."""
    mass = np.atleast_2d(np.abs(np.asarray(weights, np.float64)))
    if mass.ndim != 2 or not mass.size or not np.isfinite(mass).all():
        raise InputError(f"weights have shape {list(mass.shape)}: pass finite weights of shape [class, unit].")
    totals = mass.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(mass, totals, out=np.zeros_like(mass), where=totals > 0))


def _in_tiers(tier_of: Ints, n_tiers: int, shares: Floats) -> MassOrder:
    largest = shares.max(axis=0)
    order = np.lexsort((np.arange(len(largest)), -largest, tier_of)).astype(np.int64)
    cutoffs = np.bincount(tier_of, minlength=n_tiers).cumsum().astype(np.int64)
    return MassOrder(order, cutoffs, largest, tier_of.astype(np.int64))
