"""What a reader of a report has to know that its numbers do not say; the call and the versions that made it."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from cutaway.core.version import __version__
from cutaway.results.evaluation import Evaluation
from cutaway.results.report import Asked, Report

_FEW_GROUPS = 20
_FEW_ROWS = 20
_LOPSIDED = 0.8
_MOST_NAMED = 5
_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")


def report_notes(report: Report, acts: Any, *, has_words: bool) -> Iterator[str]:
    """Sentences, the gravest first."""
    asked = report.asked
    yield from _of_collection(acts)
    yield from _of_labels(asked, [*report.evaluations.values()])
    yield from _of_evaluations(report)
    yield from _of_units(report)
    yield from _left_out(report, has_words)


def _of_collection(acts: Any) -> Iterator[str]:
    if not getattr(acts, "is_whole", True):
        yield "the collection of these activations did not come to its end: rows are missing."
    problems = getattr(acts, "problems", ())
    if problems:
        named = "; ".join(f"item {problem.item}: {problem.what}" for problem in problems[:_MOST_NAMED])
        more = "; …" if len(problems) > _MOST_NAMED else ""
        yield f"{len(problems):,} problems were met while these activations were collected: {named}{more}"


def _of_labels(asked: Asked, evaluations: Sequence[Evaluation]) -> Iterator[str]:
    is_accuracy = any(each.setting.metric == "accuracy" for each in evaluations)
    if is_accuracy and asked.counts.max() > _LOPSIDED * asked.n_rows:
        most = int(asked.counts.argmax())
        yield (
            f"{asked.counts[most] / asked.n_rows:.0%} of the rows are {asked.labels[most]!r}, so that an accuracy is "
            "high whatever is found: read it beside that of the most frequent class, or take score='matthews' or "
            "balance(acts, labels)."
        )
    few = np.flatnonzero(asked.counts < _FEW_ROWS)
    if len(few):
        named = ", ".join(f"{asked.labels[code]!r} ({asked.counts[code]})" for code in few[:_MOST_NAMED].tolist())
        more = ", …" if len(few) > _MOST_NAMED else ""
        yield f"few rows have the label {named}{more}: little is learned of them, and their numbers are rough."


def _of_evaluations(report: Report) -> Iterator[str]:
    found = [*report.evaluations.values(), *report.per_label.values()]
    about = found[0].setting
    if about.n_groups < _FEW_GROUPS:
        yield f"there are {about.n_groups} {about.groups} only: intervals are rough."
    if len(found[0].null):
        n = len(found[0].null)
        of = "of each label" if report.per_label else f"of {report.method} alone"
        yield f"the permutation test is {of}; with {n:,} permutations p is never below {1 / (n + 1):.2g}."
    if report.per_label and len(report.per_label) > 1 and len(found[0].null):
        yield f"of {len(report.per_label)} labels, one p-value below 0.05 may well be chance."
    if len(report.evaluations) > 1:
        yield f"{report.method} leads because it was named first; the best of several scores is a little too good."
    yield from _shared(report.evaluations or {str(label): each for label, each in report.per_label.items()})


def _shared(evaluations: Mapping[str, Evaluation]) -> Iterator[str]:
    """Notes of evaluations, each once, with the names of those that have it unless all do."""
    having: dict[str, list[str]] = {}
    for name, each in evaluations.items():
        for note in each.notes:
            having.setdefault(note, []).append(name)
    for note, names in having.items():
        yield note if len(names) == len(evaluations) else f"{', '.join(names)}: {note}"


def _of_units(report: Report) -> Iterator[str]:
    yield (
        "which units are the best, and what they fire on, is told of all rows; scores are those of units that were "
        "ranked again on the training rows of each split."
    )
    if report.asked.n_units > report.asked.n_rows:
        yield (
            f"there are more units ({report.asked.n_units:,}) than rows ({report.asked.n_rows:,}): some unit fits any "
            "labels by chance, and only scores on rows not seen count."
        )
    if n_dead := len(report.ranking.dead):
        yield f"{n_dead:,} unit{'s are' if n_dead > 1 else ' is'} the same at every row, and ranked last or not at all."


def _left_out(report: Report, has_words: bool) -> Iterator[str]:
    asked = report.asked
    if asked.kind == "multilabel":
        left = len(asked.labels) - len(report.per_label)
        more = f"; {left:,} labels that are rarer were not" if left else ""
        yield (
            f"rows have several labels: each was evaluated against the rest by {report.method}{more}. Sites and other "
            "methods are evaluated one label at a time: report(acts, [label in each for each in labels])."
        )
    if not asked.sites:
        yield "these are plain rows × units: nothing is known of sites, so nothing is told of where in the model."
    elif len(asked.sites) == 1:
        yield f"all units are of one site, {asked.sites[0]}: there are no others to compare it with."
    if not has_words:
        yield "nothing is known of words, so nothing is told of what the units fire on."
    elif not report.words:
        yield "words were given beside a plain array: Activations.of(x, words=…) also tells what the units fire on."
    if report.clusters is None:
        yield f"{asked.n_units:,} units are too many to correlate each with each: clusters(acts.at(site)) takes some."


def call_text(given: Mapping[str, Any], methods: tuple[str, ...]) -> str:
    """The call as it would be typed; what cannot be written in short is `…`.

    >>> call_text({"methods": None, "n": 5, "seed": 0, "by": "word"}, ("probeless",))
    "cutaway.neurons.report(acts, labels, methods=('probeless',), n=5, seed=0, by='word')"
    """
    said = []
    for name, value in given.items():
        if name == "methods":
            said.append(f"methods={methods!r}")
        elif name in ("model", "metric"):
            said += [] if value is None else [f"{name}={name}"]
        elif value is not None:
            said.append(f"{name}={_short(value)}")
    return f"cutaway.neurons.report(acts, labels, {', '.join(said)})"


def _short(value: Any) -> str:
    if isinstance(value, (str, int, float)):
        return repr(value)
    if isinstance(value, Mapping) and len(value) <= _MOST_NAMED:
        return "{" + ", ".join(f"{key!r}: {_short(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence) and len(value) <= _MOST_NAMED:
        return repr(tuple(value)) if all(isinstance(each, (str, int, float)) for each in value) else "…"
    return getattr(value, "__name__", "…")


def versions() -> dict[str, str]:
    """Of what computed it."""
    found = {"cutaway": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
