"""Walks the nested containers that models take and return, in a fixed order.

It enters dicts (and all other mappings, such as `BatchEncoding` and `ModelOutput`), lists, tuples, named tuples,
dataclasses, and plain objects through their `__dict__`. The walk is iterative, so deep nesting cannot exceed the
recursion limit. A container that contains itself is not entered again; one that occurs twice is walked twice, a plain
object only once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

_REBUILT = (list, tuple, dict, slice)
_CONTAINERS = (list, tuple, Mapping, MappingProxyType, deque)
# Classes, modules and functions are not entered: their `__dict__` leads through the whole program.
_ATOMS = (str, bytes, bytearray, int, float, complex, bool, type(None), type, ModuleType, FunctionType, MethodType)
_MAX_REVISITS = 100_000
"""Limit on plain objects and on repeated containers: nested lists of the same list grow exponentially."""


def leaves(tree: Any, is_leaf: Callable[[Any], bool], *, objects: bool = True) -> Iterator[tuple[str, Any]]:
    """Yields (path, leaf) for everything in `tree` that `is_leaf`; the path of a bare leaf is "".

    `objects=False` does not enter plain objects.

    >>> list(leaves({"a": [1.5, 2], "b": 3.5}, lambda value: isinstance(value, float)))
    [('a.0', 1.5), ('b', 3.5)]
    """
    if is_leaf(tree):
        yield "", tree
        return
    if isinstance(tree, _ATOMS):
        return
    seen: dict[int, Any] = {id(tree): tree}  # keeps the objects alive, so that no id is reused
    entered = {id(tree)}
    again = 0
    above: list[tuple[int, str, Iterator[tuple[str, Any]]]] = []
    key, prefix, children = id(tree), "", iter(branches(tree, objects=objects))
    while True:
        for name, value in children:
            if is_leaf(value):
                yield f"{prefix}{escape(name)}", value
            elif not isinstance(value, _ATOMS):
                inner = id(value)
                if inner in entered:
                    continue
                is_object = not isinstance(value, _CONTAINERS) and not is_dataclass(value)
                if is_object or inner in seen:
                    again += 1
                    if again > _MAX_REVISITS or (is_object and inner in seen):
                        continue
                seen[inner] = value
                below = branches(value, objects=objects)
                if below:
                    above.append((key, prefix, children))
                    entered.add(inner)
                    key, prefix, children = inner, f"{prefix}{escape(name)}.", iter(below)
                    break
        else:
            if not above:
                return
            entered.discard(key)
            key, prefix, children = above.pop()


def branches(value: Any, *, objects: bool = True) -> list[tuple[str, Any]]:
    """The named children of a container, in order; empty for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=False))
    if isinstance(value, (list, tuple, deque)):
        return [(str(i), child) for i, child in enumerate(value)]
    # Before dataclasses: a `ModelOutput` is both, and as a mapping it leaves out fields that are None.
    if isinstance(value, (Mapping, MappingProxyType)):
        return [(str(key), child) for key, child in value.items()]
    if isinstance(value, (Set, range)):
        return []
    if is_dataclass(value) and not isinstance(value, type):
        return [(f.name, _field(value, f.name)) for f in fields(value)]
    attributes = getattr(value, "__dict__", None) if objects else None
    if attributes and not callable(value):
        return [(name, child) for name, child in attributes.items() if not name.startswith("__")]
    return []


def _field(value: Any, name: str) -> Any:
    """A field of a dataclass; None if reading it raises (some configurations guard their fields)."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def replace(tree: Any, change: Callable[[Any], Any], is_leaf: Callable[[Any], bool]) -> Any:
    """Copies nested dicts, lists, tuples and slices with every leaf replaced by `change(leaf)`, called in order.

    >>> replace([1, (2, {"a": 3})], lambda value: -value, lambda value: isinstance(value, int))
    [-1, (-2, {'a': -3})]
    """
    if is_leaf(tree):
        return change(tree)
    if not isinstance(tree, _REBUILT):
        return tree
    entered = {id(tree)}
    above: list[tuple[Any, Iterator[Any], list[Any]]] = []
    original, children, made = tree, iter(_parts(tree)), []
    while True:
        for child in children:
            if is_leaf(child):
                made.append(change(child))
            elif isinstance(child, _REBUILT) and id(child) not in entered:
                above.append((original, children, made))
                entered.add(id(child))
                original, children, made = child, iter(_parts(child)), []
                break
            else:
                made.append(child)
        else:
            done = _rebuild(original, made)
            if not above:
                return done
            entered.discard(id(original))
            original, children, made = above.pop()
            made.append(done)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        return value
    return (value.start, value.stop, value.step) if isinstance(value, slice) else value.values()


def _rebuild(original: Any, parts: list[Any]) -> Any:
    """A container like the original with new parts; its base class if a subclass cannot be built from them."""
    kind = type(original)
    if kind is tuple:
        return tuple(parts)
    if kind is list:
        return parts
    if kind is slice:
        return slice(*parts)
    if isinstance(original, dict):
        # A plain dict, because the constructor of a subclass can take anything.
        return dict(zip(original, parts, strict=True))
    try:
        return kind(*parts) if hasattr(original, "_fields") else kind(parts)
    except TypeError:
        return tuple(parts) if isinstance(original, tuple) else parts


_SPECIAL = frozenset("./@:$#*% ")


def escape(name: str) -> str:
    """Percent-escapes characters that have a meaning in a site.

    >>> escape("a.b"), escape("layer1")
    ('a%2Eb', 'layer1')

    The mapping is one to one; the empty name becomes a lone `%`.
    """
    if _SPECIAL.isdisjoint(name):
        return name or "%"
    return "".join(f"%{ord(c):02X}" if c in _SPECIAL else c for c in name)
