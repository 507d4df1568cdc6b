"""`Report`: the result of `cutaway.neurons.report`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.results.neurons.ablation import Ablation
from cutaway.results.neurons.clusters import Clusters
from cutaway.results.neurons.comparison import Comparison
from cutaway.results.neurons.evaluation import Evaluation, Layers
from cutaway.results.neurons.ranking import Label, Ranking
from cutaway.results.neurons.verdicts import Answer, answer_of
from cutaway.results.neurons.words import Histograms, TopContexts, TopWords
from cutaway.results.result import Result


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """The data of a report and the call that made it."""

    kind: str
    """Kind of the labels: classes, multilabel or numbers."""
    labels: tuple[Label, ...]
    """Empty if labels are numbers."""
    counts: NDArray[np.int64]
    """(label,): the number of rows with each label."""
    n_rows: int
    n_units: int
    n_items: int | None
    """Number of sentences or samples that have a row; None if unknown."""
    sites: tuple[str, ...]
    """Empty if units have no sites."""
    n: int
    """The number of top units."""
    seed: int
    call: str
    """The call as Python code."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Provenance of the activations."""
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False)
class Report(Result):
    """Which units encode the labels, how well, at which sites, what activates them, and how reliable that is."""

    asked: Asked
    rankings: Mapping[str, Ranking]
    """By method, computed on all rows. The first method leads."""
    vote: Ranking
    """The combined ranking of all methods."""
    evaluations: Mapping[str, Evaluation]
    """By method; each split ranks the units again on its training rows. Empty for multilabel rows."""
    per_label: Mapping[Label, Evaluation]
    """Multilabel rows: each label against the rest, by the leading method."""
    comparison: Comparison | None
    """None with a single method."""
    layers: Layers | None
    """None with fewer than two sites, or for multilabel rows."""
    clusters: Clusters | None
    """None if there are too many units for a correlation matrix."""
    words: tuple[TopWords, ...] = ()
    """Of the inspected units, like `contexts` and `histograms`; empty if the words are unknown."""
    contexts: tuple[TopContexts, ...] = ()
    histograms: tuple[Histograms, ...] = ()
    """One per label; if labels are numbers, one per quartile."""
    ablation: Ablation | None = None
    notes: tuple[str, ...] = ()
    """Caveats for reading these numbers."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Run time of each part."""

    @property
    def method(self) -> str:
        """The leading method: the first in `methods=`, not the one with the best score."""
        return next(iter(self.rankings))

    @property
    def ranking(self) -> Ranking:
        """The ranking by the leading method."""
        return self.rankings[self.method]

    @property
    def best(self) -> list[str] | NDArray[np.int64]:
        """The top units by the leading method: sites, or indices if units have no names."""
        return self.ranking.top(min(self.asked.n, len(self.ranking)))

    @property
    def answer(self) -> Answer:
        """Whether the top units predict the labels, as a verdict and a few sentences."""
        return answer_of(self.evaluations, self.per_label)

    def rank_of(self, unit: int) -> dict[str, int | None]:
        """The rank of a unit by each method, starting at 1; None if a method did not rank it.

        Args:
            unit: index of the unit.
        """
        return {method: _place(ranking, unit) for method, ranking in self.rankings.items()}

    def table(self) -> Any:
        """One row per unit in the top n of any method, as a pandas DataFrame, or as a list of dicts without pandas."""
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
        """Indices of the units in the top n of any method, in the order of `vote`."""
        chosen = {unit for each in self.rankings.values() for unit in each.order[: self.asked.n].tolist()}
        return np.array([unit for unit in self.vote.order.tolist() if unit in chosen], np.int64)

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write the page as a self-contained HTML file and return its path."""
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
