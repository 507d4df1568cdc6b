"""How compatible methods are: overlaps of their best units, and votes on them.

Average Overlap and NeuronVote are those of Fan et al., "Evaluating Neuron Interpretation Methods of NLP Models",
NeurIPS 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix, as_matrix
from cutaway.neurons.labels.labels import EncodedLabels, encode
from cutaway.neurons.ranking.rank import Scorer, rank
from cutaway.results.comparison import Comparison, Stability
from cutaway.results.ranking import Ranking, ranked

_DEPTH = 100
"""How many units of a list vote; the paper's number."""


def average_overlap(ranking: Ranking, baselines: Iterable[Ranking], n: int = 50) -> float:
    """The mean over the baselines of `|A ∩ B| / |A ∪ B|`, A and B being the n best units of two rankings."""
    return float(np.mean([jaccard(ranking, each, n) for each in _checked_rankings(baselines)]))


def neuron_vote(ranking: Ranking, baselines: Iterable[Ranking], n: int = 50, *, depth: int = _DEPTH) -> float:
    """`|A ∩ B| / |A ∪ B|` of the n best units of a ranking and the n units that the baselines vote for."""
    return jaccard(ranking, vote(baselines, depth), n)


def vote(rankings: Iterable[Ranking], depth: int = _DEPTH) -> Ranking:
    """One ranking of many: each gives `depth` points to its best unit, one less to the next, and so on.

    >>> ours, theirs = ranked("a", [3, 2, 1, 0]), ranked("b", [1, 3, 2, 0])
    >>> vote([ours, theirs], depth=2).order
    array([1, 0, 2])

    Args:
        depth: how many units of each have a vote; a list that is shorter gives as many points as it is long.
    """
    several = _checked_rankings(rankings)
    points = np.zeros(several[0].n_units)
    for each in several:
        best = each.order[:depth]
        points[best] += np.arange(len(best), 0, -1)
    return ranked("vote", points, units=np.flatnonzero(points), names=several[0].names)


def jaccard(one: Ranking, other: Ranking, n: int) -> float:
    """`|A ∩ B| / |A ∪ B|` of the n best units of each."""
    if n < 1:
        raise InputError(f"the {n} best units were asked for: 1 is the least.")
    _check_same_units([one, other])
    ours, theirs = one.order[:n], other.order[:n]
    n_both = len(np.intersect1d(ours, theirs))
    return n_both / (len(ours) + len(theirs) - n_both)


def compare(rankings: Mapping[str, Ranking] | Sequence[Ranking], n: int = 50, *, depth: int = _DEPTH) -> Comparison:
    """Each ranking beside all others: overlaps, and how well the others endorse it."""
    named = dict(rankings) if isinstance(rankings, Mapping) else _name_by_method(rankings)
    if len(named) < 2:
        raise InputError(f"{len(named)} ranking was given: two at least are compared.")
    several = _checked_rankings(named.values())
    overlap = np.array([[jaccard(one, other, n) for other in several] for one in several])
    others = [several[:place] + several[place + 1 :] for place in range(len(several))]
    return Comparison(
        methods=tuple(map(str, named)),
        n=n,
        overlap=overlap,
        average_overlap=np.array([average_overlap(one, rest, n) for one, rest in zip(several, others, strict=True)]),
        neuron_vote=np.array(
            [neuron_vote(one, rest, n, depth=depth) for one, rest in zip(several, others, strict=True)]
        ),
    )


def stability(
    acts: Any,
    labels: Any,
    method: str | Scorer = "probeless",
    *,
    n: int = 50,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    share: float = 0.8,
    **options: Any,
) -> Stability:
    """Whether a method finds the same units again: it ranks once for each seed, on other rows each time.

    Args:
        share: of the rows that each seed draws, of each class the same share. With 1, all see all rows, and only
            methods that draw something themselves can differ.
        options: of `rank`.
    """
    if not 0 < share <= 1 or len(set(seeds)) < 2:
        raise InputError(f"share={share!r}, seeds={tuple(seeds)!r}: a share up to 1, and two different seeds at least.")
    matrix = as_matrix(acts)
    encoded = encode(labels, matrix.n_rows)
    found = []
    for seed in seeds:
        rows = sample_rows(encoded, share, seed)
        part = matrix if share == 1 else select_rows(matrix, rows)
        found.append(rank(part, _select_labels(encoded, rows), method, seed=seed, **options))
    best = np.zeros((len(found), matrix.n_units))
    for row, each in enumerate(found):
        best[row, each.order[:n]] = 1
    return Stability(
        method=found[0].method,
        n=n,
        seeds=tuple(map(int, seeds)),
        share=float(share),
        overlap=np.array([[jaccard(one, other, n) for other in found] for one in found]),
        chosen=best.mean(axis=0),
    )


def sample_rows(encoded: EncodedLabels, share: float, seed: int) -> NDArray[np.int64]:
    """A share of the rows in their order, drawn without replacement; of each class the same share, rounded up."""
    generator = np.random.default_rng(seed)
    groups = [np.arange(len(encoded))]
    if encoded.kind == "classes":
        groups = [np.flatnonzero(encoded.codes == code) for code in range(len(encoded.classes))]
    picked = [generator.permutation(group)[: int(np.ceil(share * len(group)))] for group in groups]
    return np.sort(np.concatenate(picked))


def select_rows(matrix: Matrix, rows: NDArray[np.int64]) -> Matrix:
    """Some rows of a matrix; of activations on disk, nothing is read yet."""
    source = matrix.source
    return Matrix(source[rows] if isinstance(source, np.ndarray) else source.rows(rows), matrix.names, matrix.units)


def _select_labels(encoded: EncodedLabels, rows: NDArray[np.int64]) -> EncodedLabels:
    codes = encoded.codes[rows]
    if encoded.kind == "numbers":
        return replace(encoded, codes=codes)
    if encoded.kind == "classes":
        return replace(encoded, codes=codes, counts=np.bincount(codes, minlength=len(encoded.classes)))
    return replace(encoded, codes=codes, counts=codes.sum(axis=0))


def _checked_rankings(rankings: Iterable[Ranking]) -> list[Ranking]:
    found = list(rankings)
    if not found:
        raise InputError("no ranking was given to compare with.")
    _check_same_units(found)
    return found


def _check_same_units(rankings: Sequence[Ranking]) -> None:
    sizes = sorted({each.n_units for each in rankings})
    if len(sizes) > 1:
        raise InputError(
            f"rankings of {sizes[0]:,} and of {sizes[-1]:,} units cannot be compared: rank the same activations."
        )


def _name_by_method(rankings: Sequence[Ranking]) -> dict[str, Ranking]:
    named: dict[str, Ranking] = {}
    for each in rankings:
        if each.method in named:
            raise InputError(
                f"two rankings by {each.method!r} were given: name them, compare({{'first': …, 'second': …}})."
            )
        named[each.method] = each
    return named
