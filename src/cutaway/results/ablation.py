"""What a model is worth without some of its units: the answer of `cutaway.neurons.ablate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.results.result import Result

Effect = tuple[str, float, float]
"""The name of a metric, what it is with all units, what it is without some."""


@dataclass(frozen=True, slots=True, eq=False)
class Ablation(Result):
    """Metrics of a model with all its units, without the best ones, and without as many random ones."""

    model: str
    """Class of the model."""
    method: str
    """What ranked the units; "given" where they were named one by one."""
    to: str
    """What their values were changed to: "zero", "mean" or "resample"."""
    metrics: tuple[str, ...]
    """Names of what was measured."""
    units: tuple[str, ...]
    """The best units, as sites; the first `n[i]` of them were ablated together."""
    n: NDArray[np.int64]
    """(size,): how many units were ablated, rising."""
    baseline: NDArray[np.float64]
    """(metric,): with all units."""
    scores: NDArray[np.float64]
    """(size, metric): without the best n."""
    random: NDArray[np.float64]
    """(size, draw, metric): without n random units, as many at each site as the best have there."""
    seed: int = 0

    def __post_init__(self) -> None:
        for array in (self.n, self.baseline, self.scores, self.random):
            array.flags.writeable = False

    @property
    def n_random(self) -> int:
        """How many random choices of each size there were."""
        return int(self.random.shape[1])

    @property
    def effect(self) -> NDArray[np.float64]:
        """(size, metric): what the ablation of the best units changes."""
        return self.scores - self.baseline

    @property
    def random_effect(self) -> NDArray[np.float64]:
        """(size, draw, metric): what the ablation of random units changes."""
        return self.random - self.baseline

    @property
    def random_mean(self) -> NDArray[np.float64]:
        """(size, metric): NaN where nothing was drawn."""
        return self.random.mean(axis=1) if self.n_random else np.full(self.scores.shape, np.nan)

    @property
    def random_std(self) -> NDArray[np.float64]:
        """(size, metric): the spread over the draws; NaN where there are fewer than two."""
        return self.random.std(axis=1, ddof=1) if self.n_random > 1 else np.full(self.scores.shape, np.nan)

    @property
    def p(self) -> NDArray[np.float64]:
        """(size, metric): how likely random units change as much, `(1 + draws that do) / (1 + draws)`.

        It cannot be smaller than `1 / (1 + n_random)`.
        """
        as_much = np.abs(self.random_effect) >= np.abs(self.effect)[:, None]
        found: NDArray[np.float64] = (1 + as_much.sum(axis=1)) / (1 + self.n_random)
        return found

    def effects(self, n: int | None = None) -> tuple[Effect, ...]:
        """Each metric before and after n units were ablated, as `cutaway.neurons.page(effects=…)` takes them.

        Args:
            n: one of the sizes that were measured; the largest if not given.
        """
        if n is not None and n not in self.n:
            raise InputError(f"n={n}: {', '.join(map(str, self.n.tolist()))} units were ablated.")
        row = -1 if n is None else int(np.flatnonzero(self.n == n)[0])
        return tuple(zip(self.metrics, self.baseline.tolist(), self.scores[row].tolist(), strict=True))

    def table(self) -> Any:
        """One row for each size and metric: a pandas DataFrame where pandas is installed, else a list of dicts."""
        effect, mean, std, p = self.effect, self.random_mean, self.random_std, self.p
        return to_dataframe(
            {
                "n": n,
                "metric": metric,
                "before": float(self.baseline[j]),
                "after": float(self.scores[i, j]),
                "effect": float(effect[i, j]),
                "random": float(mean[i, j]),
                "random_std": float(std[i, j]),
                "p": float(p[i, j]),
            }
            for i, n in enumerate(self.n.tolist())
            for j, metric in enumerate(self.metrics)
        )

    def __repr__(self) -> str:
        lines = [
            f"Ablation of {self.model} by {self.method}: up to {int(self.n[-1]):,} units to {self.to}, "
            f"{self.n_random} random choices of as many"
        ]
        mean, std = self.random_mean, self.random_std
        for j, metric in enumerate(self.metrics):
            lines.append(f"  {metric}: {self.baseline[j]:.4g} with all units")
            for i, n in enumerate(self.n.tolist()):
                spread = f" ± {std[i, j]:.2g}" if self.n_random > 1 else ""
                beside = f", random {mean[i, j]:.4g}{spread}" if self.n_random else ""
                lines.append(f"    without {n:,}: {self.scores[i, j]:.4g}{beside}")
        return "\n".join(lines)
