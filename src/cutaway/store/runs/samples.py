"""The samples of a step (ids, texts, tokens, labels, images), stored as rows next to its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutaway.core.arrays import Array, Raw
from cutaway.core.errors import DamagedError, InputError, InputTypeError
from cutaway.core.formatting import listed, plural
from cutaway.store.format.ragged import (
    join_ints,
    join_string_lists,
    join_strings,
    split_ints,
    split_string_lists,
    split_strings,
)
from cutaway.store.format.records import SAMPLE, Row

Field = Sequence[str] | Sequence[Sequence[int]] | Sequence[Sequence[str]] | Array

_BYTES, _STARTS, _LISTS, _INTS, _ARRAY = (f"{SAMPLE}/{part}" for part in ("bytes", "starts", "lists", "ints", "array"))


@dataclass(frozen=True)
class Samples:
    """The recorded samples of a step; each field has one entry per sample.

    >>> samples = Samples({"text": ["a cat", "a dog"], "label": np.array([0, 1])})
    >>> samples.text[1], samples[1]
    ('a dog', {'text': 'a dog', 'label': 1})
    """

    fields: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.fields.values()))) if self.fields else 0

    def __getitem__(self, number: int) -> dict[str, Any]:
        if isinstance(number, str):
            known = listed(map(repr, self.fields), 8) or "none"
            raise InputTypeError(
                f"samples are counted from 0; {number!r} may be a field: samples.fields[{number!r}]. Fields: {known}."
            )
        if not -len(self) <= number < len(self):
            raise IndexError(f"no sample {number}: this step recorded {plural(len(self), 'sample')}.")
        return {name: _plain(values[number]) for name, values in self.fields.items()}

    @property
    def ids(self) -> Any:
        """The id of each sample; None if not recorded."""
        return self.fields.get("ids")

    @property
    def text(self) -> list[str] | None:
        """The text of each sample; None if not recorded."""
        return self.fields.get("text")

    @property
    def tokens(self) -> list[list[str]] | list[list[int]] | None:
        """The tokens of each sample; None if not recorded."""
        return self.fields.get("tokens")

    @property
    def label(self) -> Any:
        """The label of each sample; None if not recorded."""
        return self.fields.get("label")

    @property
    def image(self) -> Array | None:
        """The images; None if not recorded."""
        return self.fields.get("image")

    def find(self, text: str) -> list[int]:
        """Indices of the samples that contain a text in any field; ignores case."""
        wanted = text.casefold()
        return [number for number in range(len(self)) if any(wanted in word for word in self._words(number))]

    def _words(self, number: int) -> list[str]:
        words = []
        for values in self.fields.values():
            value = values[number]
            if isinstance(value, list):
                words.append("".join(value) if value and isinstance(value[0], str) else "")
            elif isinstance(value, str) or np.ndim(value) == 0:
                words.append(str(value))
        return [word.casefold() for word in words]


def packed_samples(fields: Mapping[str, Field]) -> dict[Row, Raw]:
    """Encode fields of samples as rows and arrays.

    Args:
        fields: name → one entry per sample: texts, lists of tokens, numbers, or an array.
    """
    for name, values in fields.items():
        is_one = isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__")
        if is_one or (isinstance(values, np.ndarray) and not values.ndim):
            raise InputTypeError(
                f"the sample field {name!r} is a single {type(values).__name__}; pass one entry per sample."
            )
    lengths = {name: len(values) for name, values in fields.items()}
    if len(set(lengths.values())) > 1:
        lengths_text = listed((f"{name} {length}" for name, length in lengths.items()), 8)
        raise InputError(f"all sample fields need one entry per sample, but their lengths are: {lengths_text}.")
    rows: dict[Row, Raw] = {}
    for name, values in fields.items():
        for part, array in _parts(name, values):
            rows[Row(name, part)] = Raw.of(array)
    return rows


def _parts(name: str, values: Field) -> list[tuple[str, Array]]:
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "biufc":
            return [(_ARRAY, values)]
        values = values.tolist()
    entries: list[Any] = list(values)
    if all(isinstance(value, str) for value in entries):
        data, starts = join_strings(entries)
        return [(_BYTES, data), (_STARTS, starts)]
    if all(isinstance(value, (list, tuple)) for value in entries):
        words = [word for value in entries for word in value]
        if all(isinstance(word, str) for word in words):
            data, starts, lists = join_string_lists(entries)
            return [(_BYTES, data), (_STARTS, starts), (_LISTS, lists)]
        if all(isinstance(word, (int, np.integer)) for word in words):
            flat, starts = join_ints(entries)
            return [(_INTS, flat), (_STARTS, starts)]
    try:
        array = np.asarray(entries)
    except ValueError:
        array = np.empty(0, object)
    # NumPy turns unequal rows into objects or raises, depending on their shapes; both are refused.
    if array.dtype.kind not in "biufc" or len(array) != len(entries):
        raise InputTypeError(f"the sample field {name!r} must be texts, lists of tokens, numbers or an array.")
    return [(_ARRAY, array)]


def read_samples(parts: Mapping[Row, Raw | None]) -> Samples:
    """Inverse of `packed_samples`."""
    grouped: dict[str, dict[str, Array]] = {}
    for row, raw in parts.items():
        if raw is not None:
            grouped.setdefault(row.site, {})[row.of] = raw.array()
    fields = {name: _field(name, arrays) for name, arrays in grouped.items()}
    if len({len(values) for values in fields.values()}) > 1:
        raise DamagedError("the sample fields differ in length.")
    return Samples(fields)


def _field(name: str, parts: Mapping[str, Array]) -> Any:
    if _ARRAY in parts and parts[_ARRAY].ndim:
        return parts[_ARRAY]
    if _INTS in parts and _STARTS in parts:
        return split_ints(parts[_INTS], parts[_STARTS])
    if _BYTES in parts and _STARTS in parts:
        if _LISTS in parts:
            return split_string_lists(parts[_BYTES], parts[_STARTS], parts[_LISTS])
        return split_strings(parts[_BYTES], parts[_STARTS])
    raise DamagedError(f"the sample field {name!r} is incomplete.")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
