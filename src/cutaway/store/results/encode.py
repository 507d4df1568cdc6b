"""From a result to plain data and named arrays, from which `results_reading` makes it again.

What plain data cannot say by itself is a map with the key `is` (an array, a list, a map, a number of NumPy's) or
`class` (a dataclass, field by field). A bare list is a tuple. Everything says what it is, so that it comes back as it
was even where a type hint leaves that open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Raw
from cutaway.core.errors import InputError
from cutaway.store.activations.unit_selection import Names
from cutaway.store.format.frames import MOST_ENTRIES, Plain
from cutaway.store.format.ragged import join_strings

MOST_INLINE: Final = 4_096
"""Longer rows of texts or numbers of one type are arrays."""
MOST_IMPLIED: Final = 1 << 24
"""Units beyond this are written one by one: a reader does not allocate for a mere number."""
SCALARS: Final[Mapping[str, Callable[[Any], np.generic]]] = {
    np.dtype(kind).name: kind
    for kind in (
        *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, np.float32, np.float64),
    )
}
"""Numbers of NumPy's, by the name of their dtype."""
TEXT: Final = "text"
"""The dtype of a text of NumPy's."""
_CAN: Final = "None, truth values, numbers, texts, arrays of numbers, tuples, lists, mappings and dataclasses can"


class ResultWriter:
    """Takes a result apart.

    >>> writer = ResultWriter()
    >>> writer.content({"a": (1, "b")}, "about")
    {'is': 'map', 'keys': ['a'], 'values': [[1, 'b']]}
    >>> writer.content(np.arange(3), "scores"), list(writer.arrays)
    ({'is': 'array', 'at': 'scores'}, ['scores'])
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Raw] = {}
        """What lies beside the plain data, by name."""
        self._known: dict[int, tuple[object, Plain]] = {}
        """What several parts share is written once. The object is held, so that no other gets its id."""

    def content(self, value: Any, where: str) -> Plain:
        """A value as plain data; `where` is its place in the result, which names its arrays."""
        if value is None or type(value) in (bool, float, str):
            return value  # type: ignore[no-any-return]
        if type(value) is int:
            return value if -(2**63) <= value < 2**63 else {"is": "int", "digits": hex(value)}
        if isinstance(value, np.generic):
            return _scalar(value, where)
        if isinstance(value, np.ndarray):
            return self._once(value, where, self._array)
        if isinstance(value, Names):
            return self._once(value, where, self._names)
        if is_dataclass(value) and not isinstance(value, type):
            named = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            content = {name: self.content(part, _below(where, name)) for name, part in named.items()}
            return {"class": type(value).__name__, "fields": content}
        if isinstance(value, Mapping):
            return self._mapping(value, where)
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
            return self._once(value, where, self._sequence)
        raise InputError(f"{where or 'it'} is a {type(value).__name__}, which cannot be saved: {_CAN}.")

    def _once(self, value: Any, where: str, write: Callable[[Any, str], Plain]) -> Plain:
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = (value, write(value, where))
        return known[1]

    def _array(self, array: NDArray[Any], where: str) -> Plain:
        if isinstance(array, np.ma.MaskedArray):
            raise InputError(f"{where} is a masked array, which cannot be saved: .filled(…) makes it a plain one.")
        if array.dtype.kind in "OUST":
            raise InputError(f"{where} is an array of {array.dtype}, which cannot be saved: a tuple of texts can.")
        try:
            self.arrays[where] = Raw.of(array)
        except InputError as error:
            raise InputError(f"{where} cannot be saved: {error}") from error
        return {"is": "array", "at": where}

    def _names(self, names: Names, where: str) -> Plain:
        """The names of units: their sites, and which units of them, unless they are all in order."""
        units = names.units
        content: dict[str, Plain] = {"is": "names", "sites": self.content(units.known, _below(where, "sites"))}
        if not units.is_all or len(units) > MOST_IMPLIED:
            for name, numbers in (("site", units.site_numbers), ("column", units.columns)):
                content[name] = self._array(_narrow(numbers), _below(where, name))
        return content

    def _mapping(self, mapping: Mapping[Any, Any], where: str) -> Plain:
        keys, values = list(mapping), list(mapping.values())
        return {
            "is": "map",
            "keys": self._items(keys, _below(where, "keys")),
            "values": self._items(values, where, [_name(key, place) for place, key in enumerate(keys)]),
        }

    def _sequence(self, sequence: Sequence[Any], where: str) -> Plain:
        found = self._items(list(sequence), where)
        return {"is": "list", "items": found} if isinstance(sequence, list) else found

    def _items(self, items: list[Any], where: str, names: Sequence[str] | None = None) -> Plain:
        """Some items in a row: as an array where they are many of one type."""
        if len(items) > MOST_INLINE:
            kinds = set(map(type, items))
            if kinds == {str}:
                return {"is": "texts", "at": self._texts(items, where)}
            if kinds == {float} or (kinds == {int} and -(2**63) <= min(items) <= max(items) < 2**63):
                self.arrays[where] = Raw.of(np.array(items, np.float64 if kinds == {float} else np.int64))
                return {"is": "numbers", "at": where}
        names = names or [str(place) for place in range(len(items))]
        found = [self.content(item, _below(where, name)) for item, name in zip(items, names, strict=True)]
        if len(found) <= MOST_ENTRIES:
            return found
        return {"is": "long", "parts": [found[at : at + MOST_ENTRIES] for at in range(0, len(found), MOST_ENTRIES)]}

    def _texts(self, texts: list[str], where: str) -> str:
        data, offsets = join_strings(texts)
        self.arrays[_below(where, "bytes")] = Raw.of(data)
        self.arrays[_below(where, "offsets")] = Raw.of(_narrow(offsets))
        return where


def _scalar(value: np.generic, where: str) -> Plain:
    if isinstance(value, np.str_):
        return {"is": "scalar", "dtype": TEXT, "value": str(value)}
    if value.dtype.name not in SCALARS:
        raise InputError(f"{where} is a {value.dtype} of NumPy's, which cannot be saved: {_CAN}.")
    return {"is": "scalar", "dtype": value.dtype.name, "value": value.item()}


def _narrow(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """In 32 bits where they fit; none of them is below 0."""
    return numbers.astype(np.int32) if not len(numbers) or numbers.max() < 2**31 else numbers


def _name(key: object, place: int) -> str:
    """What stands for an entry of a mapping in the names of its arrays; never what stands for another."""
    return key if isinstance(key, str) and key.isidentifier() and key != "keys" else str(place)


def _below(where: str, name: str) -> str:
    return f"{where}/{name}" if where else name
