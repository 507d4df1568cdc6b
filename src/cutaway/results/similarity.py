"""How alike representations are: the answers of `cutaway.lm.similarity` and `cutaway.lm.rdm`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.results.result import Result

_MOST_SHOWN = 12


@dataclass(frozen=True, slots=True, eq=False)
class Similarity(Result):
    """The similarity of each representation with each other; of two, a number.

    Its arrays belong to it alone and cannot be written to.
    """

    method: str
    values: NDArray[np.float64]
    """(row, column): 1 for the same. NaN where it is not defined."""
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    n_rows: int
    """How many items both were compared by."""
    row_units: tuple[int, ...] = ()
    column_units: tuple[int, ...] = ()
    is_within: bool = False
    """Whether rows and columns are the same representations."""
    correlations: NDArray[np.float64] | None = None
    """(row, column, correlation): canonical correlations, largest first, NaN beyond the last; None for CKA and RSA."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Options of the method: JSON-like."""
    notes: tuple[str, ...] = ()
    """What was done on the way, and what makes the numbers less than they seem."""

    def __post_init__(self) -> None:
        for array in (self.values, self.correlations):
            if array is not None:
                array.flags.writeable = False

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.row_names), len(self.column_names)

    @property
    def value(self) -> float:
        """The number, where two were compared."""
        if self.shape != (1, 1):
            raise InputError(
                f"{self.shape[0]} × {self.shape[1]} representations were compared: similarity.values holds a number "
                "for each pair, similarity[row, column] gives one by name."
            )
        return float(self.values[0, 0])

    def __float__(self) -> float:
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype)

    def __getitem__(self, key: tuple[int | str, int | str]) -> float:
        """The similarity of one pair, by names or numbers."""
        row, column = key
        return float(self.values[_place(row, self.row_names), _place(column, self.column_names)])

    def table(self) -> Any:
        """One row a pair: a pandas DataFrame where pandas is installed, else a list of dicts."""
        return to_dataframe(
            {"row": row, "column": column, self.method: float(self.values[i, j])}
            for i, row in enumerate(self.row_names)
            for j, column in enumerate(self.column_names)
            if not self.is_within or i < j or not np.isclose(self.values[i, j], self.values[j, i], equal_nan=True)
        )

    def __repr__(self) -> str:
        named = f"Similarity by {self.described}"
        if self.shape == (1, 1):
            pair = f"{self.row_names[0]} and {self.column_names[0]}"
            return "\n".join([f"{named} of {pair} over {self.n_rows:,} rows: {self.value:.4g}", *self._noted()])
        head = f"{named} over {self.n_rows:,} rows: {self.shape[0]} × {self.shape[1]}"
        names = self.row_names[:_MOST_SHOWN]
        width = max(map(len, names))
        lines = [
            f"  {name:<{width}}  {' '.join(f'{value:.2f}' for value in self.values[row, :_MOST_SHOWN])}"
            f"{' …' if self.shape[1] > _MOST_SHOWN else ''}"
            for row, name in enumerate(names)
        ]
        more = [f"  and {self.shape[0] - _MOST_SHOWN} more"] if self.shape[0] > _MOST_SHOWN else []
        return "\n".join([head, *lines, *more, *self._noted()])

    @property
    def described(self) -> str:
        """The method in words."""
        said = {"cca": "CCA", "svcca": "SVCCA", "pwcca": "PWCCA", "cka": "CKA", "rsa": "RSA"}[self.method]
        if self.method == "cka":
            kernel = {"rbf": "RBF"}.get(str(self.about.get("kernel")), "linear")
            said = f"{'debiased ' if self.about.get('debiased') else ''}{kernel} CKA"
        return f"{said}, Ecco's rules" if self.about.get("compat") else said

    def _noted(self) -> list[str]:
        return [f"  {note}" for note in self.notes]


@dataclass(frozen=True, slots=True, eq=False)
class Dissimilarities(Result):
    """How far each row of a representation is from each other: a matrix of dissimilarities (RDM)."""

    values: NDArray[np.float64]
    """(row, row): 0 on the diagonal."""
    metric: str
    names: tuple[str, ...] = ()
    """Of the rows, where they have any."""

    def __post_init__(self) -> None:
        self.values.flags.writeable = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def upper(self) -> NDArray[np.float64]:
        """Of each row to each later one, as a row of numbers."""
        found: NDArray[np.float64] = self.values[np.triu_indices(len(self), 1)]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype)

    def name_of(self, row: int) -> str:
        """Its name, or its number where there are none."""
        return self.names[row] if self.names else str(row)

    def __repr__(self) -> str:
        upper = self.upper
        spread = f", {upper.min():.4g} to {upper.max():.4g}, median {np.median(upper):.4g}" if len(upper) else ""
        return f"Dissimilarities of {len(self):,} rows by {self.metric}{spread}"


def _place(key: int | str, names: Sequence[str]) -> int:
    if isinstance(key, str):
        if key not in names:
            shown = ", ".join(map(repr, names[:_MOST_SHOWN]))
            raise InputError(
                f"nothing here is called {key!r}; there are {shown}{', …' if len(names) > _MOST_SHOWN else ''}."
            )
        return names.index(key)
    return key
