"""Views as compressed JSON, the form in which they travel to a browser."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

from cutaway.layout.graph_view import plain

_LEVEL = 6


def text(value: Any) -> str:
    """A view, or a list of views, as JSON. Numbers that JSON has no word for (NaN, infinities) become null.

    >>> text([1.5, float("nan")])
    '[1.5,null]'
    """
    data = plain(value)
    try:
        return _json(data)
    except ValueError:  # rare, and looking at every number first would cost more than all the rest
        return _json(_finite(data))


def packed(value: Any) -> bytes:
    """The same, compressed as the browser's `DecompressionStream("deflate")` takes it.

    >>> zlib.decompress(packed([1, 2]))
    b'[1,2]'
    """
    return zlib.compress(text(value).encode(), _LEVEL)


def _json(data: Any) -> str:
    found = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Halves of surrogate pairs, from names that could not be decoded, cannot be encoded either.
    return found if found.isascii() else found.encode("utf-8", "replace").decode()


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(item) for key, item in data.items()}
    return [_finite(item) for item in data] if isinstance(data, list) else data
