"""What evaluations answer, in sentences that promise no more than the numbers do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cutaway.results.evaluation import Estimate, Evaluation

Verdict = Literal["found", "memory", "weak", "spread", "nothing"]
"""What became of the question whether the best units tell the labels:

found     better than chance, than the most frequent class and than as many random units; or, by Gaussians, which also
          see how far values spread, some bits of the class are told
memory    the same, but labels given to words at random are told as well: words may just be known by heart
spread    better than chance, but as many random units do as well
weak      better than permuted labels, but not than always saying the most frequent class
nothing   permuted labels do as well, or nothing is better than chance
"""
_ALPHA = 0.05
_SAID = {
    "found": "These units tell the labels",
    "memory": "These units tell the labels, but tell labels that words were given at random as well: words known by "
    "heart would do",
    "spread": "The labels can be told, but as well from random units: these are nothing special",
    "weak": "These units know something of the labels, but tell them no better than always saying the most frequent "
    "class",
    "nothing": "Nothing that chance does not give as well was found",
}
_SEES_SPREAD = ("gaussian", "Gaussian")
"""Methods whose units are judged by bits too: what differs in its spread alone is nothing to a linear probe."""
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in short."""

    verdict: Verdict
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.sentences)


def answer_of(evaluations: Mapping[str, Evaluation], per_label: Mapping[Any, Evaluation] | None = None) -> Answer:
    """Of the evaluation by the first method, the others beside it; or of each label by itself."""
    if not evaluations:
        return _of_labels(per_label or {})
    first, *others = evaluations.values()
    verdict = verdict_of(first)
    said = _SAID[verdict].replace("labels", "numbers") if first.setting.kind == "numbers" else _SAID[verdict]
    said += f" by {first.setting.method}" if verdict == "nothing" else ""
    sentences = [f"{said}.", f"{_numbers(first)}.", *_control(first), *_bits(evaluations)]
    if others:
        beside = ", ".join(f"{each.score.value:.3f} by {method}" for method, each in list(evaluations.items())[1:])
        sentences.append(f"As many units reach {beside}.")
    if verdict == "nothing":
        floor = 0.0 if first.majority is None else first.majority
        if first.kept and first.all_units.low > floor:
            sentences.append(f"All units together do tell them: {_told(first.all_units)}.")
    elif _by_score(first) not in ("nothing", "weak") and (enough := _enough(first)):
        sentences.append(enough)
    return Answer(verdict, tuple(sentences))


def verdict_of(found: Evaluation) -> Verdict:
    """What the score is beside permuted labels, the most frequent class, random units and the control task."""
    verdict = _by_score(found)
    if verdict in ("nothing", "weak") and _tells_bits(found):
        return "found"
    can_be_memory = found.selectivity and found.setting.groups != "word types"
    return "memory" if verdict == "found" and can_be_memory and found.selectivity[-1].low <= 0 else verdict


def _by_score(found: Evaluation) -> Verdict:
    score = found.score
    can_tell = found.p_value is not None and _least(found) <= _ALPHA  # few permutations can reject nothing
    if can_tell and found.p_value is not None and found.p_value > _ALPHA:
        return "nothing"
    floor = 0.0 if found.majority is None else found.majority
    if score.low <= floor:
        return "weak" if can_tell and found.majority is not None else "nothing"
    if found.random and score.value <= found.random[-1].high:
        return "spread"
    return "found"


def _tells_bits(found: Evaluation) -> bool:
    return found.setting.method in _SEES_SPREAD and bool(found.information) and found.information[-1].low > 0


def _bits(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """What Gaussians tell, and why a score may not show it."""
    said = []
    for found in evaluations.values():
        if not _tells_bits(found):
            continue
        entropy = "" if found.entropy is None else f" of {found.entropy:.3f}"
        told = f"Gaussians of {found.n:,} units by {found.setting.method} tell {_told(found.information[-1])} bits"
        unseen = _by_score(found) in ("nothing", "weak")
        why = (
            ", which the score does not show: how far values spread differs, and its probe is linear" if unseen else ""
        )
        said.append(f"{told}{entropy} of rows not seen{why}.")
    return said


def _numbers(found: Evaluation) -> str:
    about = found.setting
    parts = [
        f"{found.n:,} of {about.n_units:,} units by {about.method} reach {_named(about.metric)} {_told(found.score)}"
    ]
    if found.kept:
        parts.append(f"all units {found.all_units.value:.3f}")
    if found.random:
        parts.append(f"{found.n:,} random units {found.random[-1].value:.3f}")
    if found.majority is not None:
        parts.append(f"always the most frequent class {found.majority:.3f}")
    if found.p_value is not None:
        n = len(found.null)
        is_least = " (the least it can be)" if found.p_value <= _least(found) + 1e-12 else ""
        parts.append(f"p = {found.p_value:.3g} by {n:,} permutations{is_least}")
    return ", ".join(parts)


def _least(found: Evaluation) -> float:
    """The least p-value that so many permutations can give."""
    return 1 / (1 + len(found.null))


def _control(found: Evaluation) -> list[str]:
    if not found.selectivity:
        return []
    own = found.selectivity[-1]
    said = f"Selectivity is {_told(own)}"
    return [f"{said}: words known by heart would give as much." if own.low <= 0 else f"{said} above the control task."]


def _enough(found: Evaluation) -> str:
    """How many units are as good as all of them."""
    if not found.kept or found.setting.n_units <= found.n:
        return ""
    enough = next((n for n, delta in zip(found.counts, found.delta, strict=True) if delta.high >= 0), None)
    if enough is None:
        return f"All units together tell more: {-found.delta[-1].value:.3f} is missing."
    return f"From {enough:,} unit{'s' if enough > 1 else ''} on, the score cannot be told from that of all."


def _of_labels(per_label: Mapping[Any, Evaluation]) -> Answer:
    found = {label: verdict_of(each) for label, each in per_label.items()}
    good = [str(label) for label, verdict in found.items() if verdict == "found"]
    shown = ", ".join(good[:_MOST_NAMED]) + (", …" if len(good) > _MOST_NAMED else "")
    told = f": {shown}" if good else ""
    sentence = f"Each label against the rest: units tell {len(good):,} of {len(found):,} labels{told}."
    others = set(found.values()) - {"nothing"}
    verdict: Verdict = "found" if good else ("nothing" if not others else others.pop() if len(others) == 1 else "weak")
    return Answer(verdict, (sentence,))


def _named(metric: str) -> str:
    known = {"accuracy": "an accuracy of", "f1": "an F1 of", "matthews": "a Matthews correlation of"}
    known |= {"pearson": "a Pearson correlation of", "spearman": "a Spearman correlation of"}
    return known.get(metric, f"a {metric} of")


def _told(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
