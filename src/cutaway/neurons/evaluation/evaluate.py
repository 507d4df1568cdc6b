"""How well the units that a method finds tell the labels: on rows it has not seen, beside what chance and memory do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix, as_matrix
from cutaway.neurons.evaluation.controls import control_labels
from cutaway.neurons.evaluation.metrics import Fold, MetricFn, Resampling, check_metric, metric_name, score_resamples
from cutaway.neurons.evaluation.permutation import p_value, permute_labels
from cutaway.neurons.evaluation.ranker import FitCounts, Ranker, make_ranker
from cutaway.neurons.evaluation.splits import By, Split, groups_of, splits_of, words_of
from cutaway.neurons.evaluation.trials import MAX_INFORMATION_UNITS, Key, Outcome, TestBits, Trial
from cutaway.neurons.labels.labels import EncodedLabels, encode
from cutaway.results.evaluation import Ablated, Estimate, Evaluation, Layers, Setting

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_COUNTS = (1, 2, 5, 10, 20, 50)
_N_SHUFFLES = 5
"""Of labels, in each split, for the null of the bits."""
_MEMORY_BYTES = 1 << 30
"""Smaller sets are read once, larger ones at each split."""
_MOST_PAIRS = 200
_ABLATIONS: tuple[tuple[Literal["keep", "remove"], Literal["zero", "mean"]], ...] = (
    ("keep", "zero"),
    ("keep", "mean"),
    ("remove", "zero"),
    ("remove", "mean"),
)


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationSettings:
    """How an evaluation is done; every field is an argument of `evaluate`."""

    by: By = "item"
    """What stays together: the rows of a sentence, of a word type, or nothing. Plain arrays have rows only."""
    groups: Any = None
    """One a row: rows of one group stay together; instead of `by`."""
    folds: int = 5
    test: Any = None
    """A share of the rows, or a mask of rows, to test on: one split for each seed instead of folds."""
    seeds: Sequence[int] | int = (0,)
    """Of the splits and what else is drawn; scores are means over them. A number counts them."""
    probe: Any = None
    """The estimator that tells labels from units; a linear one with a small ridge penalty if None."""
    control: bool = True
    """Whether a control task is tried, where words are known."""
    words: Any = None
    """One a row, where the activations have none."""
    ablations: bool = True
    information: bool = True
    n_permutations: int = 20
    """Everything is done again so often with permuted labels; 0 for no test."""
    n_resamples: int = 1000
    """Of whole groups, for the intervals."""
    level: float = 0.95


def evaluate(
    what: Any,
    acts: Any,
    labels: Any,
    *,
    metric: str | MetricFn = "",
    n: int | Sequence[int] | None = None,
    options: Any = None,
    **plan: Any,
) -> Evaluation:
    """How well the best units tell the labels of rows that nothing was learned from.

    >>> x = np.random.default_rng(0).normal(size=(200, 8))
    >>> found = evaluate("probeless", x, x[:, 3] < 0, n=1)
    >>> found.score.value > 0.9, found.units.tolist(), found.p_value < 0.05
    (True, [3], True)

    Args:
        what: the name of a method of `rank`, a function of (rows × units, labels), or a probe: each ranks the training
            rows of every split alone. A `Ranking` is taken as it is, and the result says so. None for all units only.
        metric: "accuracy", "f1" or "matthews" of classes, "pearson" or "spearman" of numbers, or a function of true and
            predicted labels. Accuracy, or Pearson, if nothing is said.
        n: how many units are kept: one number or several, up to the largest of which the rest is reported.
        options: of the method.
        plan: how it is done: the fields of `EvaluationSettings`, such as folds, seeds, by, probe, n_permutations.
    """
    settings = _settings_from(plan)
    matrix = as_matrix(acts)
    encoded = _labels(labels, matrix.n_rows)
    metric = check_metric(metric or ("pearson" if encoded.kind == "numbers" else "accuracy"), encoded)
    ranker = make_ranker(what, encoded, matrix.n_units, probe=settings.probe, options=dict(options or {}))
    counts = _counts(n, matrix.n_units, ranker)
    groups, group_name = groups_of(acts, matrix.n_rows, settings.by, settings.groups, settings.words)
    words = words_of(acts, matrix.n_rows, settings.words) if settings.control else None
    n_repeats = len(np.unique(acts.items)) - int(groups.max()) - 1 if group_name == "sentences" else 0
    return _Evaluator(
        _in_memory(matrix), encoded, metric, ranker, counts, groups, group_name, words, settings, n_repeats
    ).evaluation()


def layers(acts: Any, labels: Any, *, metric: str | MetricFn = "", **plan: Any) -> Layers:
    """Accuracy, selectivity and mutual information of each site, with intervals: where the labels are to be read.

    All three are those of a probe on all units of the site. No permutation test is done unless `n_permutations` asks
    for one.

    Args:
        plan: as of `evaluate`.
    """
    if not hasattr(acts, "sites") or not hasattr(acts, "at"):
        raise InputError("layers needs activations with sites: Activations.of({'layer.0': x, 'layer.1': y}).")
    settings = {"n_permutations": 0, **plan}
    found = [evaluate(None, acts.at([site]), labels, metric=metric, **settings) for site in acts.sites]
    return Layers(tuple(acts.sites), tuple(found))


@dataclass(frozen=True, slots=True)
class Intervals:
    """How resamples become an interval."""

    level: float
    widened: float

    def estimate(self, values: Floats) -> Estimate:
        """The first value; and the quantiles of the others, further away from it."""
        value, drawn = float(values[0]), values[1:][np.isfinite(values[1:])]
        if not len(drawn):
            return Estimate(value, float("nan"), float("nan"))
        low, high = np.quantile(drawn, [(1 - self.level) / 2, (1 + self.level) / 2])
        return Estimate(
            value, value - self.widened * (value - float(low)), value + self.widened * (float(high) - value)
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Evaluator:
    """All that an evaluation is made of."""

    matrix: Matrix
    encoded: EncodedLabels
    metric: str | MetricFn
    ranker: Ranker
    counts: tuple[int, ...]
    groups: Ints
    group_name: str
    words: NDArray[Any] | None
    settings: EvaluationSettings
    n_repeats: int
    """Sentences that are equal to one before them."""

    def evaluation(self) -> Evaluation:
        seeds, fits = _seeds(self.settings), FitCounts()
        trial = Trial(
            self.matrix,
            self.ranker,
            self.counts,
            self.groups,
            fits,
            ablations=_ABLATIONS if self.settings.ablations else (),
            n_shuffles=_N_SHUFFLES if self.settings.information else 0,
        )
        outcomes = []
        for seed in seeds:
            control = None if self.words is None else control_labels(self.encoded, self.words, seed=seed)
            splits = splits_of(self.encoded, self.groups, self.settings.folds, seed, self.settings.test)
            outcomes.append(trial.run(self.encoded, splits, seed, control))
        resampling = Resampling.draw(self.groups, self.settings.n_resamples, seeds[0])
        intervals = Intervals(self.settings.level, _widening_factor(splits))
        scores = _Scores(self.metric, self.encoded, resampling, outcomes, intervals)
        main: Key = ("kept", self.counts[-1]) if self.counts else ("all",)
        per_seed = scores.per_seed(main)
        null = self._null(fits)
        kept = [scores.values(("kept", n)) for n in self.counts]
        every = scores.values(("all",))
        found = Evaluation(
            setting=self._setting(seeds, len(splits), intervals.widened),
            counts=self.counts,
            kept=tuple(map(scores.estimate, kept)),
            all_units=scores.estimate(every),
            delta=tuple(intervals.estimate(each - every) for each in kept),
            random=tuple(scores.estimate(scores.values(("random", n))) for n in self.counts),
            majority=None if self.encoded.kind == "numbers" else float(scores.values(("majority",))[0]),
            ablated=tuple(
                Ablated(action, to, n, scores.estimate(scores.values(("ablated", action, to, n))))
                for action, to in (_ABLATIONS if self.settings.ablations else ())
                for n in self.counts
            ),
            null=null,
            p_value=p_value(float(per_seed[0]), null) if len(null) else None,
            per_seed=per_seed,
            names=self.matrix.names,
        )
        found = self._with_control(found, scores, kept, every)
        found = _with_stability(found, outcomes, self.matrix.n_units, self.ranker.is_ranked_inside)
        found = _with_bits(found, outcomes, self.encoded, resampling, intervals)
        return replace(found, notes=tuple(self._notes(outcomes, fits)))

    def _with_control(self, found: Evaluation, scores: _Scores, kept: list[Floats], every: Floats) -> Evaluation:
        if self.words is None:
            return found
        control = [scores.values(("kept", n), on_control=True) for n in self.counts]
        control_all = scores.values(("all",), on_control=True)
        return replace(
            found,
            control=tuple(map(scores.estimate, control)),
            control_all=scores.estimate(control_all),
            selectivity=tuple(scores.intervals.estimate(own - other) for own, other in zip(kept, control, strict=True)),
            selectivity_all=scores.intervals.estimate(every - control_all),
        )

    def _null(self, fits: FitCounts) -> Floats:
        """The score at the first seed, with everything done again on permuted labels."""
        seed = _seeds(self.settings)[0]
        trial = Trial(self.matrix, self.ranker, self.counts[-1:], self.groups, fits, is_brief=True)
        none = Resampling.draw(self.groups, 0, 0)
        key: Key = ("kept", self.counts[-1]) if self.counts else ("all",)
        found = []
        for number in range(self.settings.n_permutations):
            # The shuffles have a stream of their own, apart from that of the splits.
            labels = permute_labels(self.encoded, self.groups, np.random.default_rng([seed, number, 1]))
            splits = splits_of(labels, self.groups, self.settings.folds, seed, self.settings.test)
            folds = trial.run(labels, splits, seed).folds[key]
            found.append(score_resamples(self.metric, folds, labels, none)[0])
        return np.array(found)

    def _setting(self, seeds: tuple[int, ...], n_folds: int, widened: float) -> Setting:
        return Setting(
            method=self.ranker.name,
            metric=metric_name(self.metric),
            kind=self.encoded.kind,
            n_rows=self.matrix.n_rows,
            n_units=self.matrix.n_units,
            n_groups=int(self.groups.max()) + 1,
            groups=self.group_name,
            n_folds=n_folds,
            seeds=seeds,
            level=self.settings.level,
            widened=widened,
            is_ranked_inside=self.ranker.is_ranked_inside,
        )

    def _notes(self, outcomes: list[Outcome], fits: FitCounts) -> list[str]:
        found = []
        if not self.ranker.is_ranked_inside:
            found.append(
                "the ranking was given, not made on training rows: if it has seen the rows that are tested, scores of "
                "kept units and their p-value are too good. The name of its method ranks inside."
            )
        if self.group_name == "rows" and self.settings.by != "row":
            found.append("nothing is known of sentences, so each row was taken by itself; give groups=.")
        if self.n_repeats:
            found.append(
                f"{self.n_repeats:,} of {self.n_repeats + int(self.groups.max()) + 1:,} sentences have the words of "
                "another: equal ones are counted as one, and are never on both sides of a split."
            )
        if self.settings.control and self.words is None:
            found.append("nothing is known of words, so there is no control task; give words=.")
        if self.words is not None and self.group_name == "word types":
            found.append("no word type is on both sides, so nothing can be memorised: selectivity says little here.")
        if self.words is not None and len(set(self.words.tolist())) == len(self.words):
            found.append("no word occurs twice, so nothing can be memorised: selectivity says little here.")
        if fits.n_unconverged:
            found.append(f"{fits.n_unconverged:,} of {fits.n:,} fits of the probe did not converge.")
        if fits.n_constant:
            found.append(f"{fits.n_constant:,} of {fits.n:,} fits saw one class only, and predict it.")
        if n_without_bits := sum(outcome.n_without_bits for outcome in outcomes):
            found.append(
                f"{n_without_bits:,} test rows have classes with fewer than two training rows: no bits are told of them."
            )
        if n_clipped := sum(test_bits.n_clipped for outcome in outcomes for test_bits in outcome.test_bits_all):
            found.append(
                f"the probe gave {n_clipped:,} test rows' own class a probability below one in a million: bits of all "
                "units count it as that."
            )
        if self.counts and self.counts[-1] > MAX_INFORMATION_UNITS and self.settings.information:
            found.append(
                f"bits of more than {MAX_INFORMATION_UNITS} units are those of the best {MAX_INFORMATION_UNITS}."
            )
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Scores:
    """Predictions of all seeds, as the metric sees them; resamples are the same for all."""

    metric: str | MetricFn
    encoded: EncodedLabels
    resampling: Resampling
    outcomes: list[Outcome]
    intervals: Intervals

    def values(self, key: Key, *, on_control: bool = False) -> Floats:
        """(1 + resample,): the mean over the seeds."""
        return np.asarray(
            np.mean([self._score(each, key, on_control, self.resampling) for each in self.outcomes], axis=0)
        )

    def per_seed(self, key: Key) -> Floats:
        none = replace(self.resampling, counts=self.resampling.counts[:0])
        return np.array([self._score(each, key, False, none)[0] for each in self.outcomes])

    def estimate(self, values: Floats) -> Estimate:
        """Of a score, which has bounds."""
        found = self.intervals.estimate(values)
        if callable(self.metric):
            return found
        least = 0.0 if self.metric in ("accuracy", "f1") else -1.0
        return Estimate(found.value, max(found.low, least), min(found.high, 1.0))

    def _score(self, outcome: Outcome, key: Key, on_control: bool, resampling: Resampling) -> Floats:
        folds: list[Fold] = (outcome.control if on_control else outcome.folds)[key]
        return score_resamples(self.metric, folds, self.encoded, resampling)


def _widening_factor(splits: list[Split]) -> float:
    """How much wider intervals are because folds learn from the same rows, and so err together.

    The factor on the variance is that of Nadeau and Bengio, "Inference for the generalization error", Machine Learning
    2003: 1 + folds · test rows / training rows. A single split tells of the one probe that it fits.
    """
    if len(splits) == 1:
        return 1.0
    return float(np.sqrt(1 + sum(len(split.test) / len(split.train) for split in splits)))


def _with_stability(found: Evaluation, outcomes: list[Outcome], n_units: int, is_ranked_inside: bool) -> Evaluation:
    orders = [order for outcome in outcomes for order in outcome.orders]
    if not orders or not is_ranked_inside:
        return found
    chosen, points = np.zeros(n_units), np.zeros(n_units)
    for order in orders:
        chosen[order] += 1
        points[order] += np.arange(len(order), 0, -1)
    units = np.lexsort((np.arange(n_units), -points, -chosen))[: found.n]
    pairs = list(combinations(orders, 2))[:_MOST_PAIRS]
    overlaps = tuple(float(np.mean([_overlap(a[:n], b[:n]) for a, b in pairs])) for n in found.counts) if pairs else ()
    return replace(found, chosen=chosen / len(orders), units=units, stability=overlaps)


def _overlap(one: Ints, other: Ints) -> float:
    n_both = len(np.intersect1d(one, other))
    return n_both / (len(one) + len(other) - n_both)


def _with_bits(
    found: Evaluation, outcomes: list[Outcome], encoded: EncodedLabels, resampling: Resampling, intervals: Intervals
) -> Evaluation:
    if encoded.kind == "classes":
        shares = encoded.counts[encoded.counts > 0] / encoded.counts.sum()
        found = replace(found, entropy=float(-(shares * np.log2(shares)).sum()))
    if all(outcome.test_bits_all for outcome in outcomes):
        bits, _ = _bits([outcome.test_bits_all for outcome in outcomes], resampling)
        found = replace(found, information_all=intervals.estimate(bits[:, 0]))
    if all(outcome.test_bits for outcome in outcomes):
        bits, null = _bits([outcome.test_bits for outcome in outcomes], resampling)
        net = tuple(intervals.estimate(each) for each in bits.T)
        found = replace(found, information=net, information_null=tuple(null.tolist()))
    return found


def _bits(each: list[list[TestBits]], resampling: Resampling) -> tuple[Floats, Floats]:
    """(1 + resample, count): the mean over rows, then over seeds; and that of the null (count,)."""
    means, nulls = [], []
    for test_bits in each:
        rows = np.concatenate([part.rows for part in test_bits])
        bits = np.concatenate([part.bits for part in test_bits], axis=1).T  # (row, count)
        own, drawn = resampling.sums(rows, np.concatenate([bits, np.ones((len(bits), 1))], axis=1))
        both = np.concatenate([own[None], drawn])
        means.append(both[:, :-1] / np.maximum(both[:, -1:], 1.0))
        nulls.append(
            np.average([part.null for part in test_bits], axis=0, weights=[len(part.rows) for part in test_bits])
        )
    null = np.mean(nulls, axis=0)
    # Bits on test rows are a lower bound in the mean. A null below zero, which overfitting gives, is no bias of theirs.
    return np.mean(means, axis=0) - np.maximum(null, 0.0), null


def _settings_from(given: dict[str, Any]) -> EvaluationSettings:
    known = [each.name for each in fields(EvaluationSettings)]
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"evaluate has no argument {name!r}.{hint} Beside metric, n and options: {', '.join(known)}."
            )
    settings = EvaluationSettings(**given)
    if settings.n_permutations < 0 or settings.n_resamples < 0 or not 0 < settings.level < 1:
        raise InputError(
            f"n_permutations={settings.n_permutations!r}, n_resamples={settings.n_resamples!r}, level={settings.level!r}: "
            "counts from 0, and a level between 0 and 1."
        )
    _seeds(settings)
    return settings


def _seeds(settings: EvaluationSettings) -> tuple[int, ...]:
    found = tuple(range(settings.seeds)) if isinstance(settings.seeds, int) else tuple(map(int, settings.seeds))
    if not found or len(set(found)) < len(found) or min(found) < 0:
        raise InputError(f"seeds={settings.seeds!r}: one at least, each once, from 0; or how many.")
    return found


def _labels(labels: Any, n_rows: int) -> EncodedLabels:
    encoded = encode(labels, n_rows)
    if encoded.kind == "multilabel":
        raise InputError("rows have several labels: evaluate one at a time, [label in each for each in labels].")
    return encoded


def _counts(n: int | Sequence[int] | None, n_units: int, ranker: Ranker) -> tuple[int, ...]:
    if ranker.order is None:
        if n is not None:
            raise InputError(f"n={n!r}: {ranker.name} ranks no units, so none can be kept.")
        return ()
    if n is None:
        return tuple(each for each in _COUNTS if each < n_units) or (n_units,)
    given = np.atleast_1d(np.asarray(n))
    if given.dtype.kind not in "iu":
        raise InputError(f"n={n!r}: whole numbers of units can be kept.")
    found = tuple(sorted({int(each) for each in given}))
    if not found or found[0] < 1 or found[-1] > n_units:
        raise InputError(f"n={n!r}: from 1 to {n_units:,} units can be kept.")
    return found


def _in_memory(matrix: Matrix) -> Matrix:
    if matrix.n_rows * matrix.n_units * matrix.dtype.itemsize > _MEMORY_BYTES:
        return matrix
    return Matrix(matrix.array(), matrix.names, _is_checked=True)
