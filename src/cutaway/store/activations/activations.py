"""Activations: rows of a corpus × units of a model, in memory or on disk, read a part at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from cutaway.core.arrays import Array
from cutaway.core.errors import InputError, MemoryLimitError
from cutaway.core.units.layout import UnitLayout
from cutaway.store.activations.in_memory import source_of
from cutaway.store.activations.save import save
from cutaway.store.activations.shards import JoinedSource
from cutaway.store.activations.sources import ArchiveSource, Problem, Source
from cutaway.store.activations.unit_selection import Names, Units, as_indices
from cutaway.store.activations.words import Words
from cutaway.store.neurox.read import convert, read_neurox
from cutaway.store.neurox.write import write_neurox
from cutaway.store.reading.archive import Archive

MOST_BYTES = 4 << 30
_ROWS_AT_ONCE = 8192


class Activations:
    """What some units of a model gave for every row of a corpus: a word, a token or a whole item each.

        acts = cutaway.load("acts")                      # or what cutaway.collect returns
        acts.shape, acts.sites                           # rows × units
        acts["encoder.layer.3"].array()                  # the units of one site
        for rows, values in acts.blocks(): ...           # float32, a part at a time

    Choosing sites, rows or units copies nothing: values are read when they are asked for.
    """

    __iter__ = None  # rows come in blocks

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
        """Activations of arrays or tensors at hand, which are neither copied nor changed.

        >>> acts = Activations.of({"encoder.layer.3": np.zeros((3, 4))}, words=[["a", "b"], ["c"]])
        >>> acts.shape, acts.names[1], acts.items.tolist()
        ((3, 4), 'encoder.layer.3#1', [0, 0, 1])

        Args:
            values: an array of `[row, unit]`, or one for each site.
            words: the text of each row, or a list of them for each item.
            items: the sentence or sample of each row, counted from 0; each row is its own without it.
        """
        source = source_of(values, words, items)
        return cls(source, Units.all(source.sites))

    @classmethod
    def read(cls, archive: Archive) -> Activations:
        """The activations that an archive holds."""
        source = ArchiveSource(archive)
        return cls(source, Units.all(source.sites))

    @classmethod
    def join(cls, parts: Sequence[Activations]) -> Activations:
        """Parts of one collection as one: their rows in turn, items counted through. Nothing is copied.

        >>> halves = [Activations.of([[0.1], [0.2]], items=[0, 1]), Activations.of([[0.3]])]
        >>> Activations.join(halves).items.tolist()
        [0, 1, 2]
        """
        for number, part in enumerate(parts):
            if part._rows is not None or part._units.sites != tuple(part._source.sites):
                raise InputError(f"part {number} is a choice of rows or units: join whole parts, then choose.")
        source = JoinedSource([part._source for part in parts])
        return cls(source, Units.all(source.sites))

    # what it is

    def __len__(self) -> int:
        return int(self._source.starts[-1]) if self._rows is None else len(self._rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and units."""
        return len(self), len(self._units)

    ndim = 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """In which the values are kept."""
        return self._source.dtype

    @property
    def n_units(self) -> int:
        return len(self._units)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that the units belong to, in their order."""
        return tuple(site.site for site in self._units.sites)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many units of each site there are."""
        return tuple(site.width for site in self._units.sites)

    @property
    def names(self) -> Names:
        """The name of each unit: `encoder.layer.3#17`."""
        return self._units.names

    @property
    def layouts(self) -> Mapping[str, UnitLayout]:
        """For each site which dimensions of its value count units, samples and positions; sites of which nobody knows
        are missing."""
        return {site.site: site.layout for site in self._units.sites if site.layout is not None}

    @property
    def unit_rule(self) -> Literal["graph", "sizes", ""]:
        """How units were told: by the graph of the model; by sizes, in activations of older versions of Cutaway, whose
        units may be others than those of the same name in an edit or a trace; "" where arrays were given."""
        if any(site.layout for site in self._units.known):
            return "graph"
        return "sizes" if "model" in self.provenance else ""

    @property
    def left_out(self) -> Mapping[str, str]:
        """Sites that a pattern asked for and that have no rows and units, with the reason."""
        return dict(self.provenance.get("left_out") or {})

    def site_of(self, unit: int) -> tuple[str, int]:
        """The site of a unit and its number there."""
        return self._units.site_of(unit)

    def numbers(self, site: str) -> NDArray[np.int64]:
        """The number within its site of each unit of one site, in their order."""
        return self._units.at([site]).sites[0].indices

    @property
    def starts(self) -> NDArray[np.int64]:
        """The row with which each window begins as it was collected, and how many rows there are; no item is cut."""
        return self._source.starts if self._rows is None else np.array([0, len(self)], np.int64)

    @property
    def path(self) -> str | None:
        """Where it lies; None in memory."""
        return self._source.about.path

    @property
    def aggregate(self) -> str:
        """How the tokens of a word became one row; "" where nobody said."""
        return self._source.about.aggregate

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Of what and with what it was collected."""
        return dict(self._source.about.provenance)

    @property
    def is_whole(self) -> bool:
        """Whether the collection came to its end."""
        return self._source.about.is_whole

    @property
    def problems(self) -> list[Problem]:
        """What went wrong with some items while they were collected."""
        return list(self._source.problems)

    # what the rows are

    @property
    def n_items(self) -> int:
        """How many sentences or samples the corpus has; those without any row, or not chosen, are counted too."""
        return self._source.about.n_items

    @property
    def words(self) -> Words:
        """The text of each row."""
        return Words(self._source, self._rows)

    @cached_property
    def items(self) -> NDArray[np.int64]:
        """For each row, the sentence or sample it belongs to."""
        return self._column("item")

    @cached_property
    def word_index(self) -> NDArray[np.int32]:
        """For each row, the word within its item; -1 for special tokens and whole items."""
        return self._column("word")

    @cached_property
    def tokens(self) -> NDArray[np.int32]:
        """For each row, its first and last token, `[row, 2]`; -1 where there are none."""
        found = np.stack([self._column("first"), self._column("last")], axis=1)
        found.flags.writeable = False
        return found

    @property
    def n_words(self) -> NDArray[np.int64]:
        """For each item, how many words it has, whether or not their rows were chosen; special tokens do not count."""
        whole = self.whole
        found = np.zeros(self.n_items, np.int64)
        np.maximum.at(found, whole.items, whole.word_index.astype(np.int64) + 1)
        return found

    @property
    def sentences(self) -> list[list[str]]:
        """For each item, the words of its rows; an empty list for an item without any."""
        found: list[list[str]] = [[] for _ in range(self.n_items)]
        for item, word in zip(self.items.tolist(), self.words, strict=True):
            found[item].append(word)
        return found

    # a part of it

    @property
    def whole(self) -> Activations:
        """All rows that were collected, also those that were not chosen."""
        return self if self._rows is None else Activations(self._source, self._units)

    def __getitem__(self, key: Any) -> Activations:
        """A site by its name; else rows, or rows and units, as an array would be cut, so that others can split it."""
        if isinstance(key, str):
            return self.at(key)
        rows, units = key if isinstance(key, tuple) and len(key) == 2 else (key, Ellipsis)
        if any(isinstance(one, (int, np.integer, tuple)) or one is None for one in (rows, units)):
            raise InputError(f"activations stay rows × units, which acts[{key!r}] is not: acts.rows([3]) is one row.")
        found = self if rows is Ellipsis else self.rows(rows)
        return found if units is Ellipsis else found.units(units)

    def at(self, sites: str | Sequence[str]) -> Activations:
        """The units of some sites; `*` and `**` as in all sites.

        >>> Activations.of({"a.0": np.zeros((2, 3)), "a.1": np.ones((2, 3))}).at("a.*").sites
        ('a.0', 'a.1')
        """
        return Activations(self._source, self._units.at([sites] if isinstance(sites, str) else list(sites)), self._rows)

    def units(self, indices: Any) -> Activations:
        """Some units, by their numbers or a mask, in the order in which they are named."""
        return Activations(self._source, self._units.chosen(indices), self._rows)

    def rows(self, indices: Any) -> Activations:
        """Some rows, by their numbers or a mask, in the order in which they are named."""
        picked = as_indices(indices, len(self), "row")
        return Activations(self._source, self._units, picked if self._rows is None else self._rows[picked])

    # its values

    def array(self, dtype: DTypeLike | None = None, *, most_bytes: int | None = MOST_BYTES) -> Array:
        """All values as one array `[row, unit]` of the caller's own.

        Args:
            most_bytes: more than this is refused; None for no limit.
        """
        wanted = np.dtype(self.dtype if dtype is None else dtype)
        n_bytes = len(self) * self.n_units * wanted.itemsize
        if most_bytes is not None and n_bytes > most_bytes:
            raise MemoryLimitError(
                f"{len(self):,} rows × {self.n_units:,} units take {n_bytes:,} bytes in memory, and the limit is "
                f"{most_bytes:,}: go through acts.blocks(), choose rows, sites or units, or raise most_bytes=."
            )
        found = np.empty(self.shape, wanted)
        for start in range(0, len(self), _ROWS_AT_ONCE):
            self._fill(found[start : start + _ROWS_AT_ONCE], start)
        return found

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("activations are read from where they lie: an array of them is always a copy.")
        return self.array(dtype)

    def blocks(self, n_rows: int = _ROWS_AT_ONCE) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """All values in the order of the rows, `n_rows` at a time, as read-only float32."""
        if n_rows < 1:
            raise InputError(f"blocks have at least one row, not {n_rows}.")
        for start in range(0, len(self), n_rows):
            stop = min(start + n_rows, len(self))
            yield slice(start, stop), self._block(start, stop)

    def columns(self, indices: Any) -> NDArray[np.float32]:
        """Some units for all rows, `[row, unit]`, as float32 of the caller's own."""
        return self.units(indices).array(np.float32, most_bytes=None)

    def _block(self, start: int, stop: int) -> NDArray[np.float32]:
        found = self._view(start, stop)
        if found is None:
            found = np.empty((stop - start, self.n_units), np.float32)
            self._fill(found, start)
        found.flags.writeable = False
        return found

    def _view(self, start: int, stop: int) -> NDArray[np.float32] | None:
        """The rows as they lie, where they do so in one piece."""
        pieces = self._units.pieces
        if self._rows is not None or len(pieces) > 1 or self.dtype != np.float32:
            return None
        window = int(np.searchsorted(self._source.starts, start, side="right")) - 1
        first = int(self._source.starts[window])
        if stop > self._source.starts[window + 1] or not isinstance(pieces[0].source, slice):
            return None
        return self._source.values(window, pieces[0].site)[start - first : stop - first, pieces[0].source]

    def _fill(self, out: Array, start: int) -> None:
        """Read as many rows as `out` has, from one on."""
        rows = np.arange(start, start + len(out)) if self._rows is None else self._rows[start : start + len(out)]
        windows = np.searchsorted(self._source.starts, rows, side="right") - 1
        for window in np.unique(windows).tolist():
            places = np.flatnonzero(windows == window)
            inside = rows[places] - int(self._source.starts[window])
            is_run = len(places) == places[-1] - places[0] + 1 and len(inside) == inside[-1] - inside[0] + 1
            is_run = is_run and bool((np.diff(inside) == 1).all())
            for piece in self._units.pieces:
                values = self._source.values(window, piece.site)
                if is_run:
                    found = values[inside[0] : inside[-1] + 1][:, piece.source]
                    out[places[0] : places[-1] + 1, piece.target] = found
                else:
                    found = values[inside][:, piece.source]
                    out[places[:, None], _numbers(piece.target)[None, :]] = found

    def _column(self, name: Literal["item", "word", "first", "last"]) -> NDArray[Any]:
        starts, rows = self._source.starts, self._rows
        found = np.empty(len(self), np.int64 if name == "item" else np.int32)
        windows = None if rows is None else np.searchsorted(starts, rows, side="right") - 1
        for window in range(len(starts) - 1) if windows is None else np.unique(windows).tolist():
            column = getattr(self._source.rows(window), name)
            if rows is None or windows is None:
                found[starts[window] : starts[window + 1]] = column
            else:
                places = np.flatnonzero(windows == window)
                found[places] = column[rows[places] - starts[window]]
        found.flags.writeable = False
        return found

    # in and out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write these rows and units into a new folder, which `cutaway.load` reads."""
        if not self._units.is_grouped:
            raise InputError("the units of a site are written together: choose the units of one site after another.")
        save(self, path, self._units.sites)

    @classmethod
    def from_neurox(
        cls,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        sentences: Sequence[Sequence[str] | str] | None = None,
        to: str | os.PathLike[str] | None = None,
    ) -> Activations:
        """Activations that NeuroX extracted, from its HDF5 or JSON files; several files are the layers of one.

        Args:
            sentences: the words of each sentence, where the file does not tell them.
            to: a folder to which they are written sentence by sentence, where they do not fit into memory.
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
        """Write a file that NeuroX reads, or one for each site; the paths that were written.

        Args:
            format: which of the two; without it, the ending of the path says.
        """
        return write_neurox(self, path, format=format, per_layer=per_layer)

    def __repr__(self) -> str:
        sites = self.sites
        shown = ", ".join(sites) if len(sites) <= 3 else f"{sites[0]} … {sites[-1]} ({len(sites)} sites)"
        where = f", {self.path!r}" if self.path else ""
        half = "" if self.is_whole else ", not collected to its end"
        old = ", units by the rule of an older version" if self.unit_rule == "sizes" else ""
        out = f", {len(self.left_out)} sites left out" if self.left_out else ""
        return (
            f"<Activations {len(self):,} rows × {self.n_units:,} units, {self.dtype}: {shown}{where}{half}{old}{out}>"
        )


def _numbers(place: slice | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.arange(place.start, place.stop) if isinstance(place, slice) else place
