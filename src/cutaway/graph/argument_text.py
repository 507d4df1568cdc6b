"""Deterministic text for the arguments of a call: the same in every run of the same program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST_ITEMS, _MOST_DEPTH, _MOST_TEXT = 32, 6, 200
_PLAIN = (bool, int, float, complex, str, bytes)
_BASES: dict[type, Callable[[Any], Any]] = {**{kind: kind for kind in _PLAIN}, str: str.__str__}
"""`str(member)` of a string enumeration is its name; `str.__str__` gives its value."""


@dataclass(frozen=True, slots=True)
class OpaqueArgument:
    """Placeholder for an argument that is not plain data, in a trace that was loaded from disk."""

    name: str
    """Its text in `arguments_text`: `float32`, `Generator`."""
    text: str
    """Its shortened `repr`: `torch.float32`."""

    def __repr__(self) -> str:
        return self.text


def plain(value: Any) -> Any:
    """Convert numbers and strings, also of subclasses and NumPy types, to built-in types; leave the rest.

    >>> plain(np.float64(0.5)), plain(np.int64(3))
    (0.5, 3)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in _BASES:
        return value
    return next((base(value) for kind, base in _BASES.items() if isinstance(value, kind)), value)


def arguments_text(args: tuple[Any, ...], kwargs: Mapping[str, Any], is_tensor: Callable[[Any], bool]) -> str:
    """
    >>> arguments_text((1, [2.5, None]), {"dim": slice(0, 3)}, lambda value: False)
    '1, [2.5, None], dim=0:3'
    """
    words = [value_text(value, is_tensor) for value in args]
    words += [f"{name}={value_text(value, is_tensor)}" for name, value in kwargs.items()]
    return ", ".join(words)


def value_text(value: Any, is_tensor: Callable[[Any], bool], depth: int = 0) -> str:
    """The text of one argument; `·` for a tensor."""
    if is_tensor(value):
        return "·"
    value = plain(value)
    if isinstance(value, str):
        return repr(value if len(value) <= _MOST_TEXT else f"{value[:_MOST_TEXT]}…")
    if value is None or isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, OpaqueArgument):
        return value.name
    if isinstance(value, slice):
        parts = [value.start, value.stop] if value.step is None else [value.start, value.stop, value.step]
        return ":".join("" if part is None else value_text(part, is_tensor, depth) for part in parts)
    if depth < _MOST_DEPTH and isinstance(value, (list, tuple)):
        inner = [value_text(item, is_tensor, depth + 1) for item in value[:_MOST_ITEMS]]
        inner += ["…"] * (len(value) > _MOST_ITEMS)
        return f"[{', '.join(inner)}]"
    if depth < _MOST_DEPTH and isinstance(value, Mapping):
        pairs = [f"{key}: {value_text(item, is_tensor, depth + 1)}" for key, item in list(value.items())[:_MOST_ITEMS]]
        pairs += ["…"] * (len(value) > _MOST_ITEMS)
        return f"{{{', '.join(pairs)}}}"
    if value is ...:
        return "..."
    if type(value).__name__ in ("dtype", "device", "layout", "memory_format"):
        return str(value).removeprefix("torch.")
    return getattr(value, "__name__", None) or type(value).__name__
