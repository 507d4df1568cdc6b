"""Lazy sequence of the words of all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from cutaway.store.activations.sources import Source


class Words(Sequence[str]):
    """The text of each row, read on access; equal to a list of the same texts."""

    def __init__(self, source: Source, rows: NDArray[np.int64] | None) -> None:
        self._source = source
        self._rows = rows

    def __len__(self) -> int:
        return int(self._source.starts[-1]) if self._rows is None else len(self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            numbers = np.arange(*index.indices(len(self)))
            return self._texts_at(numbers if self._rows is None else self._rows[numbers])
        number = int(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"row {number} of {len(self):,}.")
        return self._word(number % len(self))

    def __iter__(self) -> Iterator[str]:
        if self._rows is not None:
            return iter(self._texts_at(self._rows))
        windows = range(len(self._source.starts) - 1)
        return (word for window in windows for word in self._source.words(window))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Words, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:5]))
        return f"<{len(self):,} words: {shown}{', …' if len(self) > 5 else ''}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(list(self), dtype=dtype)

    def _texts_at(self, rows: NDArray[np.int64]) -> list[str]:
        starts = self._source.starts
        windows = np.searchsorted(starts, rows, side="right") - 1
        texts = [""] * len(rows)
        for window in np.unique(windows).tolist():
            words, first = self._source.words(window), int(starts[window])
            for position in np.flatnonzero(windows == window).tolist():
                texts[position] = words[int(rows[position]) - first]
        return texts

    def _word(self, number: int) -> str:
        row = number if self._rows is None else int(self._rows[number])
        window = int(np.searchsorted(self._source.starts, row, side="right")) - 1
        return self._source.words(window)[row - int(self._source.starts[window])]
