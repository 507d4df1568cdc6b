"""How far methods agree on which units matter: the answers of `cutaway.neurons.compare` and `stability`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.results.result import Result


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Result):
    """Several rankings beside each other, by their n best units."""

    methods: tuple[str, ...]
    n: int
    overlap: NDArray[np.float64]
    """(method, method): units among the n best of both, by units among those of either; 1 on the diagonal."""
    average_overlap: NDArray[np.float64]
    """(method,): the mean overlap with the others."""
    neuron_vote: NDArray[np.float64]
    """(method,): the overlap with the n units that the others vote for."""

    def __post_init__(self) -> None:
        for array in (self.overlap, self.average_overlap, self.neuron_vote):
            array.flags.writeable = False

    def table(self) -> Any:
        """One row a method: a pandas DataFrame where pandas is installed, else a list of dicts."""
        return to_dataframe(
            {
                "method": method,
                "average_overlap": float(self.average_overlap[row]),
                "neuron_vote": float(self.neuron_vote[row]),
                **{
                    f"overlap.{other}": float(value)
                    for other, value in zip(self.methods, self.overlap[row], strict=True)
                },
            }
            for row, method in enumerate(self.methods)
        )

    def __repr__(self) -> str:
        width = max(map(len, self.methods))
        lines = [f"Comparison of {len(self.methods)} rankings by their {self.n:,} best units"]
        for row, method in enumerate(self.methods):
            cells = " ".join(f"{value:.2f}" for value in self.overlap[row])
            scores = f"average overlap {self.average_overlap[row]:.2f}, vote {self.neuron_vote[row]:.2f}"
            lines.append(f"  {method:<{width}}  {cells}  {scores}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Stability(Result):
    """The same method over several seeds: which units are among the n best every time."""

    method: str
    n: int
    seeds: tuple[int, ...]
    share: float
    """Of the rows, what each seed saw; 1 where all saw all."""
    overlap: NDArray[np.float64]
    """(seed, seed): units among the n best of both, by units among those of either."""
    chosen: NDArray[np.float64]
    """(unit,): in what share of the rankings it is among the n best."""

    def __post_init__(self) -> None:
        for array in (self.overlap, self.chosen):
            array.flags.writeable = False

    @property
    def mean(self) -> float:
        """The mean overlap of two seeds."""
        return float(self.overlap[np.triu_indices(len(self.seeds), 1)].mean())

    @property
    def spread(self) -> float:
        """The standard deviation of the overlaps of two seeds."""
        return float(self.overlap[np.triu_indices(len(self.seeds), 1)].std())

    @property
    def always(self) -> NDArray[np.int64]:
        """Units that are among the n best whatever the seed."""
        return np.flatnonzero(self.chosen == 1.0)

    def __repr__(self) -> str:
        return (
            f"Stability of {self.method}: {len(self.seeds)} seeds on {self.share:.0%} of the rows; the {self.n:,} best "
            f"overlap by {self.mean:.2f} ± {self.spread:.2f}, {len(self.always):,} are among them every time"
        )
