"""What fires a unit: words, contexts and histograms, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.results.result import Result

ALL = "all"
"""What a histogram of all rows has for a label."""


@dataclass(frozen=True, slots=True, eq=False)
class TopWords(Result):
    """The words that move a unit most, strongest first."""

    unit: str
    words: tuple[str, ...]
    scores: NDArray[np.float64]
    """(word,): the mean over its occurrences, in standard deviations from the mean of all rows; below 0 where the unit
    falls. Between 0 and 1 where NeuroX's rule was asked for."""
    counts: NDArray[np.int64]
    """(word,): how often it occurs."""
    min_count: int
    """Rarer words were left out."""
    n_left_out: int
    """How many words that were."""

    def __len__(self) -> int:
        return len(self.words)

    def table(self) -> Any:
        """One row a word: a pandas DataFrame where pandas is installed, else a list of dicts."""
        return to_dataframe(
            {"word": word, "score": float(score), "count": int(count)}
            for word, score, count in zip(self.words, self.scores, self.counts, strict=True)
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{word} {score:+.2f}" for word, score in zip(self.words, self.scores, strict=True))
        return f"Top words of {self.unit}: {shown or 'none'}"


@dataclass(frozen=True, slots=True)
class Context:
    """One row at which a unit is far from its mean, and the words around it."""

    row: int
    item: int
    """The sentence or sample it belongs to."""
    before: tuple[str, ...]
    word: str
    after: tuple[str, ...]
    value: float
    score: float
    """In standard deviations from the mean of all rows."""
    around: tuple[float, ...] = ()
    """The same of each word before, the word itself, and each after; empty where it was not kept."""

    def __str__(self) -> str:
        return " ".join([*self.before, f"[{self.word}]", *self.after])


@dataclass(frozen=True, slots=True)
class TopContexts(Result):
    """The rows that move a unit most, strongest first."""

    unit: str
    contexts: tuple[Context, ...]

    def __len__(self) -> int:
        return len(self.contexts)

    def table(self) -> Any:
        """One row a context: a pandas DataFrame where pandas is installed, else a list of dicts."""
        return to_dataframe(
            {
                "row": each.row,
                "item": each.item,
                "before": " ".join(each.before),
                "word": each.word,
                "after": " ".join(each.after),
                "value": each.value,
                "score": each.score,
            }
            for each in self.contexts
        )

    def __repr__(self) -> str:
        lines = [f"Top contexts of {self.unit}"]
        return "\n".join([*lines, *(f"  {each.score:+6.2f}  {each}" for each in self.contexts)])


@dataclass(frozen=True, slots=True, eq=False)
class Histograms(Result):
    """How the values of a unit lie, for each label."""

    unit: str
    labels: tuple[Any, ...]
    edges: NDArray[np.float64]
    """(bin + 1,): the same for all labels."""
    counts: NDArray[np.int64]
    """(label, bin)."""
    means: NDArray[np.float64]
    """(label,)."""
    stds: NDArray[np.float64]
    """(label,)."""

    def __repr__(self) -> str:
        parts = [
            f"  {label!s}: {int(row.sum()):,} rows, {mean:.4g} ± {std:.4g}"
            for label, row, mean, std in zip(self.labels, self.counts, self.means, self.stds, strict=True)
        ]
        return "\n".join([f"Histograms of {self.unit}, {len(self.edges) - 1} bins", *parts])
