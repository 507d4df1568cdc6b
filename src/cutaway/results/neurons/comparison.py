"""`Comparison` and `Stability`: the results of `cutaway.neurons.compare` and `cutaway.neurons.stability`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.results.result import Result


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Result):
    """Overlap of the top n units of several rankings."""

    methods: tuple[str, ...]
    n: int
    overlap: NDArray[np.float64]
    """(method, method): Jaccard index of the top n units; 1 on the diagonal."""
    average_overlap: NDArray[np.float64]
    """(method,): mean overlap with the other methods."""
    neuron_vote: NDArray[np.float64]
    """(method,): overlap with the n units that the other methods vote for."""

    def __post_init__(self) -> None:
        for array in (self.overlap, self.average_overlap, self.neuron_vote):
            array.flags.writeable = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """`np.asarray(comparison)`: the overlap, (method, method)."""
        return np.array(self.overlap, dtype=dtype, copy=copy)

    def table(self) -> Any:
        """One row per method, as a pandas DataFrame, or as a list of dicts without pandas."""
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
        lines = [f"Comparison of {len(self.methods)} rankings by their top {self.n:,} units"]
        for row, method in enumerate(self.methods):
            cells = " ".join(f"{value:.2f}" for value in self.overlap[row])
            scores = f"average overlap {self.average_overlap[row]:.2f}, vote {self.neuron_vote[row]:.2f}"
            lines.append(f"  {method:<{width}}  {cells}  {scores}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Stability(Result):
    """One method run with several seeds: how much the top n units overlap."""

    method: str
    n: int
    seeds: tuple[int, ...]
    share: float
    """The fraction of rows that each seed draws."""
    overlap: NDArray[np.float64]
    """(seed, seed): Jaccard index of the top n units."""
    chosen: NDArray[np.float64]
    """(unit,): the fraction of rankings that have it in their top n."""

    def __post_init__(self) -> None:
        for array in (self.overlap, self.chosen):
            array.flags.writeable = False

    @property
    def mean(self) -> float:
        """Mean overlap over all pairs of seeds."""
        return float(self.overlap[np.triu_indices(len(self.seeds), 1)].mean())

    @property
    def spread(self) -> float:
        """Standard deviation of the overlap over all pairs of seeds."""
        return float(self.overlap[np.triu_indices(len(self.seeds), 1)].std())

    @property
    def always(self) -> NDArray[np.int64]:
        """Units in the top n for every seed."""
        return np.flatnonzero(self.chosen == 1.0)

    def __repr__(self) -> str:
        return (
            f"Stability of {self.method}: {len(self.seeds)} seeds on {self.share:.0%} of the rows; overlap of the top "
            f"{self.n:,} is {self.mean:.2f} ± {self.spread:.2f}, {len(self.always):,} units are always in it"
        )
