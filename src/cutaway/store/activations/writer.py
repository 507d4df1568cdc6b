"""Writes a collection window by window; a crash loses at most the last window."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutaway.core.arrays import Array, Raw, short_repr
from cutaway.core.errors import InputError, StoreError
from cutaway.core.formatting import listed
from cutaway.core.sites import Site
from cutaway.store.activations.windows import DOCUMENT, SITE, CollectedSite, same_sites, window_name, windows_of
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.frames import Plain
from cutaway.store.format.ragged import join_strings
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run_set import is_archive
from cutaway.store.writing.writer import Options, Writer

Dtype = Literal["float32", "float16"]
ROW_COLUMNS: Final = ("item", "word", "first", "last")
_ALIGNMENT: Final = 8
_MAY_DIFFER: Final = ("left_out", "time", "versions")
"""Provenance keys that may differ when a collection is resumed."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The origin of the rows of a window; one array entry per row.

    >>> Rows.of([0, 0, 1], word=[0, 1, 0]).first
    array([-1, -1, -1], dtype=int32)
    """

    item: NDArray[np.int64]
    """The sentence or sample, counted from the start of the corpus."""
    word: NDArray[np.int32]
    """The word within it; -1 for a special token, or if the row is the whole item."""
    first: NDArray[np.int32]
    """The first token of the word; -1 if there is none."""
    last: NDArray[np.int32]
    """The last token of the word, inclusive."""

    @staticmethod
    def of(
        item: ArrayLike, *, word: ArrayLike | None = None, first: ArrayLike | None = None, last: ArrayLike | None = None
    ) -> Rows:
        """Build rows from anything array-like; missing columns are -1."""
        items = np.array(item, np.int64).reshape(-1)

        def column(values: ArrayLike | None) -> NDArray[np.int32]:
            return np.full(len(items), -1, np.int32) if values is None else np.array(values, np.int32).reshape(-1)

        return Rows(items, column(word), column(first), column(last))

    def __len__(self) -> int:
        return len(self.item)


class ActivationsWriter:
    """Writes a new collection or resumes one. As a context manager, it finishes unless the block raises.

        with ActivationsWriter("acts", [CollectedSite("encoder.layer.3", 384)], resume=True) as writer:
            for sentences in windows(corpus[writer.done:]):
                writer.window({"encoder.layer.3": array}, Rows.of(item=…, word=…), words, n_items=len(sentences))

    Args:
        sites: the collected sites, in unit order.
        dtype: the dtype of the stored values.
        aggregate: how the tokens of a word are aggregated to one row.
        provenance: plain data on what was collected, from which model and with which settings.
        resume: continue an existing collection. Sites, dtype, aggregation and provenance must be the same, except the
            keys `time`, `versions` and `left_out` of the provenance.
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
        backend_for(path)  # raises if it is not a path
        self.path = os.fspath(path)
        self.sites = tuple(sites)
        self.dtype: Dtype = dtype
        _check(self.sites, dtype)
        self._about: dict[str, Plain] = {
            "sites": [site.to_record() for site in self.sites],
            "dtype": dtype,
            "aggregate": aggregate,
            "provenance": dict(provenance or {}),
        }
        if resume:
            self._check_alike()
        self._writer = Writer(path, kind="activations", resume=resume, options=options)
        self._is_closed = False
        try:
            windows = windows_of(Archive(path)) if resume else []  # after the lease, so that no other process writes
            self._done = self._n_items = windows[-1].stop_item if windows else 0
            self._n_rows = windows[-1].stop_row if windows else 0
            self._describe(is_whole=False)
        except BaseException:
            self._writer.close()
            raise

    @property
    def done(self) -> int:
        """How many items are safe on disk; with `resume=True`, the item to continue from."""
        # Nothing waits and nothing is lost: then everything that was handed in is on disk.
        if not self._writer.n_waiting_bytes and not self._writer.n_lost:
            self._done = self._n_items
        return self._done

    @property
    def n_items(self) -> int:
        """How many items were passed in, including earlier sessions: the number of the next item."""
        return self._n_items

    @property
    def n_rows(self) -> int:
        """How many rows were passed in, including earlier sessions."""
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
        """Write the next items of the corpus. Copies everything; a thread writes it to disk.

        Args:
            arrays: site → array `[row, unit]`, for every site.
            rows: the origin of each row, in corpus order.
            words: the text of each row.
            n_items: the number of items, including those without rows.
            problems: (item, error message) pairs.
        """
        self._check_rows(rows, words, n_items)
        about = {"first_row": self._n_rows, "n_rows": len(rows), "first_item": self._n_items, "n_items": n_items}
        about["n_problems"] = len(problems)
        self._writer.block(window_name(self._n_items), _aligned(self._columns(arrays, rows, words, problems)), about)
        self._n_items += n_items
        self._n_rows += len(rows)
        self._raise_if_lost()

    def flush(self) -> None:
        """Wait until everything is on disk."""
        self._writer.flush()
        self._raise_if_lost()

    def finish(self) -> None:
        """Mark the collection as complete, and close."""
        self.flush()
        self._describe(is_whole=True)
        self.close()
        self._raise_if_lost()

    def close(self) -> None:
        """Write everything to disk and close, without marking it complete: you can resume it."""
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
                f"cannot write everything to {self.path}: {why}. {self._done:,} items are safe. "
                "Free disk space, then collect again with resume=True."
            )

    def _check_alike(self) -> None:
        """Refuse to resume a collection with other settings, before anything is written."""
        if not is_archive(backend_for(self.path).names()):
            return
        archive = Archive(self.path)
        document = archive.documents.get(DOCUMENT)
        if archive.kind != "activations" or not isinstance(document, dict):
            return  # Writer raises for other kinds; a collection killed at its start has no document
        sites = document.get("sites") or ()
        known = [CollectedSite.read(site) for site in sites]
        if any(site.layout for site in self.sites) and known and not any(site.layout for site in known):
            raise InputError(
                f"{self.path} was started by an older version of Cutaway, which counted units by another rule. "
                "Use another path."
            )
        if not same_sites(known, self.sites):
            _check_equal(self.path, "sites", sites, self._about["sites"])
        for name in ("dtype", "aggregate"):
            _check_equal(self.path, name, document.get(name), self._about[name])
        old, new = _comparable(document.get("provenance")), _comparable(self._about["provenance"])
        for name in sorted(old.keys() | new.keys()):
            _check_equal(self.path, name, old.get(name), new.get(name))

    def _check_rows(self, rows: Rows, words: Sequence[str], n_items: int) -> None:
        n, stop = len(rows), self._n_items + n_items
        if any(len(column) != n for column in (rows.word, rows.first, rows.last, words)):
            raise InputError(f"a window of {n:,} rows needs {n:,} words and as many entries in each column of rows.")
        if n_items < 1:
            raise InputError(f"n_items must be at least 1, got {n_items}.")
        if n and not (self._n_items <= rows.item[0] and rows.item[-1] < stop and (np.diff(rows.item) >= 0).all()):
            raise InputError(
                f"the rows of a window must be in corpus order. This window has items {self._n_items} to "
                f"{stop - 1}, but its rows are of items {rows.item.min()} to {rows.item.max()}."
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
            raise InputError(f"a window needs exactly the collection's sites. Differing: {listed(differing, 3)}.")
        columns: dict[str, Array] = {f"row/{name}": np.array(getattr(rows, name)) for name in ROW_COLUMNS}
        columns["words/text"], columns["words/offsets"] = join_strings(words)
        if problems:
            columns["problems/item"] = np.array([item for item, _ in problems], np.int64)
            columns["problems/text"], columns["problems/offsets"] = join_strings([message for _, message in problems])
        return columns | {SITE + site.site: self._values(site, arrays[site.site], rows) for site in self.sites}

    def _values(self, site: CollectedSite, values: ArrayLike, rows: Rows) -> Array:
        array = np.asarray(values)
        if array.shape != (len(rows), site.width):
            shape = [len(rows), site.width]
            raise InputError(f"{site.site!r} has shape {list(array.shape)}, expected {shape}.")
        # The overflow is reported below, with the unit and the item, instead of as a NumPy warning.
        with np.errstate(over="ignore"):
            stored = np.array(array, self.dtype, order="C")
        if self.dtype == "float16" and array.dtype != stored.dtype and not np.isfinite(stored).all():
            # An infinity that the model itself computed is data, not an overflow.
            lost = np.argwhere(np.isinf(stored) & np.isfinite(array))
            if len(lost):
                row, unit = lost[0]
                raise InputError(
                    f"{len(lost):,} values of {site.site!r} overflow float16, the first is "
                    f"{array[row, unit]:.6g} (unit {unit}, item {rows.item[row]}). Collect with dtype='float32'."
                )
        return stored


def _aligned(arrays: Mapping[str, Array]) -> dict[str, Raw]:
    """Order and pad the arrays so that each starts aligned, as memory-mapped reads need."""
    # Largest items first: then every array starts at a multiple of its own item size without padding in between.
    by_size = sorted(arrays.items(), key=lambda named: -named[1].itemsize)
    n_over = -sum(array.nbytes for _, array in by_size) % _ALIGNMENT
    padding = {"padding": Raw.of(np.zeros(n_over, np.uint8))} if n_over else {}
    return {name: Raw.of(array) for name, array in by_size} | padding


def check_dtype(dtype: Any) -> None:
    """Raise unless the dtype is float32 or float16."""
    if not isinstance(dtype, str) or dtype not in ("float32", "float16"):
        raise InputError(f"dtype must be 'float32' or 'float16', got {dtype!r}.")


def _check(sites: Sequence[CollectedSite], dtype: Any) -> None:
    check_dtype(dtype)
    if not sites or len({site.site for site in sites}) < len(sites):
        raise InputError(f"a collection needs at least one site, each once, got {[s.site for s in sites]}.")
    for site in sites:
        Site.parse(site.site)
        if site.width < 1:
            raise InputError(f"{site.site!r} has {site.width} units, so there is nothing to collect.")


def _comparable(provenance: Any) -> dict[str, Any]:
    content = provenance if isinstance(provenance, dict) else {}
    return {name: value for name, value in content.items() if name not in _MAY_DIFFER}


def _check_equal(path: str, name: str, old: Any, new: Any) -> None:
    # Tuples come back as lists.
    if old != new and old != (list(new) if isinstance(new, tuple) else new):
        raise InputError(
            f"{path} was collected with another {name} ({short_repr(old)}, now {short_repr(new)}). "
            "Resume with the same settings, or use another path."
        )
