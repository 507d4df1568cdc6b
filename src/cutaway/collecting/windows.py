"""Windows: the rows of some items that follow each other in the corpus, and where they go."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cutaway.core.arrays import Array
from cutaway.core.errors import InputError
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.sources import CollectionInfo, MemorySource, Problem
from cutaway.store.activations.unit_selection import Units
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Dtype, Rows
from cutaway.store.format.frames import Plain
from cutaway.store.reading.archive import Archive

WINDOW_BYTES = 64 << 20
"""About as many bytes of values are in memory at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """The rows of some items, in the order of the corpus."""

    arrays: Mapping[str, Array]
    rows: Rows
    words: Sequence[str]
    n_items: int
    problems: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """What a collection is, whoever writes it down."""

    dtype: Dtype
    aggregate: str
    provenance: Mapping[str, Plain]


class Sweep(Protocol):
    """Goes over a corpus."""

    @property
    def sites(self) -> tuple[CollectedSite, ...]: ...

    @property
    def left_out(self) -> dict[str, str]:
        """Sites that a pattern covers and that have no rows and units, with the reason."""

    def windows(self, done: int, dtype: Dtype) -> Iterator[Filled]:
        """All that comes after the first `done` items, in this type where it fits."""


def gathered(sweep: Sweep, settings: Settings) -> Activations:
    """A sweep into memory."""
    windows = [_cast(window, settings.dtype) for window in sweep.windows(0, settings.dtype)]
    n_items = sum(window.n_items for window in windows)
    arrays = tuple(
        np.concatenate([np.empty((0, site.width), settings.dtype), *(window.arrays[site.site] for window in windows)])
        for site in sweep.sites
    )
    names = ("item", "word", "first", "last")
    columns = {name: np.concatenate([getattr(window.rows, name) for window in windows]) for name in names}
    words = [word for window in windows for word in window.words]
    problems = [Problem(item, said) for window in windows for item, said in window.problems]
    about = CollectionInfo(n_items, settings.aggregate, dict(settings.provenance))
    source = MemorySource(sweep.sites, arrays, Rows(**columns), words, about, problems)
    return Activations(source, Units.all(sweep.sites))


def written(sweep: Sweep, settings: Settings, path: str | os.PathLike[str]) -> Activations:
    """A sweep onto disk; one that was interrupted there goes on where it was."""
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


def _cast(window: Filled, dtype: Dtype) -> Filled:
    if dtype == "float32":
        return window
    arrays: dict[str, Any] = {}
    for name, values in window.arrays.items():
        if values.dtype == dtype:
            arrays[name] = values
            continue
        with np.errstate(over="ignore"):
            arrays[name] = values.astype(dtype)
        lost = np.argwhere(np.isinf(arrays[name]) & np.isfinite(values))
        if len(lost):
            row, unit = lost[0]
            raise InputError(
                f"{len(lost):,} values of {name!r} do not fit into {dtype}, the first of them {values[row, unit]:.6g} "
                f"of unit {unit} in item {window.rows.item[row]}: collect with dtype='float32'."
            )
    return Filled(arrays, window.rows, window.words, window.n_items, window.problems)
