"""Compares rankings: overlap of their top units, votes, stability over seeds.

Average Overlap and NeuronVote follow Fan et al., "Evaluating Neuron Interpretation Methods of NLP Models",
NeurIPS 2023.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.call_errors import explain_missing
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import plural, type_text
from cutaway.core.matrices import Matrix
from cutaway.neurons.labels.labels import EncodedLabels, matrix_and_labels
from cutaway.neurons.ranking.combine import Overall
from cutaway.neurons.ranking.method_options import MethodOptions
from cutaway.neurons.ranking.rank import Compat, Scorer, rank_with
from cutaway.results.neurons.comparison import Comparison, Stability
from cutaway.results.neurons.ranking import Ranking, ranked

Rankings = Iterable[Ranking] | Mapping[str, Ranking]
_DEPTH = 100
"""How many units of each ranking get votes; the value of the paper."""
_ADVICE = (
    "Pass one ranking and the rankings to compare it with, as a list or a mapping by name; neurons.compare(rankings) "
    "compares each ranking with all others."
)


@explain_missing(_ADVICE)
def average_overlap(ranking: Ranking, baselines: Rankings, n: int = 50) -> float:
    """Mean Jaccard index `|A ∩ B| / |A ∪ B|` of the top n units of a ranking and of each baseline.

    Args:
        ranking: the ranking to compare.
        baselines: the rankings to compare it with: a list, or a mapping by name.
        n: how many top units of each to compare.
    """
    _check_ranking(ranking, "ranking")
    others = _checked_rankings(baselines)
    _warn_if_all([ranking, *others], n, stacklevel=4)  # one more for the decorator
    return float(np.mean([jaccard(ranking, each, n) for each in others]))


@explain_missing(_ADVICE)
def neuron_vote(ranking: Ranking, baselines: Rankings, n: int = 50, *, depth: int = _DEPTH) -> float:
    """Jaccard index of the top n units of a ranking and the top n units that the baselines vote for.

    Args:
        ranking: the ranking to compare.
        baselines: the rankings that vote: a list, or a mapping by name.
        n: how many top units of each to compare.
        depth: how many units of each baseline get votes.
    """
    voted = vote(baselines, depth)
    _warn_if_all([_check_ranking(ranking, "ranking"), voted], n, stacklevel=4)
    return jaccard(ranking, voted, n)


def vote(rankings: Rankings, depth: int = _DEPTH) -> Ranking:
    """Combine rankings by vote: each gives `depth` points to its best unit, one less to the next, and so on.

    >>> a, b = ranked("a", [3, 2, 1, 0]), ranked("b", [1, 3, 2, 0])
    >>> vote([a, b], depth=2).order
    array([1, 0, 2])

    Args:
        rankings: a list of rankings of the same units, or a mapping by name.
        depth: how many units of each ranking get votes. A shorter ranking gives as many points as it has units.
    """
    checked = _checked_rankings(rankings)
    points = np.zeros(checked[0].n_units)
    for each in checked:
        best = each.order[:depth]
        # Fan et al., 2023: a list of length n gives n - i points to the unit at position i.
        points[best] += np.arange(len(best), 0, -1)
    return ranked("vote", points, units=np.flatnonzero(points), names=checked[0].names)


def jaccard(first: Ranking, other: Ranking, n: int) -> float:
    """Jaccard index `|A ∩ B| / |A ∪ B|` of the top n units of two rankings."""
    if n < 1:
        raise InputError(f"n={n}: must be 1 or more.")
    _check_same_units([first, other])
    return jaccard_index(first.order[:n], other.order[:n])


def jaccard_index(first: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """`|A ∩ B| / |A ∪ B|` of two lists of unit indices without duplicates.

    >>> jaccard_index(np.array([1, 2]), np.array([2, 3]))
    0.3333333333333333
    """
    n_both = len(np.intersect1d(first, other))
    return n_both / (len(first) + len(other) - n_both)


def compare(rankings: Rankings, n: int = 50, *, depth: int = _DEPTH) -> Comparison:
    """Compare each ranking with all others by the overlap of their top n units.

    Args:
        rankings: by name, or a list with one ranking per method.
        n: how many top units of each to compare.
        depth: how many units of each ranking get votes.
    """
    checked = _checked_rankings(rankings)
    if len(checked) < 2:
        raise InputError(f"got {plural(len(checked), 'ranking')}: pass at least two.")
    names = list(rankings) if isinstance(rankings, Mapping) else _method_names(checked)
    _warn_if_all(checked, n)
    overlap = np.array([[jaccard(first, other, n) for other in checked] for first in checked])
    others = [checked[:place] + checked[place + 1 :] for place in range(len(checked))]
    return Comparison(
        methods=tuple(map(str, names)),
        n=n,
        overlap=overlap,
        average_overlap=np.array(
            [np.mean([jaccard(first, each, n) for each in rest]) for first, rest in zip(checked, others, strict=True)]
        ),
        neuron_vote=np.array(
            [jaccard(first, vote(rest, depth), n) for first, rest in zip(checked, others, strict=True)]
        ),
    )


def stability(
    acts: Any,
    labels: Any,
    method: str | Scorer = "probeless",
    *,
    n: int = 50,
    seeds: Sequence[int] | int = (0, 1, 2, 3, 4),
    share: float = 0.8,
    units: Any = None,
    compat: Compat = "",
    options: Mapping[str, Any] | None = None,
    absolute: bool | None = None,
    floor: float | None = None,
    overall: Overall | None = None,
    threshold: float | None = None,
    standardize: bool | None = None,
    l1: float | None = None,
    l2: float | None = None,
    task: Literal["auto", "classification", "regression"] | None = None,
    solver: Literal["auto", "full", "minibatch"] | None = None,
    max_iter: int | None = None,
    tol: float | None = None,
    n_units: int | None = None,
    n_permutations: int | None = None,
    validation: float | None = None,
    device: Any = None,
    model: Any = None,
    data: Any = None,
    target: Any = None,
    attribution: str | None = None,
    steps: int | None = None,
    baseline: Any = None,
    along: str | None = None,
    signed: bool | None = None,
    batch_size: int | None = None,
    call: Callable[[Any, Any], Any] | None = None,
    unit_dim: int | Sequence[int] | None = None,
    samples: int | None = None,
    tokenizer: Any = None,
) -> Stability:
    """How stable the top units of a method are: rank once per seed, each time on a random part of the rows.

    Args:
        acts: `Activations`, or rows × units as an array or tensor.
        labels: one per row: classes, several labels, or numbers.
        method: the name of a method, or a function of (rows × units, labels) that returns one score per unit.
        n: how many top units to compare.
        seeds: one ranking per seed, or the number of seeds; at least two.
        share: fraction of the rows that each seed draws, stratified by class. With 1, every seed uses all rows, and
            only randomized methods can differ. For the `share` of method="iou", use options={"share": …}.
        units: rank only these units: indices, a mask or names.
        compat: "neurox" for NeuroX's numbers, where ours differ by design.
        options: keyword arguments of your own function; or options of the method as a mapping.
        absolute: average_precision, iou: if False, units that fall with the label rank last. Default: True.
        floor: average_precision: treat values of a smaller magnitude as 0. Default: 0.
        overall: average_precision, iou, mean_select, selectivity: how to combine several labels, "mean" or "max".
            Default: "mean".
        threshold: iou: a unit is active above this value instead.
        standardize: linear, probeless: whether to scale units by their standard deviation. Default: True.
        l1: linear: weight of the l1 penalty. Default: 0.001.
        l2: linear: weight of the l2 penalty. Default: 0.001.
        task: linear: "classification" or "regression". Default: what the labels are.
        solver: linear: "full" or "minibatch". Default: "full" up to 1 GiB.
        max_iter: linear: maximum number of iterations or epochs. Default: 500 or 20.
        tol: linear: tolerance of the solver. Default: 0.00001.
        n_units: gaussian: how many units to select. Default: 10.
        n_permutations: gaussian: number of label shuffles for the null. Default: 20.
        validation: gaussian, linear: fraction of the rows to hold out. Default: 0.2 for gaussian, 0 for linear.
        device: gaussian, linear: compute device. Default: that of the tensor, or the CPU.
        model: gradient: the model that the activations come from.
        data: gradient: the inputs of the items of the activations, in the same order.
        target: gradient: what to attribute, as for `attribute`, like all options below.
        attribution: gradient: the `method` of `attribute`. Default: "gradient_x_activation".
        steps: gradient: number of points on the path. Default: 50.
        baseline: gradient: start of the path. Default: "zero".
        along: gradient: the site whose value moves along the path of conductance.
        signed: gradient: sum signed attributions. Default: False.
        batch_size: gradient: samples per batch; linear: rows per batch.
        call: gradient: how to call the model with a batch.
        unit_dim: gradient: the unit dimension of all sites.
        samples: gradient: the sample dimension of the data.
        tokenizer: gradient: tokenizer, if the data is text.
    """
    seeds = range(seeds) if isinstance(seeds, int) else seeds
    if not 0 < share <= 1 or len(set(seeds)) < 2:
        raise InputError(
            f"share={share!r}, seeds={tuple(seeds)!r}: share must be in (0, 1], with at least two different seeds."
        )
    matrix, encoded = matrix_and_labels(acts, labels)
    flat = MethodOptions(
        absolute=absolute,
        floor=floor,
        overall=overall,
        threshold=threshold,
        standardize=standardize,
        l1=l1,
        l2=l2,
        task=task,
        solver=solver,
        max_iter=max_iter,
        tol=tol,
        n_units=n_units,
        n_permutations=n_permutations,
        validation=validation,
        device=device,
        model=model,
        data=data,
        target=target,
        attribution=attribution,
        steps=steps,
        baseline=baseline,
        along=along,
        signed=signed,
        batch_size=batch_size,
        call=call,
        unit_dim=unit_dim,
        samples=samples,
        tokenizer=tokenizer,
    )
    rankings = []
    for seed in seeds:
        rows = sample_rows(encoded, share, seed)
        part = matrix if share == 1 else select_rows(matrix, rows)
        part_labels = _select_labels(encoded, rows)
        rankings.append(
            rank_with(part, part_labels, method, units=units, compat=compat, seed=seed, flat=flat, options=options)
        )
    _warn_if_all(rankings, n)
    best = np.zeros((len(rankings), matrix.n_units))
    for row, each in enumerate(rankings):
        best[row, each.order[:n]] = 1
    return Stability(
        method=rankings[0].method,
        n=n,
        seeds=tuple(map(int, seeds)),
        share=float(share),
        overlap=np.array([[jaccard(first, other, n) for other in rankings] for first in rankings]),
        chosen=best.mean(axis=0),
    )


def sample_rows(encoded: EncodedLabels, share: float, seed: int) -> NDArray[np.int64]:
    """Draw a fraction of the rows without replacement, stratified by class and rounded up; in row order."""
    generator = np.random.default_rng(seed)
    # Drawn class by class, so that a rare class is never missing.
    groups = [np.arange(len(encoded))]
    if encoded.kind == "classes":
        groups = [np.flatnonzero(encoded.codes == code) for code in range(len(encoded.classes))]
    picked = [generator.permutation(group)[: int(np.ceil(share * len(group)))] for group in groups]
    return np.sort(np.concatenate(picked))


def select_rows(matrix: Matrix, rows: NDArray[np.int64]) -> Matrix:
    """Some rows of a matrix; activations on disk are not read yet."""
    source = matrix.source
    return Matrix(source[rows] if isinstance(source, np.ndarray) else source.rows(rows), matrix.names, matrix.units)


def _select_labels(encoded: EncodedLabels, rows: NDArray[np.int64]) -> EncodedLabels:
    codes = encoded.codes[rows]
    if encoded.kind == "numbers":
        return replace(encoded, codes=codes)
    if encoded.kind == "classes":
        return replace(encoded, codes=codes, counts=np.bincount(codes, minlength=len(encoded.classes)))
    return replace(encoded, codes=codes, counts=codes.sum(axis=0))


def _checked_rankings(rankings: Any) -> list[Ranking]:
    """Several rankings as a list; raises if there are none, or if one is something else."""
    if isinstance(rankings, Ranking):
        raise InputTypeError("got a single Ranking where several are compared: pass a list, such as [ranking].")
    if not isinstance(rankings, Iterable) or isinstance(rankings, str):
        raise InputTypeError(f"got {type(rankings).__name__} instead of rankings: pass a list of rankings.")
    named = rankings.items() if isinstance(rankings, Mapping) else enumerate(rankings)
    checked = [_check_ranking(each, f"ranking {name!r}") for name, each in named]
    if not checked:
        raise InputError("got no ranking to compare with: pass at least one.")
    _check_same_units(checked)
    return checked


def _check_ranking(given: Any, what: str) -> Ranking:
    if not isinstance(given, Ranking):
        text = repr(given) if isinstance(given, str) else f"{type_text(given)}"
        raise InputTypeError(f"{what} is {text}: pass the result of neurons.rank(acts, labels, method).")
    return given


def _warn_if_all(rankings: Sequence[Ranking], n: int, stacklevel: int = 3) -> None:
    """Warn if the top n units are all units: any two orders of the same units overlap fully."""
    n_units = rankings[0].n_units
    # Rankings of a part of the units (units=, or a vote) may differ even then.
    if all(len(each) == n_units <= n for each in rankings):
        warnings.warn(
            f"cutaway: the top {n:,} are all {plural(n_units, 'unit')}, so every overlap is 1: pass a smaller n=.",
            UserWarning,
            stacklevel=stacklevel,
        )


def _check_same_units(rankings: Sequence[Ranking]) -> None:
    sizes = sorted({each.n_units for each in rankings})
    if len(sizes) > 1:
        raise InputError(
            f"cannot compare rankings of {sizes[0]:,} and of {sizes[-1]:,} units: rank the same activations."
        )


def _method_names(rankings: Sequence[Ranking]) -> list[str]:
    names = [each.method for each in rankings]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"got two rankings by {name!r}: name them, compare({{'first': …, 'second': …}}).")
    return names
