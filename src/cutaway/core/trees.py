"""Walk over the containers that models take and return, in one fixed order.

Understood are dicts (and every other mapping, `BatchEncoding` and `ModelOutput` among them), lists,
tuples, named tuples, dataclasses, and plain objects through their `__dict__`. The walk is iterative,
so that depth costs no recursion, and visits each mutable container once, so that cycles end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

_ATOMS = (str, bytes, bytearray, int, float, complex, bool, type(None), type, ModuleType, FunctionType, MethodType)
_MAX_OBJECTS = 100_000


def leaves(tree: Any, is_leaf: Callable[[Any], bool], *, objects: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield (path, leaf) for everything in `tree` that `is_leaf`; the path of a bare leaf is "".

    Without `objects`, plain objects are not looked into.

    >>> list(leaves({"a": [1.5, 2], "b": 3.5}, lambda value: isinstance(value, float)))
    [('a.0', 1.5), ('b', 3.5)]
    """
    if is_leaf(tree):
        yield "", tree
        return
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("", tree)]
    while stack:
        path, value = stack.pop()
        if is_leaf(value):
            yield path, value
            continue
        if isinstance(value, _ATOMS):
            continue
        if id(value) in seen or len(seen) > _MAX_OBJECTS:
            continue
        seen.add(id(value))
        children = branches(value, objects=objects)
        if children:
            prefix = f"{path}." if path else ""
            stack.extend((f"{prefix}{escape(name)}", child) for name, child in reversed(children))


def branches(value: Any, *, objects: bool = True) -> list[tuple[str, Any]]:
    """The named children of one container, in order; none for what is no container."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=False))
    if isinstance(value, (list, tuple)):
        return [(str(i), child) for i, child in enumerate(value)]
    if isinstance(value, (Mapping, MappingProxyType)):
        return [(str(key), child) for key, child in value.items()]
    if isinstance(value, (Set, range)):
        return []
    if is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name, None)) for f in fields(value)]
    attributes = getattr(value, "__dict__", None) if objects else None
    if attributes and not callable(value):
        return [(name, child) for name, child in attributes.items() if not name.startswith("__")]
    return []


def replace(tree: Any, change: Callable[[Any], Any], is_leaf: Callable[[Any], bool]) -> Any:
    """A copy of nested dicts, lists and tuples in which every leaf is `change(leaf)`.

    >>> replace([1, (2, {"a": 3})], lambda value: -value, lambda value: isinstance(value, int))
    [-1, (-2, {'a': -3})]
    """
    if is_leaf(tree):
        return change(tree)
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind(replace(child, change, is_leaf) for child in tree)
    if kind is dict:
        return {key: replace(child, change, is_leaf) for key, child in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(replace(child, change, is_leaf) for child in tree))
    if isinstance(tree, slice):
        return slice(*(replace(part, change, is_leaf) for part in (tree.start, tree.stop, tree.step)))
    return tree


_SPECIAL = frozenset("./@:$#*% ")


def escape(name: str) -> str:
    """Percent-escape what has a meaning in a site.

    >>> escape("a.b"), escape("layer1")
    ('a%2Eb', 'layer1')
    """
    if _SPECIAL.isdisjoint(name):
        return name
    return "".join(f"%{ord(c):02X}" if c in _SPECIAL else c for c in name)
