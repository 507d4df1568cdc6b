"""Rows as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


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
    return pandas.DataFrame.from_records(rows)
