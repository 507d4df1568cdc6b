"""`evaluate` and `layers`: scores of the top units on held-out rows, with baselines and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.matrices import Matrix
from cutaway.neurons.evaluation.evaluator import EvaluationSettings, Evaluator
from cutaway.neurons.evaluation.metrics import MetricFn, check_metric
from cutaway.neurons.evaluation.ranker import Ranker, make_ranker
from cutaway.neurons.evaluation.splits import By, groups_of, words_of
from cutaway.neurons.labels.labels import matrix_and_labels
from cutaway.results.neurons.evaluation import Evaluation, Layers

_COUNTS = (1, 2, 5, 10, 20, 50)
_MEMORY_BYTES = 1 << 30
"""Smaller activations are read into memory once, larger ones are read again in each split."""


def evaluate(
    what: Any,
    acts: Any,
    labels: Any,
    *,
    metric: str | MetricFn = "",
    n: int | Sequence[int] | None = None,
    options: Mapping[str, Any] | None = None,
    by: By = "item",
    groups: Any = None,
    folds: int = 5,
    test: Any = None,
    seeds: Sequence[int] | int = (0,),
    probe: Any = None,
    control: bool = True,
    words: Any = None,
    ablations: bool = True,
    information: bool = True,
    n_permutations: int = 20,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> Evaluation:
    """Score how well the top units predict the labels of held-out rows.

    >>> x = np.random.default_rng(0).normal(size=(200, 8))
    >>> evaluation = evaluate("probeless", x, x[:, 3] < 0, n=1)
    >>> evaluation.score.value > 0.9, evaluation.units.tolist(), evaluation.p_value < 0.05
    (True, [3], True)

    Args:
        what: a method name of `rank`, a function of (rows × units, labels), or a probe; each split ranks units on its
            training rows. A `Ranking` is used as it is, and the result says so. None evaluates all units only.
        acts: `Activations`, or rows × units as an array or tensor.
        labels: one per row: classes or numbers.
        metric: "accuracy", "f1" or "matthews" for classes, "pearson" or "spearman" for numbers, or a function of true
            and predicted labels. Default: accuracy or Pearson.
        n: how many top units to keep: one number or several. Tests and units are reported for the largest.
        options: options of the method, by name.
        by: what stays together in a split: the rows of a sentence ("item"), of a word type ("word"), or nothing
            ("row"). Plain arrays split rows.
        groups: one group per row, to keep together instead of `by`.
        folds: number of folds.
        test: a fraction or a mask of rows to test on: one split per seed instead of folds.
        seeds: seeds of the splits and all random choices, or their number. Scores are means over seeds.
        probe: the estimator that predicts labels from units. Default: a linear probe with a small ridge penalty.
        control: whether to run a control task if the words are known.
        words: one word per row, if the activations have none.
        ablations: whether to score the probe on all units with some of its inputs replaced.
        information: whether to estimate mutual information in bits.
        n_permutations: how often to repeat everything with permuted labels; 0 for no permutation test.
        n_resamples: bootstrap resamples of whole groups, for the confidence intervals.
        level: confidence level of the intervals.
    """
    settings = EvaluationSettings(
        by=by,
        groups=groups,
        folds=folds,
        test=test,
        seeds=seeds,
        probe=probe,
        control=control,
        words=words,
        ablations=ablations,
        information=information,
        n_permutations=n_permutations,
        n_resamples=n_resamples,
        level=level,
    )
    return evaluate_with(what, acts, labels, metric=metric, n=n, options=options, settings=settings)


def evaluate_with(
    what: Any,
    acts: Any,
    labels: Any,
    *,
    metric: str | MetricFn,
    n: int | Sequence[int] | None,
    options: Mapping[str, Any] | None,
    settings: EvaluationSettings,
) -> Evaluation:
    """`evaluate`, with its settings as one object."""
    if hasattr(what, "shape") or hasattr(what, "blocks"):
        raise InputTypeError(
            f"evaluate() got {type(what).__name__} first: pass what to evaluate, then the activations and the labels, "
            "evaluate('probeless', acts, labels)."
        )
    matrix, encoded = matrix_and_labels(acts, labels)
    if encoded.kind == "multilabel":
        raise InputError("rows have several labels: evaluate one label at a time, [label in each for each in labels].")
    metric = check_metric(metric or ("pearson" if encoded.kind == "numbers" else "accuracy"), encoded)
    ranker = make_ranker(what, encoded, matrix.n_units, probe=settings.probe, options=dict(options or {}))
    counts = _counts(n, matrix.n_units, ranker)
    groups, group_name = groups_of(acts, matrix.n_rows, settings.by, settings.groups, settings.words)
    words = words_of(acts, matrix.n_rows, settings.words) if settings.control else None
    n_repeats = len(np.unique(acts.items)) - int(groups.max()) - 1 if group_name == "sentences" else 0
    return Evaluator(
        _in_memory(matrix), encoded, metric, ranker, counts, groups, group_name, words, settings, n_repeats
    ).evaluation()


def layers(
    acts: Any,
    labels: Any,
    *,
    metric: str | MetricFn = "",
    by: By = "item",
    groups: Any = None,
    folds: int = 5,
    test: Any = None,
    seeds: Sequence[int] | int = (0,),
    probe: Any = None,
    control: bool = True,
    words: Any = None,
    information: bool = True,
    n_permutations: int = 0,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> Layers:
    """Score, selectivity and mutual information of a probe on all units of each site, with confidence intervals.

    Args:
        acts: `Activations` with one or several sites.
        labels: one per row: classes or numbers.
        metric: as for `evaluate`.
        by: what stays together in a split: the rows of a sentence ("item"), of a word type ("word"), or nothing
            ("row"). Plain arrays split rows.
        groups: one group per row, to keep together instead of `by`.
        folds: number of folds.
        test: a fraction or a mask of rows to test on: one split per seed instead of folds.
        seeds: seeds of the splits and all random choices, or their number. Scores are means over seeds.
        probe: the estimator that predicts labels from units. Default: a linear probe with a small ridge penalty.
        control: whether to run a control task if the words are known.
        words: one word per row, if the activations have none.
        information: whether to estimate mutual information in bits.
        n_permutations: how often to repeat everything with permuted labels. Default: no permutation test.
        n_resamples: bootstrap resamples of whole groups, for the confidence intervals.
        level: confidence level of the intervals.
    """
    settings = EvaluationSettings(
        by=by,
        groups=groups,
        folds=folds,
        test=test,
        seeds=seeds,
        probe=probe,
        control=control,
        words=words,
        information=information,
        n_permutations=n_permutations,
        n_resamples=n_resamples,
        level=level,
    )
    return layers_with(acts, labels, metric=metric, settings=settings)


def layers_with(acts: Any, labels: Any, *, metric: str | MetricFn, settings: EvaluationSettings) -> Layers:
    """`layers`, with its settings as one object."""
    if not hasattr(acts, "sites") or not hasattr(acts, "at"):
        raise InputTypeError(
            f"layers() needs activations with sites, got {type(acts).__name__}: pass the result of cutaway.collect, or "
            "Activations.of({'layer.0': x, 'layer.1': y})."
        )
    evaluations = [
        evaluate_with(None, acts.at([site]), labels, metric=metric, n=None, options=None, settings=settings)
        for site in acts.sites
    ]
    return Layers(tuple(acts.sites), tuple(evaluations))


def _counts(n: int | Sequence[int] | None, n_units: int, ranker: Ranker) -> tuple[int, ...]:
    if ranker.order is None:
        if n is not None:
            raise InputError(f"n={n!r}: {ranker.name} ranks no units: leave out n=.")
        return ()
    if n is None:
        return tuple(each for each in _COUNTS if each < n_units) or (n_units,)
    given = np.atleast_1d(np.asarray(n))
    if given.dtype.kind not in "iu":
        raise InputTypeError(f"n={n!r}: must be an integer, or several.")
    counts = tuple(sorted({int(each) for each in given}))
    if not counts or counts[0] < 1 or counts[-1] > n_units:
        raise InputError(f"n={n!r}: must be between 1 and {n_units:,}, the number of units.")
    return counts


def _in_memory(matrix: Matrix) -> Matrix:
    if matrix.n_rows * matrix.n_units * matrix.dtype.itemsize > _MEMORY_BYTES:
        return matrix
    # array() has checked every value.
    return Matrix(matrix.array(), matrix.names, _is_checked=True)
