"""Converts rows to a pandas DataFrame if pandas is installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_dataframe(records: Iterable[dict[str, Any]]) -> Any:
    """Rows as a pandas DataFrame if pandas is installed, else as a list of dicts.

    >>> len(to_dataframe([{"step": 1, "loss": 0.5}]))
    1
    """
    rows = list(records)
    try:
        import pandas
    except ImportError:
        return rows
    try:
        return pandas.DataFrame.from_records(rows)
    except UnicodeEncodeError:  # a lone surrogate, which pandas cannot encode
        return pandas.DataFrame.from_records(
            [{_escape_surrogates(key): _escape_surrogates(row[key]) for key in row} for row in rows]
        )


def array_columns(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    """Columns of a table row: one for a number, one per entry of an array, named by its index.

    >>> array_columns("score", np.array(0.5)), array_columns("score", np.array([0.5, 0.25]))
    ({'score': 0.5}, {'score.0': 0.5, 'score.1': 0.25})
    """
    return {".".join([name, *map(str, index)]): float(value) for index, value in np.ndenumerate(values)}


def _escape_surrogates(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
