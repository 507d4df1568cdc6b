"""Checks of arguments that several verbs share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text


def whole_number(value: Any, name: str, *, least: int = 1) -> int:
    """The value of an option that counts something.

    >>> whole_number(3, "k")
    3
    """
    # bool is an int in Python, and k=True is a mistake rather than 1. NumPy and 0-d torch integers have __index__.
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputTypeError(f"{name}={value!r} is {type_text(value)}: give a whole number, {least} or more.")
    if int(value) < least:
        raise InputError(f"{name}={value!r}: give a whole number, {least} or more.")
    return int(value)


def byte_limit(value: Any) -> int:
    """The value of `limit=`, in bytes.

    >>> byte_limit(1e9)
    1000000000
    """
    if isinstance(value, bool) or not (isinstance(value, float) or hasattr(value, "__index__")):
        raise InputTypeError(f"limit={value!r} is {type_text(value)}: give bytes, such as 4 * 2**30 for 4 GiB.")
    if value <= 0:
        raise InputError(f"limit={value!r}: give bytes, such as 4 * 2**30 for 4 GiB.")
    return int(value)


def as_list(value: Any) -> list[Any]:
    """Several values, or a single one, as a list; a text is a single value.

    >>> as_list(" is"), as_list(3), as_list((1, 2))
    ([' is'], [3], [1, 2])
    """
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)


def option_names(names: Any) -> str:
    """Options as they are written in a call.

    >>> option_names(["top_k", "seed"])
    'top_k=, seed='
    """
    return ", ".join(f"{name}=" for name in names)
