"""`Ranking`: the result of every ranking method."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.units.unit_sites import UnitSites, layouts_of, unit_name
from cutaway.results.result import Result

Label = Any
"""A label as you gave it: a string, a number or a bool."""
_MOST_SHOWN = 10


def _none() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Ranking(Result):
    """Units by score, best first, with one ranking per label in `per_label`.

    Its arrays are read-only. `ranked` builds one from scores.
    """

    method: str
    scores: NDArray[np.float64]
    """(unit,): higher is better; NaN for units that were not ranked."""
    order: NDArray[np.int64]
    """Indices of the ranked units, best first. Ties are ordered by index; dead units come last."""
    signs: NDArray[np.int8]
    """(unit,): 1 if the unit rises with the label, -1 if it falls, 0 if neither applies. With two classes, the label is
    the second in sorted order; with more, only the rankings in `per_label` have signs."""
    names: Sequence[str] | None = None
    """The site of each unit, `encoder.layer.3#17`; None for a plain array of activations."""
    per_label: Mapping[Label, Ranking] = field(default_factory=dict)
    dead: NDArray[np.int64] = field(default_factory=_none)
    """Indices of units that have the same value in every row."""
    tiers: NDArray[np.int64] | None = None
    """Linear probes only: how many units of `order` hold each percentage of the weight mass."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Options of the method and facts about its data, JSON-compatible."""

    def __post_init__(self) -> None:
        # A frozen dataclass does not freeze its arrays.
        for array in (self.scores, self.order, self.signs, self.dead, self.tiers):
            if array is not None:
                array.flags.writeable = False

    def __len__(self) -> int:
        """The number of ranked units."""
        return len(self.order)

    @property
    def n_units(self) -> int:
        """The number of units, ranked or not."""
        return len(self.scores)

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels that have their own ranking."""
        return tuple(self.per_label)

    def top(self, n: int) -> list[str] | NDArray[np.int64]:
        """The top n units: sites for `cutaway.edit(model, at=…)`, or indices if units have no names.

        >>> ranked("mine", [0.1, 0.9, 0.5]).top(2)
        array([1, 2])
        >>> ranked("mine", [0.1, 0.9, 0.5], names=["h#0", "h#1", "h#2"]).top(2)
        ['h#1', 'h#2']

        If fewer units were ranked, you get all of them, with a warning.

        Args:
            n: how many units.
        """
        return self._named(self.order[: self._available(n, "top")])

    def bottom(self, n: int) -> list[str] | NDArray[np.int64]:
        """The bottom n units, worst first; dead units come first.

        Args:
            n: how many units.
        """
        return self._named(self.order[::-1][: self._available(n, "bottom")])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """`np.asarray(ranking)`: the scores, (unit,)."""
        return np.array(self.scores, dtype=dtype, copy=copy)

    def name_of(self, unit: int) -> str:
        """The site of a unit, or its index as `#17` if units have no names.

        Args:
            unit: index of the unit.
        """
        return unit_name(self.names, unit)

    def table(self, n: int | None = None) -> Any:
        """One row per unit, best first, as a pandas DataFrame, or as a list of dicts without pandas.

        Each label has its own score column.

        Args:
            n: how many units, best first; None for all.
        """
        dead = set(self.dead.tolist())
        units = self.order if n is None else self.order[: _count(n)]
        return to_dataframe(
            {
                "rank": rank,
                "unit": unit,
                "name": self.name_of(unit),
                "score": float(self.scores[unit]),
                "sign": int(self.signs[unit]),
                "dead": unit in dead,
                **{f"score.{label}": float(each.scores[unit]) for label, each in self.per_label.items()},
            }
            for rank, unit in enumerate(units.tolist(), start=1)
        )

    def __repr__(self) -> str:
        chosen = f" of {self.n_units:,}" if len(self) < self.n_units else ""
        parts = [f"Ranking by {self.method}: {len(self):,}{chosen} units"]
        if self.per_label:
            parts.append(f"{len(self.per_label):,} labels")
        if len(self.dead):
            parts.append(f"{len(self.dead):,} dead")
        units = self.order[:_MOST_SHOWN].tolist()
        width = max((len(self.name_of(unit)) for unit in units), default=0)
        mark = {1: "+", -1: "-", 0: " "}
        lines = [
            f"  {self.name_of(unit):<{width}}  {mark[int(self.signs[unit])]} {self.scores[unit]:.4g}" for unit in units
        ]
        rest = len(self) - len(units)
        return "\n".join([", ".join(parts), *lines, *([f"  and {rest:,} more"] if rest else [])])

    def _available(self, n: int, verb: str) -> int:
        if _count(n) > len(self):
            left_out = f" of {self.n_units:,}" if len(self) < self.n_units else ""
            warnings.warn(
                f"cutaway: {verb}({n}) returns {len(self):,} units: {self.method} ranked {len(self):,}{left_out}.",
                UserWarning,
                stacklevel=3,
            )
        return n

    def _named(self, units: NDArray[np.int64]) -> list[str] | NDArray[np.int64]:
        if self.names is None:
            return units.copy()
        return UnitSites([self.names[unit] for unit in units.tolist()], layouts_of(self.names))


def ranked(
    method: str,
    scores: Any,
    *,
    order: Any = None,
    signs: Any = None,
    units: Any = None,
    dead: Any = None,
    names: Sequence[str] | None = None,
    per_label: Mapping[Label, Ranking] | None = None,
    tiers: NDArray[np.int64] | None = None,
    about: Mapping[str, object] | None = None,
) -> Ranking:
    """Build a ranking from one score per unit; higher is better.

    >>> ranked("mine", [0.5, 2.0, 0.5, 9.0], dead=[3]).order
    array([1, 0, 2, 3])

    Args:
        method: the name of the method.
        scores: one per unit.
        order: indices of the ranked units, used unchanged. Default: by score.
        signs: 1, 0 or -1 per unit. Default: 0.
        units: indices of the units to rank; the other scores become NaN. Default: all units.
        dead: indices of units with a constant value. They rank last regardless of their score.
        names: the site of each unit.
        per_label: one ranking per label.
        tiers: linear probes: how many units hold each percentage of the weight mass.
        about: options of the method and facts about its data.
    """
    values = np.array(scores, np.float64)
    if values.ndim != 1:
        raise InputError(f"scores have shape {list(values.shape)}: pass one number per unit, shape [units].")
    chosen = np.arange(len(values)) if units is None else np.unique(np.asarray(units, np.int64))
    is_dead = np.zeros(len(values), bool)
    is_dead[_indices(dead)] = True
    left_out = np.ones(len(values), bool)
    left_out[chosen] = False
    values[left_out] = np.nan
    return Ranking(
        method=method,
        scores=values,
        order=best_first(values, chosen, is_dead) if order is None else np.array(order, np.int64),
        signs=np.zeros(len(values), np.int8) if signs is None else np.array(signs, np.int8),
        dead=np.flatnonzero(is_dead & ~left_out),
        names=names,
        per_label={} if per_label is None else per_label,
        tiers=tiers,
        about={} if about is None else about,
    )


def best_first(scores: NDArray[np.float64], units: NDArray[np.int64], is_dead: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Sort units by score, highest first. Ties are ordered by index; NaN scores, then dead units, come last."""
    values = scores[units]
    last = np.where(is_dead[units], 2, np.isnan(values).astype(np.int64))
    key = np.where(np.isnan(values), 0.0, -values)
    key[is_dead[units]] = 0.0  # among themselves by index alone
    # lexsort sorts by its last key first.
    order: NDArray[np.int64] = units[np.lexsort((units, key, last))]
    return order


def _indices(given: Any) -> NDArray[np.int64]:
    return np.empty(0, np.int64) if given is None else np.asarray(given, np.int64)


def _count(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise InputTypeError(f"n={n!r}: must be a whole number.")
    if n < 0:
        raise InputError(f"n={n}: must be 0 or more.")
    return int(n)
