"""All that was asked of the units of a model in one go: the answer of `cutaway.neurons.report`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.results.ablation import Ablation
from cutaway.results.clusters import Clusters
from cutaway.results.comparison import Comparison
from cutaway.results.evaluation import Evaluation, Layers
from cutaway.results.ranking import Label, Ranking
from cutaway.results.result import Result
from cutaway.results.verdicts import Answer, answer_of
from cutaway.results.words import Histograms, TopContexts, TopWords


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What a report is about, and the call that made it."""

    kind: str
    """Of the labels: classes, multilabel or numbers."""
    labels: tuple[Label, ...]
    """Empty where labels are numbers."""
    counts: NDArray[np.int64]
    """(label,): how many rows each has."""
    n_rows: int
    n_units: int
    n_items: int | None
    """Sentences or samples that have a row; None where nothing is known of them."""
    sites: tuple[str, ...]
    """Empty where units have none."""
    n: int
    """How many units are the best."""
    seed: int
    call: str
    """As it would be typed."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Of the activations."""
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False)
class Report(Result):
    """Which units carry the labels, how well, where, what they fire on, and how far that can be trusted."""

    asked: Asked
    rankings: Mapping[str, Ranking]
    """By method, the first of which leads; of all rows."""
    vote: Ranking
    """What the methods choose together."""
    evaluations: Mapping[str, Evaluation]
    """By method; units were ranked anew on the training rows of each split. Empty where rows have several labels."""
    per_label: Mapping[Label, Evaluation]
    """Where rows have several labels: each against the rest, by the leading method."""
    comparison: Comparison | None
    """None of a single method."""
    layers: Layers | None
    """None where there is one site, or none, or rows have several labels."""
    clusters: Clusters | None
    """None where units are too many to correlate each with each."""
    words: tuple[TopWords, ...] = ()
    """Of the units that are looked at closely, as what follows; empty where nothing is known of words."""
    contexts: tuple[TopContexts, ...] = ()
    histograms: tuple[Histograms, ...] = ()
    """For each label; where labels are numbers, for each quarter of them."""
    ablation: Ablation | None = None
    notes: tuple[str, ...] = ()
    """What a reader has to know of these numbers."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What each part took."""

    @property
    def method(self) -> str:
        """The method that leads: the first that was given, not the one that did best."""
        return next(iter(self.rankings))

    @property
    def ranking(self) -> Ranking:
        """By the leading method."""
        return self.rankings[self.method]

    @property
    def best(self) -> Any:
        """The best units by the leading method: sites, or indices where units have no names."""
        return self.ranking.top(self.asked.n)

    @property
    def answer(self) -> Answer:
        """Whether the best units tell the labels, in a sentence or two."""
        return answer_of(self.evaluations, self.per_label)

    def rank_of(self, unit: int) -> dict[str, int | None]:
        """The place of a unit by each method, from 1; None where a method did not rank it."""
        return {method: _place(ranking, unit) for method, ranking in self.rankings.items()}

    def table(self) -> Any:
        """One row for each unit that is among the best by some method: a pandas DataFrame, else a list of dicts."""
        return to_dataframe(
            {
                "unit": unit,
                "name": self.ranking.name_of(unit),
                **{f"rank.{method}": rank for method, rank in self.rank_of(unit).items()},
                **{
                    f"chosen.{method}": float(each.chosen[unit])
                    for method, each in self.evaluations.items()
                    if len(each.chosen)
                },
            }
            for unit in self.units.tolist()
        )

    @property
    def units(self) -> NDArray[np.int64]:
        """Indices of the units among the best by some method, in the order of the vote."""
        chosen = {unit for each in self.rankings.values() for unit in each.order[: self.asked.n].tolist()}
        return np.array([unit for unit in self.vote.order.tolist() if unit in chosen], np.int64)

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write the page as one HTML file that needs nothing from outside; gives where it lies."""
        written: Path = self.page().to_html(path)
        return written

    def __repr__(self) -> str:
        asked = self.asked
        labels = f"{len(asked.labels):,} labels" if asked.labels else "numbers"
        lines = [f"Report: {asked.n_rows:,} rows, {asked.n_units:,} units, {labels}; {', '.join(self.rankings)}"]
        lines += [f"  {sentence}" for sentence in self.answer.sentences]
        named = ", ".join(str(unit) for unit in self.best[:5])
        lines.append(f"  best by {self.method}: {named}{', …' if asked.n > 5 else ''}")
        if self.layers is not None:
            lines.append(f"  best site: {self.layers.best}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def _place(ranking: Ranking, unit: int) -> int | None:
    places = np.flatnonzero(ranking.order == unit)
    return int(places[0]) + 1 if len(places) else None
