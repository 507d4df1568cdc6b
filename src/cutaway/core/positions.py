"""Checks the position in `sequence[position]`, with errors that say what the sequence holds."""

from __future__ import annotations

import operator
from typing import Any

from cutaway.core.arrays import short_repr
from cutaway.core.errors import InputTypeError, PositionError
from cutaway.core.formatting import plural


def position(key: Any, n: int, owner: str, *, noun: str = "op", hint: str = "") -> int:
    """The position as a plain integer; raises `PositionError` if it is out of range.

    >>> position(-1, 3, "this selection")
    -1

    Args:
        key: the index in the brackets.
        n: the length of the sequence.
        owner: what is indexed, for messages: "this trace".
        noun: what it holds.
        hint: what to use instead of a key that is not a position.
    """
    try:
        # Accepts NumPy integers. A bool would be 0 or 1, and is a mistake in practice: `trace[mask]`.
        number = operator.index(key) if not isinstance(key, bool) else None
    except TypeError:
        number = None
    if number is None:
        raise InputTypeError(f"index {owner} by position or slice, got {short_repr(key)}.{hint}")
    if not -n <= number < n:
        valid = f", at positions 0 to {n - 1}" if n else ""
        raise PositionError(f"position {number} is out of range: {owner} has {plural(n, noun)}{valid}.")
    return number
