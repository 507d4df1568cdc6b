"""Windows of consecutive items: their rows, collected in memory or on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cutaway.core.arrays import Array
from cutaway.core.errors import InputError
from cutaway.core.formatting import plural
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.sources import CollectionInfo, MemorySource, Problem
from cutaway.store.activations.unit_selection import Units
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Dtype, Rows
from cutaway.store.format.frames import Plain
from cutaway.store.reading.archive import Archive

WINDOW_BYTES = 64 << 20
"""Approximate size of the values held in memory at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The rows of consecutive items, in the order of the corpus."""

    arrays: Mapping[str, Array]
    rows: Rows
    words: Sequence[str]
    n_items: int
    problems: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """Settings of a collection, in memory or on disk."""

    dtype: Dtype
    aggregate: str
    provenance: Mapping[str, Plain]


class Sweep(Protocol):
    """Runs a model over a corpus, window by window."""

    @property
    def sites(self) -> tuple[CollectedSite, ...]: ...

    @property
    def left_out(self) -> dict[str, str]:
        """Sites that a pattern matches but that have no rows and units → the reason."""

    def windows(self, done: int, dtype: Dtype) -> Iterator[Window]:
        """Collect everything after the first `done` items, in this dtype unless it overflows."""


def collect_in_memory(sweep: Sweep, settings: CollectionSettings) -> Activations:
    """Collect into memory."""
    windows = [_cast(window, settings.dtype) for window in sweep.windows(0, settings.dtype)]
    n_items = sum(window.n_items for window in windows)
    # The empty first part gives a corpus without rows its columns.
    arrays = tuple(
        np.concatenate([np.empty((0, site.width), settings.dtype), *(window.arrays[site.site] for window in windows)])
        for site in sweep.sites
    )
    names = ("item", "word", "first", "last")
    columns = {name: np.concatenate([getattr(window.rows, name) for window in windows]) for name in names}
    words = [word for window in windows for word in window.words]
    problems = [Problem(item, message) for window in windows for item, message in window.problems]
    about = CollectionInfo(n_items, settings.aggregate, dict(settings.provenance))
    source = MemorySource(sweep.sites, arrays, Rows(**columns), words, about, problems)
    return Activations(source, Units.all(sweep.sites))


def collect_to_disk(sweep: Sweep, settings: CollectionSettings, path: str | os.PathLike[str]) -> Activations:
    """Collect onto disk; resume if an interrupted collection is there."""
    writer = ActivationsWriter(
        path,
        sweep.sites,
        dtype=settings.dtype,
        aggregate=settings.aggregate,
        provenance=settings.provenance,
        resume=True,
    )
    with writer:
        for window in sweep.windows(writer.done, settings.dtype):
            writer.window(window.arrays, window.rows, window.words, n_items=window.n_items, problems=window.problems)
    return Activations.read(Archive(path))


def _cast(window: Window, dtype: Dtype) -> Window:
    if dtype == "float32":
        return window
    arrays: dict[str, Any] = {}
    for name, values in window.arrays.items():
        if values.dtype == dtype:
            arrays[name] = values
            continue
        # The error below names site, unit and item; NumPy's warning names none.
        with np.errstate(over="ignore"):
            arrays[name] = values.astype(dtype)
        overflows = np.argwhere(np.isinf(arrays[name]) & np.isfinite(values))
        if len(overflows):
            row, unit = overflows[0]
            raise InputError(
                f"{plural(len(overflows), 'value')} of {name!r} overflow {dtype}, first {values[row, unit]:.6g} "
                f"(unit {unit}, item {window.rows.item[row]}): collect with dtype='float32'."
            )
    return Window(arrays, window.rows, window.words, window.n_items, window.problems)
