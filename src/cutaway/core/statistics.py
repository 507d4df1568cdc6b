"""Table of the recorded statistics: name, title, scale and how each one is compared.

To add a statistic, add one line to `_TABLE` and fill its column in every backend that computes it: `cpu.py`,
`device_torch.py` and `triton_kernels.py` in `recording/statistics/`. Everything else reads this table; the viewer reads
it through `web/src/lib/wire.ts`, which `python -m tests.wire` generates from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

StatisticTier = Literal["core", "full", "spectral_norm", "group"]
StatisticUnit = Literal["value", "elements", "share", "flag"]
StatisticScale = Literal["linear", "log"]
StatisticPart = Literal["number", "quantile", "histogram"]

N_SAMPLED: Final = 1024
"""At most this many elements of a tensor are sampled for quantiles and the histogram."""
N_BINS: Final = 16
"""Bins of the recorded histogram, of equal width from `low` to `high`."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """One number that summarizes a tensor at a step, with how to display and compare it."""

    name: str
    title: str
    """The name shown in labels."""
    about: str
    """A short definition, as a noun phrase."""
    tier: StatisticTier
    """What records it: the level "core" or "full", or `spectral_norm=True`; "group": only per unit or per sample."""
    unit: StatisticUnit = "value"
    """Unit of measurement: that of the tensor, a number of elements, a fraction of 1, or a flag (0 or 1)."""
    scale: StatisticScale = "linear"
    """The scale of axes; "log" if it spans orders of magnitude, so that z-scores use its logarithm, too."""
    is_signed: bool = True
    """Whether it can be negative."""
    is_comparable: bool = False
    """Whether it can be compared between tensors; not if it depends on the number of elements."""
    is_tracked: bool = True
    """Whether it can be compared with earlier steps of the same tensor."""
    is_size: bool = False
    """Whether it measures the magnitude of the values; pages show the first recorded one by default."""
    is_fault: bool = False
    """Whether any value above 0 is a problem."""
    part: StatisticPart = "number"
    """Whether it is a number of its own, one of the quantiles, or a part of the histogram."""
    undefined: str = ""
    """Tensors without this statistic ("a tensor that …"), for which NaN is no problem; "" if all tensors have it."""


def _size(name: str, title: str, about: str, tier: StatisticTier = "core") -> Statistic:
    """A statistic of magnitude or spread that does not depend on the number of elements."""
    return Statistic(name, title, about, tier, scale="log", is_signed=False, is_comparable=True)


def _fault(name: str, title: str, about: str, tier: StatisticTier, unit: StatisticUnit) -> Statistic:
    return Statistic(name, title, about, tier, unit=unit, is_signed=False, is_fault=True)


def _quantile(percent: int) -> Statistic:
    title = "median" if percent == 50 else f"p{percent}"
    return Statistic(f"p{percent}", title, f"value that {percent} % of the elements are below", "core", part="quantile")


def _edge(name: str, about: str) -> Statistic:
    return Statistic(name, name, about, "core", is_tracked=False, part="histogram")


def _bin(number: int) -> Statistic:
    return replace(_edge(f"h{number}", f"share of elements in bin {number}"), unit="share", is_signed=False)


_COUNT: Final = Statistic(
    *("count", "elements", "number of elements, exact at any size", "core"),
    unit="elements",
    scale="log",
    is_signed=False,
    is_tracked=False,
)

# Statistics are recorded and shown in this order.
_TABLE: Final = (
    Statistic("mean", "mean", "mean over all elements", "core"),
    replace(_size("abs_mean", "abs mean", "mean of the magnitudes"), is_size=True),
    replace(_size("std", "std", "standard deviation over all elements, of the population"), is_size=True),
    replace(
        _size("batch_std", "batch std", "standard deviation over the samples of the batch, averaged over elements"),
        undefined="a tensor without samples, or with one",
    ),
    replace(_size("norm", "norm", "Euclidean norm"), is_comparable=False, is_size=True),
    Statistic("zeros", "zeros", "number of elements that are 0", "full", unit="elements", is_signed=False),
    Statistic("min", "min", "smallest element", "core"),
    Statistic("max", "max", "largest element", "core"),
    _size("abs_max", "abs max", "largest magnitude", "group"),
    _fault("nonfinite", "NaN or Inf", "1 if an element is NaN or infinite, else 0", "core", "flag"),
    _fault("nans", "NaN", "number of elements that are NaN", "full", "elements"),
    _fault("infs", "Inf", "number of elements that are infinite", "full", "elements"),
    replace(
        _size("spectral_norm", "spectral norm", "largest singular value of a matrix", "spectral_norm"),
        undefined="a tensor that is not a matrix",
    ),
    Statistic("zero_share", "zero share", "share of elements that are 0", "group", unit="share", is_signed=False),
    *(_quantile(percent) for percent in (1, 5, 25, 50, 75, 95, 99)),
    _COUNT,
    _edge("low", "where the histogram begins"),
    _edge("high", "where the histogram ends"),
    *(_bin(number) for number in range(N_BINS)),
)
STATISTICS: Final = {statistic.name: statistic for statistic in _TABLE}
"""All statistics by name, in the order in which they are recorded and shown."""
UNKNOWN: Final = Statistic("", "", "", "core")
"""Defaults for a statistic that is not in the table: programs may record their own."""
PER_UNIT: Final = ("mean", "std", "min", "max", "zero_share")
"""The rows of the recorded array "unit": statistics of each unit."""
PER_SAMPLE: Final = ("mean", "abs_mean", "std", "abs_max")
"""The rows of the recorded array "samples": statistics of each sample."""


def statistic(name: str) -> Statistic:
    """Looks up a statistic by name; one that is not in the table gets its name as its title.

    >>> statistic("p50").title, statistic("kurtosis_4").title
    ('median', 'kurtosis 4')
    """
    return STATISTICS.get(name) or replace(UNKNOWN, name=name, title=name.replace("_", " "))


def names_in_tiers(*tiers: StatisticTier) -> tuple[str, ...]:
    """Names of the statistics in these tiers.

    >>> names_in_tiers("full", "spectral_norm")
    ('zeros', 'nans', 'infs', 'spectral_norm')
    """
    return tuple(each.name for each in _TABLE if each.tier in tiers)


def magnitude_statistic(names: Iterable[str]) -> str | None:
    """The first of these statistics that measures magnitude; None if there is none.

    >>> magnitude_statistic(["norm", "std", "mean"])
    'std'
    """
    given = set(names)
    return next((each.name for each in _TABLE if each.is_size and each.name in given), None)
