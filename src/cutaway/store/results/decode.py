"""Decodes a result from plain data and arrays; checks every value against its type hint.

The input is untrusted. A class is instantiated only if a type hint or the registry names it; no other name in a file
is ever imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Raw, short_repr
from cutaway.core.errors import CutawayError, DamagedError
from cutaway.core.formatting import type_text
from cutaway.store.activations.unit_selection import UnitNames, Units
from cutaway.store.activations.windows import CollectedSite, read_layout
from cutaway.store.format.fields import count, text
from cutaway.store.format.ragged import split_strings
from cutaway.store.results.encode import MAX_IMPLIED, SCALARS, TEXT
from cutaway.store.results.types import Options, entries_of, fields_of, fits, items_of, options_of, options_text

_SITES = options_of(tuple[CollectedSite, ...])
_Items = Callable[[int], Iterable[Options] | None]
"""Maps a length to the type options of each item; None if no sequence of that length is allowed."""


RENAMED = {"ColouredText": "ColoredText"}
"""Class names in archives of earlier versions → their names today."""
RENAMED_FIELDS = {"Section": {"plates": "blocks"}, "ColoredText": {"is_contest": "shows_strongest"}}
"""Class → field names in archives of earlier versions → their names today."""


class ResultReader:
    """Rebuilds a result.

    Args:
        raw: returns an array by name; KeyError if there is none.
        class_of: returns a registered class by name.
    """

    def __init__(self, raw: Callable[[str], Raw], class_of: Callable[[str], type]) -> None:
        self._raw = raw
        self._class_of = class_of
        self._known: dict[tuple[str, str], Any] = {}
        """Shared parts are decoded once."""

    def value(self, content: Any, options: Options, where: str) -> Any:
        """Decode a value; `DamagedError` if it is invalid or has none of the allowed types."""
        if isinstance(content, list):
            value: Any = self._tuple(content, partial(items_of, options), where)
        elif not isinstance(content, dict):
            value = content
        elif "class" in content:
            value = self._dataclass(content, options, where)
        else:
            value = self._tagged(content, options, where)
        if not fits(value, options):
            raise DamagedError(f"{where or 'it'} is {_value_text(value)}, expected {options_text(options)}")
        return value

    def _tagged(self, content: Mapping[str, Any], options: Options, where: str) -> Any:
        kind = content.get("is")
        if kind == "array":
            return self._once(kind, content, where)
        if kind in ("texts", "numbers", "long"):
            return self._row(content, partial(items_of, options), where)
        if kind == "list":
            return list(self._row(content.get("items"), partial(items_of, options), where))
        if kind == "map":
            return self._mapping(content, options, where)
        if kind == "names":
            return self._names(content, where)
        if kind == "scalar":
            return _scalar(content, where)
        if kind == "int":
            return _int(content, where)
        raise DamagedError(f"{where or 'it'} has the unknown encoding {short_repr(kind)}")

    def _row(self, content: Any, items: _Items, where: str) -> tuple[Any, ...]:
        """Decode a sequence, in any of its encodings."""
        if isinstance(content, list):
            return self._tuple(content, items, where)
        kind = content.get("is") if isinstance(content, dict) else None
        if kind == "long":
            parts = content.get("parts")
            if not isinstance(parts, list) or not all(isinstance(part, list) for part in parts):
                raise DamagedError(f"{where or 'it'} is not a long sequence")
            return self._tuple(list(chain.from_iterable(parts)), items, where)
        if kind not in ("texts", "numbers"):
            raise DamagedError(f"{where or 'it'} is {_value_text(content)}, expected a sequence")
        items_: tuple[Any, ...] = self._once(kind, content, where)
        options = items(len(items_))
        if options is None or (items_ and not fits(items_[0], next(iter(options)))):  # all have the same type
            raise DamagedError(f"{where or 'it'} is a sequence of {kind}, which its type does not allow")
        return items_

    def _tuple(self, content: list[Any], items: _Items, where: str) -> tuple[Any, ...]:
        options = items(len(content))
        if options is None:
            raise DamagedError(f"{where or 'it'} is a sequence of {len(content):,} values, unlike its type")
        pairs = zip(content, options, strict=True)
        return tuple(self.value(item, each, f"{where}/{position}") for position, (item, each) in enumerate(pairs))

    def _once(self, kind: str, content: Mapping[str, Any], where: str) -> Any:
        name = text(content.get("at"), f"location of {where}")
        if (kind, name) not in self._known:
            self._known[kind, name] = self._from_arrays(kind, name, where)
        return self._known[kind, name]

    def _from_arrays(self, kind: str, name: str, where: str) -> Any:
        if kind == "texts":
            return tuple(split_strings(self._array(f"{name}/bytes", where), self._array(f"{name}/offsets", where)))
        array = self._array(name, where)
        if kind == "array":
            return array
        if array.ndim != 1:
            raise DamagedError(f"{where} is an array of shape {list(array.shape)}, expected 1-D")
        return tuple(array.tolist())

    def _array(self, name: str, where: str) -> NDArray[Any]:
        try:
            return self._raw(name).array()
        except KeyError:
            raise DamagedError(f"{where} refers to the array {short_repr(name)}, which is missing") from None

    def _names(self, content: Mapping[str, Any], where: str) -> UnitNames:
        known = self.value(content.get("sites"), _SITES, f"{where}/sites")
        if not known or any(site.units and len(site.units) != site.width for site in known):
            raise DamagedError(f"{where} has units outside its sites")
        for site in known:
            if site.layout is not None:
                read_layout(site.layout.to_list())  # raises if its axes are impossible
        if "site" not in content:
            n = sum(count(site.width, f"units of {where}") for site in known)
            if n > MAX_IMPLIED:
                raise DamagedError(f"{where} claims {n:,} units without listing them")
            return UnitNames(Units.all(known))
        site, column = (self.value(content.get(name), (np.ndarray,), f"{where}/{name}") for name in ("site", "column"))
        return UnitNames(Units.read(known, site, column))

    def _mapping(self, content: Mapping[str, Any], options: Options, where: str) -> dict[Any, Any]:
        key, value = entries_of(options)
        keys = self._row(content.get("keys"), partial(repeat, key), f"{where}/keys")
        values = self._row(content.get("values"), partial(repeat, value), where)
        if len(keys) != len(values):
            raise DamagedError(f"{where} has {len(keys):,} keys and {len(values):,} values")
        try:
            return dict(zip(keys, values, strict=True))
        except TypeError as error:  # an unhashable key
            raise DamagedError(f"{where} is not a mapping: {error}") from error

    def _dataclass(self, content: Mapping[str, Any], options: Options, where: str) -> Any:
        name = text(content.get("class"), f"class of {where}")
        name = RENAMED.get(name, name)
        candidates = (option for option in options if isinstance(option, type) and is_dataclass(option))
        # The type hint first: nested dataclasses need no entry in the registry.
        kind = next((option for option in candidates if option.__name__ == name), None) or self._class_of(name)
        given = content.get("fields")
        if not isinstance(given, dict):
            raise DamagedError(f"the fields of {where or name} are {_value_text(given)}, expected a map")
        # Unknown fields are ignored, so without this map the contents of an old page would be lost silently.
        renamed = RENAMED_FIELDS.get(name, {})
        given = {renamed.get(key, key): value for key, value in given.items()}
        allowed = fields_of(kind)
        values: dict[str, Any] = {}
        for field in fields(kind):
            if not field.init:
                continue
            if field.name in given:
                values[field.name] = self.value(
                    given[field.name], allowed[field.name], f"{where}/{field.name}".lstrip("/")
                )
            # A field that is newer than the file gets its default; one without a default cannot be guessed.
            elif not _has_default(field):
                raise DamagedError(f"the {name} lacks the field {field.name!r}, which this version of Cutaway requires")
        try:
            return kind(**values)
        # Any of these may come from __post_init__, which checks what type hints cannot express.
        except (CutawayError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise DamagedError(f"cannot rebuild the {name}: {error}") from error


def _scalar(content: Mapping[str, Any], where: str) -> np.generic:
    dtype, value = text(content.get("dtype"), f"dtype of {where}"), content.get("value")
    if dtype == TEXT:
        return np.str_(text(value, where))
    if dtype not in SCALARS or type(value) not in (bool, int, float):
        raise DamagedError(f"{where} is {short_repr(value)} as {short_repr(dtype)}, which is not a NumPy number")
    try:
        return SCALARS[dtype](value)
    except (OverflowError, ValueError) as error:
        raise DamagedError(f"{where} is not a {dtype}: {error}") from error


def _int(content: Mapping[str, Any], where: str) -> int:
    digits = text(content.get("digits"), f"digits of {where}")
    try:
        # Hexadecimal, because Python refuses decimal numbers of more than 4,300 digits (CVE-2020-10735).
        return int(digits, 16)
    except ValueError:
        raise DamagedError(f"{where} is {short_repr(digits)}, expected a number") from None


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _value_text(value: Any) -> str:
    if isinstance(value, (str, int, float, type(None))):
        return short_repr(value)
    return f"{type_text(value)}"
