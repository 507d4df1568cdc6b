"""Caveats of a report, its call as code, and package versions."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from cutaway.core.formatting import listed, plural
from cutaway.core.version import __version__
from cutaway.results.neurons.evaluation import Evaluation
from cutaway.results.neurons.report import Asked, Report

_FEW_GROUPS = 20
_FEW_ROWS = 20
_IMBALANCED = 0.8
_MOST_NAMED = 5
_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")


def report_notes(report: Report, acts: Any, *, has_words: bool) -> Iterator[str]:
    """Caveats, the most serious first."""
    asked = report.asked
    yield from _collection_notes(acts)
    yield from _label_notes(asked, [*report.evaluations.values()])
    yield from _score_notes(report)
    yield from _unit_notes(report)
    yield from _missing_parts_notes(report, has_words)


def _collection_notes(acts: Any) -> Iterator[str]:
    if not getattr(acts, "is_whole", True):
        yield "the collection of these activations is incomplete: rows are missing."
    problems = getattr(acts, "problems", ())
    if problems:
        names = listed((f"item {problem.item}: {problem.what}" for problem in problems), _MOST_NAMED)
        yield f"collecting these activations had {plural(len(problems), 'problem')}: {names}"


def _label_notes(asked: Asked, evaluations: Sequence[Evaluation]) -> Iterator[str]:
    is_accuracy = any(each.setting.metric == "accuracy" for each in evaluations)
    if is_accuracy and asked.counts.max() > _IMBALANCED * asked.n_rows:
        most = int(asked.counts.argmax())
        yield (
            f"{asked.counts[most] / asked.n_rows:.0%} of the rows are {asked.labels[most]!r}, so accuracy is always "
            "high: compare it with the most frequent class, or use score='matthews' or balance(acts, labels)."
        )
    few = np.flatnonzero(asked.counts < _FEW_ROWS)
    if len(few):
        names = listed((f"{asked.labels[code]!r} ({asked.counts[code]})" for code in few.tolist()), _MOST_NAMED)
        yield f"few rows have the label {names}: the numbers for these labels are uncertain."


def _score_notes(report: Report) -> Iterator[str]:
    evaluations = [*report.evaluations.values(), *report.per_label.values()]
    about = evaluations[0].setting
    if about.n_groups < _FEW_GROUPS:
        yield f"there are only {about.n_groups} {about.groups}: confidence intervals are uncertain."
    if len(evaluations[0].null):
        n = len(evaluations[0].null)
        of = "of each label" if report.per_label else f"of {report.method} only"
        yield f"the permutation test is {of}; with {n:,} permutations, p is never below {1 / (n + 1):.2g}."
    if report.per_label and len(report.per_label) > 1 and len(evaluations[0].null):
        yield f"with {len(report.per_label)} labels, some p-values below 0.05 are chance: correct for multiple tests."
    if len(report.evaluations) > 1:
        yield f"{report.method} leads because it comes first in methods=. The best of several scores is biased upward."
    yield from _evaluation_notes(report.evaluations or {str(label): each for label, each in report.per_label.items()})


def _evaluation_notes(evaluations: Mapping[str, Evaluation]) -> Iterator[str]:
    """Notes of the evaluations, each once, prefixed with the methods that have it unless all do."""
    methods_by_note: dict[str, list[str]] = {}
    for name, each in evaluations.items():
        for note in each.notes:
            methods_by_note.setdefault(note, []).append(name)
    for note, names in methods_by_note.items():
        yield note if len(names) == len(evaluations) else f"{', '.join(names)}: {note}"


def _unit_notes(report: Report) -> Iterator[str]:
    yield (
        "top units and what activates them are computed on all rows; for the scores, each split ranks the units again "
        "on its training rows."
    )
    if report.asked.n_units > report.asked.n_rows:
        yield (
            f"there are more units ({report.asked.n_units:,}) than rows ({report.asked.n_rows:,}): some unit fits any "
            "labels by chance. Trust only scores on held-out rows."
        )
    if n_dead := len(report.ranking.dead):
        yield f"{plural(n_dead, 'constant unit')}, ranked last or not at all."


def _missing_parts_notes(report: Report, has_words: bool) -> Iterator[str]:
    asked = report.asked
    if asked.kind == "multilabel":
        left = len(asked.labels) - len(report.per_label)
        more = f", except {plural(left, 'rarer label')}" if left else ""
        yield (
            f"rows have several labels: each was evaluated against the rest by {report.method}{more}. To evaluate "
            "sites and other methods, report one label at a time: report(acts, [label in each for each in labels])."
        )
    if not asked.sites:
        yield "a plain array has no sites, so this report does not compare sites."
    elif len(asked.sites) == 1:
        yield f"all units are at one site, {asked.sites[0]}, so this report does not compare sites."
    if not has_words:
        yield "the words are unknown, so this report does not show what activates the units."
    elif not report.words:
        yield "words= came with a plain array: pass Activations.of(x, words=…) to see what activates the units."
    if report.clusters is None:
        yield f"{asked.n_units:,} units are too many for a correlation matrix: try clusters(acts.at(site))."


def call_text(given: Mapping[str, Any], methods: tuple[str, ...]) -> str:
    """The call as Python code; long values are written as `…`.

    >>> call_text({"methods": None, "n": 5, "seed": 0, "by": "word"}, ("probeless",))
    "cutaway.neurons.report(acts, labels, methods=('probeless',), n=5, seed=0, by='word')"
    """
    arguments = []
    for name, value in given.items():
        if name == "methods":
            arguments.append(f"methods={methods!r}")
        elif name in ("model", "metric"):
            arguments += [] if value is None else [f"{name}={name}"]
        elif value is not None:
            arguments.append(f"{name}={_short(value)}")
    return f"cutaway.neurons.report(acts, labels, {', '.join(arguments)})"


def _short(value: Any) -> str:
    if isinstance(value, (str, int, float)):
        return repr(value)
    if isinstance(value, Mapping) and len(value) <= _MOST_NAMED:
        return "{" + ", ".join(f"{key!r}: {_short(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence) and len(value) <= _MOST_NAMED:
        return repr(tuple(value)) if all(isinstance(each, (str, int, float)) for each in value) else "…"
    return getattr(value, "__name__", "…")


def versions() -> dict[str, str]:
    """Versions of Cutaway, Python and the packages it computes with."""
    installed = {"cutaway": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed
