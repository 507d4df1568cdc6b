"""Activations: rows of a corpus × units of a model, in memory or on disk, read block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from cutaway.core.arrays import Array
from cutaway.core.errors import InputError, InputTypeError, MemoryLimitError
from cutaway.core.formatting import plural
from cutaway.core.units.layout import UnitLayout
from cutaway.store.activations.in_memory import memory_source
from cutaway.store.activations.save import save
from cutaway.store.activations.shards import JoinedSource
from cutaway.store.activations.sources import ArchiveSource, Problem, Source
from cutaway.store.activations.unit_selection import UnitNames, Units, as_indices
from cutaway.store.activations.words import Words
from cutaway.store.neurox.read import convert, read_neurox
from cutaway.store.neurox.write import write_neurox
from cutaway.store.reading.archive import Archive

MOST_BYTES = 4 << 30
_ROWS_AT_ONCE = 8192


class Activations:
    """The values of some units of a model for every row of a corpus; a row is a word, a token or an item.

        acts = cutaway.load("acts")                      # or what cutaway.collect returns
        acts.shape, acts.sites                           # rows × units
        acts["encoder.layer.3"].array()                  # the units of one site
        for rows, values in acts.blocks(): ...           # float32, a part at a time

    Selecting sites, rows or units copies nothing: values are read on access.
    """

    __iter__ = None  # iterate over blocks() instead

    def __init__(self, source: Source, units: Units, rows: NDArray[np.int64] | None = None) -> None:
        self._source = source
        self._units = units
        self._rows = rows

    @classmethod
    def of(
        cls,
        values: ArrayLike | Mapping[str, ArrayLike],
        *,
        words: Sequence[str] | Sequence[Sequence[str]] | None = None,
        items: ArrayLike | None = None,
    ) -> Activations:
        """Wrap arrays or tensors as activations, without a copy.

        >>> acts = Activations.of({"encoder.layer.3": np.zeros((3, 4))}, words=[["a", "b"], ["c"]])
        >>> acts.shape, acts.names[1], acts.items.tolist()
        ((3, 4), 'encoder.layer.3#1', [0, 0, 1])

        Args:
            values: an array `[row, unit]`, or a mapping from site to array.
            words: the text of each row, or a list of texts per item.
            items: the sentence or sample of each row, counted from 0; by default each row is its own item.
        """
        source = memory_source(values, words, items)
        return cls(source, Units.all(source.sites))

    @classmethod
    def read(cls, archive: Archive) -> Activations:
        """Open the activations in an archive."""
        source = ArchiveSource(archive)
        return cls(source, Units.all(source.sites))

    @classmethod
    def join(cls, parts: Sequence[Activations]) -> Activations:
        """Concatenate parts of one collection along rows; item numbers continue. Nothing is copied.

        Args:
            parts: complete collections with the same sites, dtype and settings.

        >>> halves = [Activations.of([[0.1], [0.2]], items=[0, 1]), Activations.of([[0.3]])]
        >>> Activations.join(halves).items.tolist()
        [0, 1, 2]
        """
        for number, part in enumerate(parts):
            if part._rows is not None or part._units.sites != tuple(part._source.sites):
                raise InputError(f"part {number} is a selection of rows or units. Join complete parts, then select.")
        source = JoinedSource([part._source for part in parts])
        return cls(source, Units.all(source.sites))

    # Description

    def __len__(self) -> int:
        return int(self._source.starts[-1]) if self._rows is None else len(self._rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and units."""
        return len(self), len(self._units)

    ndim = 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the stored values."""
        return self._source.dtype

    @property
    def n_units(self) -> int:
        return len(self._units)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of the units, in order."""
        return tuple(site.site for site in self._units.sites)

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of units of each site."""
        return tuple(site.width for site in self._units.sites)

    @property
    def names(self) -> UnitNames:
        """The name of each unit: `encoder.layer.3#17`."""
        return self._units.names

    @property
    def layouts(self) -> Mapping[str, UnitLayout]:
        """For each site, which dimensions of its value are units, samples and positions; sites without a known layout
        are missing."""
        return {site.site: site.layout for site in self._units.sites if site.layout is not None}

    @property
    def unit_rule(self) -> Literal["graph", "sizes", ""]:
        """How units were counted: "graph" (from the model's graph), "sizes" (guessed from sizes by an older version of
        Cutaway; the units may differ from those of the same name in an edit or a trace), or "" (arrays you passed)."""
        if any(site.layout for site in self._units.known):
            return "graph"
        return "sizes" if "model" in self.provenance else ""

    @property
    def left_out(self) -> Mapping[str, str]:
        """Sites that matched a pattern but have no rows and units, with the reason."""
        return dict(self.provenance.get("left_out") or {})

    def site_of(self, unit: int) -> tuple[str, int]:
        """The site of a unit and its index there.

        Args:
            unit: index of the unit.
        """
        return self._units.site_of(unit)

    def numbers(self, site: str) -> NDArray[np.int64]:
        """The index within the site of each unit of one site, in order.

        Args:
            site: one of `sites`.
        """
        return self._units.at([site]).sites[0].indices

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each window as collected, then the number of rows; no item is split across windows."""
        return self._source.starts if self._rows is None else np.array([0, len(self)], np.int64)

    @property
    def path(self) -> str | None:
        """The folder; None in memory."""
        return self._source.about.path

    @property
    def aggregate(self) -> str:
        """How the tokens of a word were aggregated to one row; "" if not known."""
        return self._source.about.aggregate

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What was collected, from which model and with which settings."""
        return dict(self._source.about.provenance)

    @property
    def is_whole(self) -> bool:
        """Whether the collection finished."""
        return self._source.about.is_whole

    @property
    def problems(self) -> list[Problem]:
        """What went wrong during collection, item by item: empty texts, words without a token, cut words."""
        return list(self._source.problems)

    @property
    def damage(self) -> tuple[str, ...]:
        """Damage on disk that reading has found so far; `cutaway verify` checks every byte."""
        return self._source.damage

    # Rows

    @property
    def n_items(self) -> int:
        """The number of sentences or samples in the corpus, including those without rows and those not selected."""
        return self._source.about.n_items

    @property
    def words(self) -> Words:
        """The text of each row."""
        return Words(self._source, self._rows)

    @cached_property
    def items(self) -> NDArray[np.int64]:
        """For each row, its sentence or sample."""
        return self._column("item")

    @cached_property
    def word_index(self) -> NDArray[np.int32]:
        """For each row, the index of the word within its item; -1 for special tokens and whole items."""
        return self._column("word")

    @cached_property
    def tokens(self) -> NDArray[np.int32]:
        """For each row, its first and last token, `[row, 2]`; -1 if it has none."""
        spans = np.stack([self._column("first"), self._column("last")], axis=1)
        spans.flags.writeable = False
        return spans

    @property
    def n_words(self) -> NDArray[np.int64]:
        """For each item, its number of words, selected or not; special tokens do not count."""
        whole = self.whole
        counts = np.zeros(self.n_items, np.int64)
        # Not counts[items] = …: an item has many rows, and the last one written would win.
        np.maximum.at(counts, whole.items, whole.word_index.astype(np.int64) + 1)
        return counts

    @property
    def sentences(self) -> list[list[str]]:
        """For each item, the words of its rows; an empty list for an item without rows."""
        sentences: list[list[str]] = [[] for _ in range(self.n_items)]
        for item, word in zip(self.items.tolist(), self.words, strict=True):
            sentences[item].append(word)
        return sentences

    # Selections

    @property
    def whole(self) -> Activations:
        """All collected rows, including those not selected."""
        return self if self._rows is None else Activations(self._source, self._units)

    def __getitem__(self, key: Any) -> Activations:
        """A site by name; or rows, or rows and units, by NumPy indexing, so that scikit-learn can split it."""
        if isinstance(key, str):
            return self.at(key)
        rows, units = key if isinstance(key, tuple) and len(key) == 2 else (key, Ellipsis)
        if any(isinstance(index, (int, np.integer, tuple)) or index is None for index in (rows, units)):
            row = rows if isinstance(rows, (int, np.integer)) else 0
            raise InputTypeError(f"acts[{key!r}] is not rows × units. For a single row, use acts.rows([{row}]).")
        selected = self if rows is Ellipsis else self.rows(rows)
        return selected if units is Ellipsis else selected.units(units)

    def at(self, sites: str | Sequence[str]) -> Activations:
        """Select the units of some sites; `*` and `**` work as in all sites.

        >>> Activations.of({"a.0": np.zeros((2, 3)), "a.1": np.ones((2, 3))}).at("a.*").sites
        ('a.0', 'a.1')

        Args:
            sites: one or more sites or patterns; their units come in this order.
        """
        return Activations(self._source, self._units.at([sites] if isinstance(sites, str) else list(sites)), self._rows)

    def units(self, indices: Any) -> Activations:
        """Select units by index or mask, in the given order.

        Args:
            indices: integers, a slice, or a boolean mask over all units.
        """
        return Activations(self._source, self._units.select(indices), self._rows)

    def rows(self, indices: Any) -> Activations:
        """Select rows by index or mask, in the given order.

        Args:
            indices: integers, a slice, or a boolean mask over all rows.
        """
        picked = as_indices(indices, len(self), "row")
        return Activations(self._source, self._units, picked if self._rows is None else self._rows[picked])

    # Values

    def array(self, dtype: DTypeLike | None = None, *, most_bytes: int | None = MOST_BYTES) -> Array:
        """All values as one new array `[row, unit]`.

        Args:
            dtype: the dtype of the array; that of the stored values by default.
            most_bytes: raise MemoryLimitError above this size; None for no limit.
        """
        # Checked before allocating: one call on a large corpus could otherwise exhaust the memory of the machine.
        wanted = np.dtype(self.dtype if dtype is None else dtype)
        n_bytes = len(self) * self.n_units * wanted.itemsize
        if most_bytes is not None and n_bytes > most_bytes:
            raise MemoryLimitError(
                f"{len(self):,} rows × {self.n_units:,} units need {n_bytes:,} bytes, and the limit is "
                f"{most_bytes:,}. Iterate over acts.blocks(), select rows, sites or units, or raise most_bytes=."
            )
        values = np.empty(self.shape, wanted)
        for start in range(0, len(self), _ROWS_AT_ONCE):
            self._fill(values[start : start + _ROWS_AT_ONCE], start)
        return values

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array of activations is always a copy, so copy=False is not possible.")
        return self.array(dtype)

    def blocks(self, n_rows: int = _ROWS_AT_ONCE) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """All values in row order, as read-only float32: pairs of a slice of rows and their values.

        Args:
            n_rows: the largest number of rows per block.
        """
        if n_rows < 1:
            raise InputError(f"n_rows must be at least 1, got {n_rows}.")
        for start in range(0, len(self), n_rows):
            stop = min(start + n_rows, len(self))
            yield slice(start, stop), self._block(start, stop)

    def columns(self, indices: Any) -> NDArray[np.float32]:
        """Some units for all rows, `[row, unit]`, as a new float32 array.

        Args:
            indices: integers, a slice, or a boolean mask over all units.
        """
        return self.units(indices).array(np.float32, most_bytes=None)

    def _block(self, start: int, stop: int) -> NDArray[np.float32]:
        block = self._view(start, stop)
        if block is None:
            block = np.empty((stop - start, self.n_units), np.float32)
            self._fill(block, start)
        block.flags.writeable = False
        return block

    def _view(self, start: int, stop: int) -> NDArray[np.float32] | None:
        """A view of the rows, if they are contiguous in one window; else None."""
        pieces = self._units.pieces
        # A view needs float32 rows of one site, next to each other in one window; everything else is copied.
        if self._rows is not None or len(pieces) > 1 or self.dtype != np.float32:
            return None
        window = int(np.searchsorted(self._source.starts, start, side="right")) - 1
        first = int(self._source.starts[window])
        if stop > self._source.starts[window + 1] or not isinstance(pieces[0].source, slice):
            return None
        return self._source.values(window, pieces[0].site)[start - first : stop - first, pieces[0].source]

    def _fill(self, out: Array, start: int) -> None:
        """Read rows into `out`, from row `start` on."""
        rows = np.arange(start, start + len(out)) if self._rows is None else self._rows[start : start + len(out)]
        windows = np.searchsorted(self._source.starts, rows, side="right") - 1
        for window in np.unique(windows).tolist():
            targets = np.flatnonzero(windows == window)
            inside = rows[targets] - int(self._source.starts[window])
            # Slices instead of index arrays: NumPy then copies without an intermediate array.
            is_run = len(targets) == targets[-1] - targets[0] + 1 and len(inside) == inside[-1] - inside[0] + 1
            is_run = is_run and bool((np.diff(inside) == 1).all())
            for piece in self._units.pieces:
                values = self._source.values(window, piece.site)
                if is_run:
                    part = values[inside[0] : inside[-1] + 1][:, piece.source]
                    out[targets[0] : targets[-1] + 1, piece.target] = part
                else:
                    part = values[inside][:, piece.source]
                    out[targets[:, None], _numbers(piece.target)[None, :]] = part

    def _column(self, name: Literal["item", "word", "first", "last"]) -> NDArray[Any]:
        starts, rows = self._source.starts, self._rows
        values = np.empty(len(self), np.int64 if name == "item" else np.int32)
        windows = None if rows is None else np.searchsorted(starts, rows, side="right") - 1
        for window in range(len(starts) - 1) if windows is None else np.unique(windows).tolist():
            column = getattr(self._source.rows(window), name)
            if rows is None or windows is None:
                values[starts[window] : starts[window + 1]] = column
            else:
                targets = np.flatnonzero(windows == window)
                values[targets] = column[rows[targets] - starts[window]]
        values.flags.writeable = False
        return values

    # Input and output

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write these rows and units to a new folder that `cutaway.load` reads.

        Args:
            path: a folder that does not exist yet, or is empty.
        """
        if not self._units.is_grouped:
            raise InputError("cannot save: the units of each site must be consecutive. Select units site by site.")
        save(self, path, self._units.sites)

    @classmethod
    def from_neurox(
        cls,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        sentences: Sequence[Sequence[str] | str] | None = None,
        to: str | os.PathLike[str] | None = None,
    ) -> Activations:
        """Read activations that NeuroX extracted to HDF5 or JSON; several files are the layers of one model.

        Args:
            path: the file, or one file per layer; `acts.hdf5` also reads `acts-layer0.hdf5`, `acts-layer1.hdf5`…
            sentences: the words of each sentence, if the file lacks them.
            to: a new folder; converts sentence by sentence, for files larger than memory.
        """
        if to is not None:
            convert(path, to, sentences=sentences)
            return cls.read(Archive(to))
        source = read_neurox(path, sentences=sentences)
        return cls(source, Units.all(source.sites))

    def to_neurox(
        self,
        path: str | os.PathLike[str],
        *,
        format: Literal["hdf5", "json"] | None = None,
        per_layer: bool = False,
    ) -> list[str]:
        """Write a NeuroX file, or one per site; returns the paths.

        Args:
            path: the file to write, or the common start of the names of several.
            format: "hdf5" or "json"; by default from the file extension.
            per_layer: whether to write one file per site, which sites of different widths need.
        """
        return write_neurox(self, path, format=format, per_layer=per_layer)

    def __repr__(self) -> str:
        sites = self.sites
        shown = ", ".join(sites) if len(sites) <= 3 else f"{sites[0]} … {sites[-1]} ({len(sites)} sites)"
        where = f", {self.path!r}" if self.path else ""
        incomplete = "" if self.is_whole else ", incomplete"
        old = ", units counted by an older version" if self.unit_rule == "sizes" else ""
        out = f", {plural(len(self.left_out), 'site')} left out" if self.left_out else ""
        size = f"{len(self):,} rows × {self.n_units:,} units, {self.dtype}"
        return f"<Activations {size}: {shown}{where}{incomplete}{old}{out}>"


def _numbers(index: slice | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.arange(index.start, index.stop) if isinstance(index, slice) else index
