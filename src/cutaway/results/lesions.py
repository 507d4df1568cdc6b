"""What each part of a model is worth to a number: the answer of `cutaway.studies.lesion`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.results.table_columns import columns_of

Each = Literal["site", "unit", "head"]
Entry = int | tuple[int, ...]
"""One entry of what the metric returned: a class, a sample."""
_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True, eq=False)
class Lesions:
    """One row a lesion: where it was, and what the metric was with it.

    The arrays of one result belong to it alone. Rows stand in the order in which the model ran their sites.
    """

    model: str
    """Class of the model."""
    each: Each
    to: str
    """What the values were changed to, in words."""
    sites: tuple[str, ...]
    """The site of each lesion, without its unit."""
    parts: NDArray[np.int64]
    """Its unit or head; -1 where the whole value was changed."""
    widths: NDArray[np.int64]
    """How many units a head has; -1 where no head was meant. In results of older versions 0 where heads are a dimension
    of their own."""
    baseline: NDArray[np.float64]
    """What the metric is without a lesion; of the shape that the metric has."""
    scores: NDArray[np.float64]
    """(lesion, *metric): what it is with each."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Sites that a pattern covers and whose units are not known, with the reason."""

    def __len__(self) -> int:
        return len(self.sites)

    @property
    def names(self) -> tuple[str, ...]:
        """Each lesion as text: `h.3.mlp`, `h.3.mlp#317`, or `h.3.attn.c_proj@in.0 head 2`."""
        return tuple(name_of(site, int(part), self.each) for site, part in zip(self.sites, self.parts, strict=True))

    @property
    def effect(self) -> NDArray[np.float64]:
        """(lesion, *metric): what each changed."""
        return self.scores - self.baseline

    @property
    def strength(self) -> NDArray[np.float64]:
        """(lesion,): the size of its effect; where the metric is an array, the mean over its entries."""
        return _size(self.effect)

    @property
    def order(self) -> NDArray[np.int64]:
        """Rows by strength, strongest first. Effects that are not a number stand last."""
        return _order(self.strength)

    def top(self, n: int = _MOST_SHOWN, of: Entry | None = None) -> list[str]:
        """The sites of the strongest lesions, as `cutaway.edit(model, at=…)` takes them; of a head, all its units.

        Args:
            of: the entry of the metric that counts, where it is an array: a class, say.
        """
        rows = self._strongest(n, of)
        if self.each != "head":
            return [self.names[row] for row in rows]
        if any(self.widths[row] < 1 for row in rows):
            site = next(self.sites[row] for row in rows if self.widths[row] < 1)
            raise InputError(
                f"the heads of {site!r} are a dimension of their own, and a site cannot name one of them: take "
                "lesions.sites and lesions.parts at lesions.order, and cutaway.edit(model, at=site, heads=part)."
            )
        return [
            f"{self.sites[row]}#{self.parts[row] * self.widths[row] + unit}"
            for row in rows
            for unit in range(self.widths[row])
        ]

    def table(self) -> Any:
        """One row a lesion: a pandas DataFrame where pandas is installed, else a list of dicts."""
        effect = self.effect
        return to_dataframe(
            [
                {
                    "name": name,
                    "site": self.sites[row],
                    "part": int(self.parts[row]),
                    **columns_of("score", self.scores[row]),
                    **columns_of("effect", effect[row]),
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
            raise InputError(
                f"of={of!r}: the metric has shape {list(self.baseline.shape)}, and this is no entry of it."
            ) from None
        return [int(row) for row in _order(_size(chosen))[:n]]

    def __repr__(self) -> str:
        n_sites = len(dict.fromkeys(self.sites))
        where = f" at {_counted(n_sites, 'site')}" if self.each != "site" else ""
        lines = [f"Lesions of {self.model}: {_counted(len(self), self.each)}{where}, changed to {self.to}"]
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
            lines.append(f"  {_counted(len(self.left_out), 'site')} left out: no units are known")
        return "\n".join(lines)

    def _line(self, row: int) -> str:
        effect = self.effect[row]
        if not effect.shape:
            return f"{float(self.scores[row]):.4g} ({float(effect):+.4g})"
        if np.isnan(effect).all():
            return "no number"
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
    """The mean of the absolute values of each row."""
    size: NDArray[np.float64] = np.abs(effect).mean(axis=tuple(range(1, effect.ndim)))
    return size


def _order(strength: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.argsort(np.where(np.isnan(strength), np.inf, -strength), kind="stable")


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
