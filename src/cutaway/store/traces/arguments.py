"""Encodes call arguments as text: plain data as is, tensors as placeholders, other objects by repr."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from keyword import iskeyword
from operator import itemgetter
from typing import Any, Final

from cutaway.core.errors import DamagedError
from cutaway.core.events import Ref
from cutaway.graph.argument_text import OpaqueArgument, plain, value_text

TENSOR: Final = Ref(-1)
"""Placeholder for a tensor in decoded arguments; the op's parents tell which tensor it is."""
_MAX_DEPTH, _MAX_TEXT, _MAX_SHOWN, _MAX_BITS = 24, 4_096, 200, 4_096
_ATOMS = frozenset({type(None), bool, float})


class Encoder:
    """Encodes values as text; `n_things` counts objects stored by their repr.

    >>> encoder = Encoder(lambda value: value is TENSOR)
    >>> decode_arguments(encoder.arguments((TENSOR, slice(0, 3)), {"dim": (1, 2)}))
    ((Ref(node=-1), slice(0, 3, None)), {'dim': (1, 2)})

    Args:
        most: how many items one text may hold; larger containers are stored by their repr.
    """

    def __init__(self, is_tensor: Callable[[Any], bool], most: int = 20_000) -> None:
        self._is_tensor, self._max = is_tensor, most
        self._left = most
        self._things: dict[int, tuple[Any, OpaqueArgument]] = {}
        self.n_things = 0

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> str:
        """Encode the arguments of a call."""
        self._left = self._max
        named = [[str(name), self._tree(value, 0)] for name, value in kwargs.items()] if kwargs else []
        return json.dumps([[self._tree(value, 0) for value in args], named], separators=(",", ":"))

    def value(self, value: Any) -> str | None:
        """Encode a Python value that left torch; None if it is not plain data."""
        self._left, before = self._max, self.n_things
        text = json.dumps(self._tree(value, 0), separators=(",", ":"))
        return text if self.n_things == before else None

    def _tree(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _ATOMS:
            return value
        if self._is_tensor(value):
            return ["r"]
        # NumPy scalars and subclasses of int, float and str become what JSON can hold.
        value = plain(value)
        if isinstance(value, int):
            return value if value.bit_length() <= _MAX_BITS else self._thing(value)
        if isinstance(value, str):
            return value if len(value) <= _MAX_TEXT else self._thing(value)
        # Again: `plain` may have turned a NumPy scalar into a float or a bool.
        if type(value) in _ATOMS:
            return value
        if isinstance(value, complex):
            return ["c", value.real, value.imag]
        if isinstance(value, bytes):
            return ["b", value.hex()] if len(value) <= _MAX_TEXT else self._thing(value)
        if value is ...:
            return ["e"]
        return self._container(value, depth)

    def _container(self, value: Any, depth: int) -> Any:
        parts = _parts(value) if depth < _MAX_DEPTH else None
        if parts is None:
            return self._thing(value)
        head, items = parts
        self._left -= len(items)
        if self._left < 0:
            return self._thing(value)
        return [*head, *(self._tree(item, depth + 1) for item in items)]

    def _thing(self, value: Any) -> list[str]:
        self.n_things += 1
        known = self._things.get(id(value))
        if known is None:
            # Keep the object alive, so that no other object gets its id.
            known = self._things[id(value)] = value, self._describe(value)
        return ["x", known[1].name, known[1].text]

    def _describe(self, value: Any) -> OpaqueArgument:
        if isinstance(value, OpaqueArgument):
            return value
        summary = value_text(value, self._is_tensor)[:_MAX_SHOWN]
        if _parts(value) is not None or isinstance(value, (str, bytes, int)):
            return OpaqueArgument(summary, summary)
        try:
            return OpaqueArgument(summary, repr(value)[:_MAX_SHOWN])
        except Exception:  # __repr__ of a user's class
            return OpaqueArgument(summary, f"<{type(value).__name__}>")


def _parts(value: Any) -> tuple[list[Any], Sequence[Any]] | None:
    """The tag and the items of a container; None if the value is not a container."""
    if isinstance(value, tuple) and (named := getattr(value, "_fields", None)) is not None:
        name, names = type(value).__name__, list(named)
        return (
            (["n", name, names], value) if _are_names([name, *names]) and len(names) == len(value) else (["t"], value)
        )
    if isinstance(value, tuple):
        return ["t"], value
    if isinstance(value, (list, deque)):
        return ["l"], value
    if isinstance(value, slice):
        return ["s"], (value.start, value.stop, value.step)
    if isinstance(value, range):
        return ["g"], (value.start, value.stop, value.step)
    if isinstance(value, Mapping):
        return ["d"], [part for pair in value.items() for part in pair]
    if is_dataclass(value) and not isinstance(value, (type, OpaqueArgument)):
        name, names = type(value).__name__, [field.name for field in fields(value)]
        return (["o", name, names], _fields_of(value, names)) if _are_names([name, *names]) else None
    return None


def _fields_of(value: Any, names: list[str]) -> list[Any]:
    try:
        return [getattr(value, name, None) for name in names]
    except Exception:  # property access in a user's class
        return [None for _ in names]


def _are_names(names: Iterable[Any]) -> bool:
    """Whether these are valid names of a class and its fields."""
    return all(
        isinstance(name, str) and name.isidentifier() and not iskeyword(name) and not name.startswith("__")
        for name in names
    )


def decode_arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Decode the arguments of one call."""
    return decode_all_arguments([text])[0]


def decode_all_arguments(texts: Iterable[str]) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Decode the arguments of many calls; the texts are untrusted input."""
    calls = []
    for tree in _parse(texts):
        match tree:
            case [list(args), list(named)]:
                values = tuple([_value(item, 0) for item in args])
                calls.append((values, {_name(pair): _value(pair[1], 0) for pair in named}))
            case _:
                raise DamagedError("the arguments of a call are malformed.")
    return calls


def decode_values(texts: Iterable[str]) -> list[Any]:
    """Decode many plain values."""
    return [_value(tree, 0) for tree in _parse(texts)]


def _parse(texts: Iterable[str]) -> list[Any]:
    """Parse all texts with one call of the JSON parser, which is much faster for thousands of texts."""
    given = list(texts)
    try:
        trees = json.loads(f"[{','.join(given)}]")
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"cannot parse the arguments in this trace: {error}.") from error
    if not isinstance(trees, list) or len(trees) != len(given):
        raise DamagedError("the arguments in this trace run into each other.")
    return trees


def _name(pair: Any) -> str:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        raise DamagedError("a keyword argument in this trace is malformed.")
    return pair[0]


def _value(tree: Any, depth: int) -> Any:
    if not isinstance(tree, list):
        if isinstance(tree, dict):
            raise DamagedError("an argument in this trace is malformed.")
        return tree
    if depth > _MAX_DEPTH:
        raise DamagedError(f"arguments in this trace are nested more than {_MAX_DEPTH} deep.")
    try:
        make = _MAKERS[tree[0]]
        if tree[0] in _WITH_FIELDS:
            return make(tree[1], tree[2], [_value(item, depth + 1) for item in tree[3:]])
        return make([_value(item, depth + 1) for item in tree[1:]])
    except (IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, DamagedError):
            raise
        raise DamagedError(f"an argument in this trace is malformed: {str(tree)[:60]!r}.") from error


def _dict(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


def _thing(items: list[Any]) -> OpaqueArgument:
    summary, text = items
    return OpaqueArgument(str(summary), str(text))


def _named_tuple(name: Any, names: Any, items: list[Any]) -> Any:
    return _tuple_class(name, _checked(name, names, items))(*items)


def _object(name: Any, names: Any, items: list[Any]) -> Any:
    instance = _object_class(name, _checked(name, names, items))()
    for field, item in zip(names, items, strict=True):
        setattr(instance, field, item)
    return instance


def _checked(name: Any, names: Any, items: list[Any]) -> tuple[str, ...]:
    if not isinstance(names, list) or len(names) != len(items):
        raise DamagedError("an object in the arguments has more or fewer values than fields.")
    if not _are_names([name, *names]):
        raise DamagedError(f"an object in the arguments has invalid names: {str([name, *names])[:60]}.")
    return tuple(names)


@lru_cache(maxsize=256)
def _tuple_class(name: str, names: tuple[str, ...]) -> type:
    """Like a named tuple, but `namedtuple` would run generated code with untrusted names."""

    def make(cls: type, *items: Any) -> Any:
        return tuple.__new__(cls, items)

    def show(self: Any) -> str:
        return f"{name}({', '.join(f'{field}={item!r}' for field, item in zip(names, self, strict=False))})"

    members = {field: property(itemgetter(i)) for i, field in enumerate(names)}
    return type(name, (tuple,), {**members, "_fields": names, "__new__": make, "__repr__": show})


@lru_cache(maxsize=256)
def _object_class(name: str, names: tuple[str, ...]) -> type:
    """A dataclass with fields only."""
    bare = type(name, (), {"__annotations__": dict.fromkeys(names, object)})
    return dataclass(init=False, repr=False, eq=False)(bare)


_WITH_FIELDS = frozenset({"n", "o"})
_MAKERS: dict[str, Callable[..., Any]] = {
    "r": lambda items: TENSOR,
    "t": tuple,
    "l": list,
    "s": lambda items: slice(*items),
    "g": lambda items: range(*items),
    "d": _dict,
    "c": lambda items: complex(*items),
    "b": lambda items: bytes.fromhex(items[0]),
    "e": lambda items: ...,
    "x": _thing,
    "n": _named_tuple,
    "o": _object,
}
