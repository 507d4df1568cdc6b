"""`Similarity` and `Dissimilarities`: the results of `cutaway.lm.similarity` and `cutaway.lm.rdm`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.core.formatting import listed
from cutaway.results.result import Result, make_read_only, to_array

_MOST_SHOWN = 12


@dataclass(frozen=True, slots=True, eq=False)
class Similarity(Result):
    """The similarity of each pair of representations; a single number for two.

    Arrays are read-only.
    """

    method: str
    values: NDArray[np.float64]
    """(row, column): 1 for the same; NaN if undefined."""
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    n_rows: int
    """Number of rows of the data that were compared."""
    row_units: tuple[int, ...] = ()
    column_units: tuple[int, ...] = ()
    is_within: bool = False
    """Whether rows and columns are the same representations."""
    correlations: NDArray[np.float64] | None = None
    """(row, column, correlation): canonical correlations, largest first, padded with NaN; None for CKA and RSA."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Options of the method: JSON-like."""
    notes: tuple[str, ...] = ()
    """Remarks on how the numbers were computed, and reasons not to trust them."""

    def __post_init__(self) -> None:
        make_read_only(self.values, self.correlations)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.row_names), len(self.column_names)

    @property
    def value(self) -> float:
        """The number, if two representations were compared."""
        if self.shape != (1, 1):
            raise InputError(
                f"{self.shape[0]} × {self.shape[1]} representations were compared: use similarity.values for all "
                "pairs, or similarity[row, column] for one."
            )
        return float(self.values[0, 0])

    def __float__(self) -> float:
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return to_array(self.values, dtype, copy is not False)  # small: a copy you may write to

    def __getitem__(self, key: tuple[int | str, int | str]) -> float:
        """The similarity of one pair, by names or indices."""
        row, column = key
        return float(self.values[_index(row, self.row_names), _index(column, self.column_names)])

    def table(self) -> Any:
        """One row per pair: a pandas DataFrame if pandas is installed, else a list of dicts."""
        return to_dataframe(
            {"row": row, "column": column, self.method: float(self.values[i, j])}
            for i, row in enumerate(self.row_names)
            for j, column in enumerate(self.column_names)
            if not self.is_within or i < j or not np.isclose(self.values[i, j], self.values[j, i], equal_nan=True)
        )

    def __repr__(self) -> str:
        title = f"Similarity by {self.described}"
        if self.shape == (1, 1):
            pair = f"{self.row_names[0]} and {self.column_names[0]}"
            return "\n".join([f"{title} of {pair} over {self.n_rows:,} rows: {self.value:.4g}", *self._note_lines()])
        head = f"{title} over {self.n_rows:,} rows: {self.shape[0]} × {self.shape[1]}"
        names = self.row_names[:_MOST_SHOWN]
        width = max(map(len, names))
        lines = [
            f"  {name:<{width}}  {' '.join(f'{value:.2f}' for value in self.values[row, :_MOST_SHOWN])}"
            f"{' …' if self.shape[1] > _MOST_SHOWN else ''}"
            for row, name in enumerate(names)
        ]
        more = [f"  and {self.shape[0] - _MOST_SHOWN} more"] if self.shape[0] > _MOST_SHOWN else []
        return "\n".join([head, *lines, *more, *self._note_lines()])

    @property
    def described(self) -> str:
        """The method in words."""
        name = {"cca": "CCA", "svcca": "SVCCA", "pwcca": "PWCCA", "cka": "CKA", "rsa": "RSA"}[self.method]
        if self.method == "cka":
            kernel = {"rbf": "RBF"}.get(str(self.about.get("kernel")), "linear")
            name = f"{'debiased ' if self.about.get('debiased') else ''}{kernel} CKA"
        return f"{name}, Ecco's rules" if self.about.get("compat") else name

    def _note_lines(self) -> list[str]:
        return [f"  {note}" for note in self.notes]


@dataclass(frozen=True, slots=True, eq=False)
class Dissimilarities(Result):
    """Dissimilarity of each pair of rows of a representation (an RDM)."""

    values: NDArray[np.float64]
    """(row, row): 0 on the diagonal."""
    metric: str
    names: tuple[str, ...] = ()
    """Names of the rows, if any."""

    def __post_init__(self) -> None:
        make_read_only(self.values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def upper(self) -> NDArray[np.float64]:
        """The dissimilarity of each row to each later one, as a vector."""
        vector: NDArray[np.float64] = self.values[np.triu_indices(len(self), 1)]
        return vector

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return to_array(self.values, dtype, copy is not False)  # small: a copy you may write to

    def name_of(self, row: int) -> str:
        """The name of a row, or its number if it has none."""
        return self.names[row] if self.names else str(row)

    def __repr__(self) -> str:
        upper = self.upper
        spread = f", {upper.min():.4g} to {upper.max():.4g}, median {np.median(upper):.4g}" if len(upper) else ""
        return f"Dissimilarities of {len(self):,} rows by {self.metric}{spread}"


def _index(key: int | str, names: Sequence[str]) -> int:
    if isinstance(key, str):
        if key not in names:
            raise InputError(f"there is no {key!r}; there are {listed(map(repr, names), _MOST_SHOWN)}.")
        return names.index(key)
    return key
