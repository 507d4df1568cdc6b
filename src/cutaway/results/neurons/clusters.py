"""`Clusters`: the result of `cutaway.neurons.clusters`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.formatting import plural
from cutaway.core.units.unit_sites import unit_name
from cutaway.results.result import Result

_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, eq=False)
class Clusters(Result):
    """Clusters of correlated units, numbered in the order of their first units."""

    labels: NDArray[np.int64]
    """(unit,): the cluster index of each unit."""
    independent: NDArray[np.int64]
    """(cluster,): the medoid, the unit most similar to all members of its cluster; ties go to the lower index."""
    threshold: float
    """The distance at which the dendrogram was cut."""
    absolute: bool
    """Whether anticorrelated units count as similar."""
    names: Sequence[str] | None = None
    dead: NDArray[np.int64] | None = None
    """Units with a constant value; each forms its own cluster."""

    def __post_init__(self) -> None:
        for array in (self.labels, self.independent, self.dead):
            if array is not None:
                array.flags.writeable = False

    def __len__(self) -> int:
        """The number of clusters."""
        return len(self.independent)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """`np.asarray(clusters)`: the cluster index of each unit."""
        return np.array(self.labels, dtype=dtype, copy=copy)

    @property
    def n_units(self) -> int:
        return len(self.labels)

    @property
    def members(self) -> tuple[NDArray[np.int64], ...]:
        """(cluster,): the unit indices in each cluster."""
        order = np.argsort(self.labels, kind="stable")
        return tuple(np.split(order, np.cumsum(self.sizes)[:-1]))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(cluster,): the number of units in each cluster."""
        return np.bincount(self.labels, minlength=len(self))

    def table(self) -> Any:
        """One row per unit, as a pandas DataFrame, or as a list of dicts without pandas."""
        chosen = set(self.independent.tolist())
        return to_dataframe(
            {"unit": unit, "name": unit_name(self.names, unit), "cluster": label, "independent": unit in chosen}
            for unit, label in enumerate(self.labels.tolist())
        )

    def __repr__(self) -> str:
        sizes = self.sizes
        like = "|r|" if self.absolute else "r"
        lines = [
            f"Clusters: {self.n_units:,} units in {plural(len(self), 'cluster')}, average linkage of 1 - {like}, "
            f"cut at {self.threshold:g}"
        ]
        largest = np.argsort(-sizes, kind="stable")[:_MOST_SHOWN]
        members = self.members
        for cluster in largest[sizes[largest] > 1].tolist():
            shown = ", ".join(unit_name(self.names, unit) for unit in members[cluster][:_MOST_SHOWN].tolist())
            more = ", …" if sizes[cluster] > _MOST_SHOWN else ""
            lines.append(f"  {sizes[cluster]:,} units: {shown}{more}")
        return "\n".join(lines)
