"""Units by the weight mass they hold in a linear probe.

Of a class, the units that hold the share p of the mass are the shortest run of the largest |w| whose sum is at least
p · Σ|w|; one unit at least. Of all classes, they are the union. Dalvi et al., "What is one grain of sand in the
desert?", AAAI 2019; the steps are those of NeuroX, whose order inside a step is left open and here is not.
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
    """Best first; in a tier by the largest share of a class's mass that the unit holds, then by index."""
    cutoffs: Ints
    """How many units the order has listed at the end of each tier."""
    shares: Floats
    """(unit,): the largest share of a class's mass that the unit holds."""
    tier_of: Ints
    """(unit,)."""

    @property
    def scores(self) -> Floats:
        """(unit,): from 1 down to 0, such that the order is theirs: the mass yet to come when the unit is listed."""
        n = len(self.cutoffs)
        found: Floats = np.where(self.shares > 0, (n - 1 - self.tier_of + self.shares) / n, 0.0)
        return found


def mass_order(weights: Any, n_steps: int = N_STEPS) -> MassOrder:
    """Raise p from 0 to 1 in `n_steps` steps, and list at each step the units that are new.

    Units without any weight come with the last step.

    >>> mass_order([[0.1, -0.7, 0.2], [0.0, 0.1, 0.9]]).order
    array([2, 1, 0])
    """
    if n_steps < 1:
        raise InputError(f"n_steps={n_steps}: 1 is the least.")
    shares = _shares(weights)
    tiers = np.full(shares.shape[1], n_steps)
    for row in np.atleast_2d(np.abs(np.asarray(weights, np.float64))):
        order = np.argsort(-row, kind="stable")
        order = order[row[order] > 0]
        ahead = np.concatenate([[0.0], row[order].cumsum()[:-1]])[: len(order)]
        # A unit is in at the first step whose share of the mass is more than what stands before it.
        reached = np.searchsorted(row.sum() * (np.arange(n_steps + 1) / n_steps), ahead, side="right")
        reached[:1] = 0
        tiers[order] = np.minimum(tiers[order], reached)
    return _in_tiers(tiers, n_steps + 1, shares)


def granular_order(weights: Any, size: int, n_steps: int = N_STEPS) -> MassOrder:
    """Raise p until there are at least 0, `size`, 2 · `size`, … units, and list those that are new.

    >>> granular_order([[0.4, 0.3, 0.2, 0.1]], size=2).cutoffs
    array([1, 2, 4])
    """
    if size < 1:
        raise InputError(f"size={size}: 1 is the least.")
    fine = mass_order(weights, n_steps)
    wanted = np.arange(0, len(fine.order) + 1, size)
    kept = np.unique([*np.searchsorted(fine.cutoffs, wanted), n_steps])
    kept = kept[np.diff(fine.cutoffs[kept], prepend=0) > 0]
    tier_of = np.searchsorted(kept, fine.tier_of)
    return _in_tiers(tier_of, len(kept), _shares(weights))


def holding(weights: Any, mass: float, *, is_least: bool = False) -> list[Ints]:
    """Of each class, the units that hold this share of the mass, largest |w| first; or with the least first.

    >>> holding([[0.1, -0.7, 0.2]], 0.8)
    [array([1, 2])]
    """
    if not 0 <= mass <= 1:
        raise InputError(f"mass={mass}: a share of the weight mass, from 0 to 1.")
    found = []
    for row in np.atleast_2d(np.abs(np.asarray(weights, np.float64))):
        order = np.argsort(row if is_least else -row, kind="stable")
        sums = row[order].cumsum()
        n = int(np.searchsorted(sums, mass * sums[-1], side="left")) + 1
        found.append(order[: min(n, len(order))].astype(np.int64))
    return found


def above(weights: Any, fraction: float) -> list[Ints]:
    """Of each class, the units whose |w| is above `fraction` of the largest, largest first.

    NeuroX's function of this kind divides by its fraction: its 4 is 0.25 here.

    >>> above([[0.1, -0.7, 0.2]], 0.25)
    [array([1, 2])]
    """
    if not 0 <= fraction <= 1:
        raise InputError(f"fraction={fraction}: a fraction of the largest weight, from 0 to 1.")
    found = []
    for row in np.atleast_2d(np.abs(np.asarray(weights, np.float64))):
        order = np.argsort(-row, kind="stable")
        found.append(order[row[order] > fraction * row.max()].astype(np.int64))
    return found


def _shares(weights: Any) -> Floats:
    """(class, unit): of the mass of the class; 0 for a class without weights."""
    mass = np.atleast_2d(np.abs(np.asarray(weights, np.float64)))
    if mass.ndim != 2 or not mass.size or not np.isfinite(mass).all():
        raise InputError(f"weights of shape {list(mass.shape)} were given: classes × units are needed, all finite.")
    totals = mass.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(mass, totals, out=np.zeros_like(mass), where=totals > 0))


def _in_tiers(tier_of: Ints, n_tiers: int, shares: Floats) -> MassOrder:
    largest = shares.max(axis=0)
    order = np.lexsort((np.arange(len(largest)), -largest, tier_of)).astype(np.int64)
    cutoffs = np.bincount(tier_of, minlength=n_tiers).cumsum().astype(np.int64)
    return MassOrder(order, cutoffs, largest, tier_of.astype(np.int64))
