"""`Ablation`: the result of `cutaway.neurons.ablate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.core.formatting import plural
from cutaway.results.result import Result

Effect = tuple[str, float, float]
"""The name of a metric, its value with all units, and its value without the ablated units."""


@dataclass(frozen=True, slots=True, eq=False)
class Ablation(Result):
    """Metrics of a model with all its units, without the top units, and without the same number of random units."""

    model: str
    """Class of the model."""
    method: str
    """The method that ranked the units; "given" if you listed the units yourself."""
    to: str
    """What replaced their values: "zero", "mean" or "resample"."""
    metrics: tuple[str, ...]
    """Names of the metrics."""
    units: tuple[str, ...]
    """The top units, as sites. Size i ablates the first `n[i]` of them together."""
    n: NDArray[np.int64]
    """(size,): the number of ablated units, ascending."""
    baseline: NDArray[np.float64]
    """(metric,): with all units."""
    scores: NDArray[np.float64]
    """(size, metric): without the top n units."""
    random: NDArray[np.float64]
    """(size, draw, metric): without n random units, drawn with the same number per site as the top units."""
    seed: int = 0

    def __post_init__(self) -> None:
        for array in (self.n, self.baseline, self.scores, self.random):
            array.flags.writeable = False

    @property
    def n_random(self) -> int:
        """The number of random draws per size."""
        return int(self.random.shape[1])

    @property
    def effect(self) -> NDArray[np.float64]:
        """(size, metric): the change caused by ablating the top units."""
        return self.scores - self.baseline

    @property
    def random_effect(self) -> NDArray[np.float64]:
        """(size, draw, metric): the change caused by ablating random units."""
        return self.random - self.baseline

    @property
    def random_mean(self) -> NDArray[np.float64]:
        """(size, metric): the mean over the draws; NaN without draws."""
        return self.random.mean(axis=1) if self.n_random else np.full(self.scores.shape, np.nan)

    @property
    def random_std(self) -> NDArray[np.float64]:
        """(size, metric): the standard deviation over the draws; NaN with fewer than two."""
        return self.random.std(axis=1, ddof=1) if self.n_random > 1 else np.full(self.scores.shape, np.nan)

    @property
    def p(self) -> NDArray[np.float64]:
        """(size, metric): p-value that random units change the metric as much, `(1 + draws that do) / (1 + draws)`.

        It cannot be smaller than `1 / (1 + n_random)`.
        """
        as_much = np.abs(self.random_effect) >= np.abs(self.effect)[:, None]
        # The top units count as one of the draws, else p could be 0 (Phipson and Smyth, 2010).
        p: NDArray[np.float64] = (1 + as_much.sum(axis=1)) / (1 + self.n_random)
        return p

    def effects(self, n: int | None = None) -> tuple[Effect, ...]:
        """Each metric before and after ablating n units, in the form that `cutaway.neurons.page(effects=…)` takes.

        Args:
            n: one of the measured sizes; default: the largest.
        """
        if n is not None and n not in self.n:
            raise InputError(f"n={n} was not measured. Measured sizes: {', '.join(map(str, self.n.tolist()))}.")
        row = -1 if n is None else int(np.flatnonzero(self.n == n)[0])
        return tuple(zip(self.metrics, self.baseline.tolist(), self.scores[row].tolist(), strict=True))

    def table(self) -> Any:
        """One row per size and metric, as a pandas DataFrame, or as a list of dicts without pandas."""
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
            f"{plural(self.n_random, 'random draw')} of the same size"
        ]
        mean, std = self.random_mean, self.random_std
        for j, metric in enumerate(self.metrics):
            lines.append(f"  {metric}: {self.baseline[j]:.4g} with all units")
            for i, n in enumerate(self.n.tolist()):
                spread = f" ± {std[i, j]:.2g}" if self.n_random > 1 else ""
                random_text = f", random {mean[i, j]:.4g}{spread}" if self.n_random else ""
                lines.append(f"    without {n:,}: {self.scores[i, j]:.4g}{random_text}")
        return "\n".join(lines)
