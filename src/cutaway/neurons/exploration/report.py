"""`report`: rankings, evaluation, sites, clusters, words and ablation in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from time import perf_counter
from typing import Any, Literal

import numpy as np

from cutaway.core.errors import InputError
from cutaway.core.formatting import hint
from cutaway.core.matrices import Matrix
from cutaway.core.progress import progress
from cutaway.neurons.evaluation.evaluate import evaluate_with, layers_with
from cutaway.neurons.evaluation.evaluator import EvaluationSettings
from cutaway.neurons.evaluation.metrics import MetricFn
from cutaway.neurons.evaluation.splits import By, groups_of, words_of
from cutaway.neurons.exploration.clustering import clusters
from cutaway.neurons.exploration.report_notes import call_text, report_notes, versions
from cutaway.neurons.exploration.words import histograms, top_contexts, top_words
from cutaway.neurons.labels.labels import EncodedLabels, encode, matrix_and_labels
from cutaway.neurons.ranking.class_statistics import dead_units, moments
from cutaway.neurons.ranking.compare import compare, vote
from cutaway.neurons.ranking.rank import Scorer, rank
from cutaway.results.neurons.ranking import Ranking
from cutaway.results.neurons.report import Asked, Report

Method = str | Scorer
_METHODS = ("probeless", "linear", "gaussian")
_OF_NUMBERS = ("probeless", "linear")
_COUNTS = (1, 2, 5, 10, 20, 50, 100)
_N_BEST = 20
_N_INSPECTED = 4
"""Units to inspect: words, contexts and histograms."""
_N_WORDS, _N_CONTEXTS = 12, 6
_MOST_LABELS = 12
"""Labels to evaluate if rows have several, and labels of a histogram."""
_MOST_CORRELATED = 6_000
"""Clustering needs a units × units correlation matrix: 6,000 units take 288 MB."""
_OTHERS = "other labels"
_ALL_DEAD = "all units are constant, so no method can rank them. This report uses probeless only."


def report(
    acts: Any,
    labels: Any,
    *,
    methods: Method | Sequence[Method] | None = None,
    n: int | None = None,
    model: Any = None,
    metric: Any = None,
    seed: int = 0,
    score: str | MetricFn = "",
    options: Mapping[str, Mapping[str, Any]] | None = None,
    to: Literal["zero", "mean", "resample"] = "mean",
    n_random: int = 5,
    by: By = "item",
    groups: Any = None,
    folds: int = 5,
    test: Any = None,
    seeds: Sequence[int] | int | None = None,
    probe: Any = None,
    control: bool = True,
    words: Any = None,
    ablations: bool = True,
    information: bool = True,
    n_permutations: int = 20,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> Report:
    """Analyze which units encode the labels: rankings, evaluation, sites, clusters, words, and ablation.

    >>> x = np.random.default_rng(0).normal(size=(120, 6))
    >>> results = report(x, x[:, 3] < 0, n=1, methods="probeless", n_permutations=20, n_resamples=100)
    >>> results.answer.verdict, results.best.tolist()
    ('found', [3])

    Args:
        acts: `Activations`, or rows × units. Without words or sites, the report leaves out the parts that need them.
        labels: one per row: classes, several labels, or numbers.
        methods: methods of `rank`. The first leads: the answer and the permutation test use it. Default: probeless,
            linear and gaussian; for numbers, the first two.
        n: the number of top units; default: 20, or half of the varying units if there are fewer than 40.
        model: with `metric`, ablates the top units in this model, as `ablate` does.
        metric: a function that runs the model and returns a number, or a dict of numbers.
        seed: seed of all random choices.
        score: the `metric` of `evaluate`: "accuracy", "f1", "matthews", "pearson", "spearman" or a function.
        options: options of each method, by its name: {"linear": {"l1": 0.01}}.
        to: what replaces ablated units: "zero", "mean" or "resample".
        n_random: number of random draws that the ablation is compared with.
        by: what stays together in a split: the rows of a sentence ("item"), of a word type ("word"), or nothing
            ("row"). Plain arrays split rows.
        groups: one group per row, to keep together instead of `by`.
        folds: number of folds; fewer, with a note, if there are fewer groups.
        test: a fraction or a mask of rows to test on: one split per seed instead of folds.
        seeds: seeds of the splits, or their number. Default: `seed` alone.
        probe: the estimator that predicts labels from units. Default: a linear probe with a small ridge penalty.
        control: whether to run a control task if the words are known.
        words: one word per row, if the activations have none.
        ablations: whether to score the probe on all units with some of its inputs replaced.
        information: whether to estimate mutual information in bits.
        n_permutations: how often to repeat everything with permuted labels; 0 for no permutation test.
        n_resamples: bootstrap resamples of whole groups, for the confidence intervals.
        level: confidence level of the intervals.
    """
    if (model is None) != (metric is None):
        missing, given_name = ("metric", "model") if metric is None else ("model", "metric")
        raise InputError(
            f"got {given_name}= without {missing}=: ablation needs both. metric= is a function that runs the model and "
            "returns a number; the metric of the probes is score=."
        )
    matrix, encoded = matrix_and_labels(acts, labels)
    settings = EvaluationSettings(
        by=by,
        groups=groups,
        folds=folds,
        test=test,
        seeds=(seed,) if seeds is None else seeds,
        probe=probe,
        control=control,
        words=words,
        ablations=ablations,
        information=information,
        n_permutations=n_permutations,
        n_resamples=n_resamples,
        level=level,
    )
    given = _passed_arguments(
        methods=methods,
        n=n,
        model=model,
        metric=metric,
        seed=seed,
        score=score,
        options=options,
        to=to,
        n_random=n_random,
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
    plan = _Plan.of(score, options or {}, to, n_random, settings, acts, matrix)
    chosen = _methods_by_name(methods, encoded)
    unknown = [name for name in plan.options if name not in chosen]
    if unknown:
        raise InputError(
            f"options= names {unknown[0]!r}, which is not in methods=.{hint(unknown[0], chosen)} Methods: "
            f"{', '.join(chosen)}."
        )
    if _is_all_dead(matrix, encoded):
        plan = replace(plan, notes=(*plan.notes, _ALL_DEAD))
        chosen = {"probeless": "probeless"}
    builder = _ReportBuilder(acts, matrix, encoded, chosen, n, seed, plan)
    parts = list(builder.parts(model, metric))
    seconds = {}
    for name, part in progress(parts, len(parts), "parts of the report"):
        started = perf_counter()
        part()
        seconds[name] = perf_counter() - started
    return builder.report(call_text(given, tuple(builder.methods)), seconds)


def _passed_arguments(**arguments: Any) -> dict[str, Any]:
    """The arguments of `report` that differ from their defaults, and those that a reader needs to repeat the call."""
    defaults = {name: parameter.default for name, parameter in signature(report).parameters.items()}

    def is_default(name: str, value: Any) -> bool:
        # Arrays cannot be compared as a whole; none is a default.
        return value is defaults[name] or (isinstance(value, (str, int, float, tuple)) and value == defaults[name])

    always = ("methods", "n", "model", "metric", "seed")
    return {name: value for name, value in arguments.items() if name in always or not is_default(name, value)}


@dataclass(frozen=True, slots=True)
class _Plan:
    """Settings of the parts of a report."""

    score: str | MetricFn
    options: Mapping[str, Mapping[str, Any]]
    to: Literal["zero", "mean", "resample"]
    n_random: int
    settings: EvaluationSettings
    words: Any
    """One per row; None if unknown."""
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        score: str | MetricFn,
        options: Mapping[str, Mapping[str, Any]],
        to: Literal["zero", "mean", "resample"],
        n_random: int,
        settings: EvaluationSettings,
        acts: Any,
        matrix: Matrix,
    ) -> _Plan:
        groups, group_name = groups_of(acts, matrix.n_rows, settings.by, settings.groups, settings.words)
        n_groups = int(groups.max()) + 1
        notes = []
        if settings.test is None and n_groups < settings.folds:
            if n_groups < 2:
                raise InputError(
                    f"all rows are in one group ({group_name}), so there are no rows to test on. Use by='row'."
                )
            settings = replace(settings, folds=n_groups)
            notes.append(f"there are only {n_groups} {group_name}, so the evaluation uses {n_groups} folds.")
        words = words_of(acts, matrix.n_rows, settings.words)
        return cls(score, options, to, n_random, settings, words, tuple(notes))


@dataclass(slots=True, eq=False)
class _ReportBuilder:
    """Builds a report; each part stores its result in `results`."""

    acts: Any
    matrix: Matrix
    encoded: EncodedLabels
    methods: Mapping[str, Method]
    n: int | None
    seed: int
    plan: _Plan
    rankings: dict[str, Ranking] = field(default_factory=dict)
    evaluations: dict[str, Any] = field(default_factory=dict)
    per_label: dict[Any, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    """Other fields of the report."""

    def parts(self, model: Any, metric: Any) -> Iterator[tuple[str, Callable[[], None]]]:
        """The steps to run, in this order, with their names."""
        for name in self.methods:
            yield f"ranking by {name}", partial(self._rank, name)
        if self.encoded.kind == "multilabel":
            for code in self._frequent():
                yield f"evaluation of {self.encoded.classes[code]}", partial(self._evaluate_label, code)
        else:
            for name in self.methods:
                yield f"evaluation of {name}", partial(self._evaluate, name)
        if len(self._sites) > 1 and self.encoded.kind != "multilabel":
            yield "layers", self._layers
        if self.matrix.n_units <= _MOST_CORRELATED:
            yield "clusters", self._clusters
        yield "words and values", self._inspect
        if model is not None:
            yield "ablation", partial(self._ablate, model, metric)

    def report(self, call: str, seconds: Mapping[str, float]) -> Report:
        """Assemble the report."""
        items = getattr(self.acts, "items", None)
        asked = Asked(
            kind=self.encoded.kind,
            labels=self.encoded.classes,
            counts=self.encoded.counts.copy(),
            n_rows=self.matrix.n_rows,
            n_units=self.matrix.n_units,
            n_items=None if items is None or callable(items) else len(np.unique(items)),
            sites=self._sites,
            n=self._n_best,
            seed=self.seed,
            call=call,
            provenance=getattr(self.acts, "provenance", {}),
            versions=versions(),
        )
        report = Report(
            asked=asked,
            rankings=self.rankings,
            vote=vote(self.rankings.values()),
            evaluations=self.evaluations,
            per_label=self.per_label,
            comparison=compare(self.rankings, self._n_best) if len(self.rankings) > 1 else None,
            layers=self.results.get("layers"),
            clusters=self.results.get("clusters"),
            words=self.results.get("words", ()),
            contexts=self.results.get("contexts", ()),
            histograms=self.results.get("histograms", ()),
            ablation=self.results.get("ablation"),
            seconds=seconds,
        )
        return replace(
            report, notes=(*self.plan.notes, *report_notes(report, self.acts, has_words=self.plan.words is not None))
        )

    @property
    def _lead(self) -> Ranking:
        return next(iter(self.rankings.values()))

    @property
    def _sites(self) -> tuple[str, ...]:
        return tuple(getattr(self.acts, "sites", ()))

    @property
    def _n_best(self) -> int:
        """Default: at most half of the units that vary."""
        if self.n is not None:
            return self.n
        return max(1, min(_N_BEST, (self.matrix.n_units - len(self._lead.dead)) // 2))

    @property
    def _counts(self) -> list[int]:
        return [*(n for n in _COUNTS if n < self._n_best), self._n_best]

    def _options(self, name: str) -> dict[str, Any]:
        # The probe orders only the selected units jointly, and the report shows the top n.
        chosen = {"n_units": max(self.n or 0, _N_BEST)} if self.methods[name] == "gaussian" else {}
        return {**chosen, **self.plan.options.get(name, {})}

    def _rank(self, name: str) -> None:
        self.rankings[name] = rank(
            self.matrix, self.encoded, self.methods[name], seed=self.seed, options=self._options(name)
        )

    def _evaluate(self, name: str) -> None:
        is_lead = not self.evaluations
        options = self._options(name)
        if self.methods[name] == "gaussian":
            options["n_permutations"] = 0  # its own null distribution is not needed in each split
        self.evaluations[name] = self._evaluation(name, self.encoded, options, is_lead=is_lead)

    def _evaluate_label(self, code: int) -> None:
        """Evaluate one of several labels against the rest, by the leading method."""
        name = next(iter(self.methods))
        labels = encode(self.encoded.codes[:, code])
        self.per_label[self.encoded.classes[code]] = self._evaluation(name, labels, self._options(name), is_lead=True)

    def _evaluation(self, name: str, labels: EncodedLabels, options: dict[str, Any], *, is_lead: bool) -> Any:
        settings = self.plan.settings
        if not is_lead:
            settings = replace(settings, n_permutations=0, ablations=False)
        return evaluate_with(
            self.methods[name],
            self.acts,
            labels,
            metric=self.plan.score,
            n=self._counts,
            options=options,
            settings=settings,
        )

    def _frequent(self) -> list[int]:
        most = np.argsort(-self.encoded.counts, kind="stable")[:_MOST_LABELS]
        return [int(code) for code in np.sort(most)]

    def _layers(self) -> None:
        settings = replace(self.plan.settings, n_permutations=0)
        self.results["layers"] = layers_with(self.acts, self.encoded, metric=self.plan.score, settings=settings)

    def _clusters(self) -> None:
        self.results["clusters"] = clusters(self.matrix)

    def _inspect(self) -> None:
        units = units_to_inspect(self._lead, self._n_best)
        if self.plan.words is not None and hasattr(self.acts, "words"):
            self.results["words"] = tuple(top_words(self.acts, unit, _N_WORDS) for unit in units)
            self.results["contexts"] = tuple(top_contexts(self.acts, unit, _N_CONTEXTS) for unit in units)
        labels = histogram_labels(self.encoded)
        if labels is not None:
            self.results["histograms"] = tuple(histograms(self.matrix, unit, labels) for unit in units)

    def _ablate(self, model: Any, metric: Any) -> None:
        from cutaway.neurons.causal.ablate import ablate  # needs torch; reports of arrays do not

        self.results["ablation"] = ablate(
            model,
            self._lead,
            metric,
            n=self._counts[-3:],
            to=self.plan.to,
            acts=self.acts if hasattr(self.acts, "word_index") else None,
            n_random=self.plan.n_random,
            seed=self.seed,
        )


def _is_all_dead(matrix: Matrix, encoded: EncodedLabels) -> bool:
    # One living unit in the first block settles it without reading the rest.
    _, block = next(matrix.blocks())
    some = dead_units(block.std(axis=0, dtype=np.float64), block.mean(axis=0, dtype=np.float64), matrix.dtype)
    return len(some) == matrix.n_units and len(moments(matrix, encoded).dead) == matrix.n_units


def units_to_inspect(ranking: Ranking, n: int) -> list[int]:
    """Units to inspect: the top units, or with more than two labels, the best unit of each label first."""
    best: list[int] = ranking.order[:n].tolist()
    if len(ranking.per_label) > 2:
        # The overall top units may all belong to frequent labels.
        best_per_label = [int(each.order[0]) for each in ranking.per_label.values()]
        best = [*dict.fromkeys([*(unit for unit in best if unit in best_per_label), *best_per_label, *best])]
    return best[:_N_INSPECTED]


def histogram_labels(encoded: EncodedLabels) -> EncodedLabels | None:
    """Labels for histograms: the most frequent, or quartiles of numbers; None if there is only one quartile.

    >>> histogram_labels(encode([0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5])).classes
    ('1st quarter, up to 2.25', '2nd quarter, up to 4', '3rd quarter, up to 5.75', '4th quarter')
    """
    if encoded.kind == "numbers":
        cuts = np.quantile(encoded.codes, (0.25, 0.5, 0.75))
        names = [f"{which} quarter, up to {cut:.3g}" for which, cut in zip(("1st", "2nd", "3rd"), cuts, strict=True)]
        names.append("4th quarter")
        quarters = [names[place] for place in np.searchsorted(cuts, encoded.codes).tolist()]
        return encode(quarters, rare="keep") if len(set(quarters)) > 1 else None
    if len(encoded.classes) <= _MOST_LABELS:
        return encoded
    frequent = np.sort(np.argsort(-encoded.counts, kind="stable")[: _MOST_LABELS - 1])
    if encoded.kind == "multilabel":
        classes = tuple(encoded.classes[code] for code in frequent.tolist())
        return replace(encoded, codes=encoded.codes[:, frequent], classes=classes, counts=encoded.counts[frequent])
    names = [*(str(encoded.classes[code]) for code in frequent.tolist()), _OTHERS]
    place = np.full(len(encoded.classes), len(frequent))
    place[frequent] = np.arange(len(frequent))
    codes = place[encoded.codes]
    return replace(encoded, codes=codes, classes=tuple(names), counts=np.bincount(codes))


def _methods_by_name(methods: Any, encoded: EncodedLabels) -> dict[str, Method]:
    if methods is None:
        methods = _OF_NUMBERS if encoded.kind == "numbers" else _METHODS
    several = [methods] if isinstance(methods, str) or callable(methods) else list(methods)
    by_name = {
        each if isinstance(each, str) else getattr(each, "__name__", type(each).__name__): each for each in several
    }
    if not by_name or len(by_name) < len(several):
        raise InputError(f"methods={methods!r}: pass at least one method, each with a different name.")
    return by_name
