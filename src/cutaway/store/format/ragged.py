"""Ragged lists as flat arrays with offsets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError, InputError

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


def join_strings(texts: Sequence[str]) -> tuple[Bytes, Ints]:
    """Concatenate texts as UTF-8; returns the bytes and offsets. Lone surrogates survive.

    >>> data, offsets = join_strings(["ab", "", "c"])
    >>> bytes(data), offsets.tolist()
    (b'abc', [0, 2, 2, 3])
    """
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return np.frombuffer(b"".join(encoded), np.uint8), _offsets(list(map(len, encoded)))


def split_strings(data: Array, offsets: Array) -> list[str]:
    """Inverse of `join_strings`; `DamagedError` if the arrays are inconsistent."""
    if data.ndim != 1 or data.dtype != np.uint8:
        raise DamagedError(f"texts must be 1-D uint8, found {data.dtype} of shape {data.shape}.")
    starts = _checked(offsets, len(data))
    raw = data.tobytes()
    try:
        if raw.isascii():  # one decode call for all is several times faster
            text = raw.decode("ascii")
            return [text[a:b] for a, b in pairwise(starts)]
        return [raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(starts)]
    except UnicodeDecodeError as error:
        raise DamagedError(f"a stored text is not UTF-8: {error.reason} at byte {error.start}.") from error


def join_ints(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Concatenate lists of integers; returns the numbers and offsets.

    >>> flat, offsets = join_ints([[5, 6], [], [7]])
    >>> flat.tolist(), offsets.tolist()
    ([5, 6, 7], [0, 2, 2, 3])
    """
    offsets = _offsets(list(map(len, rows)))
    try:
        return np.fromiter(chain.from_iterable(rows), np.int64, count=int(offsets[-1])), offsets
    except OverflowError as error:
        raise InputError("an integer beyond 64 bits cannot be stored; the range is -2**63 to 2**63 - 1.") from error


def split_ints(flat: Array, offsets: Array) -> list[list[int]]:
    """Inverse of `join_ints`; `DamagedError` if the arrays are inconsistent."""
    if flat.ndim != 1 or flat.dtype.kind not in "iu":
        raise DamagedError(f"numbers must be 1-D integers, found {flat.dtype} of shape {flat.shape}.")
    starts = _checked(offsets, len(flat))
    numbers = flat.tolist()
    return [numbers[a:b] for a, b in pairwise(starts)]


def join_string_lists(rows: Sequence[Sequence[str]]) -> tuple[Bytes, Ints, Ints]:
    """Concatenate lists of texts; returns the bytes, the offsets of texts, and the offsets of lists.

    >>> data, inner, outer = join_string_lists([["ab", "c"], []])
    >>> bytes(data), inner.tolist(), outer.tolist()
    (b'abc', [0, 2, 3], [0, 2, 2])
    """
    data, inner = join_strings(list(chain.from_iterable(rows)))
    return data, inner, _offsets(list(map(len, rows)))


def split_string_lists(data: Array, inner: Array, outer: Array) -> list[list[str]]:
    """Inverse of `join_string_lists`; `DamagedError` if the arrays are inconsistent."""
    texts = split_strings(data, inner)
    starts = _checked(outer, len(texts))
    return [texts[a:b] for a, b in pairwise(starts)]


def _offsets(lengths: list[int]) -> Ints:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _checked(offsets: Array, n: int) -> list[int]:
    """The offsets as integers, if they split `n` elements without gap or overlap; else DamagedError."""
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or not len(offsets):
        raise DamagedError(f"offsets must be 1-D integers, found {offsets.dtype} of shape {offsets.shape}.")
    if offsets[0] != 0 or offsets[-1] != n or (offsets[1:] < offsets[:-1]).any():
        raise DamagedError(
            f"offsets must rise from 0 to {n:,}, but they go from {offsets[0]} to {offsets[-1]}"
            f"{' and decrease in between' if (offsets[1:] < offsets[:-1]).any() else ''}."
        )
    return list(offsets.tolist())
