"""`Patching`: the result of `cutaway.studies.patch` and `cutaway.lm.patch`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import array_columns, to_dataframe
from cutaway.core.formatting import plural
from cutaway.results.result import Result, warn_if_fewer

_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True, eq=False)
class Patching(Result):
    """The metric when a value of the clean run replaces one in the corrupted run: sites × positions."""

    model: str
    """Class of the model."""
    sites: tuple[str, ...]
    """The rows, in execution order."""
    positions: NDArray[np.int64]
    """The columns; a single -1 if whole values were patched."""
    clean: NDArray[np.float64]
    """The metric of the clean run, in the shape of the metric."""
    corrupted: NDArray[np.float64]
    """The metric of the corrupted run."""
    scores: NDArray[np.float64]
    """(site, position, *metric): the metric of the corrupted run with this one value from the clean run."""
    heads: NDArray[np.int64] | None = None
    """The head of each row, if single heads were patched."""
    row_names: tuple[str, ...] = ()
    """Display names of the rows, such as `layer 3 head 5`; default: the sites."""
    clean_pieces: tuple[str, ...] = ()
    """The token at each column in the clean prompt; empty without prompts."""
    corrupted_pieces: tuple[str, ...] = ()
    about: Mapping[str, object] = field(default_factory=dict)
    """Arguments of `cutaway.lm.patch`: prompts, target, contrast, part. JSON-compatible."""

    def __post_init__(self) -> None:
        for array in (self.positions, self.clean, self.corrupted, self.scores, self.heads):
            if isinstance(array, np.ndarray):  # a single number may be no array
                array.flags.writeable = False

    @property
    def recovered(self) -> NDArray[np.float64]:
        """(site, position, *metric): 0 if the patch changes nothing, 1 if it restores the clean metric.

        NaN if the clean and the corrupted metric are equal.
        """
        gap = self.clean - self.corrupted
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(gap == 0, np.nan, (self.scores - self.corrupted) / gap)

    def top(self, n: int = _MOST_SHOWN) -> list[tuple[str, int | None]]:
        """Site and position of the patches that recover most; the position is None if whole values were patched.

        If the metric is an array, patches are sorted by the mean over its entries. If there are fewer patches, you get
        all of them, with a warning.

        Args:
            n: how many patches.
        """
        if n != _MOST_SHOWN:  # the default
            warn_if_fewer(n, int(np.prod(self.scores.shape[:2])), "top", "patch")
        return [(self.sites[row], self._position(column)) for row, column in self._best(n)]

    def table(self) -> Any:
        """One row per patch, as a pandas DataFrame, or as a list of dicts without pandas."""
        recovered = self.recovered
        return to_dataframe(
            [
                {
                    "site": site,
                    **({} if self.heads is None else {"head": int(self.heads[row])}),
                    "position": self._position(column),
                    **({"piece": self.clean_pieces[column]} if self.clean_pieces else {}),
                    **array_columns("score", self.scores[row, column]),
                    **array_columns("recovered", recovered[row, column]),
                }
                for row, site in enumerate(self.sites)
                for column in range(len(self.positions))
            ]
        )

    def name_of(self, row: int) -> str:
        """The display name of a row.

        Args:
            row: index of the row.
        """
        return self.row_names[row] if self.row_names else self.sites[row]

    @property
    def share(self) -> NDArray[np.float64]:
        """(site, position): `recovered`, averaged over the entries of the metric; NaN without a gap."""
        return self._share()

    def _position_text(self, column: int) -> str:
        position = int(self.positions[column])
        if not self.clean_pieces:
            return f"position {position}"
        clean, corrupted = self.clean_pieces[column], self.corrupted_pieces[column]
        return f"position {position} {clean!r}" + ("" if clean == corrupted else f" for {corrupted!r}")

    def _position(self, column: int) -> int | None:
        position = int(self.positions[column])
        return None if position < 0 else position

    def _share(self) -> NDArray[np.float64]:
        """(site, position): mean of `recovered` over the entries of the metric that have a gap."""
        entries = self.recovered.reshape(*self.scores.shape[:2], -1)
        known = ~np.isnan(entries)
        n = known.sum(axis=-1)
        total: NDArray[np.float64] = np.where(known, entries, 0.0).sum(axis=-1)
        return np.where(n > 0, total / np.maximum(n, 1), np.nan)

    def _best(self, n: int) -> list[tuple[int, int]]:
        share = self._share()
        flat = np.argsort(np.where(np.isnan(share), np.inf, -share), axis=None, kind="stable")[:n]
        return [(int(i) // len(self.positions), int(i) % len(self.positions)) for i in flat]

    def __repr__(self) -> str:
        n_sites, n_positions = self.scores.shape[:2]
        whole = self._position(0) is None if n_positions else True
        size = f"{plural(n_sites, 'site')}" + ("" if whole else f" × {n_positions:,} positions")
        lines = [f"Patching of {self.model}: {size}"]
        lines.append(f"  clean {_metric_text(self.clean)}, corrupted {_metric_text(self.corrupted)}")
        share, best = self._share(), self._best(_MOST_SHOWN)
        names = [self.name_of(row) + ("" if whole else f" {self._position_text(column)}") for row, column in best]
        width = max(map(len, names), default=0)
        for name, (row, column) in zip(names, best, strict=True):
            lines.append(
                f"  {name:<{width}}  {_metric_text(self.scores[row, column])}, {_recovered_text(share[row, column])}"
            )
        n_more = n_sites * n_positions - len(best)
        return "\n".join(lines + ([f"  and {n_more:,} more"] if n_more else []))


def _metric_text(metric: NDArray[np.float64]) -> str:
    return f"{metric.mean():.4g}" if not metric.shape else f"{metric.mean():.4g} (mean of {metric.size:,})"


def _recovered_text(share: float) -> str:
    return "nothing to recover" if np.isnan(share) else f"{100 * share:.0f} % recovered"
