"""Encodes a result as plain data and named arrays; `decode` is the inverse.

Values that plain data cannot express are maps with the key `is` (an array, a list, a map, a NumPy number) or `class` (a
dataclass, field by field). A bare list is a tuple. Every value encodes its type, so that it round-trips even if the
type hint leaves the type open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Raw
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.store.activations.unit_selection import UnitNames
from cutaway.store.format.frames import MAX_ENTRIES, Plain
from cutaway.store.format.ragged import join_strings

MAX_INLINE: Final = 4_096
"""Longer sequences of texts or numbers of one type are stored as arrays."""
MAX_IMPLIED: Final = 1 << 24
"""Above this many units, all are listed: a reader must not allocate for a mere number."""
SCALARS: Final[Mapping[str, Callable[[Any], np.generic]]] = {
    np.dtype(kind).name: kind
    for kind in (
        *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, np.float32, np.float64),
    )
}
"""NumPy number types by dtype name."""
TEXT: Final = "text"
"""The dtype name of a NumPy text."""
_ALLOWED: Final = "Use None, bool, numbers, text, arrays of numbers, tuples, lists, mappings or dataclasses"


class ResultWriter:
    """Encodes a result.

    >>> writer = ResultWriter()
    >>> writer.content({"a": (1, "b")}, "about")
    {'is': 'map', 'keys': ['a'], 'values': [[1, 'b']]}
    >>> writer.content(np.arange(3), "scores"), list(writer.arrays)
    ({'is': 'array', 'at': 'scores'}, ['scores'])
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Raw] = {}
        """Arrays next to the plain data, by name."""
        self._known: dict[int, tuple[object, Plain]] = {}
        """Shared parts are encoded once. The object is kept alive so that no other gets its id."""

    def content(self, value: Any, where: str) -> Plain:
        """Encode a value as plain data; `where` is its path in the result, which names its arrays."""
        # Exact types: NumPy floats and texts are subclasses of float and str, and must come back as NumPy scalars.
        if value is None or type(value) in (bool, float, str):
            return value  # type: ignore[no-any-return]
        if type(value) is int:
            return value if -(2**63) <= value < 2**63 else {"is": "int", "digits": hex(value)}
        if isinstance(value, np.generic):
            return _scalar(value, where)
        if isinstance(value, np.ndarray):
            return self._once(value, where, self._array)
        if isinstance(value, UnitNames):
            return self._once(value, where, self._names)
        if is_dataclass(value) and not isinstance(value, type):
            named = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            content = {name: self.content(part, _below(where, name)) for name, part in named.items()}
            return {"class": type(value).__name__, "fields": content}
        if isinstance(value, Mapping):
            return self._mapping(value, where)
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
            return self._once(value, where, self._sequence)
        raise InputTypeError(f"{where or 'it'} is {type_text(value)}, which cannot be saved. {_ALLOWED}.")

    def _once(self, value: Any, where: str, write: Callable[[Any, str], Plain]) -> Plain:
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = (value, write(value, where))
        return known[1]

    def _array(self, array: NDArray[Any], where: str) -> Plain:
        # np.asarray would drop the mask and save the values beneath it.
        if isinstance(array, np.ma.MaskedArray):
            raise InputTypeError(f"{where} is a masked array, which cannot be saved. Use .filled(…) first.")
        if array.dtype.kind in "OUST":
            raise InputTypeError(f"{where} is an array of {array.dtype}, which cannot be saved. Use a tuple of texts.")
        try:
            self.arrays[where] = Raw.of(array)
        except InputError as error:
            raise InputError(f"cannot save {where}: {error}") from error
        return {"is": "array", "at": where}

    def _names(self, names: UnitNames, where: str) -> Plain:
        """Encode names of units: their sites, and which units, unless they are all units in order."""
        units = names.units
        content: dict[str, Plain] = {"is": "names", "sites": self.content(units.known, _below(where, "sites"))}
        if not units.is_all or len(units) > MAX_IMPLIED:
            for name, numbers in (("site", units.site_numbers), ("column", units.columns)):
                content[name] = self._array(_narrow(numbers), _below(where, name))
        return content

    def _mapping(self, mapping: Mapping[Any, Any], where: str) -> Plain:
        keys, values = list(mapping), list(mapping.values())
        return {
            "is": "map",
            "keys": self._items(keys, _below(where, "keys")),
            "values": self._items(values, where, [_name(key, position) for position, key in enumerate(keys)]),
        }

    def _sequence(self, sequence: Sequence[Any], where: str) -> Plain:
        items = self._items(list(sequence), where)
        # A bare list in plain data is a tuple, because most sequences in results are tuples.
        return {"is": "list", "items": items} if isinstance(sequence, list) else items

    def _items(self, items: list[Any], where: str, names: Sequence[str] | None = None) -> Plain:
        """Encode a sequence; many items of one type become an array."""
        if len(items) > MAX_INLINE:
            kinds = set(map(type, items))
            if kinds == {str}:
                return {"is": "texts", "at": self._texts(items, where)}
            if kinds == {float} or (kinds == {int} and -(2**63) <= min(items) <= max(items) < 2**63):
                self.arrays[where] = Raw.of(np.array(items, np.float64 if kinds == {float} else np.int64))
                return {"is": "numbers", "at": where}
        names = names or [str(position) for position in range(len(items))]
        contents = [self.content(item, _below(where, name)) for item, name in zip(items, names, strict=True)]
        if len(contents) <= MAX_ENTRIES:
            return contents
        return {
            "is": "long",
            "parts": [contents[at : at + MAX_ENTRIES] for at in range(0, len(contents), MAX_ENTRIES)],
        }

    def _texts(self, texts: list[str], where: str) -> str:
        data, offsets = join_strings(texts)
        self.arrays[_below(where, "bytes")] = Raw.of(data)
        self.arrays[_below(where, "offsets")] = Raw.of(_narrow(offsets))
        return where


def _scalar(value: np.generic, where: str) -> Plain:
    if isinstance(value, np.str_):
        return {"is": "scalar", "dtype": TEXT, "value": str(value)}
    if value.dtype.name not in SCALARS:
        raise InputTypeError(f"{where} is a NumPy {value.dtype}, which cannot be saved. {_ALLOWED}.")
    return {"is": "scalar", "dtype": value.dtype.name, "value": value.item()}


def _narrow(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """As int32 if they fit; no number is negative."""
    return numbers.astype(np.int32) if not len(numbers) or numbers.max() < 2**31 else numbers


def _name(key: object, position: int) -> str:
    """Path component of a mapping entry, unique within the mapping."""
    # "keys" would collide with the path of the array that holds long lists of keys.
    return key if isinstance(key, str) and key.isidentifier() and key != "keys" else str(position)


def _below(where: str, name: str) -> str:
    return f"{where}/{name}" if where else name
