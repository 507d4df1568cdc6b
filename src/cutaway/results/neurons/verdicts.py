"""Turns evaluations into a verdict and sentences that claim no more than the numbers show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cutaway.core.formatting import listed, plural
from cutaway.results.neurons.evaluation import Estimate, Evaluation

Verdict = Literal["found", "memory", "weak", "spread", "nothing"]
"""Whether the top units predict the labels:

found     better than chance, the most frequent class and the same number of random units; or, for Gaussian methods,
          which also detect differences in variance, the mutual information is above 0
memory    like found, but the control task scores as well: the probe may have memorized the words
spread    better than chance, but no better than the same number of random units
weak      better than permuted labels, but no better than always predicting the most frequent class
nothing   no better than permuted labels or chance
"""
_ALPHA = 0.05
_VERDICT_TEXT = {
    "found": "These units predict the labels",
    "memory": "These units predict the labels, but they predict random labels of words as well: the probe may have "
    "memorized the words",
    "spread": "The labels can be predicted, but random units predict them as well: these units are not special",
    "weak": "These units carry some information about the labels, but predict them no better than always predicting "
    "the most frequent class",
    "nothing": "No evidence that these units predict the labels better than chance",
}
_SEES_SPREAD = ("gaussian", "Gaussian")
"""Methods that are also judged by mutual information: a linear probe cannot see a difference in variance alone."""
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict with sentences that explain it."""

    verdict: Verdict
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.sentences)


def answer_of(evaluations: Mapping[str, Evaluation], per_label: Mapping[Any, Evaluation] | None = None) -> Answer:
    """The answer for the first method, compared with the others; without evaluations, for each label."""
    if not evaluations:
        return _answer_per_label(per_label or {})
    first, *others = evaluations.values()
    verdict = verdict_of(first)
    text = _VERDICT_TEXT[verdict]
    text = text.replace("labels", "numbers") if first.setting.kind == "numbers" else text
    sentences = [f"{text}.", f"{_score_text(first)}.", *_control_sentences(first), *_bits_sentences(evaluations)]
    if others:
        other_scores = ", ".join(
            f"{each.score.value:.3f} by {method}" for method, each in list(evaluations.items())[1:]
        )
        sentences.append(f"The same number of units reaches {other_scores}.")
    if verdict == "nothing":
        floor = 0.0 if first.majority is None else first.majority
        if first.kept and first.all_units.low > floor:
            sentences.append(f"All units together do predict them: {_estimate_text(first.all_units)}.")
    elif _verdict_by_score(first) not in ("nothing", "weak") and (enough := _enough_units(first)):
        sentences.append(enough)
    return Answer(verdict, tuple(sentences))


def verdict_of(evaluation: Evaluation) -> Verdict:
    """Compare the score with permuted labels, the most frequent class, random units and the control task."""
    verdict = _verdict_by_score(evaluation)
    if verdict in ("nothing", "weak") and _has_bits(evaluation):
        return "found"
    can_be_memory = evaluation.selectivity and evaluation.setting.groups != "word types"
    return "memory" if verdict == "found" and can_be_memory and evaluation.selectivity[-1].low <= 0 else verdict


def _verdict_by_score(evaluation: Evaluation) -> Verdict:
    score = evaluation.score
    # With too few permutations, p cannot fall below alpha.
    can_tell = evaluation.p_value is not None and _min_p_value(evaluation) <= _ALPHA
    if can_tell and evaluation.p_value is not None and evaluation.p_value > _ALPHA:
        return "nothing"
    floor = 0.0 if evaluation.majority is None else evaluation.majority
    if score.low <= floor:
        return "weak" if can_tell and evaluation.majority is not None else "nothing"
    if evaluation.random and score.value <= evaluation.random[-1].high:
        return "spread"
    return "found"


def _has_bits(evaluation: Evaluation) -> bool:
    return (
        evaluation.setting.method in _SEES_SPREAD
        and bool(evaluation.information)
        and evaluation.information[-1].low > 0
    )


def _bits_sentences(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """Mutual information estimated by Gaussians, and why the score may not show it."""
    text = []
    for evaluation in evaluations.values():
        if not _has_bits(evaluation):
            continue
        entropy = "" if evaluation.entropy is None else f" (at most {evaluation.entropy:.3f})"
        bits = f"{_estimate_text(evaluation.information[-1])} bits of mutual information"
        units = f"Gaussians on {evaluation.n:,} units by {evaluation.setting.method}"
        unseen = _verdict_by_score(evaluation) in ("nothing", "weak")
        why = (
            ". The score does not show this: the classes differ in variance, and its probe is linear" if unseen else ""
        )
        text.append(f"{units} estimate {bits}{entropy} on held-out rows{why}.")
    return text


def _score_text(evaluation: Evaluation) -> str:
    about = evaluation.setting
    score = f"{_metric_text(about.metric)} {_estimate_text(evaluation.score)}"
    parts = [f"{evaluation.n:,} of {about.n_units:,} units by {about.method} reach {score}"]
    if evaluation.kept:
        parts.append(f"all units {evaluation.all_units.value:.3f}")
    if evaluation.random:
        parts.append(f"{evaluation.n:,} random units {evaluation.random[-1].value:.3f}")
    if evaluation.majority is not None:
        parts.append(f"always predicting the most frequent class {evaluation.majority:.3f}")
    if evaluation.p_value is not None:
        n = len(evaluation.null)
        is_least = " (the minimum)" if evaluation.p_value <= _min_p_value(evaluation) + 1e-12 else ""
        parts.append(f"p = {evaluation.p_value:.3g} with {n:,} permutations{is_least}")
    return ", ".join(parts)


def _min_p_value(evaluation: Evaluation) -> float:
    """The smallest p-value possible with this number of permutations."""
    return 1 / (1 + len(evaluation.null))


def _control_sentences(evaluation: Evaluation) -> list[str]:
    if not evaluation.selectivity:
        return []
    selectivity = evaluation.selectivity[-1]
    meaning = "memorized words would score as well" if selectivity.low <= 0 else "the score exceeds the control task"
    return [f"Selectivity is {_estimate_text(selectivity)}: {meaning}."]


def _enough_units(evaluation: Evaluation) -> str:
    """How many units score as well as all units."""
    if not evaluation.kept or evaluation.setting.n_units <= evaluation.n:
        return ""
    enough = next((n for n, delta in zip(evaluation.counts, evaluation.delta, strict=True) if delta.high >= 0), None)
    if enough is None:
        return f"All units together score {-evaluation.delta[-1].value:.3f} higher."
    return f"From {plural(enough, 'unit')} on, the score is indistinguishable from that of all units."


def _answer_per_label(per_label: Mapping[Any, Evaluation]) -> Answer:
    verdicts = {label: verdict_of(each) for label, each in per_label.items()}
    good = [str(label) for label, verdict in verdicts.items() if verdict == "found"]
    names = f": {listed(good, _MOST_NAMED)}" if good else ""
    sentence = f"Each label against the rest: units predict {len(good):,} of {len(verdicts):,} labels{names}."
    others = set(verdicts.values()) - {"nothing"}
    verdict: Verdict = "found" if good else ("nothing" if not others else others.pop() if len(others) == 1 else "weak")
    return Answer(verdict, (sentence,))


def _metric_text(metric: str) -> str:
    known = {"accuracy": "an accuracy of", "f1": "an F1 of", "matthews": "a Matthews correlation of"}
    known |= {"pearson": "a Pearson correlation of", "spearman": "a Spearman correlation of"}
    return known.get(metric, f"a {metric} of")


def _estimate_text(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
