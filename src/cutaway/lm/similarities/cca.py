"""Canonical correlations: how far one representation is a linear map of the other.

CCA: Hotelling 1936. SVCCA, which drops directions of little variance first: Raghu et al., NeurIPS 2017. PWCCA, which
weighs each correlation by how much of a representation it accounts for: Morcos et al., NeurIPS 2018; with canonical
variables in place of the directions that its published code took.
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
"""Whose units weigh the correlations of PWCCA:

fewer   those of the side that has fewer units, as in the paper
a, b    those of the first, those of the second
mean    both, and the mean of the two numbers
"""
_MOST_DIRECTIONS = 20


@dataclass(frozen=True, slots=True)
class _Basis:
    """Directions of a subject in which its rows have unit length and do not overlap."""

    map: Floats
    """(unit, direction): from centred units"""
    loads: Floats
    """(direction, unit): the product of each direction with each unit, over the rows"""


def cca(task: ComparisonTask) -> Scores:
    """The mean of the canonical correlations, as many as the side with fewer directions has."""
    scores = Scores(warnings=_check_rows(task))
    _correlate(task, [each.map for each in _bases(task.representations)], scores)
    return scores


def pwcca(task: ComparisonTask, *, weights: Weights = "fewer") -> Scores:
    """Canonical correlations, each weighed by how much of the units it accounts for."""
    if weights not in ("fewer", "a", "b", "mean"):
        raise InputError(f"weights={weights!r}: 'fewer', 'a', 'b' or 'mean'.")
    scores = Scores(warnings=_check_rows(task))
    bases = _bases(task.representations)
    for (i, j), product in products(task.representations, task.pairs, maps=[each.map for each in bases]):
        u, s, vt = np.linalg.svd(product, full_matrices=False)
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
        n: how many directions are kept; 20, or fewer where there are not as many.
        variance: keep as many as hold this share of it, in place of a number.
    """
    if n is not None and variance is not None:
        raise InputError(f"n={n!r} and variance={variance!r} were both given: one of them says how much is kept.")
    if variance is not None and not 0 < variance <= 1:
        raise InputError(f"variance={variance!r}: a share above 0 and up to 1 is needed.")
    if n is not None:
        _check_directions(task.representations, n)
    scores = Scores()
    is_wide = any(each.n_units > each.n_rows for each in task.representations)
    keep = n, variance
    if is_wide:
        rows = [_row_directions(each, *keep) for each in task.representations]
        kept = [each.shape[1] for each in rows]
        for i, j in task.pairs:
            _score(scores, (i, j), rows[i].T @ rows[j])
    else:
        maps = _top_directions(task.representations, *keep)
        kept = [each.shape[1] for each in maps]
        _correlate(task, maps, scores)
    told = f"{min(kept)}" if len(set(kept)) == 1 else f"{min(kept)} to {max(kept)}"
    scores.notes.append(f"{told} directions of most variance were kept of each.")
    scores.warnings += _overlap_warnings(task, kept)
    return scores


def _check_rows(task: ComparisonTask) -> list[str]:
    """Refuses what has no meaning; says what has little."""
    n = task.n_rows
    for i in task.used:
        representation = task.representations[i]
        if representation.n_units >= n - 1:
            raise InputError(
                f"{representation.name} has {representation.n_units:,} units and {n:,} rows: with so few rows its units can be "
                "combined into anything, and every canonical correlation is 1. Give more rows than units, or use "
                "method='svcca', which keeps few directions, or method='cka', debiased=True."
            )
    return _overlap_warnings(task, [each.n_units for each in task.representations])


def _overlap_warnings(task: ComparisonTask, kept: Sequence[int]) -> list[str]:
    """Two spaces that together have more directions than the rows have share some, whatever the data."""
    room = task.n_rows - 1
    worst = max((kept[i] + kept[j] - room, i, j) for i, j in task.pairs if i != j or len(task.pairs) == 1)
    n_forced, i, j = worst
    if n_forced <= 0:
        return []
    a, b = task.representations[i].name, task.representations[j].name
    return [
        f"{kept[i]:,} directions of {a} and {kept[j]:,} of {b} are more than {task.n_rows:,} rows hold: "
        f"{min(n_forced, kept[i], kept[j]):,} of their canonical correlations are 1 whatever the data. Give more rows, "
        "or use method='svcca' with fewer directions, or method='cka', debiased=True."
    ]


def _check_directions(representations: Sequence[Representation], n: int) -> None:
    if n < 1:
        raise InputError(f"n={n} directions were asked for: 1 is the least.")
    for representation in representations:
        most = min(representation.n_units, representation.n_rows - 2)
        if n > most:
            why = (
                "units that change"
                if representation.n_units <= representation.n_rows - 2
                else "rows, which hold two directions less"
            )
            count = (
                representation.n_units if representation.n_units <= representation.n_rows - 2 else representation.n_rows
            )
            raise InputError(
                f"n={n:,} directions were asked for, and {representation.name} has {count:,} {why}: {most:,} is the most. "
                "Without n=, as many are kept as there are, and 20 at most."
            )


def _bases(representations: Sequence[Representation]) -> list[_Basis]:
    """All directions of each; units are brought to one scale first, which CCA does not see, for the digits."""
    found = {}
    for (i, _), product in products(representations, [(i, i) for i in range(len(representations))]):
        found[i], _ = _spectrum(product, np.sqrt(np.diag(product)))
    return [found[i] for i in range(len(representations))]


def _spectrum(product: Floats, scale: Floats) -> tuple[_Basis, Floats]:
    """Directions by variance, largest first, and how much each has; those that are rounding alone are left out."""
    values, vectors = np.linalg.eigh(product / np.outer(scale, scale))
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = int((values > values[0] * len(values) * np.finfo(np.float64).eps).sum())
    roots = np.sqrt(values[:rank])
    basis = _Basis(vectors[:, :rank] / roots / scale[:, None], (vectors[:, :rank] * roots).T * scale)
    return basis, values[:rank]


def _top_directions(representations: Sequence[Representation], n: int | None, variance: float | None) -> list[Floats]:
    """Of each, (unit, direction): those of most variance."""
    found = {}
    for (i, _), product in products(representations, [(i, i) for i in range(len(representations))]):
        basis, values = _spectrum(product, np.ones(len(product)))
        found[i] = basis.map[:, : _n_kept(representations[i], values, n, variance)]
    return [found[i] for i in range(len(representations))]


def _row_directions(representation: Representation, n: int | None, variance: float | None) -> Floats:
    """(row, direction): where there are more units than rows, the directions are had from the rows."""
    u, s, _ = np.linalg.svd(representation.array(), full_matrices=False)
    rank = int((s > s[0] * max(representation.n_rows, representation.n_units) * np.finfo(np.float64).eps).sum())
    found: Floats = u[:, : _n_kept(representation, s[:rank] ** 2, n, variance)]
    return found


def _n_kept(representation: Representation, values: Floats, n: int | None, variance: float | None) -> int:
    """How many directions stay, out of their variances."""
    if variance is None:
        return min(n or _MOST_DIRECTIONS, len(values), max(1, representation.n_rows - 2))
    share = np.cumsum(values) / values.sum()
    found = min(int(np.searchsorted(share, variance - 1e-12)) + 1, len(values))
    if found >= representation.n_rows - 1:
        raise InputError(
            f"{variance:g} of the variance of {representation.name} takes {found:,} directions, as many as its "
            f"{representation.n_rows:,} rows hold: every canonical correlation is 1. Give more rows, or a smaller share."
        )
    return found


def _correlate(task: ComparisonTask, maps: Sequence[Floats], scores: Scores) -> None:
    for pair, product in products(task.representations, task.pairs, maps=maps):
        _score(scores, pair, product)


def _score(scores: Scores, pair: Pair, product: Floats) -> None:
    """The canonical correlations of two orthonormal bases, out of their product; their mean is the score."""
    found = np.clip(np.linalg.svd(product, compute_uv=False), 0.0, 1.0)
    scores.correlations[pair] = found
    scores.values[pair] = float(found.mean())


def _weighted_mean(directions: Floats, s: Floats, basis: _Basis) -> float:
    """Each correlation by the sum over the units of |⟨its canonical variable, unit⟩|."""
    weights = np.abs(directions.T @ basis.loads).sum(axis=1)
    return float(weights @ s / weights.sum())
