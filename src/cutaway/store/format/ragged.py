"""Lists of unequal length as flat arrays and the offsets at which each begins."""

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
    """The texts as one row of UTF-8, and where each begins; half a surrogate pair survives, too.

    >>> data, offsets = join_strings(["ab", "", "c"])
    >>> bytes(data), offsets.tolist()
    (b'abc', [0, 2, 2, 3])
    """
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return np.frombuffer(b"".join(encoded), np.uint8), _offsets(list(map(len, encoded)))


def split_strings(data: Array, offsets: Array) -> list[str]:
    """The texts that `join_strings` was given; `DamagedError` if the arrays cannot be its work."""
    if data.ndim != 1 or data.dtype != np.uint8:
        raise DamagedError(f"texts are a row of bytes, but a {data.dtype} array of shape {data.shape} was found.")
    starts = _checked(offsets, len(data))
    raw = data.tobytes()
    try:
        if raw.isascii():  # one decoding for all: several times as fast
            text = raw.decode("ascii")
            return [text[a:b] for a, b in pairwise(starts)]
        return [raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(starts)]
    except UnicodeDecodeError as error:
        raise DamagedError(f"a stored text is not UTF-8: {error.reason} at byte {error.start}.") from error


def join_ints(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """The numbers of all rows in one, and where each row begins.

    >>> flat, offsets = join_ints([[5, 6], [], [7]])
    >>> flat.tolist(), offsets.tolist()
    ([5, 6, 7], [0, 2, 2, 3])
    """
    offsets = _offsets(list(map(len, rows)))
    try:
        return np.fromiter(chain.from_iterable(rows), np.int64, count=int(offsets[-1])), offsets
    except OverflowError as error:
        raise InputError("a number beyond 64 bits cannot be stored: numbers go from -2**63 to 2**63 - 1.") from error


def split_ints(flat: Array, offsets: Array) -> list[list[int]]:
    """The rows that `join_ints` was given; `DamagedError` if the arrays cannot be its work."""
    if flat.ndim != 1 or flat.dtype.kind not in "iu":
        raise DamagedError(f"numbers are a row of integers, but a {flat.dtype} array of shape {flat.shape} was found.")
    starts = _checked(offsets, len(flat))
    numbers = flat.tolist()
    return [numbers[a:b] for a, b in pairwise(starts)]


def join_string_lists(rows: Sequence[Sequence[str]]) -> tuple[Bytes, Ints, Ints]:
    """The texts of all rows as `join_strings` has them, and at which text each row begins.

    >>> data, inner, outer = join_string_lists([["ab", "c"], []])
    >>> bytes(data), inner.tolist(), outer.tolist()
    (b'abc', [0, 2, 3], [0, 2, 2])
    """
    data, inner = join_strings(list(chain.from_iterable(rows)))
    return data, inner, _offsets(list(map(len, rows)))


def split_string_lists(data: Array, inner: Array, outer: Array) -> list[list[str]]:
    """The rows that `join_string_lists` was given; `DamagedError` if the arrays cannot be its work."""
    texts = split_strings(data, inner)
    starts = _checked(outer, len(texts))
    return [texts[a:b] for a, b in pairwise(starts)]


def _offsets(lengths: list[int]) -> Ints:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _checked(offsets: Array, n: int) -> list[int]:
    """The offsets as plain numbers, if they cut `n` elements into rows without gap or overlap."""
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or not len(offsets):
        raise DamagedError(f"offsets are a row of integers, but a {offsets.dtype} array of {offsets.shape} was found.")
    if offsets[0] != 0 or offsets[-1] != n or (offsets[1:] < offsets[:-1]).any():
        raise DamagedError(
            f"offsets rise from 0 to {n:,}, the number of elements, but these go from {offsets[0]} to {offsets[-1]}"
            f"{', with falls between' if (offsets[1:] < offsets[:-1]).any() else ''}."
        )
    return list(offsets.tolist())
