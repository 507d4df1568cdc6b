"""Arrays and tensors at hand as activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.arrays import Array
from cutaway.core.errors import InputError
from cutaway.core.sites import Site
from cutaway.store.activations.sources import About, MemorySource
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import Rows

UNNAMED: Final = "units"
"""The site of an array of which nobody says where it comes from."""


def source_of(values: Any, words: Sequence[Any] | None, items: Any) -> MemorySource:
    """The arrays as one window; `Activations.of` says more."""
    named = values if isinstance(values, Mapping) else {UNNAMED: values}
    if not named:
        raise InputError("no array was given: activations have at least one site.")
    arrays = {site: as_array(array, str(site)) for site, array in named.items()}
    for site in arrays:
        Site.parse(site)
    lengths = {site: len(array) for site, array in arrays.items()}
    n = next(iter(lengths.values()))
    if any(length != n for length in lengths.values()):
        said = ", ".join(f"{site!r} has {length:,}" for site, length in lengths.items())
        raise InputError(f"every site has the same rows, but {said}.")
    rows, flat = _rows(n, words, items)
    sites = tuple(CollectedSite(site, array.shape[1]) for site, array in arrays.items())
    n_items = len(words) if words is not None and _is_nested(words) else int(rows.item.max(initial=-1)) + 1
    return MemorySource(sites, tuple(arrays.values()), rows, flat, About(n_items))


def as_array(values: Any, what: str) -> Array:
    """A read-only array `[row, unit]` of floats on the same memory, where that can be."""
    found = late.call("raw", values).array() if hasattr(values, "detach") else np.asarray(values)
    if found.dtype.kind in "biu":
        found = found.astype(np.float32)
    if found.dtype.kind != "f" or found.ndim != 2:
        raise InputError(f"{what!r} is {found.dtype} of shape {list(found.shape)}: rows × units of numbers are wanted.")
    if not found.shape[1]:
        raise InputError(f"{what!r} has no unit.")
    view = found.view()
    view.flags.writeable = False
    return view


def _rows(n: int, words: Sequence[Any] | None, items: Any) -> tuple[Rows, Sequence[str]]:
    numbers = np.arange(n) if items is None else _items(items, n)
    if words is None:
        return Rows.of(numbers, word=_within(numbers)), _Blank(n)
    if not _is_nested(words):
        if len(words) != n:
            raise InputError(f"{len(words):,} words for {n:,} rows: each row has one.")
        return Rows.of(numbers, word=_within(numbers)), [str(word) for word in words]
    if items is not None:
        raise InputError("words in lists say which item they belong to: give either such lists or items=.")
    lengths = [len(sentence) for sentence in words]
    if sum(lengths) != n:
        raise InputError(
            f"{len(lengths):,} items of {sum(lengths):,} words, and there are {n:,} rows: each word has one."
        )
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    return Rows.of(numbers, word=_within(numbers)), [str(word) for word in chain.from_iterable(words)]


def _is_nested(words: Sequence[Any]) -> bool:
    return any(not isinstance(word, str) for word in words)


def _items(items: Any, n: int) -> NDArray[np.int64]:
    found = np.asarray(items)
    if found.shape != (n,) or found.dtype.kind not in "iu" or (n and found.min() < 0):
        raise InputError(f"items are {n:,} whole numbers from 0, one a row, not {found.dtype} of {list(found.shape)}.")
    return found.astype(np.int64)


def _within(items: NDArray[np.int64]) -> NDArray[np.int32]:
    """For each row, how many of its item stand before it."""
    order = np.argsort(items, kind="stable")
    ordered = items[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    found = np.empty(len(items), np.int32)
    found[order] = np.arange(len(items)) - np.repeat(starts, np.diff(starts, append=len(items)))
    return found


class _Blank(Sequence[str]):
    """As many empty texts as there are rows."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: Any) -> Any:
        found = range(self._n)[index]  # which raises where there is none: this ends an iteration
        return [""] * len(found) if isinstance(found, range) else ""
