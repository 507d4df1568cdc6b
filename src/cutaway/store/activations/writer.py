"""The writer of a collection: windows of a corpus, one after the other, so that a kill costs the last one at most."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutaway.core.arrays import Array, Raw
from cutaway.core.errors import InputError, StoreError
from cutaway.core.sites import Site
from cutaway.store.activations.windows import DOCUMENT, SITE, CollectedSite, are_alike, window_name, windows_of
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.frames import Plain
from cutaway.store.format.ragged import join_strings
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run_set import is_archive
from cutaway.store.writing.writer import Options, Writer

Dtype = Literal["float32", "float16"]
ROW_COLUMNS: Final = ("item", "word", "first", "last")
_ALIGNMENT: Final = 8
_MAY_CHANGE: Final = ("left_out", "time", "versions")
"""What may be another in the provenance when a collection is resumed."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Where the rows of a window come from; all are arrays of one number a row.

    >>> Rows.of([0, 0, 1], word=[0, 1, 0]).first
    array([-1, -1, -1], dtype=int32)
    """

    item: NDArray[np.int64]
    """The sentence or sample, counted from the first one of the whole corpus."""
    word: NDArray[np.int32]
    """The word within it; -1 for a special token, or where the row stands for the whole item."""
    first: NDArray[np.int32]
    """The first token of the word; -1 where there are none."""
    last: NDArray[np.int32]
    """The last token of the word, itself included."""

    @staticmethod
    def of(
        item: ArrayLike, *, word: ArrayLike | None = None, first: ArrayLike | None = None, last: ArrayLike | None = None
    ) -> Rows:
        """Rows of whatever holds numbers; what is not given is -1."""
        items = np.array(item, np.int64).reshape(-1)

        def column(values: ArrayLike | None) -> NDArray[np.int32]:
            return np.full(len(items), -1, np.int32) if values is None else np.array(values, np.int32).reshape(-1)

        return Rows(items, column(word), column(first), column(last))

    def __len__(self) -> int:
        return len(self.item)


class ActivationsWriter:
    """Writes a collection, or goes on with one; a `with`, which finishes it unless something is raised inside.

        with ActivationsWriter("acts", [CollectedSite("encoder.layer.3", 384)], resume=True) as writer:
            for sentences in windows(corpus[writer.done:]):
                writer.window({"encoder.layer.3": array}, Rows.of(item=…, word=…), words, n_items=len(sentences))

    Args:
        sites: what is collected, in the order of the units.
        dtype: in which the values are kept.
        aggregate: how the tokens of a word became one row.
        provenance: plain data that says of what and with what this was collected.
        resume: go on with what is there. It must have been collected alike: sites, dtype, aggregation and provenance
            are held against each other, all but `time` and `versions` of the provenance.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        sites: Sequence[CollectedSite],
        *,
        dtype: Dtype = "float32",
        aggregate: str = "",
        provenance: Mapping[str, Plain] | None = None,
        resume: bool = False,
        options: Options | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.sites = tuple(sites)
        self.dtype: Dtype = dtype
        _check(self.sites, dtype)
        self._about: dict[str, Plain] = {
            "sites": [site.packed() for site in self.sites],
            "dtype": dtype,
            "aggregate": aggregate,
            "provenance": dict(provenance or {}),
        }
        if resume:
            self._check_alike()
        self._writer = Writer(path, kind="activations", resume=resume, options=options)
        self._is_closed = False
        try:
            windows = windows_of(Archive(path)) if resume else []  # now that nobody else writes there
            self._done = self._n_items = windows[-1].stop_item if windows else 0
            self._n_rows = windows[-1].stop_row if windows else 0
            self._describe(is_whole=False)
        except BaseException:
            self._writer.close()
            raise

    @property
    def done(self) -> int:
        """How many items survive the death of the process: with `resume=True`, where to go on."""
        if not self._writer.n_waiting_bytes and not self._writer.n_lost:
            self._done = self._n_items
        return self._done

    @property
    def n_items(self) -> int:
        """How many items were handed in, those of earlier sessions included: the number of the next one."""
        return self._n_items

    @property
    def n_rows(self) -> int:
        """How many rows were handed in, those of earlier sessions included."""
        return self._n_rows

    def window(
        self,
        arrays: Mapping[str, ArrayLike],
        rows: Rows,
        words: Sequence[str],
        *,
        n_items: int,
        problems: Sequence[tuple[int, str]] = (),
    ) -> None:
        """Hand in the next items of the corpus. Everything is copied; it is on disk a moment later.

        Args:
            arrays: site → array of `[row, unit]`, for every site.
            rows: where each row comes from, in the order of the corpus.
            words: the text of each row.
            n_items: how many items these are, those without any row included.
            problems: item and what went wrong with it, in words.
        """
        self._check_rows(rows, words, n_items)
        about = {"first_row": self._n_rows, "n_rows": len(rows), "first_item": self._n_items, "n_items": n_items}
        about["n_problems"] = len(problems)
        self._writer.block(window_name(self._n_items), _aligned(self._columns(arrays, rows, words, problems)), about)
        self._n_items += n_items
        self._n_rows += len(rows)
        self._raise_if_lost()

    def flush(self) -> None:
        """Wait until all that was handed in is on disk."""
        self._writer.flush()
        self._raise_if_lost()

    def finish(self) -> None:
        """Say that this was the whole corpus, and close."""
        self.flush()
        self._describe(is_whole=True)
        self.close()
        self._raise_if_lost()

    def close(self) -> None:
        """Bring everything to disk and close, without saying that it is whole: it can be resumed."""
        self._is_closed = True
        self._writer.close()

    def __enter__(self) -> ActivationsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._is_closed:
            self.finish()
        else:
            self.close()

    def _describe(self, *, is_whole: bool) -> None:
        size: dict[str, Plain] = {"whole": is_whole, "n_items": self._n_items, "n_rows": self._n_rows}
        self._writer.document(DOCUMENT, self._about | size)

    def _raise_if_lost(self) -> None:
        if self._writer.n_lost:
            why = "; ".join(self._writer.problems[-3:])
            raise StoreError(
                f"not all of this could be written to {self.path}: {why}. {self._done:,} items are safe: "
                "make room, then collect again with resume=True."
            )

    def _check_alike(self) -> None:
        """Refuse to go on with what was collected otherwise, before anything is written."""
        if not is_archive(backend_for(self.path).names()):
            return
        archive = Archive(self.path)
        there = archive.documents.get(DOCUMENT)
        if archive.kind != "activations" or not isinstance(there, dict):
            return  # the writer says what it is; or it was killed before it wrote anything
        sites = there.get("sites") or ()
        known = [CollectedSite.read(site) for site in sites]
        if any(site.layout for site in self.sites) and known and not any(site.layout for site in known):
            raise InputError(
                f"{self.path} was begun by an older version of Cutaway, which counted units by another rule: "
                "give another path."
            )
        if not are_alike(known, self.sites):
            _must_equal(self.path, "sites", sites, self._about["sites"])
        for name in ("dtype", "aggregate"):
            _must_equal(self.path, name, there.get(name), self._about[name])
        old, new = _settled(there.get("provenance")), _settled(self._about["provenance"])
        for name in sorted(old.keys() | new.keys()):
            _must_equal(self.path, name, old.get(name), new.get(name))

    def _check_rows(self, rows: Rows, words: Sequence[str], n_items: int) -> None:
        n, stop = len(rows), self._n_items + n_items
        if any(len(column) != n for column in (rows.word, rows.first, rows.last, words)):
            raise InputError(f"a window of {n:,} rows has {len(words):,} words, and its columns are not all as long.")
        if n_items < 1:
            raise InputError(f"a window holds at least one item, not {n_items}.")
        if n and not (self._n_items <= rows.item[0] and rows.item[-1] < stop and (np.diff(rows.item) >= 0).all()):
            raise InputError(
                f"rows of a window are in the order of the corpus, and this one holds items {self._n_items} to "
                f"{stop - 1}; its rows go from item {rows.item.min()} to {rows.item.max()}."
            )

    def _columns(
        self,
        arrays: Mapping[str, ArrayLike],
        rows: Rows,
        words: Sequence[str],
        problems: Sequence[tuple[int, str]],
    ) -> dict[str, Array]:
        """All arrays of a window, copied, by name."""
        wanted = {site.site for site in self.sites}
        if arrays.keys() != wanted:
            differing = sorted(arrays.keys() ^ wanted)
            raise InputError(f"a window holds every site and no other; {', '.join(differing[:3])} differ.")
        found: dict[str, Array] = {f"row/{name}": np.array(getattr(rows, name)) for name in ROW_COLUMNS}
        found["words/text"], found["words/offsets"] = join_strings(words)
        if problems:
            found["problems/item"] = np.array([item for item, _ in problems], np.int64)
            found["problems/text"], found["problems/offsets"] = join_strings([said for _, said in problems])
        return found | {SITE + site.site: self._values(site, arrays[site.site], rows) for site in self.sites}

    def _values(self, site: CollectedSite, values: ArrayLike, rows: Rows) -> Array:
        found = np.asarray(values)
        if found.shape != (len(rows), site.width):
            shape = [len(rows), site.width]
            raise InputError(f"{site.site!r} gave an array of shape {list(found.shape)}, and {shape} is wanted.")
        with np.errstate(over="ignore"):
            kept = np.array(found, self.dtype, order="C")
        if self.dtype == "float16" and found.dtype != kept.dtype and not np.isfinite(kept).all():
            lost = np.argwhere(np.isinf(kept) & np.isfinite(found))
            if len(lost):
                row, unit = lost[0]
                raise InputError(
                    f"{len(lost):,} values of {site.site!r} do not fit into float16, the first of them "
                    f"{found[row, unit]:.6g} of unit {unit} in item {rows.item[row]}: collect with dtype='float32'."
                )
        return kept


def _aligned(arrays: Mapping[str, Array]) -> dict[str, Raw]:
    """The arrays in an order, and with a padding, in which each begins where mapped memory is read best."""
    by_size = sorted(arrays.items(), key=lambda named: -named[1].itemsize)
    n_over = -sum(array.nbytes for _, array in by_size) % _ALIGNMENT
    padding = {"padding": Raw.of(np.zeros(n_over, np.uint8))} if n_over else {}
    return {name: Raw.of(array) for name, array in by_size} | padding


def check_dtype(dtype: Any) -> None:
    """Values are kept in one of two types."""
    if not isinstance(dtype, str) or dtype not in ("float32", "float16"):
        raise InputError(f"activations are kept as 'float32' or 'float16', not {dtype!r}.")


def _check(sites: Sequence[CollectedSite], dtype: Any) -> None:
    check_dtype(dtype)
    if not sites or len({site.site for site in sites}) < len(sites):
        raise InputError(f"a collection has at least one site and each of them once, not {[s.site for s in sites]}.")
    for site in sites:
        Site.parse(site.site)
        if site.width < 1:
            raise InputError(f"{site.site!r} has {site.width} units; there is nothing to collect.")


def _settled(provenance: Any) -> dict[str, Any]:
    content = provenance if isinstance(provenance, dict) else {}
    return {name: value for name, value in content.items() if name not in _MAY_CHANGE}


def _must_equal(path: str, name: str, old: Any, new: Any) -> None:
    # Tuples come back as lists.
    if old != new and old != (list(new) if isinstance(new, tuple) else new):
        raise InputError(
            f"{path} was collected with another {name} ({_short(old)}, now {_short(new)}): "
            "resume with the same, or give another path."
        )


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) < 80 else f"{said[:80]}…"
