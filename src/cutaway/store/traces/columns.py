"""A trace as named arrays (columns), with each text stored once; reading validates every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError
from cutaway.store.format.ragged import join_ints, join_strings, split_ints, split_strings

Array = NDArray[Any]
_TEXT = "text"


class ColumnWriter:
    """Collects columns and returns them as arrays.

    >>> columns = ColumnWriter()
    >>> columns.texts("name", ["relu", "add", "relu"])
    >>> columns.rows("parents", [[], [0], [0, 1]])
    >>> ColumnReader(columns.arrays()).texts("name", 3)
    ['relu', 'add', 'relu']
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._texts: dict[str, int] = {}

    def numbers(self, name: str, values: Sequence[int]) -> None:
        self._arrays[name] = _narrow(np.array(values, np.int64))

    def floats(self, name: str, values: Sequence[float]) -> None:
        self._arrays[name] = np.array(values, np.float64)

    def rows(self, name: str, rows: Sequence[Sequence[int]]) -> None:
        """A list of numbers per row."""
        flat, offsets = join_ints(rows)
        self._arrays[name], self._arrays[f"{name}.offsets"] = _narrow(flat), _narrow(offsets)

    def texts(self, name: str, values: Sequence[str | None]) -> None:
        """A text per row, or None."""
        self.numbers(name, [-1 if text is None else self._number(text) for text in values])

    def text_rows(self, name: str, rows: Sequence[Sequence[str]]) -> None:
        """A list of texts per row."""
        self.rows(name, [[self._number(text) for text in row] for row in rows])

    def _number(self, text: str) -> int:
        # All columns share one table of texts: names, dtypes and paths repeat thousands of times in a trace.
        return self._texts.setdefault(text, len(self._texts))

    def arrays(self) -> dict[str, Raw]:
        """All columns added so far."""
        data, offsets = join_strings(list(self._texts))
        arrays = {**self._arrays, _TEXT: data, f"{_TEXT}.offsets": _narrow(offsets)}
        return {name: Raw.of(array) for name, array in arrays.items()}


def _narrow(numbers: Array) -> Array:
    """As int32 if they fit."""
    limits = np.iinfo(np.int32)
    fits = not len(numbers) or (limits.min <= numbers.min() and numbers.max() <= limits.max)
    return numbers.astype(np.int32) if fits else numbers


class ColumnReader:
    """Reads columns; raises `DamagedError` for impossible values."""

    def __init__(self, arrays: Mapping[str, Raw]) -> None:
        self._arrays = arrays
        self._texts = split_strings(self._array(_TEXT, "u"), self._array(f"{_TEXT}.offsets", "i"))

    def numbers(self, name: str, n: int | None, *, low: int = 0, high: int | None = None) -> list[int]:
        """`n` numbers from `low` to below `high`."""
        array = self._array(name, "i")
        _check_length(name, len(array), n)
        _check_range(name, array, low, high)
        numbers: list[int] = array.tolist()
        return numbers

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def truths(self, name: str, n: int) -> list[bool]:
        return [bool(number) for number in self.numbers(name, n, high=2)]

    def floats(self, name: str, n: int) -> list[float]:
        array = self._array(name, "f")
        _check_length(name, len(array), n)
        numbers: list[float] = array.tolist()
        return numbers

    def rows(self, name: str, n: int | None, *, low: int = 0, high: int | None = None) -> list[list[int]]:
        """A list of numbers from `low` to below `high` per row, for `n` rows."""
        flat = self._array(name, "i")
        _check_range(name, flat, low, high)
        rows = split_ints(flat, self._array(f"{name}.offsets", "i"))
        _check_length(name, len(rows), n)
        return rows

    def texts(self, name: str, n: int | None) -> list[str]:
        texts = self._texts
        return [texts[number] for number in self.numbers(name, n, high=len(texts))]

    def optional_texts(self, name: str, n: int) -> list[str | None]:
        texts = self._texts
        numbers = self.numbers(name, n, low=-1, high=len(texts))
        return [None if number < 0 else texts[number] for number in numbers]

    def text_rows(self, name: str, n: int) -> list[list[str]]:
        texts = self._texts
        return [[texts[number] for number in row] for row in self.rows(name, n, high=len(texts))]

    def _array(self, name: str, kind: str) -> Array:
        try:
            raw = self._arrays[name]
        except KeyError:
            raise DamagedError(f"the column {name!r} is missing from this trace.") from None
        array = raw.array()
        if array.ndim != 1 or array.dtype.kind != kind:
            raise DamagedError(f"the column {name!r} is a {array.dtype} array of shape {list(array.shape)}.")
        return array


def _check_length(name: str, actual: int, expected: int | None) -> None:
    if expected is not None and actual != expected:
        raise DamagedError(f"the column {name!r} has {actual:,} rows, expected {expected:,}.")


def _check_range(name: str, array: Array, low: int, high: int | None) -> None:
    if len(array) and (array.min() < low or (high is not None and array.max() >= high)):
        bound = "" if high is None else f" and below {high:,}"
        raise DamagedError(
            f"the column {name!r} has numbers from {array.min()} to {array.max()}; they must be at least {low}{bound}."
        )
