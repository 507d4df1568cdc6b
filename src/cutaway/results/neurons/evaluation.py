"""`Evaluation` and `Layers`: the results of `cutaway.neurons.evaluate` and `cutaway.neurons.layers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.core.formatting import plural
from cutaway.results.result import Result

Action = Literal["keep", "remove"]
To = Literal["zero", "mean"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval.

    >>> Estimate(0.9312, 0.9, 0.95)
    0.931 [0.900, 0.950]
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """`np.asarray(estimates)`: the values, without their intervals."""
        return np.array(self.value, dtype=dtype)

    def __contains__(self, value: float) -> bool:
        """Whether the interval covers the value."""
        return self.low <= value <= self.high

    def __repr__(self) -> str:
        # z turns -0.000 into 0.000 (PEP 682, Python 3.11).
        return f"{self.value:z.3f} [{self.low:z.3f}, {self.high:z.3f}]"


@dataclass(frozen=True, slots=True)
class Ablated:
    """Score of a probe trained on all units, with some of its inputs replaced on the test rows."""

    action: Action
    """Whether only the top n units keep their values, or the top n units are replaced."""
    to: To
    """The replacement: zero, or the mean over the training rows."""
    n: int
    score: Estimate


@dataclass(frozen=True, slots=True)
class Setting:
    """What was evaluated, and on which rows and splits."""

    method: str
    metric: str
    kind: str
    """Kind of the labels: classes or numbers."""
    n_rows: int
    n_units: int
    n_groups: int
    groups: str
    """What stays on one side of each split: sentences, word types, rows or groups."""
    n_folds: int
    seeds: tuple[int, ...]
    level: float
    """Confidence level of the intervals."""
    widened: float
    """Factor by which intervals are widened because folds share training rows."""
    is_ranked_inside: bool
    """Whether each split ranks the units on its own training rows. If False, you passed a ranking, which may have seen
    the test rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation(Result):
    """Scores on held-out rows for the top n units and for all units, with baselines and controls."""

    setting: Setting
    counts: tuple[int, ...]
    """The numbers n of top units. The tuples below have one entry per n unless stated otherwise."""
    kept: tuple[Estimate, ...]
    """Score with the top n units only."""
    all_units: Estimate
    """Score with all units."""
    delta: tuple[Estimate, ...]
    """`kept` minus `all_units`, on the same resamples."""
    random: tuple[Estimate, ...] = ()
    """Score with n random units."""
    majority: float | None = None
    """Score of always predicting the most frequent class of the training rows."""
    control: tuple[Estimate, ...] = ()
    """Score on the control task, with the same units, probe and splits."""
    control_all: Estimate | None = None
    selectivity: tuple[Estimate, ...] = ()
    """`kept` minus `control`."""
    selectivity_all: Estimate | None = None
    information: tuple[Estimate, ...] = ()
    """Mutual information in bits between the top n units and the class, estimated by Gaussians on test rows, minus
    `information_null` where that is above 0. This is a lower bound."""
    information_null: tuple[float, ...] = ()
    """The same with shuffled labels. Values below 0 are the cost of overfitting. They are not subtracted, because
    `information` would no longer be a lower bound."""
    information_all: Estimate | None = None
    """Mutual information in bits between the prediction of the probe on all units and the class, on test rows."""
    entropy: float | None = None
    """Entropy of the classes in bits: the upper limit of the mutual information."""
    ablated: tuple[Ablated, ...] = ()
    null: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """(permutation,): score for the largest n when everything is repeated with permuted labels."""
    p_value: float | None = None
    """p-value of the permutation test; never below 1 / (permutations + 1)."""
    per_seed: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """(seed,): score for the largest n."""
    stability: tuple[float, ...] = ()
    """Mean Jaccard index `|A ∩ B| / |A ∪ B|` of the top n units of two splits."""
    chosen: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """(unit,): the fraction of splits that have it in their top n, for the largest n."""
    units: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """The n units most often in the top n of a split; ties go to the higher rank."""
    names: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    """Caveats for reading these numbers."""

    def __post_init__(self) -> None:
        for array in (self.null, self.per_seed, self.chosen, self.units):
            array.flags.writeable = False

    @property
    def n(self) -> int:
        """The largest n; the number of all units if no units were ranked."""
        return self.counts[-1] if self.counts else self.setting.n_units

    @property
    def score(self) -> Estimate:
        """Score with the top `n` units."""
        return self.kept[-1] if self.kept else self.all_units

    def smallest(self, within: float = 0.01) -> int | None:
        """The smallest n whose score is at most `within` below the score of all units; None if there is none.

        Args:
            within: how far the score may be below that of all units.
        """
        if within < 0:
            raise InputError(f"within={within!r}: must be 0 or more.")
        enough = (
            n for n, each in zip(self.counts, self.kept, strict=True) if each.value >= self.all_units.value - within
        )
        return next(enough, None)

    def table(self) -> Any:
        """One row per number of units, as a pandas DataFrame, or as a list of dicts without pandas."""
        columns: Mapping[str, Sequence[Estimate]] = {
            "score": self.kept,
            "delta": self.delta,
            "random": self.random,
            "control": self.control,
            "selectivity": self.selectivity,
            "information": self.information,
        }
        return to_dataframe(
            {"n": n, **{key: value for name, each in columns.items() if each for key, value in _cells(name, each[row])}}
            for row, n in enumerate(self.counts)
        )

    def __repr__(self) -> str:
        about = self.setting
        lines = [
            f"Evaluation of {about.method}: {about.metric} {self.score} with {self.n:,} of {about.n_units:,} units"
        ]
        if self.kept:
            lines.append(f"  all units {self.all_units}, difference {self.delta[-1]}")
        if self.control_all is not None:
            selectivity = self.selectivity[-1] if self.selectivity else self.selectivity_all
            lines.append(f"  selectivity {selectivity}")
        if self.information:
            lines.append(f"  mutual information {self.information[-1]} bits of {self.entropy:.3f}")
        if self.p_value is not None:
            lines.append(f"  permuted labels {self.null.mean():.3f}, p = {self.p_value:.3g}")
        lines.append(
            f"  {about.n_rows:,} rows, {about.n_groups:,} {about.groups}; "
            f"{plural(about.n_folds, 'split', 'folds')}, {plural(len(about.seeds), 'seed')}"
        )
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Layers(Result):
    """How well each site predicts the labels: the same evaluation per site, on the same splits."""

    sites: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]

    @property
    def score(self) -> tuple[Estimate, ...]:
        """Score with all units of each site."""
        return tuple(each.all_units for each in self.evaluations)

    @property
    def selectivity(self) -> tuple[Estimate | None, ...]:
        """Selectivity with all units of each site; None if the words are unknown."""
        return tuple(each.selectivity_all for each in self.evaluations)

    @property
    def information(self) -> tuple[Estimate | None, ...]:
        """Mutual information in bits with all units of each site, on test rows; None if labels are numbers."""
        return tuple(each.information_all for each in self.evaluations)

    @property
    def best(self) -> str:
        """The site with the highest score."""
        return self.sites[int(np.argmax([each.value for each in self.score]))]

    def __getitem__(self, site: str) -> Evaluation:
        if site not in self.sites:
            raise InputError(f"site {site!r} was not evaluated. Evaluated sites: {', '.join(map(repr, self.sites))}.")
        return self.evaluations[self.sites.index(site)]

    def __len__(self) -> int:
        return len(self.sites)

    def table(self) -> Any:
        """One row per site, as a pandas DataFrame, or as a list of dicts without pandas."""
        records = []
        for row, site in enumerate(self.sites):
            record: dict[str, Any] = {"site": site}
            for name in ("score", "selectivity", "information"):
                estimate = getattr(self, name)[row]
                if estimate is not None:
                    record |= dict(_cells(name, estimate))
            records.append(record)
        return to_dataframe(records)

    def __repr__(self) -> str:
        metric = self.evaluations[0].setting.metric
        width = max(map(len, self.sites))
        lines = [f"Layers: {len(self)} sites by {metric}, best {self.best}"]
        for site, score, selectivity, bits in zip(
            self.sites, self.score, self.selectivity, self.information, strict=True
        ):
            parts = [f"{metric} {score}"]
            parts += [f"selectivity {selectivity}"] if selectivity else []
            parts += [f"{bits} bits"] if bits else []
            lines.append(f"  {site:<{width}}  {', '.join(parts)}")
        return "\n".join(lines)


def _cells(name: str, estimate: Estimate) -> list[tuple[str, float]]:
    return [(name, estimate.value), (f"{name}.low", estimate.low), (f"{name}.high", estimate.high)]
