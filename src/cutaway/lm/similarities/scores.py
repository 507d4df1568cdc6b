"""What a method of similarity is asked and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cutaway.lm.similarities.products import Pair
from cutaway.lm.similarities.representations import Floats, Representation


@dataclass(frozen=True, slots=True)
class ComparisonTask:
    """Representations, and the pairs of them that are compared."""

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
    """From the second to the first, where that is another number."""
    correlations: dict[Pair, Floats] = field(default_factory=dict)
    """Canonical correlations, largest first, where the method has them."""
    warnings: list[str] = field(default_factory=list)
    """What makes the numbers less than they seem."""
    notes: list[str] = field(default_factory=list)
    """What was done on the way."""
