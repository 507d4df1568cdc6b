"""Canonical correlation analysis: CCA, SVCCA and PWCCA.

CCA: Hotelling 1936. SVCCA drops directions of little variance first: Raghu et al., NeurIPS 2017. PWCCA weights each
correlation by how much of a representation it accounts for: Morcos et al., NeurIPS 2018; here with canonical variables
instead of the directions in their published code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cutaway.core.errors import InputError
from cutaway.lm.similarities.products import Pair, products
from cutaway.lm.similarities.representations import Floats, Representation
from cutaway.lm.similarities.scores import ComparisonTask, Scores

Weights = Literal["fewer", "a", "b", "mean"]
"""Whose units weight the correlations of PWCCA:

fewer   those of the side with fewer units, as in the paper
a, b    those of the first or the second
mean    both: the mean of the two numbers
"""
_MOST_DIRECTIONS = 20


@dataclass(frozen=True, slots=True)
class _Basis:
    """An orthonormal basis of the rows of a representation."""

    map: Floats
    """(unit, direction): from centered units"""
    loads: Floats
    """(direction, unit): inner product of each direction with each unit, over the rows"""


def cca(task: ComparisonTask) -> Scores:
    """The mean of the canonical correlations; there are as many as the smaller side has directions."""
    scores = Scores(warnings=_check_rows(task))
    _correlate(task, [each.map for each in _bases(task.representations)], scores)
    return scores


def pwcca(task: ComparisonTask, *, weights: Weights = "fewer") -> Scores:
    """The mean of the canonical correlations, weighted by how much of the units each accounts for."""
    if weights not in ("fewer", "a", "b", "mean"):
        raise InputError(f"weights={weights!r}: give 'fewer', 'a', 'b' or 'mean'.")
    scores = Scores(warnings=_check_rows(task))
    bases = _bases(task.representations)
    for (i, j), product in products(task.representations, task.pairs, maps=[each.map for each in bases]):
        u, s, vt = np.linalg.svd(product, full_matrices=False)
        # Rounding can take a correlation of 1 above 1.
        s = scores.correlations[i, j] = np.clip(s, 0.0, 1.0)
        from_a, from_b = _weighted_mean(u, s, bases[i]), _weighted_mean(vt.T, s, bases[j])
        is_a_smaller = task.representations[i].n_units <= task.representations[j].n_units
        fewer = from_a if is_a_smaller else from_b
        mean = (from_a + from_b) / 2
        scores.values[i, j] = {"fewer": fewer, "a": from_a, "b": from_b, "mean": mean}[weights]
        scores.reverse[i, j] = {"fewer": fewer, "a": from_b, "b": from_a, "mean": mean}[weights]
    return scores


def svcca(task: ComparisonTask, *, n: int | None = None, variance: float | None = None) -> Scores:
    """The mean canonical correlation of the directions of most variance.

    Args:
        n: how many directions to keep; 20 by default, or all if there are fewer.
        variance: keep the directions with this share of the variance, instead of a number.
    """
    if n is not None and variance is not None:
        raise InputError(f"n={n!r} and variance={variance!r} were both given: give one of them.")
    if variance is not None and not 0 < variance <= 1:
        raise InputError(f"variance={variance!r}: give a share above 0, up to 1.")
    if n is not None:
        _check_directions(task.representations, n)
    scores = Scores()
    is_wide = any(each.n_units > each.n_rows for each in task.representations)
    keep = n, variance
    if is_wide:
        rows = [_row_directions(each, *keep) for each in task.representations]
        counts = [each.shape[1] for each in rows]
        for i, j in task.pairs:
            _score(scores, (i, j), rows[i].T @ rows[j])
    else:
        maps = _top_directions(task.representations, *keep)
        counts = [each.shape[1] for each in maps]
        _correlate(task, maps, scores)
    n_text = f"{min(counts)}" if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
    scores.notes.append(f"Kept the {n_text} directions of largest variance of each.")
    scores.warnings += _overlap_warnings(task, counts)
    return scores


def _check_rows(task: ComparisonTask) -> list[str]:
    """Raises if there are too few rows for CCA; returns warnings if there are few."""
    n = task.n_rows
    for i in task.used:
        each = task.representations[i]
        if each.n_units >= n - 1:
            raise InputError(
                f"{each.name} has {each.n_units:,} units and {n:,} rows. With so few rows, every canonical correlation "
                "is 1. Give more rows than units, or use method='svcca', which keeps few directions, or method='cka', "
                "debiased=True."
            )
    return _overlap_warnings(task, [each.n_units for each in task.representations])


def _overlap_warnings(task: ComparisonTask, counts: Sequence[int]) -> list[str]:
    """A warning if two spaces together have more directions than the rows: they then overlap for any data."""
    room = task.n_rows - 1
    worst = max((counts[i] + counts[j] - room, i, j) for i, j in task.pairs if i != j or len(task.pairs) == 1)
    n_forced, i, j = worst
    if n_forced <= 0:
        return []
    a, b = task.representations[i].name, task.representations[j].name
    return [
        f"{counts[i]:,} directions of {a} and {counts[j]:,} of {b} exceed {task.n_rows:,} rows: "
        f"{min(n_forced, counts[i], counts[j]):,} of their canonical correlations are 1 for any data. Give more rows, "
        "or use method='svcca' with fewer directions, or method='cka', debiased=True."
    ]


def _check_directions(representations: Sequence[Representation], n: int) -> None:
    if n < 1:
        raise InputError(f"n={n}: give 1 direction or more.")
    for each in representations:
        most = min(each.n_units, each.n_rows - 2)
        if n > most:
            is_by_units = each.n_units <= each.n_rows - 2
            why = f"{each.n_units:,} units that change" if is_by_units else f"{each.n_rows:,} rows"
            raise InputError(
                f"n={n:,} directions are too many: {each.name} has {why}, which allow at most {most:,}. Without n=, up "
                "to 20 are kept."
            )


def _bases(representations: Sequence[Representation]) -> list[_Basis]:
    """All directions of each. Units are scaled first for numerical accuracy; CCA is invariant to it."""
    bases = {}
    for (i, _), product in products(representations, [(i, i) for i in range(len(representations))]):
        bases[i], _ = _spectrum(product, np.sqrt(np.diag(product)))
    return [bases[i] for i in range(len(representations))]


def _spectrum(product: Floats, scale: Floats) -> tuple[_Basis, Floats]:
    """Directions by variance, largest first, with their variances; directions of rounding noise are dropped."""
    values, vectors = np.linalg.eigh(product / np.outer(scale, scale))
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = int((values > values[0] * len(values) * np.finfo(np.float64).eps).sum())
    roots = np.sqrt(values[:rank])
    basis = _Basis(vectors[:, :rank] / roots / scale[:, None], (vectors[:, :rank] * roots).T * scale)
    return basis, values[:rank]


def _top_directions(representations: Sequence[Representation], n: int | None, variance: float | None) -> list[Floats]:
    """(unit, direction) of each: those of largest variance."""
    maps = {}
    for (i, _), product in products(representations, [(i, i) for i in range(len(representations))]):
        basis, values = _spectrum(product, np.ones(len(product)))
        maps[i] = basis.map[:, : _n_kept(representations[i], values, n, variance)]
    return [maps[i] for i in range(len(representations))]


def _row_directions(representation: Representation, n: int | None, variance: float | None) -> Floats:
    """(row, direction): with more units than rows, the SVD of the rows is cheaper."""
    u, s, _ = np.linalg.svd(representation.array(), full_matrices=False)
    rank = int((s > s[0] * max(representation.n_rows, representation.n_units) * np.finfo(np.float64).eps).sum())
    directions: Floats = u[:, : _n_kept(representation, s[:rank] ** 2, n, variance)]
    return directions


def _n_kept(representation: Representation, values: Floats, n: int | None, variance: float | None) -> int:
    """How many directions to keep, given their variances."""
    if variance is None:
        # With n_rows - 1 directions, all correlations are 1: centered rows span no more.
        return min(n or _MOST_DIRECTIONS, len(values), max(1, representation.n_rows - 2))
    # The last share is 1 only up to rounding; variance=1 must still mean all directions.
    share = np.cumsum(values) / values.sum()
    n_kept = min(int(np.searchsorted(share, variance - 1e-12)) + 1, len(values))
    if n_kept >= representation.n_rows - 1:
        raise InputError(
            f"{variance:g} of the variance of {representation.name} takes {n_kept:,} directions, as many as its "
            f"{representation.n_rows:,} rows allow: all canonical correlations are 1. Give more rows, or a smaller one."
        )
    return n_kept


def _correlate(task: ComparisonTask, maps: Sequence[Floats], scores: Scores) -> None:
    for pair, product in products(task.representations, task.pairs, maps=maps):
        _score(scores, pair, product)


def _score(scores: Scores, pair: Pair, product: Floats) -> None:
    """Stores the canonical correlations of two orthonormal bases, from their product; the score is their mean."""
    correlations = np.clip(np.linalg.svd(product, compute_uv=False), 0.0, 1.0)
    scores.correlations[pair] = correlations
    scores.values[pair] = float(correlations.mean())


def _weighted_mean(directions: Floats, s: Floats, basis: _Basis) -> float:
    """The mean of the correlations, weighted by the sum over the units of |⟨canonical variable, unit⟩|."""
    weights = np.abs(directions.T @ basis.loads).sum(axis=1)
    return float(weights @ s / weights.sum())
