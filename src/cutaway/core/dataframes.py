"""Rows as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def framed(records: Iterable[dict[str, Any]]) -> Any:
    """Rows as a pandas DataFrame where pandas is installed, else as a list of dicts.

    >>> len(framed([{"step": 1, "loss": 0.5}]))
    1
    """
    rows = list(records)
    try:
        import pandas
    except ImportError:
        return rows
    try:
        return pandas.DataFrame.from_records(rows)
    except UnicodeEncodeError:  # half a surrogate pair, which pandas cannot hold
        return pandas.DataFrame.from_records([{_whole(key): _whole(row[key]) for key in row} for row in rows])


def array_columns(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    """Columns of a table row: one for a number, one per entry of an array, named by its index.

    >>> array_columns("score", np.array(0.5)), array_columns("score", np.array([0.5, 0.25]))
    ({'score': 0.5}, {'score.0': 0.5, 'score.1': 0.25})
    """
    return {".".join([name, *map(str, index)]): float(value) for index, value in np.ndenumerate(values)}


def _whole(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
