"""Encodes views as JSON, optionally compressed."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

from cutaway.layout.graph_view import plain

_LEVEL = 6


def to_json(value: Any) -> str:
    """Encode a view, or a list of views, as JSON. NaN and infinities become null.

    >>> to_json([1.5, float("nan")])
    '[1.5,null]'
    """
    data = plain(value)
    try:
        return _json(data)
    except ValueError:  # rare; checking every number first would cost more than all the rest
        return _json(_finite(data))


def to_compressed_json(value: Any) -> bytes:
    """Encode as JSON, compressed for the browser's `DecompressionStream("deflate")`.

    >>> zlib.decompress(to_compressed_json([1, 2]))
    b'[1,2]'
    """
    return zlib.compress(to_json(value).encode(), _LEVEL)


def _json(data: Any) -> str:
    encoded = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Lone surrogates, from names that could not be decoded, cannot be encoded as UTF-8.
    return encoded if encoded.isascii() else encoded.encode("utf-8", "replace").decode()


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(item) for key, item in data.items()}
    return [_finite(item) for item in data] if isinstance(data, list) else data
