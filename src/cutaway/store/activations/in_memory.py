"""Wraps arrays and tensors as activations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.arrays import Array
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import listed, numbered, plural
from cutaway.core.sites import Site
from cutaway.store.activations.sources import CollectionInfo, MemorySource
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import Rows

UNNAMED: Final = "units"
"""The site of an array passed without a name."""


def memory_source(values: Any, words: Sequence[Any] | None, items: Any) -> MemorySource:
    """Wrap the arrays as one window; see `Activations.of`."""
    named = values if isinstance(values, Mapping) else {UNNAMED: values}
    if not named:
        raise InputError("got no array. Pass at least one.")
    arrays = {site: as_array(array, str(site)) for site, array in named.items()}
    for site in arrays:
        Site.parse(site)
    lengths = {site: len(array) for site, array in arrays.items()}
    n = next(iter(lengths.values()))
    if any(length != n for length in lengths.values()):
        first_sites = {length: site for site, length in reversed(lengths.items())}
        counts = listed(
            f"{plural(length, 'row')} of {first_sites[length]!r}{_others(n_sites - 1)}"
            for length, n_sites in Counter(lengths.values()).most_common()
        )
        raise InputError(f"all sites need the same number of rows, one per word or item. Got {counts}.")
    rows, flat = _rows(n, words, items)
    sites = tuple(CollectedSite(site, array.shape[1]) for site, array in arrays.items())
    n_items = len(words) if words is not None and _is_nested(words) else int(rows.item.max(initial=-1)) + 1
    return MemorySource(sites, tuple(arrays.values()), rows, flat, CollectionInfo(n_items))


def as_array(values: Any, what: str) -> Array:
    """A read-only float array `[row, unit]`, sharing memory if possible."""
    # NumPy cannot convert bfloat16 tensors, or tensors that require gradients; this module may not import torch.
    array = late.call("raw", values).array() if hasattr(values, "detach") else np.asarray(values)
    if array.dtype.kind in "biu":
        array = array.astype(np.float32)
    if array.dtype.kind != "f" or array.ndim != 2:
        raise InputTypeError(f"{what!r} must be numbers [row, unit], got {array.dtype} {list(array.shape)}.")
    if not array.shape[1]:
        raise InputError(f"{what!r} has no units.")
    view = array.view()
    view.flags.writeable = False
    return view


def _others(n: int) -> str:
    return f" and {plural(n, 'other')}" if n else ""


def _rows(n: int, words: Sequence[Any] | None, items: Any) -> tuple[Rows, Sequence[str]]:
    numbers = np.arange(n) if items is None else _items(items, n)
    if words is None:
        return Rows.of(numbers, word=_index_in_item(numbers)), _EmptyTexts(n)
    if isinstance(words, (str, bytes)):
        raise InputTypeError(f"words= must be a list with one text per row, got the single text {words!r}.")
    if not _is_nested(words):
        if len(words) != n:
            raise InputError(f"got {plural(len(words), 'word')} for {plural(n, 'row')}. Pass one word per row.")
        return Rows.of(numbers, word=_index_in_item(numbers)), [str(word) for word in words]
    if items is not None:
        raise InputError("nested words already define the items. Pass either nested words or items=.")
    lengths = [len(sentence) for sentence in words]
    if sum(lengths) != n:
        got = f"{plural(sum(lengths), 'word')} in {plural(len(lengths), 'item')}"
        raise InputError(f"got {got} for {plural(n, 'row')}. Pass one word per row.")
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    return Rows.of(numbers, word=_index_in_item(numbers)), [str(word) for word in chain.from_iterable(words)]


def _is_nested(words: Sequence[Any]) -> bool:
    return any(not isinstance(word, str) for word in words)


def _items(items: Any, n: int) -> NDArray[np.int64]:
    numbers = np.asarray(items)
    if numbers.shape != (n,) or numbers.dtype.kind not in "iu":
        raise InputError(f"items= must be {n:,} integers, one per row, got {numbers.dtype} {list(numbers.shape)}.")
    if n and numbers.min() < 0:
        negative = numbered("row", np.flatnonzero(numbers < 0))
        raise InputError(f"items= counts from 0, but it is negative for {negative}.")
    return numbers.astype(np.int64)


def _index_in_item(items: NDArray[np.int64]) -> NDArray[np.int32]:
    """For each row, its index within its item."""
    # Stable, so that the rows of an item keep their order even if items are interleaved.
    order = np.argsort(items, kind="stable")
    ordered = items[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    within = np.empty(len(items), np.int32)
    within[order] = np.arange(len(items)) - np.repeat(starts, np.diff(starts, append=len(items)))
    return within


class _EmptyTexts(Sequence[str]):
    """A sequence of `n` empty texts, without the memory."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: Any) -> Any:
        selected = range(self._n)[index]  # raises IndexError, which ends an iteration
        return [""] * len(selected) if isinstance(selected, range) else ""
