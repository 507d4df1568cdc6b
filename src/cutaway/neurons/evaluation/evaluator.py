"""`Evaluator`: runs all seeds and splits of an evaluation, and turns predictions into scores with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix
from cutaway.neurons.evaluation.controls import control_labels
from cutaway.neurons.evaluation.metrics import Fold, MetricFn, Resampling, metric_name, score_resamples
from cutaway.neurons.evaluation.permutation import p_value, permute_labels
from cutaway.neurons.evaluation.ranker import FitCounts, Ranker
from cutaway.neurons.evaluation.splits import By, Split, splits_of
from cutaway.neurons.evaluation.trials import MAX_INFORMATION_UNITS, HeldOutBits, Key, Outcome, Trial
from cutaway.neurons.labels.labels import EncodedLabels
from cutaway.neurons.ranking.compare import jaccard_index
from cutaway.results.neurons.evaluation import Ablated, Estimate, Evaluation, Setting

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_N_SHUFFLES = 5
"""Label shuffles per split for the null of the mutual information."""
_MOST_PAIRS = 200
"""Pairs of splits to compare for stability."""
_ABLATIONS: tuple[tuple[Literal["keep", "remove"], Literal["zero", "mean"]], ...] = (
    ("keep", "zero"),
    ("keep", "mean"),
    ("remove", "zero"),
    ("remove", "mean"),
)


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationSettings:
    """Options of an evaluation; every field is a keyword of `evaluate`, `layers` and `report`."""

    by: By = "item"
    """What stays together in a split: the rows of a sentence, of a word type, or nothing. Plain arrays split rows."""
    groups: Any = None
    """One group per row, to keep together instead of `by`."""
    folds: int = 5
    test: Any = None
    """A fraction or a mask of rows to test on: one split per seed instead of folds."""
    seeds: Sequence[int] | int = (0,)
    """Seeds of the splits and all random choices, or their number. Scores are means over seeds."""
    probe: Any = None
    """The estimator that predicts labels from units; default: a linear probe with a small ridge penalty."""
    control: bool = True
    """Whether to run a control task if the words are known."""
    words: Any = None
    """One word per row, if the activations have none."""
    ablations: bool = True
    information: bool = True
    n_permutations: int = 20
    """How often to repeat everything with permuted labels; 0 for no permutation test."""
    n_resamples: int = 1000
    """Bootstrap resamples of whole groups, for the confidence intervals."""
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.n_permutations < 0 or self.n_resamples < 0 or not 0 < self.level < 1:
            raise InputError(
                f"n_permutations={self.n_permutations!r}, n_resamples={self.n_resamples!r}, level={self.level!r}: the "
                "numbers must be 0 or more, and the level between 0 and 1."
            )
        self.seed_list()

    def seed_list(self) -> tuple[int, ...]:
        """The seeds, also if only their number was passed."""
        seeds = tuple(range(self.seeds)) if isinstance(self.seeds, int) else tuple(map(int, self.seeds))
        if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise InputError(f"seeds={self.seeds!r}: pass different seeds of 0 or more, or the number of seeds.")
        return seeds


@dataclass(frozen=True, slots=True)
class Intervals:
    """Turns bootstrap resamples into confidence intervals."""

    level: float
    widened: float

    def estimate(self, values: Floats) -> Estimate:
        """The first value, with the quantiles of the others, widened around it."""
        # A resample may leave the metric undefined.
        value, drawn = float(values[0]), values[1:][np.isfinite(values[1:])]
        if not len(drawn):
            return Estimate(value, float("nan"), float("nan"))
        low, high = np.quantile(drawn, [(1 - self.level) / 2, (1 + self.level) / 2])
        return Estimate(
            value, value - self.widened * (value - float(low)), value + self.widened * (float(high) - value)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Evaluator:
    """Runs an evaluation."""

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
    """Number of sentences that repeat an earlier one."""

    def evaluation(self) -> Evaluation:
        seeds, fits = self.settings.seed_list(), FitCounts()
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
        # One set of resamples for all scores, so that differences between scores are paired.
        resampling = Resampling.draw(self.groups, self.settings.n_resamples, seeds[0])
        intervals = Intervals(self.settings.level, _widening_factor(splits))
        scores = _Scores(self.metric, self.encoded, resampling, outcomes, intervals)
        main: Key = ("kept", self.counts[-1]) if self.counts else ("all",)
        per_seed = scores.per_seed(main)
        null = self._null(fits)
        kept = [scores.values(("kept", n)) for n in self.counts]
        every = scores.values(("all",))
        evaluation = Evaluation(
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
        evaluation = self._with_control(evaluation, scores, kept, every)
        evaluation = _with_stability(evaluation, outcomes, self.matrix.n_units, self.ranker.is_ranked_inside)
        evaluation = _with_bits(evaluation, outcomes, self.encoded, resampling, intervals)
        return replace(evaluation, notes=tuple(self._notes(outcomes, fits)))

    def _with_control(self, evaluation: Evaluation, scores: _Scores, kept: list[Floats], every: Floats) -> Evaluation:
        if self.words is None:
            return evaluation
        control = [scores.values(("kept", n), on_control=True) for n in self.counts]
        control_all = scores.values(("all",), on_control=True)
        return replace(
            evaluation,
            control=tuple(map(scores.estimate, control)),
            control_all=scores.estimate(control_all),
            selectivity=tuple(
                scores.intervals.estimate(score - baseline) for score, baseline in zip(kept, control, strict=True)
            ),
            selectivity_all=scores.intervals.estimate(every - control_all),
        )

    def _null(self, fits: FitCounts) -> Floats:
        """Scores at the first seed when everything is repeated with permuted labels."""
        seed = self.settings.seed_list()[0]
        # The p-value is about the largest n, so the other sizes are not fitted again.
        trial = Trial(self.matrix, self.ranker, self.counts[-1:], self.groups, fits, is_brief=True)
        none = Resampling.draw(self.groups, 0, 0)
        key: Key = ("kept", self.counts[-1]) if self.counts else ("all",)
        null = []
        for number in range(self.settings.n_permutations):
            # Permutations use their own random stream, independent of the splits.
            labels = permute_labels(self.encoded, self.groups, np.random.default_rng([seed, number, 1]))
            # Splits are stratified by label, so permuted labels need their own.
            splits = splits_of(labels, self.groups, self.settings.folds, seed, self.settings.test)
            folds = trial.run(labels, splits, seed).folds[key]
            null.append(score_resamples(self.metric, folds, labels, none)[0])
        return np.array(null)

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
        notes = []
        if not self.ranker.is_ranked_inside:
            notes.append(
                "you passed a ranking, which was not computed on the training rows: if it has seen the test rows, "
                "scores and p-value are too optimistic. Pass the name of its method to rank inside each split."
            )
        if self.group_name == "rows" and self.settings.by != "row":
            notes.append(
                "the sentences are unknown, so rows were split one by one. Pass groups= to keep rows together."
            )
        if self.n_repeats:
            notes.append(
                f"{self.n_repeats:,} of {self.n_repeats + int(self.groups.max()) + 1:,} sentences repeat another one: "
                "repeated sentences count as one group and stay on the same side of a split."
            )
        if self.settings.control and self.words is None:
            notes.append("the words are unknown, so there is no control task. Pass words= to run one.")
        if self.words is not None and self.group_name == "word types":
            notes.append(
                "no word type is on both sides of a split, so a probe cannot memorize words: selectivity means little."
            )
        if self.words is not None and len(set(self.words.tolist())) == len(self.words):
            notes.append("no word occurs twice, so a probe cannot memorize words: selectivity means little.")
        if fits.n_unconverged:
            notes.append(f"{fits.n_unconverged:,} of {fits.n:,} probe fits did not converge.")
        if fits.n_constant:
            notes.append(
                f"{fits.n_constant:,} of {fits.n:,} probe fits had training rows of a single class, which they predict."
            )
        if n_without_bits := sum(outcome.n_without_bits for outcome in outcomes):
            notes.append(
                f"{n_without_bits:,} test rows have classes with fewer than two training rows: they have no mutual "
                "information."
            )
        if n_clipped := sum(bits.n_clipped for outcome in outcomes for bits in outcome.bits_all):
            notes.append(
                f"the probe gave the true class of {n_clipped:,} test rows a probability below one in a million: the "
                "mutual information of all units uses one in a million instead."
            )
        if self.counts and self.counts[-1] > MAX_INFORMATION_UNITS and self.settings.information:
            notes.append(f"mutual information uses at most the top {MAX_INFORMATION_UNITS} units.")
        return notes


@dataclass(frozen=True, slots=True, eq=False)
class _Scores:
    """Scores of the predictions of all seeds, on shared resamples."""

    metric: str | MetricFn
    encoded: EncodedLabels
    resampling: Resampling
    outcomes: list[Outcome]
    intervals: Intervals

    def values(self, key: Key, *, on_control: bool = False) -> Floats:
        """(1 + resample,): mean over the seeds."""
        return np.asarray(
            np.mean([self._score(each, key, on_control, self.resampling) for each in self.outcomes], axis=0)
        )

    def per_seed(self, key: Key) -> Floats:
        none = replace(self.resampling, counts=self.resampling.counts[:0])
        return np.array([self._score(each, key, False, none)[0] for each in self.outcomes])

    def estimate(self, values: Floats) -> Estimate:
        """The estimate of a score, clipped to the range of the metric."""
        estimate = self.intervals.estimate(values)
        if callable(self.metric):
            return estimate
        # Widening can push an interval beyond what the metric can reach.
        lowest = 0.0 if self.metric in ("accuracy", "f1") else -1.0
        return Estimate(estimate.value, max(estimate.low, lowest), min(estimate.high, 1.0))

    def _score(self, outcome: Outcome, key: Key, on_control: bool, resampling: Resampling) -> Floats:
        folds: list[Fold] = (outcome.control if on_control else outcome.folds)[key]
        return score_resamples(self.metric, folds, self.encoded, resampling)


def _widening_factor(splits: list[Split]) -> float:
    """Factor that widens intervals because folds share training rows, so that their errors are correlated.

    The factor on the variance follows Nadeau and Bengio, "Inference for the generalization error", Machine Learning
    2003: 1 + folds · test rows / training rows. A single split needs no correction.
    """
    if len(splits) == 1:
        return 1.0
    return float(np.sqrt(1 + sum(len(split.test) / len(split.train) for split in splits)))


def _with_stability(
    evaluation: Evaluation, outcomes: list[Outcome], n_units: int, is_ranked_inside: bool
) -> Evaluation:
    orders = [order for outcome in outcomes for order in outcome.orders]
    if not orders or not is_ranked_inside:
        return evaluation
    chosen, points = np.zeros(n_units), np.zeros(n_units)
    for order in orders:
        chosen[order] += 1
        points[order] += np.arange(len(order), 0, -1)
    # lexsort sorts by its last key first.
    units = np.lexsort((np.arange(n_units), -points, -chosen))[: evaluation.n]
    pairs = list(combinations(orders, 2))[:_MOST_PAIRS]
    overlaps = (
        tuple(float(np.mean([jaccard_index(a[:n], b[:n]) for a, b in pairs])) for n in evaluation.counts)
        if pairs
        else ()
    )
    return replace(evaluation, chosen=chosen / len(orders), units=units, stability=overlaps)


def _with_bits(
    evaluation: Evaluation,
    outcomes: list[Outcome],
    encoded: EncodedLabels,
    resampling: Resampling,
    intervals: Intervals,
) -> Evaluation:
    if encoded.kind == "classes":
        shares = encoded.counts[encoded.counts > 0] / encoded.counts.sum()
        evaluation = replace(evaluation, entropy=float(-(shares * np.log2(shares)).sum()))
    if all(outcome.bits_all for outcome in outcomes):
        bits, _ = _bits([outcome.bits_all for outcome in outcomes], resampling)
        evaluation = replace(evaluation, information_all=intervals.estimate(bits[:, 0]))
    if all(outcome.bits for outcome in outcomes):
        bits, null = _bits([outcome.bits for outcome in outcomes], resampling)
        net = tuple(intervals.estimate(each) for each in bits.T)
        evaluation = replace(evaluation, information=net, information_null=tuple(null.tolist()))
    return evaluation


def _bits(each: list[list[HeldOutBits]], resampling: Resampling) -> tuple[Floats, Floats]:
    """(1 + resample, count): mean over rows, then over seeds; and the same of the null, (count,)."""
    means, nulls = [], []
    for splits in each:
        rows = np.concatenate([split.rows for split in splits])
        bits = np.concatenate([split.bits for split in splits], axis=1).T  # (row, count)
        total, drawn = resampling.sums(rows, np.concatenate([bits, np.ones((len(bits), 1))], axis=1))
        both = np.concatenate([total[None], drawn])
        means.append(both[:, :-1] / np.maximum(both[:, -1:], 1.0))
        nulls.append(
            np.average([split.null for split in splits], axis=0, weights=[len(split.rows) for split in splits])
        )
    null = np.mean(nulls, axis=0)
    # Bits on test rows are a lower bound on average. A negative null is caused by overfitting, not by bias of the bits.
    return np.mean(means, axis=0) - np.maximum(null, 0.0), null
