"""`TopWords`, `TopContexts` and `Histograms`: what activates a unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.results.result import Result

ALL = "all"
"""The label of a histogram over all rows."""


@dataclass(frozen=True, slots=True, eq=False)
class TopWords(Result):
    """The words with the strongest mean activation of a unit, strongest first."""

    unit: str
    words: tuple[str, ...]
    scores: NDArray[np.float64]
    """(word,): mean z-score over its occurrences; negative if the unit falls at the word. Between 0 and 1 with
    `compat="neurox"`."""
    counts: NDArray[np.int64]
    """(word,): number of occurrences."""
    min_count: int
    """Words that occur less often are left out."""
    n_left_out: int
    """The number of left-out words."""

    def __len__(self) -> int:
        return len(self.words)

    def table(self) -> Any:
        """One row per word, as a pandas DataFrame, or as a list of dicts without pandas."""
        return to_dataframe(
            {"word": word, "score": float(score), "count": int(count)}
            for word, score, count in zip(self.words, self.scores, self.counts, strict=True)
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{word} {score:+.2f}" for word, score in zip(self.words, self.scores, strict=True))
        return f"Top words of {self.unit}: {shown or 'none'}"


@dataclass(frozen=True, slots=True)
class Context:
    """A row where the activation is far from its mean, with the surrounding words."""

    row: int
    item: int
    """Index of the sentence or sample."""
    before: tuple[str, ...]
    word: str
    after: tuple[str, ...]
    value: float
    score: float
    """z-score over all rows."""
    around: tuple[float, ...] = ()
    """z-scores of the words before, the word itself, and the words after; empty if they were not kept."""

    def __str__(self) -> str:
        return " ".join([*self.before, f"[{self.word}]", *self.after])


@dataclass(frozen=True, slots=True)
class TopContexts(Result):
    """The rows with the strongest activation of a unit, strongest first."""

    unit: str
    contexts: tuple[Context, ...]

    def __len__(self) -> int:
        return len(self.contexts)

    def table(self) -> Any:
        """One row per context, as a pandas DataFrame, or as a list of dicts without pandas."""
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
    """Histograms of the activation of a unit, one per label."""

    unit: str
    labels: tuple[Any, ...]
    edges: NDArray[np.float64]
    """(bin + 1,): bin edges, shared by all labels."""
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
