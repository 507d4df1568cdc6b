"""The arguments of a call in words, the same in every run of the same program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_MOST_ITEMS, _MOST_DEPTH, _MOST_TEXT = 32, 6, 200
_PLAIN = (bool, int, float, complex, bytes, type(None))


def said(args: tuple[Any, ...], kwargs: Mapping[str, Any], is_tensor: Callable[[Any], bool]) -> str:
    """
    >>> said((1, [2.5, None]), {"dim": slice(0, 3)}, lambda value: False)
    '1, [2.5, None], dim=0:3'
    """
    words = [_word(value, is_tensor, 0) for value in args]
    words += [f"{name}={_word(value, is_tensor, 0)}" for name, value in kwargs.items()]
    return ", ".join(words)


def _word(value: Any, is_tensor: Callable[[Any], bool], depth: int) -> str:
    if is_tensor(value):
        return "·"
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, str):
        return repr(value[:_MOST_TEXT])
    if isinstance(value, slice):
        parts = [value.start, value.stop] if value.step is None else [value.start, value.stop, value.step]
        return ":".join("" if part is None else _word(part, is_tensor, depth) for part in parts)
    if depth < _MOST_DEPTH and isinstance(value, (list, tuple)):
        inner = [_word(item, is_tensor, depth + 1) for item in value[:_MOST_ITEMS]]
        inner += ["…"] * (len(value) > _MOST_ITEMS)
        return f"[{', '.join(inner)}]"
    if depth < _MOST_DEPTH and isinstance(value, Mapping):
        pairs = [f"{key}: {_word(item, is_tensor, depth + 1)}" for key, item in list(value.items())[:_MOST_ITEMS]]
        return f"{{{', '.join(pairs)}}}"
    if value is ...:
        return "..."
    if type(value).__name__ in ("dtype", "device", "layout", "memory_format"):
        return str(value).removeprefix("torch.")
    return getattr(value, "__name__", None) or type(value).__name__
