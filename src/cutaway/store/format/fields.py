"""Fields of records of unknown origin: each is what it should be, or `DamagedError` says what it is instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError

_MOST = 1 << 63


def count(value: Any, what: str) -> int:
    """A whole number from 0."""
    if type(value) is not int or not 0 <= value < _MOST:
        raise DamagedError(f"{what} is {_shown(value)} instead of a whole number from 0")
    return value


def counts(value: Any, what: str) -> tuple[int, ...]:
    """Whole numbers from 0."""
    if not isinstance(value, list):
        raise DamagedError(f"{what} is {_shown(value)} instead of a list of whole numbers")
    return tuple(count(item, what) for item in value)


def number(value: Any, what: str) -> float:
    """A float."""
    if type(value) not in (int, float):
        raise DamagedError(f"{what} is {_shown(value)} instead of a number")
    return float(value)


def text(value: Any, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise DamagedError(f"{what} is {_shown(value)} instead of text")
    return value


def texts(value: Any, what: str) -> tuple[str, ...]:
    """Several texts."""
    if not isinstance(value, list):
        raise DamagedError(f"{what}: {_shown(value)} instead of a list of texts")
    return tuple(text(item, what) for item in value)


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """A map with texts as keys; nothing counts as an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DamagedError(f"{what} is {_shown(value)} instead of a map with texts as keys")
    return cast(Mapping[str, Any], plain(value, what))


def plain(value: Any, what: str) -> Any:
    """Whatever a user may have handed in: every key in it is text."""
    unseen = [value] if isinstance(value, (dict, list)) else []
    while unseen:
        found = unseen.pop()
        if isinstance(found, dict) and not all(isinstance(key, str) for key in found):
            raise DamagedError(f"{what} holds a map with keys that are no text")
        parts = found.values() if isinstance(found, dict) else found
        unseen += [part for part in parts if isinstance(part, (dict, list))]
    return value


def packed(value: Any, dtype: str, what: str) -> NDArray[Any]:
    """An array that was packed into bytes."""
    if not isinstance(value, bytes) or len(value) % np.dtype(dtype).itemsize:
        raise DamagedError(f"{what}: {_shown(value)} instead of packed numbers")
    return np.frombuffer(value, dtype)


def _shown(value: Any) -> str:
    if isinstance(value, (str, bytes)):
        value = value[:60]
    shown = repr(value) if isinstance(value, (str, bytes, int, float, type(None))) else f"a {type(value).__name__}"
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
