"""How well chosen units tell the labels, and how sure that is: what `cutaway.neurons.evaluate` and `layers` find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.results.result import Result

Action = Literal["keep", "remove"]
To = Literal["zero", "mean"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the interval it lies in.

    >>> Estimate(0.9312, 0.9, 0.95)
    0.931 [0.900, 0.950]
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __contains__(self, value: float) -> bool:
        """Whether the interval covers it."""
        return self.low <= value <= self.high

    def __repr__(self) -> str:
        return f"{self.value:z.3f} [{self.low:z.3f}, {self.high:z.3f}]"


@dataclass(frozen=True, slots=True)
class Ablated:
    """A probe that learned from all units, when some of its inputs are blotted out on the test rows."""

    action: Action
    """Whether the n best units are the only ones kept, or those removed."""
    to: To
    """What the others become: zero, or their mean over the training rows."""
    n: int
    score: Estimate


@dataclass(frozen=True, slots=True)
class Setting:
    """What was evaluated, on what."""

    method: str
    metric: str
    kind: str
    """Of the labels: classes or numbers."""
    n_rows: int
    n_units: int
    n_groups: int
    groups: str
    """What was never on both sides of a split: sentences, word types, rows, groups."""
    n_folds: int
    seeds: tuple[int, ...]
    level: float
    """Of the intervals."""
    widened: float
    """By how much, for training rows that folds share."""
    is_ranked_inside: bool
    """Whether units were ranked on the training rows of each split alone. If not, a ranking was given, which may have
    seen the test rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation(Result):
    """Scores on rows that nothing was learned from; with each number of units kept, and with all."""

    setting: Setting
    counts: tuple[int, ...]
    """How many of the best units a probe was given; all that follows has an entry for each, where not said otherwise.
    """
    kept: tuple[Estimate, ...]
    """The metric with the n best units alone."""
    all_units: Estimate
    """The metric with all units: the oracle."""
    delta: tuple[Estimate, ...]
    """`kept` less `all_units`, on the same resamples."""
    random: tuple[Estimate, ...] = ()
    """The metric with n units drawn at random."""
    majority: float | None = None
    """The metric if the most frequent class of the training rows is always said."""
    control: tuple[Estimate, ...] = ()
    """The metric on the control task, with the same units, probe and splits."""
    control_all: Estimate | None = None
    selectivity: tuple[Estimate, ...] = ()
    """`kept` less `control`."""
    selectivity_all: Estimate | None = None
    information: tuple[Estimate, ...] = ()
    """Bits that the n best units tell of the class, on test rows, less what shuffled labels give where that is above 0.
    Gaussians tell them, so that more may be there to tell."""
    information_null: tuple[float, ...] = ()
    """What shuffled labels give. Below 0, which is what overfitting costs, it was not subtracted: bits on test rows are
    a lower bound, and would be one no more."""
    information_all: Estimate | None = None
    """Bits that the probe on all units tells of the class, on test rows."""
    entropy: float | None = None
    """Of the classes, in bits: the most that can be told."""
    ablated: tuple[Ablated, ...] = ()
    null: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """(permutation,): the metric for the largest n, when everything is done again with permuted labels."""
    p_value: float | None = None
    """How often permuted labels do as well; never below 1 / (permutations + 1)."""
    per_seed: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """(seed,): the metric for the largest n."""
    stability: tuple[float, ...] = ()
    """The mean overlap `|A ∩ B| / |A ∪ B|` of the n best units of two splits."""
    chosen: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """(unit,): in what share of the splits it is among the best, for the largest n."""
    units: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """The n units most often among the best of a split; equals by how high they stand."""
    names: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    """What a reader has to know of these numbers."""

    def __post_init__(self) -> None:
        for array in (self.null, self.per_seed, self.chosen, self.units):
            array.flags.writeable = False

    @property
    def n(self) -> int:
        """The largest number of units kept; that of all units if none were ranked."""
        return self.counts[-1] if self.counts else self.setting.n_units

    @property
    def score(self) -> Estimate:
        """The metric with so many."""
        return self.kept[-1] if self.kept else self.all_units

    def smallest(self, within: float = 0.01) -> int | None:
        """The least number of units whose metric is no more than this below that of all; None if none is."""
        if within < 0:
            raise InputError(f"within={within!r}: 0 is the least.")
        enough = (
            n for n, each in zip(self.counts, self.kept, strict=True) if each.value >= self.all_units.value - within
        )
        return next(enough, None)

    def table(self) -> Any:
        """One row for each number of units: a pandas DataFrame where pandas is installed, else a list of dicts."""
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
            f"  {about.n_rows:,} rows, {about.n_groups:,} {about.groups}; {about.n_folds} "
            f"{'folds' if about.n_folds > 1 else 'split'}, {len(about.seeds)} seed{'s' if len(about.seeds) > 1 else ''}"
        )
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Layers(Result):
    """How well each site tells the labels: the same evaluation for each, on the same splits."""

    sites: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]

    @property
    def score(self) -> tuple[Estimate, ...]:
        """The metric with all units of a site."""
        return tuple(each.all_units for each in self.evaluations)

    @property
    def selectivity(self) -> tuple[Estimate | None, ...]:
        """Of all units of a site; None where nothing is known of words."""
        return tuple(each.selectivity_all for each in self.evaluations)

    @property
    def information(self) -> tuple[Estimate | None, ...]:
        """Bits that the probe on all units of a site tells, on test rows; None where labels are numbers."""
        return tuple(each.information_all for each in self.evaluations)

    @property
    def best(self) -> str:
        """The site with the highest score."""
        return self.sites[int(np.argmax([each.value for each in self.score]))]

    def __getitem__(self, site: str) -> Evaluation:
        if site not in self.sites:
            raise InputError(f"no site {site!r} was evaluated; there are {', '.join(map(repr, self.sites))}.")
        return self.evaluations[self.sites.index(site)]

    def __len__(self) -> int:
        return len(self.sites)

    def table(self) -> Any:
        """One row a site: a pandas DataFrame where pandas is installed, else a list of dicts."""
        records = []
        for row, site in enumerate(self.sites):
            record: dict[str, Any] = {"site": site}
            for name in ("score", "selectivity", "information"):
                found = getattr(self, name)[row]
                if found is not None:
                    record |= dict(_cells(name, found))
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
