"""`Lesions`: the result of `cutaway.studies.lesion`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import array_columns, to_dataframe
from cutaway.core.errors import InputError
from cutaway.core.formatting import plural
from cutaway.results.result import warn_if_fewer

Each = Literal["site", "unit", "head"]
Entry = int | tuple[int, ...]
"""Index of one entry of the metric, such as a class or a sample."""
_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True, eq=False)
class Lesions:
    """One row per lesion: its site and the value of the metric with it.

    Rows are in execution order of their sites.
    """

    model: str
    """Class of the model."""
    each: Each
    to: str
    """Description of the replacement value."""
    sites: tuple[str, ...]
    """The site of each lesion, without its unit."""
    parts: NDArray[np.int64]
    """Index of the unit or head; -1 if the lesion replaced the whole value."""
    widths: NDArray[np.int64]
    """Number of units per head; -1 for lesions of sites and units. Results of older versions have 0 where heads are a
    separate dimension."""
    baseline: NDArray[np.float64]
    """The metric without a lesion, in the shape of the metric."""
    scores: NDArray[np.float64]
    """(lesion, *metric): the metric with each lesion."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Sites that match a pattern but whose units are unknown, with the reason."""

    def __len__(self) -> int:
        return len(self.sites)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each lesion: `h.3.mlp`, `h.3.mlp#317`, or `h.3.attn.c_proj@in.0 head 2`."""
        return tuple(name_of(site, int(part), self.each) for site, part in zip(self.sites, self.parts, strict=True))

    @property
    def effect(self) -> NDArray[np.float64]:
        """(lesion, *metric): the change of the metric."""
        return self.scores - self.baseline

    @property
    def strength(self) -> NDArray[np.float64]:
        """(lesion,): the absolute effect; if the metric is an array, the mean over its entries."""
        return _size(self.effect)

    @property
    def order(self) -> NDArray[np.int64]:
        """Rows by strength, strongest first; NaN effects come last."""
        return _order(self.strength)

    def top(self, n: int = _MOST_SHOWN, of: Entry | None = None) -> list[str]:
        """The sites of the strongest lesions, for `cutaway.edit(model, at=…)`; for a head, all its units.

        If there are fewer lesions, you get all of them, with a warning.

        Args:
            n: how many lesions.
            of: if the metric is an array, the entry to sort by, such as a class.
        """
        if n != _MOST_SHOWN:  # the default
            warn_if_fewer(n, len(self), "top", self.each)
        rows = self._strongest(n, of)
        if self.each != "head":
            return [self.names[row] for row in rows]
        if any(self.widths[row] < 1 for row in rows):
            site = next(self.sites[row] for row in rows if self.widths[row] < 1)
            raise InputError(
                f"the heads of {site!r} are a separate dimension, so no site names a single head. Use lesions.sites "
                "and lesions.parts at lesions.order, with cutaway.edit(model, at=site, heads=part)."
            )
        return [
            f"{self.sites[row]}#{self.parts[row] * self.widths[row] + unit}"
            for row in rows
            for unit in range(self.widths[row])
        ]

    def table(self) -> Any:
        """One row per lesion, as a pandas DataFrame, or as a list of dicts without pandas."""
        effect = self.effect
        return to_dataframe(
            [
                {
                    "name": name,
                    "site": self.sites[row],
                    "part": int(self.parts[row]),
                    **array_columns("score", self.scores[row]),
                    **array_columns("effect", effect[row]),
                }
                for row, name in enumerate(self.names)
            ]
        )

    def _strongest(self, n: int, of: Entry | None = None) -> list[int]:
        if of is None:
            return [int(row) for row in self.order[:n]]
        index: tuple[Any, ...] = (slice(None), *(of if isinstance(of, tuple) else (of,)))
        try:
            chosen = self.effect[index]
        except IndexError:
            raise InputError(f"of={of!r} is out of range: the metric has shape {list(self.baseline.shape)}.") from None
        return [int(row) for row in _order(_size(chosen))[:n]]

    def __repr__(self) -> str:
        n_sites = len(dict.fromkeys(self.sites))
        where = f" at {plural(n_sites, 'site')}" if self.each != "site" else ""
        lines = [f"Lesions of {self.model}: {plural(len(self), self.each)}{where}, changed to {self.to}"]
        is_number = not self.baseline.shape
        if is_number:
            lines.append(f"  baseline {float(self.baseline):.4g}")
        else:
            shape = "×".join(map(str, self.baseline.shape))
            lines.append(f"  baseline of {shape} numbers, mean {self.baseline.mean():.4g}")
        rows = self._strongest(_MOST_SHOWN)
        width = max((len(self.names[row]) for row in rows), default=0)
        for row in rows:
            lines.append(f"  {self.names[row]:<{width}}  {self._line(row)}")
        if len(rows) < len(self):
            lines.append(f"  and {len(self) - len(rows):,} more")
        if self.left_out:
            lines.append(f"  {plural(len(self.left_out), 'site')} left out: units unknown")
        return "\n".join(lines)

    def _line(self, row: int) -> str:
        effect = self.effect[row]
        if not effect.shape:
            return f"{float(self.scores[row]):.4g} ({float(effect):+.4g})"
        if np.isnan(effect).all():
            return "NaN"
        index = np.unravel_index(int(np.nanargmax(np.abs(effect))), effect.shape)
        where = ", ".join(str(int(i)) for i in index)
        return f"changes it by {self.strength[row]:.4g} on average, {float(effect[index]):+.4g} at [{where}]"


def name_of(site: str, part: int, each: Each) -> str:
    """
    >>> name_of("h.3.mlp", 317, "unit"), name_of("h.3.mlp", -1, "site")
    ('h.3.mlp#317', 'h.3.mlp')
    """
    if each == "site":
        return site
    return f"{site}#{part}" if each == "unit" else f"{site} head {part}"


def _size(effect: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean absolute value of each row."""
    size: NDArray[np.float64] = np.abs(effect).mean(axis=tuple(range(1, effect.ndim)))
    return size


def _order(strength: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.argsort(np.where(np.isnan(strength), np.inf, -strength), kind="stable")
