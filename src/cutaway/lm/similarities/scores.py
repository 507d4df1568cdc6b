"""What a similarity method receives and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cutaway.lm.similarities.products import Pair
from cutaway.lm.similarities.representations import Floats, Representation


@dataclass(frozen=True, slots=True)
class ComparisonTask:
    """Representations, and the pairs of them to compare."""

    representations: Sequence[Representation]
    pairs: Sequence[Pair]

    @property
    def n_rows(self) -> int:
        return self.representations[0].n_rows

    @property
    def used(self) -> list[int]:
        return sorted({representation for pair in self.pairs for representation in pair})


@dataclass(slots=True)
class Scores:
    """The similarity of each pair."""

    values: dict[Pair, float] = field(default_factory=dict)
    reverse: dict[Pair, float] = field(default_factory=dict)
    """From the second to the first, if that differs."""
    correlations: dict[Pair, Floats] = field(default_factory=dict)
    """Canonical correlations, largest first, for methods that have them."""
    warnings: list[str] = field(default_factory=list)
    """Reasons not to trust the numbers."""
    notes: list[str] = field(default_factory=list)
    """Remarks on how they were computed."""
