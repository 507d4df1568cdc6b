"""`Activations.save`: writes the selected rows and units window by window."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Dtype, Rows

if TYPE_CHECKING:
    from cutaway.store.activations.activations import Activations

WINDOW_BYTES: Final = 32 << 20
"""Approximate size of a window."""


def save(acts: Activations, path: str | os.PathLike[str], sites: tuple[CollectedSite, ...]) -> None:
    """Write activations to a new folder."""
    items = acts.items
    if (np.diff(items) < 0).any():
        raise InputError("rows must be in corpus order. Sort them: acts.rows(np.sort(indices)).")
    dtype: Dtype = "float16" if acts.dtype == np.float16 else "float32"
    width = acts.n_units * np.dtype(dtype).itemsize
    problems = acts.problems
    with ActivationsWriter(path, sites, dtype=dtype, aggregate=acts.aggregate, provenance=acts.provenance) as writer:
        for first, stop in windows(items, acts.n_items, max(WINDOW_BYTES // width, 1)):
            start, end = np.searchsorted(items, [first, stop]).tolist()
            part, tokens = acts.rows(slice(start, end)), acts.tokens[start:end]
            writer.window(
                {site: part.at(site).array(dtype, most_bytes=None) for site in acts.sites},
                Rows.of(items[start:end], word=acts.word_index[start:end], first=tokens[:, 0], last=tokens[:, 1]),
                list(part.words),
                n_items=stop - first,
                problems=[(problem.item, problem.what) for problem in problems if first <= problem.item < stop],
            )


def windows(items: NDArray[np.int64], n_items: int, n_rows: int) -> Iterator[tuple[int, int]]:
    """Group items into windows of about `n_rows` rows, without splitting an item.

    >>> list(windows(np.array([0, 0, 1, 3, 3]), 5, 2))
    [(0, 1), (1, 3), (3, 5)]
    """
    first = start = 0
    while first < n_items:
        end = start + n_rows
        # At least one item, even if it alone has more rows than a window should have.
        stop = n_items if end >= len(items) else max(int(items[end]), first + 1)
        yield first, stop
        first, start = stop, int(np.searchsorted(items, stop))
