"""A result out of plain data and named arrays: every value is held against the type hint of the field it is for.

What is read may come from anybody. A class is made only where a hint names it or the registry does; nothing else that a
file names is ever imported.
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
from cutaway.store.activations.unit_selection import Names, Units
from cutaway.store.activations.windows import CollectedSite, read_layout
from cutaway.store.format.fields import count, text
from cutaway.store.format.ragged import split_strings
from cutaway.store.results.encode import MOST_IMPLIED, SCALARS, TEXT
from cutaway.store.results.types import Options, entries_of, fields_of, fits, items_of, options_of, said

_SITES = options_of(tuple[CollectedSite, ...])
_Items = Callable[[int], Iterable[Options] | None]
"""What is said of each of so many items; None where there can be no row of so many."""


class ResultReader:
    """Puts a result together again.

    Args:
        raw: gives an array by its name; a `KeyError` where there is none of it.
        class_of: gives a class of the registry by its name.
    """

    def __init__(self, raw: Callable[[str], Raw], class_of: Callable[[str], type]) -> None:
        self._raw = raw
        self._class_of = class_of
        self._known: dict[tuple[str, str], Any] = {}
        """Parts that several others share are read once."""

    def value(self, content: Any, options: Options, where: str) -> Any:
        """The value that was written as this; `DamagedError` where it is none, or none of the types it may have."""
        if isinstance(content, list):
            found: Any = self._tuple(content, partial(items_of, options), where)
        elif not isinstance(content, dict):
            found = content
        elif "class" in content:
            found = self._dataclass(content, options, where)
        else:
            found = self._tagged(content, options, where)
        if not fits(found, options):
            raise DamagedError(f"{where or 'it'} is {_said(found)} instead of {said(options)}")
        return found

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
        raise DamagedError(
            f"{where or 'it'} is written as {short_repr(kind)}, which this version of Cutaway does not know"
        )

    def _row(self, content: Any, items: _Items, where: str) -> tuple[Any, ...]:
        """Items in a row, in whatever form they are."""
        if isinstance(content, list):
            return self._tuple(content, items, where)
        kind = content.get("is") if isinstance(content, dict) else None
        if kind == "long":
            parts = content.get("parts")
            if not isinstance(parts, list) or not all(isinstance(part, list) for part in parts):
                raise DamagedError(f"{where or 'it'} is no long row of values")
            return self._tuple(list(chain.from_iterable(parts)), items, where)
        if kind not in ("texts", "numbers"):
            raise DamagedError(f"{where or 'it'} is {_said(content)} instead of a row of values")
        found: tuple[Any, ...] = self._once(kind, content, where)
        options = items(len(found))
        if options is None or (found and not fits(found[0], next(iter(options)))):  # all are of one type
            raise DamagedError(f"{where or 'it'} is a row of {kind}, which is not expected there")
        return found

    def _tuple(self, content: list[Any], items: _Items, where: str) -> tuple[Any, ...]:
        options = items(len(content))
        if options is None:
            raise DamagedError(f"{where or 'it'} is a row of {len(content):,} values, which is not expected there")
        pairs = zip(content, options, strict=True)
        return tuple(self.value(item, each, f"{where}/{place}") for place, (item, each) in enumerate(pairs))

    def _once(self, kind: str, content: Mapping[str, Any], where: str) -> Any:
        name = text(content.get("at"), f"place of {where}")
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
            raise DamagedError(f"{where} is an array of shape {list(array.shape)} instead of a row")
        return tuple(array.tolist())

    def _array(self, name: str, where: str) -> NDArray[Any]:
        try:
            return self._raw(name).array()
        except KeyError:
            raise DamagedError(f"{where} lies in the array {short_repr(name)}, which is not there") from None

    def _names(self, content: Mapping[str, Any], where: str) -> Names:
        known = self.value(content.get("sites"), _SITES, f"{where}/sites")
        if not known or any(site.units and len(site.units) != site.width for site in known):
            raise DamagedError(f"{where} names units of sites that cannot have them")
        for site in known:
            if site.layout is not None:
                read_layout(site.layout.to_list())  # raises where its axes cannot be
        if "site" not in content:
            n = sum(count(site.width, f"units of {where}") for site in known)
            if n > MOST_IMPLIED:
                raise DamagedError(f"{where} says that it has {n:,} units, and does not say which")
            return Names(Units.all(known))
        site, column = (self.value(content.get(name), (np.ndarray,), f"{where}/{name}") for name in ("site", "column"))
        return Names(Units.read(known, site, column))

    def _mapping(self, content: Mapping[str, Any], options: Options, where: str) -> dict[Any, Any]:
        key, value = entries_of(options)
        keys = self._row(content.get("keys"), partial(repeat, key), f"{where}/keys")
        values = self._row(content.get("values"), partial(repeat, value), where)
        if len(keys) != len(values):
            raise DamagedError(f"{where} has {len(keys):,} keys and {len(values):,} values")
        try:
            return dict(zip(keys, values, strict=True))
        except TypeError as error:  # a key that cannot be one
            raise DamagedError(f"{where} is no mapping: {error}") from error

    def _dataclass(self, content: Mapping[str, Any], options: Options, where: str) -> Any:
        name = text(content.get("class"), f"class of {where}")
        here = (option for option in options if isinstance(option, type) and is_dataclass(option))
        kind = next((option for option in here if option.__name__ == name), None) or self._class_of(name)
        given = content.get("fields")
        if not isinstance(given, dict):
            raise DamagedError(f"the fields of {where or name} are {_said(given)} instead of a map")
        allowed = fields_of(kind)
        values: dict[str, Any] = {}
        for field in fields(kind):
            if not field.init:
                continue
            if field.name in given:
                values[field.name] = self.value(
                    given[field.name], allowed[field.name], f"{where}/{field.name}".lstrip("/")
                )
            elif not _has_default(field):
                raise DamagedError(
                    f"a {name} has no {field.name!r} there, which this version of Cutaway cannot do without"
                )
        try:
            return kind(**values)
        except (CutawayError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise DamagedError(f"no {name} can be made of what is there: {error}") from error


def _scalar(content: Mapping[str, Any], where: str) -> np.generic:
    dtype, value = text(content.get("dtype"), f"dtype of {where}"), content.get("value")
    if dtype == TEXT:
        return np.str_(text(value, where))
    if dtype not in SCALARS or type(value) not in (bool, int, float):
        raise DamagedError(f"{where} is {short_repr(value)} as {short_repr(dtype)}, which is no number of NumPy's")
    try:
        return SCALARS[dtype](value)
    except (OverflowError, ValueError) as error:
        raise DamagedError(f"{where} is no {dtype}: {error}") from error


def _int(content: Mapping[str, Any], where: str) -> int:
    digits = text(content.get("digits"), f"digits of {where}")
    try:
        return int(digits, 16)
    except ValueError:
        raise DamagedError(f"{where} is {short_repr(digits)} instead of a number") from None


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _said(value: Any) -> str:
    if isinstance(value, (str, int, float, type(None))):
        return short_repr(value)
    return f"a {type(value).__name__}"
