"""Validates fields of decoded records, which are untrusted input; raises `DamagedError`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError
from cutaway.core.formatting import type_text

_MOST = 1 << 63


def count(value: Any, what: str) -> int:
    """An integer from 0."""
    # Not isinstance: True is an int, and a boolean where a count belongs is damage.
    if type(value) is not int or not 0 <= value < _MOST:
        raise DamagedError(f"{what} is {_shown(value)}, expected an integer from 0")
    return value


def counts(value: Any, what: str) -> tuple[int, ...]:
    """A list of integers from 0."""
    if not isinstance(value, list):
        raise DamagedError(f"{what} is {_shown(value)}, expected a list of integers")
    return tuple(count(item, what) for item in value)


def number(value: Any, what: str) -> float:
    """A float."""
    if type(value) not in (int, float):
        raise DamagedError(f"{what} is {_shown(value)}, expected a number")
    return float(value)


def text(value: Any, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise DamagedError(f"{what} is {_shown(value)}, expected text")
    return value


def texts(value: Any, what: str) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list):
        raise DamagedError(f"{what}: {_shown(value)}, expected a list of texts")
    return tuple(text(item, what) for item in value)


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """A map with text keys; None becomes an empty map."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DamagedError(f"{what} is {_shown(value)}, expected a map with text keys")
    return cast(Mapping[str, Any], plain(value, what))


def plain(value: Any, what: str) -> Any:
    """Nested plain data whose maps have text keys only."""
    # A list of pending items, not recursion: nested data from a file could exhaust the stack.
    pending = [value] if isinstance(value, (dict, list)) else []
    while pending:
        item = pending.pop()
        if isinstance(item, dict) and not all(isinstance(key, str) for key in item):
            raise DamagedError(f"{what} has a map with keys that are not text")
        parts = item.values() if isinstance(item, dict) else item
        pending += [part for part in parts if isinstance(part, (dict, list))]
    return value


def packed_array(value: Any, dtype: str, what: str) -> NDArray[Any]:
    """An array from packed bytes."""
    if not isinstance(value, bytes) or len(value) % np.dtype(dtype).itemsize:
        raise DamagedError(f"{what}: {_shown(value)}, expected packed numbers")
    return np.frombuffer(value, dtype)


def _shown(value: Any) -> str:
    if isinstance(value, (str, bytes)):
        value = value[:60]
    shown = repr(value) if isinstance(value, (str, bytes, int, float, type(None))) else f"{type_text(value)}"
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
